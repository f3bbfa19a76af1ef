//! What each change of the planner does to the state, and the words that it leaves in the audit log.

use jaco_state::command::{
    Change, NodeDrain, NodeReport, NodeSetAvailability, NodeSetLabels, Observe, Previous,
    Rebalance, RebalanceMove, RebalanceRevert, ReplaceCause, RevertedMove,
};
use jaco_state::{Command, Outcome};
use jaco_types::slot::Exhausted;
use jaco_types::{
    Availability, DesiredState, Drain, Hostname, Millis, NodeFacts, NodeId, NodeStatus, Ordinal,
    ReplicaId, ReplicaState, RestartCount, Revision, Slot, Timestamp,
};

use crate::history::{
    History, create, deploy, digest, instance, key, replace, replica, seen, service,
};

const N1: NodeId = NodeId::FIRST;
const N2: NodeId = NodeId(4);

/// `shop/web` with one replica on `n1`.
fn shop() -> History {
    let mut history = History::founded();
    assert_eq!(history.join("n2"), N2);
    history.apply(deploy("shop", &[service("web", "web:1")]));
    done(&mut history, create(&key("shop", "web"), 0, N1));
    history
}

fn done(history: &mut History, change: Change) {
    assert_eq!(history.batch(vec![change.clone()]), Outcome::Done, "{change:?}");
}

fn slot(history: &History) -> &Slot {
    history.state.slots.get(&replica("shop-web-0")).unwrap()
}

fn node(history: &History, id: NodeId) -> &jaco_types::Node {
    history.state.nodes.get(&id).unwrap()
}

/// Does a change, and compares the events that it leaves.
fn check(history: &mut History, change: Change, events: &[&str]) {
    let before = history.state.audit.events.len();
    done(history, change);
    let new = history.state.audit.events.values().skip(before).map(|event| {
        let facts = event.payload.iter().map(|(key, value)| format!(" {key}={value}"));
        format!("{}{}", event.kind.as_str(), facts.collect::<String>())
    });
    assert_eq!(new.collect::<Vec<_>>(), events);
}

#[test]
fn slots_are_created_with_their_first_instance() {
    let mut history = shop();
    check(
        &mut history,
        create(&key("shop", "web"), 7, N2),
        &["replica_placed cause=created from= node=n2 replica=shop-web-7 revision=1"],
    );
    let index = history.state.index;
    let made = history.state.slots.get(&replica("shop-web-7")).unwrap();
    assert_eq!((made.modified, made.current.raft_index, made.current.node), (index, index, N2));
    assert_eq!((&made.service, &made.ordinal), (&key("shop", "web"), &Ordinal::Index(7)));
    assert_eq!((&made.retiring, made.restarts), (&None, RestartCount::default()));
    let (service, ordinal) = (key("shop", "web"), Ordinal::Host(Hostname::new("n1").unwrap()));
    let id = ReplicaId::new(&service, &ordinal);
    let disabled = |node| Change::SlotCreate {
        id: id.clone(),
        service: service.clone(),
        ordinal: ordinal.clone(),
        instance: instance(node, 1),
        desired_state: DesiredState::Disabled,
    };
    let nowhere = history.batch(vec![disabled(NodeId(77))]);
    assert!(matches!(nowhere, Outcome::Rejected(_)), "{nowhere:?}");
    check(
        &mut history,
        disabled(N1),
        &["replica_placed cause=created disabled from= node=n1 replica=shop-web-n1 revision=1"],
    );
    assert_eq!(history.state.slots.get(&id).unwrap().desired_state, DesiredState::Disabled);
}

