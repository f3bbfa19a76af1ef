//! How instances ended: what is recorded of them when their slot drops them, and how much (R-HEAL-4).

use jaco_state::Outcome;
use jaco_state::command::{Change, DisabledSet, Disabling, Observe, Previous, ReplaceCause};
use jaco_types::termination::{TERMINATIONS_MAX, TerminationOutcome};
use jaco_types::{AllocationScope, Exit, InstanceObserved, NodeId, ReasonCode, ReplicaState, Slot};

use crate::history::{History, create, deploy, instance, key, replica, seen, service};

const NODE: NodeId = NodeId::FIRST;

fn id() -> jaco_types::ReplicaId {
    replica("shop-web-0")
}

/// `shop/web` with one replica, of which the node says this.
fn shop(state: Option<ReplicaState>) -> History {
    let mut history = History::founded();
    history.apply(deploy("shop", &[service("web", "web:1")]));
    history.batch(vec![create(&key("shop", "web"), 0, NODE)]);
    if let Some(state) = state {
        report(&mut history, state);
    }
    history
}

fn report(history: &mut History, state: ReplicaState) {
    let observed = vec![seen(slot(history).current_id(), NODE, state)];
    history.apply(Observe::new(NODE).observed(observed).into());
}

fn slot(history: &History) -> &Slot {
    history.state.slots.get(&id()).unwrap()
}

fn replaced(previous: Previous, cause: ReplaceCause) -> Change {
    let instance = instance(NODE, 2);
    Change::SlotReplace { id: id(), instance, previous, cause, consecutive_failures: 1 }
}

/// What is recorded of an instance in this state that is dropped for this cause.
fn recorded(state: Option<ReplicaState>, cause: ReplaceCause) -> Option<TerminationOutcome> {
    let mut history = shop(state);
    assert_eq!(history.batch(vec![replaced(Previous::Drop, cause)]), Outcome::Done);
    let terminations = &slot(&history).terminations;
    assert!(terminations.len() <= 1);
    terminations.first().map(|termination| termination.outcome)
}

/// What ended badly is always recorded, with what followed. What was on its way, or ran, only where its
/// node was lost.
#[test]
fn bad_ends_are_recorded_with_what_followed() {
    let followed = [
        (ReplaceCause::SpecChanged, TerminationOutcome::Rolled),
        (ReplaceCause::Failed, TerminationOutcome::Restarted),
        (ReplaceCause::ColocatedReplaced, TerminationOutcome::Restarted),
        (ReplaceCause::NodeLost, TerminationOutcome::NodeLost),
        (ReplaceCause::Moved, TerminationOutcome::Moved),
    ];
    for (cause, outcome) in followed {
        for state in [ReplicaState::Failed, ReplicaState::Stopped, ReplicaState::Degraded] {
            assert_eq!(recorded(Some(state), cause), Some(outcome), "{state:?} {cause:?}");
        }
        let only_lost = (cause == ReplaceCause::NodeLost).then_some(outcome);
        for state in [
            ReplicaState::Pending,
            ReplicaState::Pulling,
            ReplicaState::Starting,
            ReplicaState::Running,
        ] {
            assert_eq!(recorded(Some(state), cause), only_lost, "{state:?} {cause:?}");
        }
        assert_eq!(recorded(None, cause), None, "nothing was ever seen of it: {cause:?}");
    }
}

/// A rollout that is reverted records what did not become ready, and not what was healthy.
#[test]
fn reverted_successors_are_recorded() {
    let reverted = |state| {
        let mut history = shop(Some(ReplicaState::Running));
        history.batch(vec![replaced(Previous::Retire, ReplaceCause::SpecChanged)]);
        report(&mut history, state);
        history.batch(vec![Change::SlotRevert { id: id() }]);
        slot(&history).terminations.iter().map(|one| one.outcome).collect::<Vec<_>>()
    };
    for state in [
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Degraded,
        ReplicaState::Failed,
        ReplicaState::Stopped,
    ] {
        assert_eq!(reverted(state), [TerminationOutcome::Reverted], "{state:?}");
    }
    assert_eq!(reverted(ReplicaState::Running), []);
}

