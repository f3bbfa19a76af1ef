//! The planner's batches: all or none, and only if nothing they touch has moved (R-LOOP-3).

use std::collections::BTreeMap;

use jaco_state::audit::AuditKind;
use jaco_state::command::{
    Batch, DeploymentDelete, Observe, Previous, Rebalance, RebalanceMove, RebalanceRevert,
    RevertedMove,
};
use jaco_state::view::{Convergence, convergence};
use jaco_state::{Change, Outcome};
use jaco_types::{
    DeploymentName, ErrorCode, NodeId, ReplicaState, Revision, Scheduling, StateIndex,
};

use crate::history::{History, create, deploy, instance, key, replace, replica, seen, service};

fn with_one_replica() -> History {
    let mut history = History::founded();
    history.apply(deploy("shop", &[service("web", "web:1")]));
    assert_eq!(history.batch(vec![create(&key("shop", "web"), 0, NodeId::FIRST)]), Outcome::Done);
    history
}

/// The index of a batch becomes the number of every instance that it asks for.
#[test]
fn an_instance_is_numbered_by_its_entry() {
    let history = with_one_replica();
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!(slot.current.raft_index, history.state.index);
}

/// ST-2: one stale object refuses the whole batch.
#[test]
fn a_stale_batch_changes_nothing() {
    let mut history = with_one_replica();
    let based_on = history.state.index;
    let changed = deploy("shop", &[service("web", "web:2")]);
    history.apply(changed);
    let before = history.state.slots.clone();
    let changes = vec![
        Change::SlotSetRestarts {
            id: replica("shop-web-0"),
            consecutive: 1,
            exhausted: jaco_types::slot::Exhausted::No,
        },
        create(&key("shop", "web"), 1, NodeId::FIRST),
    ];
    assert_eq!(history.refused(Batch::new(based_on, changes).into()), ErrorCode::StalePlan);
    assert_eq!(history.state.slots, before);
}

/// ST-2: a replica that was not wanted when the plan was made, and is since, does not go.
#[test]
fn a_removal_planned_before_an_apply_is_stale() {
    let mut history = with_one_replica();
    let shop: DeploymentName = "shop".parse().unwrap();
    history.apply(DeploymentDelete::new(shop).into());
    let based_on = history.state.index;
    let removal = || vec![Change::SlotRemove { id: replica("shop-web-0") }];
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let stale = Batch::new(based_on, removal()).into();
    assert_eq!(history.refused(stale), ErrorCode::StalePlan);
    assert_eq!(history.batch(removal()), Outcome::Done);
}

/// A deployment that comes back under its old name begins at its first revision again: the plan of the
/// earlier one is not taken for its own, or an apply would be told that all runs before anything does.
#[test]
fn a_deployment_that_comes_back_is_not_planned_yet() {
    let mut history = with_one_replica();
    let web = key("shop", "web");
    let record = Scheduling { planned_revision: Revision(1), ..Scheduling::default() };
    history.batch(vec![Change::SchedulingSet { service: web, record: Box::new(record) }]);
    let shop: DeploymentName = "shop".parse().unwrap();
    history.apply(DeploymentDelete::new(shop.clone()).into());
    history.batch(vec![Change::SlotRemove { id: replica("shop-web-0") }]);
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let again = history.state.deployments.get(&shop).unwrap();
    assert_eq!(again.revision, Revision(1));
    assert_eq!(convergence(&history.state, again), Convergence::Progressing);
}

/// A refused batch is the planner's business: people find nothing about it in the audit log.
#[test]
fn a_refused_batch_leaves_no_event() {
    let mut history = with_one_replica();
    let before = history.state.audit.clone();
    let changes = vec![create(&key("shop", "web"), 0, NodeId::FIRST)];
    history.refused(Batch::new(StateIndex(0), changes).into());
    assert_eq!(history.state.audit, before);
}

/// What a node observes does not make a plan stale: a steady stream of observations must not
/// starve the planner.
#[test]
fn observations_do_not_make_a_plan_stale() {
    let mut history = with_one_replica();
    let based_on = history.state.index;
    let id = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    let observed = vec![seen(id, NodeId::FIRST, ReplicaState::Running)];
    history.apply(Observe::new(NodeId::FIRST).observed(observed).into());
    let changes = vec![replace(&replica("shop-web-0"), NodeId::FIRST, Previous::Retire)];
    assert_eq!(history.apply(Batch::new(based_on, changes).into()), Outcome::Done);
}