/// Why an instance is replaced decides which event it leaves.
#[test]
fn replacements_say_why() {
    for (cause, kind, word) in [
        (ReplaceCause::SpecChanged, "replica_replaced", "spec_changed"),
        (ReplaceCause::ColocatedReplaced, "replica_replaced", "colocated_replaced"),
        (ReplaceCause::Failed, "replica_restarted", "failed"),
        (ReplaceCause::NodeLost, "replica_moved", "node_lost"),
        (ReplaceCause::Moved, "replica_moved", "moved"),
        (ReplaceCause::Enabled, "replica_enabled", "enabled"),
    ] {
        let mut history = shop();
        assert_eq!(cause.as_str(), word);
        let change = Change::SlotReplace {
            id: replica("shop-web-0"),
            instance: instance(N2, 4),
            previous: Previous::Drop,
            cause,
            consecutive_failures: 2,
        };
        let event = format!("{kind} cause={word} from=n1 node=n2 replica=shop-web-0 revision=4");
        check(&mut history, change, &[&event]);
        let slot = slot(&history);
        assert_eq!((slot.current.node, slot.current.revision), (N2, Revision(4)));
        assert_eq!(slot.restarts, RestartCount { consecutive: 2, exhausted: Exhausted::No });
        assert_eq!((slot.modified, &slot.retiring), (history.state.index, &None));
    }
}

/// R-SEL-3: a slot is disabled with one event, keeps its place and its name, and forgets its failures.
#[test]
fn disabled_slots_are_told_once() {
    let mut history = shop();
    done(&mut history, replace(&replica("shop-web-0"), N2, Previous::Retire));
    let (consecutive, exhausted) = (3, Exhausted::Yes);
    let id = replica("shop-web-0");
    done(&mut history, Change::SlotSetRestarts { id: id.clone(), consecutive, exhausted });
    let disable = || Change::SlotDisable { id: id.clone(), instance: instance(N2, 2) };
    check(
        &mut history,
        disable(),
        &["replica_disabled cause=disabled from=n2 node=n2 replica=shop-web-0 revision=2"],
    );
    let disabled = slot(&history);
    assert_eq!(disabled.desired_state, DesiredState::Disabled);
    assert_eq!((&disabled.retiring, disabled.restarts), (&None, RestartCount::default()));
    check(&mut history, disable(), &[]);
    done(&mut history, replace(&id, N2, Previous::Retire));
    assert_eq!(slot(&history).desired_state, DesiredState::Active, "a new instance runs again");
}

#[test]
fn small_changes_leave_no_event() {
    let mut history = shop();
    let id = || replica("shop-web-0");
    done(&mut history, replace(&id(), N2, Previous::Retire));
    let (consecutive, exhausted) = (2, Exhausted::No);
    check(&mut history, Change::SlotSetRestarts { id: id(), consecutive, exhausted }, &[]);
    assert_eq!(slot(&history).restarts.consecutive, 2);
    check(&mut history, Change::SlotSettle { id: id() }, &[]);
    assert_eq!((slot(&history).modified, &slot(&history).retiring), (history.state.index, &None));
    check(&mut history, Change::SlotRemove { id: id() }, &["replica_removed replica=shop-web-0"]);
    assert!(history.state.slots.is_empty());
}

#[test]
fn statuses_and_images_are_told() {
    let mut history = shop();
    let reason = "no heartbeat for 15 s".to_owned();
    check(
        &mut history,
        Change::NodeStatusSet { node: N2, status: NodeStatus::Down, reason: reason.clone() },
        &["node_status from=joining node=n2 reason=no heartbeat for 15 s to=down"],
    );
    let down = node(&history, N2);
    assert_eq!((down.status, &down.status_reason), (NodeStatus::Down, &reason));
    assert_eq!(down.modified, history.state.index);
    let resolved = Change::ImageResolve {
        service: key("shop", "web"),
        revision: Revision(1),
        digest: digest(7),
    };
    let event = format!("image_resolved digest={} revision=1 service=shop/web", digest(7));
    check(&mut history, resolved, &[&event]);
    let known = history.state.image_digest(&key("shop", "web"), Revision(1));
    assert_eq!(known, Some(&digest(7)));
    assert_eq!(history.state.image_digest(&key("shop", "web"), Revision(2)), None);
    assert_eq!(history.state.image_digest(&key("shop", "db"), Revision(1)), None);
    assert_eq!(history.state.image_digest(&key("blog", "web"), Revision(1)), None);
}

