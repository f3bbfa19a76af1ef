//! Disabled allocations, and their effect on slots.

use std::collections::BTreeSet;

use jaco_state::command::{Batch, DisabledSet, Disabling, NodeRemove, Observe, Previous};
use jaco_state::view::{self, desired_on, endpoints, in_routing};
use jaco_state::{Change, Command, Outcome};
use jaco_types::{
    AllocationScope, DesiredState, ErrorCode, Millis, NodeId, ReasonCode, ReplicaState,
};

use crate::history::{History, create, deploy, instance, key, replace, replica, seen, service};

/// `shop/web` with one replica that runs on `n1`, and `shop/db`.
fn shop() -> (History, NodeId) {
    let mut history = History::founded();
    let node = NodeId::FIRST;
    history.apply(deploy("shop", &[service("web", "web:1"), service("db", "db:1")]));
    let ready = Change::NodeStatusSet {
        node,
        status: jaco_types::NodeStatus::Ready,
        reason: String::new(),
    };
    assert_eq!(history.batch(vec![ready]), Outcome::Done);
    assert_eq!(history.batch(vec![create(&key("shop", "web"), 0, node)]), Outcome::Done);
    let id = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    let observed = vec![seen(id, node, ReplicaState::Running)];
    history.apply(Observe::new(node).observed(observed).into());
    (history, node)
}

fn of_replica() -> AllocationScope {
    AllocationScope::Replica { service: key("shop", "web"), id: replica("shop-web-0") }
}

fn of_pair(node: NodeId) -> AllocationScope {
    AllocationScope::Pair { service: key("shop", "web"), node }
}

fn set(change: Disabling, scopes: &[AllocationScope]) -> Command {
    DisabledSet::new(change, scopes.iter().cloned().collect()).into()
}

fn park(node: NodeId) -> Change {
    Change::SlotDisable { id: replica("shop-web-0"), instance: instance(node, 1) }
}

/// R-SEL-4: a service, a node, a pair and a replica can rest; each wish is one typed event with what
/// is different, one that is there already none, and it says who has it and since when.
#[test]
fn wishes_are_kept_with_who_and_when() {
    let (mut history, node) = shop();
    let web = AllocationScope::Service(key("shop", "web"));
    let all = [AllocationScope::Node(node), web.clone(), of_pair(node), of_replica()];
    assert_eq!(history.apply(set(Disabling::Disable, &all)), Outcome::Done);
    let told =
        "allocations_disabled allocations=node n1, shop/web, shop/web on n1, replica shop-web-0";
    assert_eq!(history.last_event(), told);
    let events = history.state.audit.events.len();
    history.now = history.now.after(Millis(5));
    history.apply(set(Disabling::Disable, &all[..2]));
    assert_eq!(history.state.audit.events.len(), events, "nothing is different");
    let rest = history.state.disabled.scopes.get(&web).unwrap();
    assert_eq!((rest.at.0, rest.by.to_string()), (history.now.0 - 5, "local:0".to_owned()));
    // A file names all that is disabled.
    history.apply(set(Disabling::Replace, &[of_pair(node)]));
    let told = "allocations_enabled allocations=node n1, shop/web, replica shop-web-0";
    assert_eq!(history.last_event(), told);
    let left: Vec<_> = history.state.disabled.scopes.keys().cloned().collect();
    assert_eq!(left, [of_pair(node)]);
}

/// R-SEL-4: to enable removes all scopes that lie within; what a wider scope disables stays, and that
/// is said.
#[test]
fn enabling_removes_the_scopes_within() {
    let (mut history, node) = shop();
    history.apply(set(Disabling::Disable, &[of_pair(node), of_replica()]));
    let web = AllocationScope::Service(key("shop", "web"));
    assert_eq!(history.apply(set(Disabling::Enable, &[web])), Outcome::Done);
    assert!(history.state.disabled.scopes.is_empty());
    history.apply(set(Disabling::Disable, &[AllocationScope::Node(node)]));
    for scope in [of_pair(node), of_replica()] {
        let refused = history.refused(set(Disabling::Enable, &[scope]));
        assert_eq!(refused, ErrorCode::StillDisabled);
    }
    assert_eq!(history.state.disabled.scopes.len(), 1);
}