/// R-ROLL-2: during a handover both instances live; settling ends the old one, reverting the new.
#[test]
fn a_handover_has_two_instances() {
    let mut history = with_one_replica();
    let id = replica("shop-web-0");
    let old = history.state.slots.get(&id).unwrap().current_id();
    history.batch(vec![replace(&id, NodeId::FIRST, Previous::Retire)]);
    let slot = history.state.slots.get(&id).unwrap().clone();
    assert_eq!(slot.retiring_id(), Some(old.clone()));
    assert!(slot.current.raft_index > old.raft_index);

    let mut reverted = history.clone();
    reverted.batch(vec![Change::SlotRevert { id: id.clone() }]);
    assert_eq!(reverted.state.slots.get(&id).unwrap().current_id(), old);

    history.batch(vec![Change::SlotSettle { id: id.clone() }]);
    let settled = history.state.slots.get(&id).unwrap();
    assert_eq!((settled.current_id(), settled.retiring_id()), (slot.current_id(), None));
}

/// A node speaks of its own instances only.
#[test]
fn a_node_cannot_speak_of_anothers_instances() {
    let mut history = with_one_replica();
    let other = history.join("n2");
    let id = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    let lie = vec![seen(id.clone(), other, ReplicaState::Running)];
    history.apply(Observe::new(other).observed(lie).into());
    let foreign = vec![seen(id.clone(), NodeId::FIRST, ReplicaState::Failed)];
    history.apply(Observe::new(other).observed(foreign).into());
    assert!(history.state.observed.get(&id).is_none());
    let own = seen(id.clone(), NodeId::FIRST, ReplicaState::Running);
    history.apply(Observe::new(NodeId::FIRST).observed(vec![own.clone()]).into());
    let lie = vec![seen(id.clone(), other, ReplicaState::Stopped)];
    history.apply(Observe::new(other).observed(lie).into());
    assert_eq!(history.state.observed.get(&id), Some(&own));
}

/// R-REB-1, R-REB-7: a move off a hot node starts the successor first and leaves its reason; one that
/// was decided on an older state, or meets a handover, changes nothing and says nothing.
#[test]
fn a_move_off_a_hot_node_carries_its_reason() {
    let mut history = with_one_replica();
    let old = history.state.slots.get(&replica("shop-web-0")).unwrap().current.clone();
    let facts = |reason: &str| [("dominant".to_owned(), reason.to_owned())].into();
    let command = |based_on| {
        Rebalance::new(
            based_on,
            vec![RebalanceMove {
                id: replica("shop-web-0"),
                instance: instance(NodeId::FIRST, 1),
                facts: facts("cpu"),
            }],
        )
        .kept(vec![facts("memory")])
        .into()
    };
    let stale = StateIndex(history.state.index.0 - 1);
    assert_eq!(history.refused(command(stale)), ErrorCode::StalePlan);
    let audited = history.state.audit.events.len();
    assert_eq!(history.apply(command(history.state.index)), Outcome::Done);
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!((slot.retiring.clone(), slot.current.raft_index), (Some(old), history.state.index));
    let events: Vec<_> = history.state.audit.events.values().skip(audited).collect();
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    let expected =
        [AuditKind::ReplicaMoved, AuditKind::RebalanceMoved, AuditKind::RebalanceSkipped];
    assert_eq!(kinds, expected);
    assert_eq!(events[1].payload, facts("cpu"));
    assert_eq!(history.refused(command(history.state.index)), ErrorCode::StalePlan);
}

/// R-REB-1: a reverted move leaves the old instance, its reason, and no failures; what changed
/// since, or is over, is not taken back.
#[test]
fn a_reverted_move_carries_its_reason() {
    let mut history = with_one_replica();
    let old = history.state.slots.get(&replica("shop-web-0")).unwrap().current.clone();
    let facts: BTreeMap<_, _> = [("reason".to_owned(), "step_timeout".to_owned())].into();
    let back = |based_on| {
        RebalanceRevert::new(
            based_on,
            vec![RevertedMove { id: replica("shop-web-0"), facts: facts.clone() }],
        )
        .into()
    };
    assert_eq!(history.refused(back(history.state.index)), ErrorCode::StalePlan);
    let before = history.state.index;
    let moves = vec![RebalanceMove {
        id: replica("shop-web-0"),
        instance: instance(NodeId::FIRST, 1),
        facts: facts.clone(),
    }];
    history.apply(Rebalance::new(before, moves).into());
    let audited = history.state.audit.events.len();
    assert_eq!(history.refused(back(before)), ErrorCode::StalePlan);
    assert_eq!(history.apply(back(history.state.index)), Outcome::Done);
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!((slot.current.clone(), slot.retiring.clone()), (old, None));
    let events: Vec<_> = history.state.audit.events.values().skip(audited).collect();
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(
        kinds,
        [AuditKind::RebalanceReverted],
        "a refusal of the planner is nobody's business"
    );
    assert_eq!(events[0].payload, facts);
}