/// R-NODE-2: a drain remembers what the node was, moves its deadline with each replica that leaves, and
/// gives up with its reason.
#[test]
fn drains_give_up_with_a_reason() {
    for before in [Availability::Active, Availability::Cordoned] {
        let mut history = shop();
        if before == Availability::Cordoned {
            history.apply(NodeSetAvailability::new(N1, before).into());
        }
        let begun = history.now;
        history.apply(NodeDrain::new(N1, Millis(300_000)).into());
        let expected = format!("node_availability from={} node=n1 to=draining", before.as_str());
        assert_eq!(history.last_event(), expected);
        let drain = Drain { timeout: Millis(300_000), progress_at: begun, before };
        assert_eq!(node(&history, N1).drain, Some(drain));
        history.now = Timestamp(begun.0 + 1000);
        done(&mut history, replace(&replica("shop-web-0"), N2, Previous::Retire));
        assert_eq!(node(&history, N1).drain, Some(drain), "the old one still serves there");
        done(&mut history, Change::SlotSettle { id: replica("shop-web-0") });
        let moved = Drain { progress_at: history.now, ..drain };
        assert_eq!(node(&history, N1).drain, Some(moved));
        check(
            &mut history,
            Change::DrainTimeout { node: N1, left: "shop-db-0".to_owned() },
            &[&format!(
                "node_drain_timeout left=shop-db-0 node=n1 timeout_ms=300000 to={}",
                before.as_str()
            )],
        );
        let given_up = node(&history, N1);
        assert_eq!((given_up.availability, given_up.drain), (before, None));
        let reason = "drain_timeout: nothing left for 300 s; shop-db-0";
        assert_eq!(given_up.availability_reason, reason);
        let again = Change::DrainTimeout { node: N1, left: String::new() };
        check(&mut history, again, &[]);
        assert_eq!(node(&history, N1).availability_reason, reason);
        history.apply(NodeSetAvailability::new(N1, Availability::Draining).into());
        assert_eq!(node(&history, N1).availability_reason, "");
    }
}

/// A drain that is asked for again has the new timeout from now on, and goes back to what was before the
/// first.
#[test]
fn drains_can_be_asked_for_again() {
    let mut history = shop();
    history.apply(NodeSetAvailability::new(N1, Availability::Cordoned).into());
    history.apply(NodeDrain::new(N1, Millis(1000)).into());
    let events = history.state.audit.events.len();
    history.now = Timestamp(history.now.0 + 700);
    history.apply(NodeDrain::new(N1, Millis(9000)).into());
    let before = Availability::Cordoned;
    let drain = Drain { timeout: Millis(9000), progress_at: history.now, before };
    assert_eq!(node(&history, N1).drain, Some(drain));
    assert_eq!(history.state.audit.events.len(), events);
    // One that began without a timeout was active before.
    history.apply(NodeSetAvailability::new(N2, Availability::Draining).into());
    assert_eq!(node(&history, N2).drain, None);
    history.apply(NodeDrain::new(N2, Millis(5)).into());
    assert_eq!(node(&history, N2).drain.unwrap().before, Availability::Active);
    history.apply(NodeSetAvailability::new(N2, Availability::Active).into());
    assert_eq!(node(&history, N2).drain, None);
}

/// R-REB-7: moves keep the failures that were counted, reverts forget those of the successor, and both
/// carry their facts.
#[test]
fn moves_and_reverts_carry_their_facts() {
    let mut history = shop();
    let id = replica("shop-web-0");
    let (consecutive, exhausted) = (2, Exhausted::No);
    done(&mut history, Change::SlotSetRestarts { id: id.clone(), consecutive, exhausted });
    let facts = |text: &str| [("why".to_owned(), text.to_owned())].into();
    let one = RebalanceMove { id: id.clone(), instance: instance(N2, 1), facts: facts("hot") };
    let moves = Rebalance::new(history.state.index, vec![one]).kept(vec![facts("pinned")]);
    let before = history.state.audit.events.len();
    assert_eq!(history.apply(moves.into()), Outcome::Done);
    let kinds = |history: &History, from: usize| {
        let events = history.state.audit.events.values().skip(from);
        let facts = |event: &jaco_state::audit::AuditEvent| {
            event.payload.get("why").cloned().unwrap_or_default()
        };
        events.map(|event| format!("{} {}", event.kind.as_str(), facts(event))).collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&history, before),
        ["replica_moved ", "rebalance_moved hot", "rebalance_skipped pinned"]
    );
    assert_eq!(slot(&history).restarts.consecutive, 2);
    assert_eq!(slot(&history).retiring.as_ref().unwrap().node, N1);
    let before = history.state.audit.events.len();
    let revert = RevertedMove { id, facts: facts("slow") };
    let revert = RebalanceRevert::new(history.state.index, vec![revert]);
    assert_eq!(history.apply(revert.into()), Outcome::Done);
    assert_eq!(kinds(&history, before), ["rebalance_reverted slow"]);
    assert_eq!((slot(&history).current.node, slot(&history).restarts.consecutive), (N1, 0));
}

