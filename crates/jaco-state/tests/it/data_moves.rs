//! Disabled replicas whose volumes were copied to another node.

use jaco_state::command::{DataMove, DisabledSet, Disabling, Observe, Previous};
use jaco_state::view::needed_on;
use jaco_state::{Change, Command, Outcome};
use jaco_types::{AllocationScope, DesiredState, ErrorCode, NodeId, ReplicaState, StateIndex};

use crate::history::{History, create, deploy, instance, key, replace, replica, seen, service};

/// `shop/db` with one replica that runs on `n1`, and `n2` beside it.
fn shop() -> (History, NodeId) {
    let mut history = History::founded();
    let n2 = history.join("n2");
    history.apply(deploy("shop", &[service("db", "db:1")]));
    assert_eq!(history.batch(vec![create(&key("shop", "db"), 0, NodeId::FIRST)]), Outcome::Done);
    (history, n2)
}

fn disable(history: &mut History) {
    let scope = AllocationScope::Service(key("shop", "db"));
    history.apply(DisabledSet::new(Disabling::Disable, [scope].into()).into());
    let change =
        Change::SlotDisable { id: replica("shop-db-0"), instance: instance(NodeId::FIRST, 1) };
    assert_eq!(history.batch(vec![change]), Outcome::Done);
}

/// The node does not run it any more.
fn ended(history: &mut History, id: jaco_types::InstanceId) {
    history.apply(Observe::new(NodeId::FIRST).gone(vec![id.clone()]).into());
    history.batch(vec![Change::TerminatingRemove { id }]);
}

fn index(history: &History) -> StateIndex {
    history.state.slots.get(&replica("shop-db-0")).unwrap().current.raft_index
}

fn to(history: &History, node: NodeId) -> Command {
    DataMove::new([(replica("shop-db-0"), index(history))].into(), node).into()
}

/// R-SEL-3: a disabled replica gets the node of its data, in one event that names both; the node that it leaves does not
/// need its volumes any more, and the other one does.
#[test]
fn a_disabled_replica_follows_its_data() {
    let (mut history, n2) = shop();
    let ran = history.state.slots.get(&replica("shop-db-0")).unwrap().current_id();
    disable(&mut history);
    ended(&mut history, ran);
    let settled = to(&history, n2);
    assert_eq!(history.apply(settled), Outcome::Done);
    assert_eq!(history.last_event(), "data_moved from=n1 node=n2 replica=shop-db-0");
    let slot = history.state.slots.get(&replica("shop-db-0")).unwrap();
    assert_eq!((slot.current.node, slot.desired_state), (n2, DesiredState::Disabled));
    assert_eq!(slot.current.raft_index, history.state.index);
    let needs = |node| format!("{:?}", needed_on(&history.state, node)).contains("db");
    assert!(needs(n2) && !needs(NodeId::FIRST));
}

/// R-SEL-3: what runs, or has run since the copy began, may have changed its data since: it stays.
#[test]
fn a_replica_that_may_have_other_data_stays() {
    let (mut history, n2) = shop();
    let early = to(&history, n2);
    assert_eq!(history.refused(early), ErrorCode::VolumeInUse, "it runs");
    let ran = history.state.slots.get(&replica("shop-db-0")).unwrap().current_id();
    history.apply(
        Observe::new(NodeId::FIRST)
            .observed(vec![seen(ran.clone(), NodeId::FIRST, ReplicaState::Running)])
            .into(),
    );
    disable(&mut history);
    let early = to(&history, n2);
    assert_eq!(history.refused(early), ErrorCode::VolumeInUse, "it is being stopped");
    ended(&mut history, ran);
    let planned = to(&history, n2);
    let start = replace(&replica("shop-db-0"), NodeId::FIRST, Previous::Drop);
    assert_eq!(history.batch(vec![start]), Outcome::Done);
    let ran = history.state.slots.get(&replica("shop-db-0")).unwrap().current_id();
    disable(&mut history);
    ended(&mut history, ran);
    assert_eq!(history.refused(planned), ErrorCode::VolumeInUse, "it ran meanwhile");
    let slot = history.state.slots.get(&replica("shop-db-0")).unwrap();
    assert_eq!(slot.current.node, NodeId::FIRST);
    let settled = to(&history, n2);
    assert_eq!(history.apply(settled), Outcome::Done);
}

/// R-SEL-3: of several replicas all move or none; a node or replica that is not there is named.
#[test]
fn all_replicas_move_or_none() {
    let (mut history, n2) = shop();
    let ran = history.state.slots.get(&replica("shop-db-0")).unwrap().current_id();
    disable(&mut history);
    ended(&mut history, ran);
    let both = [(replica("shop-db-0"), index(&history)), (replica("shop-db-9"), StateIndex(1))];
    let refused = history.refused(DataMove::new(both.into(), n2).into());
    assert_eq!(refused, ErrorCode::ReplicaNotFound);
    let nowhere = to(&history, NodeId(77));
    assert_eq!(history.refused(nowhere), ErrorCode::NodeNotFound);
    let slot = history.state.slots.get(&replica("shop-db-0")).unwrap();
    assert_eq!(slot.current.node, NodeId::FIRST);
}