/// Both instances of a handover that is disabled or settled are recorded each by itself.
#[test]
fn both_sides_of_a_handover_are_recorded() {
    let ends = |last: fn() -> Change| {
        let mut history = shop(Some(ReplicaState::Degraded));
        history.batch(vec![replaced(Previous::Retire, ReplaceCause::SpecChanged)]);
        assert_eq!(slot(&history).terminations, [], "it still serves");
        report(&mut history, ReplicaState::Failed);
        history.apply(
            DisabledSet::new(Disabling::Disable, [AllocationScope::Node(NODE)].into()).into(),
        );
        assert_eq!(history.batch(vec![last()]), Outcome::Done);
        let slot = slot(&history);
        slot.terminations.iter().map(|one| (one.outcome, one.state)).collect::<Vec<_>>()
    };
    assert_eq!(
        ends(|| Change::SlotDisable { id: id(), instance: instance(NODE, 2) }),
        [
            (TerminationOutcome::Disabled, ReplicaState::Failed),
            (TerminationOutcome::Succeeded, ReplicaState::Degraded),
        ]
    );
    assert_eq!(
        ends(|| Change::SlotSettle { id: id() }),
        [(TerminationOutcome::Succeeded, ReplicaState::Degraded)]
    );
}

/// All that is known stays: where it ran, as what, when it was dropped, and why it ended.
#[test]
fn all_that_is_known_is_kept() {
    let mut history = shop(None);
    let before = slot(&history).current.clone();
    let exit = Exit { code: 137, out_of_memory: true };
    let observed = InstanceObserved {
        code: Some(ReasonCode::ContainerExited),
        details: [("last_lines".to_owned(), "out of memory".to_owned())].into(),
        exit: Some(exit),
        ..seen(slot(&history).current_id(), NODE, ReplicaState::Failed)
    };
    history.apply(Observe::new(NODE).observed(vec![observed]).into());
    history.now = jaco_types::Timestamp(3_000_000);
    history.batch(vec![replaced(Previous::Drop, ReplaceCause::Failed)]);
    let [kept] = &slot(&history).terminations[..] else { panic!("one is kept") };
    assert_eq!(
        (kept.raft_index, kept.node, kept.revision, kept.at),
        (before.raft_index, before.node, before.revision, history.now)
    );
    assert_eq!((kept.state, kept.code), (ReplicaState::Failed, Some(ReasonCode::ContainerExited)));
    assert_eq!((kept.exit, kept.details["last_lines"].as_str()), (Some(exit), "out of memory"));
    let gone = Observe::new(NODE)
        .gone(vec![jaco_types::InstanceId { replica: id(), raft_index: before.raft_index }]);
    history.apply(gone.into());
    assert_eq!(slot(&history).terminations.len(), 1, "it outlives what was seen of it");
}

/// Of many failures the last ones are kept, the newest last.
#[test]
fn newest_terminations_are_kept() {
    let mut history = shop(None);
    let mut indices = Vec::new();
    for _ in 0..TERMINATIONS_MAX + 3 {
        report(&mut history, ReplicaState::Failed);
        indices.push(slot(&history).current.raft_index);
        history.batch(vec![replaced(Previous::Drop, ReplaceCause::Failed)]);
    }
    let kept: Vec<_> = slot(&history).terminations.iter().map(|one| one.raft_index).collect();
    assert_eq!(kept, indices[3..]);
    assert_eq!(kept.len(), TERMINATIONS_MAX);
}

/// R-SEL-3: what a disabled slot names never ran, so it cannot end.
#[test]
fn disabled_slots_record_nothing() {
    let mut history = shop(Some(ReplicaState::Failed));
    history
        .apply(DisabledSet::new(Disabling::Disable, [AllocationScope::Node(NODE)].into()).into());
    let disable = || Change::SlotDisable { id: id(), instance: instance(NODE, 1) };
    history.batch(vec![disable()]);
    assert_eq!(slot(&history).terminations.len(), 1);
    history.batch(vec![disable()]);
    history.batch(vec![replaced(Previous::Retire, ReplaceCause::Enabled)]);
    assert_eq!(slot(&history).terminations.len(), 1);
    assert_eq!(slot(&history).retiring, None, "nothing of it could serve meanwhile");
}