/// A node's report of itself counts where it changes something, and only then makes plans stale.
#[test]
fn reports_of_nodes_change_what_they_say() {
    let mut history = shop();
    let facts = NodeFacts { version: "2".to_owned(), ..NodeFacts::default() };
    let report = |facts: &NodeFacts, address: &str| -> Command {
        NodeReport::new(N1, address.to_owned(), facts.clone()).into()
    };
    assert_eq!(history.apply(report(&facts, "n1:8000")), Outcome::Done);
    let changed = node(&history, N1);
    assert_eq!((&changed.facts, changed.address.as_str()), (&facts, "n1:8000"));
    assert_eq!(changed.modified, history.state.index);
    let modified = changed.modified;
    assert_eq!(history.apply(report(&facts, "n1:8000")), Outcome::Done);
    assert_eq!(node(&history, N1).modified, modified, "it said nothing new");
}

/// Labels that are given and taken are told in one line, those that change nothing in none.
#[test]
fn labels_are_told() {
    let mut history = shop();
    let set = |pairs: &[(&str, &str)], unset: &[&str]| -> Command {
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let unset = unset.iter().map(ToString::to_string).collect();
        NodeSetLabels::new(N1).set(pairs.collect()).unset(unset).into()
    };
    history.apply(set(&[("zone", "a"), ("disk", "ssd")], &["rack"]));
    assert_eq!(history.last_event(), "node_labels labels=disk=ssd zone=a rack- node=n1");
    let modified = node(&history, N1).modified;
    let events = history.state.audit.events.len();
    history.apply(set(&[("zone", "a")], &["rack"]));
    assert_eq!((node(&history, N1).modified, history.state.audit.events.len()), (modified, events));
    history.apply(set(&[("disk", "hdd")], &["disk", "zone"]));
    assert_eq!(history.last_event(), "node_labels labels=disk=hdd disk- zone- node=n1");
    let labels: Vec<_> = node(&history, N1).labels.iter().collect();
    assert_eq!(labels, [(&"disk".to_owned(), &"hdd".to_owned())], "what is given wins");
}

/// What a node says counts only of its own instances that some slot names, or that it has named
/// before.
#[test]
fn reports_count_only_of_own_instances() {
    let mut history = shop();
    let id = slot(&history).current_id();
    let mut say = |by: NodeId, about: NodeId, id: &jaco_types::InstanceId, state| {
        history.apply(Observe::new(by).observed(vec![seen(id.clone(), about, state)]).into());
        history.state.observed.get(id).map(|seen| seen.state)
    };
    assert_eq!(say(N2, N1, &id, ReplicaState::Running), None, "it is another node's");
    assert_eq!(say(N2, N2, &id, ReplicaState::Running), None, "it is not there");
    let stranger = jaco_types::InstanceId { replica: replica("shop-web-9"), ..id.clone() };
    assert_eq!(say(N1, N1, &stranger, ReplicaState::Running), None, "no slot names it");
    assert_eq!(say(N1, N1, &id, ReplicaState::Starting), Some(ReplicaState::Starting));
    done(&mut history, Change::SlotRemove { id: replica("shop-web-0") });
    let mut say = |state| {
        history.apply(Observe::new(N1).observed(vec![seen(id.clone(), N1, state)]).into());
        history.state.observed.get(&id).map(|seen| seen.state)
    };
    assert_eq!(say(ReplicaState::Stopped), Some(ReplicaState::Stopped), "its end is still seen");
    history.apply(Observe::new(N2).gone(vec![id.clone()]).into());
    assert!(history.state.observed.contains(&id), "another node cannot say that it is gone");
    history.apply(Observe::new(N1).gone(vec![id.clone()]).into());
    assert!(!history.state.observed.contains(&id));
}