/// R-SEL-4: what is not there cannot rest: every such name is in the refusal. ST-14: a wish goes with
/// what it names.
#[test]
fn wishes_are_about_what_is_there() {
    let (mut history, node) = shop();
    let nobody = AllocationScope::Service(key("shop", "nobody"));
    let gone = AllocationScope::Node(NodeId(77));
    let refused = history.apply(set(Disabling::Disable, &[nobody, gone]));
    let Outcome::Rejected(rejection) = refused else { panic!("{refused:?}") };
    assert_eq!(rejection.code, ErrorCode::NodeNotFound);
    assert_eq!(rejection.message, "the cluster has no node 77, no shop/nobody");
    let other = history.join("n2");
    let db = AllocationScope::Service(key("shop", "db"));
    let scopes = [of_pair(other), of_replica(), db, AllocationScope::Node(node)];
    history.apply(set(Disabling::Disable, &scopes));
    let left = |history: &History| -> BTreeSet<AllocationScope> {
        history.state.disabled.scopes.keys().cloned().collect()
    };
    history.apply(NodeRemove::new(other).into());
    assert!(!left(&history).contains(&of_pair(other)));
    history.apply(deploy("shop", &[service("web", "web:1")]));
    assert_eq!(left(&history), [of_replica(), AllocationScope::Node(node)].into());
    history.batch(vec![Change::SlotRemove { id: replica("shop-web-0") }]);
    assert_eq!(left(&history), [AllocationScope::Node(node)].into());
}

/// R-SEL-3: a disabled slot leaves the endpoints in the same entry, is wanted on no node, has its
/// failures forgotten, and says who wanted that; what it would run is renewed without a start, and it
/// gets an instance only by a replacement.
#[test]
fn a_disabled_slot_runs_nothing_and_keeps_its_definition() {
    let (mut history, node) = shop();
    let ran = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    history.apply(set(Disabling::Disable, &[of_pair(node)]));
    assert!(in_routing(&history.state, &ran), "the planner writes it");
    assert_eq!(history.batch(vec![park(node)]), Outcome::Done);
    let told = "replica_disabled cause=disabled from=n1 node=n1 replica=shop-web-0 revision=1";
    assert_eq!(history.last_event(), told);
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap().clone();
    assert_eq!(slot.desired_state, DesiredState::Disabled);
    assert!(desired_on(&history.state, node).is_empty());
    assert!(!in_routing(&history.state, &ran));
    assert!(endpoints(&history.state, None)[&key("shop", "web")].is_empty());
    let shown = view::replica(&history.state, &slot);
    assert_eq!((shown.state, shown.code), (ReplicaState::Stopped, Some(ReasonCode::Disabled)));
    assert_eq!(shown.details["disabled"], "shop/web on n1");
    assert_eq!(shown.details["by"], "local:0");
    let events = history.state.audit.events.len();
    let newer = Change::SlotDisable { id: slot.id.clone(), instance: instance(node, 2) };
    history.batch(vec![newer]);
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!((slot.current.revision.0, slot.desired_state), (2, DesiredState::Disabled));
    assert_eq!(history.state.audit.events.len(), events, "its definition is no event");
    history.apply(set(Disabling::Enable, &[of_pair(node)]));
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    let shown = view::replica(&history.state, slot);
    assert_eq!((shown.state, shown.code), (ReplicaState::Pending, None), "it waits for room");
    history.batch(vec![replace(&replica("shop-web-0"), node, Previous::Retire)]);
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!((slot.desired_state, &slot.retiring), (DesiredState::Active, &None), "ST-15");
    assert!(desired_on(&history.state, node).contains_key(&slot.current_id()));
}

/// R-NODE-1: nothing is desired on a removed node, also where a slot stays assigned to it for its data.
#[test]
fn nothing_is_desired_on_a_removed_node() {
    let (mut history, node) = shop();
    assert!(!desired_on(&history.state, node).is_empty());
    history.join("n2");
    history.apply(NodeRemove::new(node).into());
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    assert_eq!(slot.current.node, node, "only a plan changes that");
    assert!(desired_on(&history.state, node).is_empty());
}

/// R-SEL-3, ST-2: once a user was told that something is disabled, no older plan starts it.
#[test]
fn an_older_plan_starts_nothing() {
    let (mut history, node) = shop();
    let based_on = history.state.index;
    history.apply(set(Disabling::Disable, &[of_pair(node)]));
    let starts = [
        create(&key("shop", "db"), 0, node),
        replace(&replica("shop-web-0"), node, Previous::Drop),
        park(node),
    ];
    for change in starts {
        let refused = history.refused(Batch::new(based_on, vec![change]).into());
        assert_eq!(refused, ErrorCode::StalePlan);
    }
}
