//! Networks of the cluster: who gets which subnet and address, and when it is given again.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jaco_state::command::{
    Batch, DeploymentDelete, DeploymentRollback, NetworkCreate, NetworkRemove, NetworkResize,
    NodeRemove, Observe, Previous, ReplaceCause,
};
use jaco_state::invariants::violations;
use jaco_state::view::{Attachment, Convergence, convergence, desired_on};
use jaco_state::{Change, Outcome};
use jaco_types::rollout::NO_ADDRESS;
use jaco_types::spec::NetworkSpec;
use jaco_types::{
    Completion, ErrorCode, Millis, NetworkReach, NetworkScope, NodeId, NodeStatus, ReplicaState,
    Revision, Scheduling, Timestamp, Unplaced,
};

use crate::attached::{
    addresses, attached, begin, deploy_attached, joining, network_name, networked, new_instance,
    start, start_again, subnet,
};
use crate::history::{History, deployment, key, replica, seen};

const N1: NodeId = NodeId::FIRST;

fn shared(name: &str) -> NetworkScope {
    NetworkScope::Shared(network_name(name))
}

fn observe(history: &mut History, index: u64, state: ReplicaState) {
    let id = history.state.slots.get(&replica(&format!("shop-web-{index}"))).unwrap().current_id();
    history.apply(Observe::new(N1).observed(vec![seen(id, N1, state)]).into());
}

/// NET-2: subnets come one after another behind the mesh, the first two addresses are for gateway and
/// router, and replicas get the next ones in the order in which they are created.
#[test]
fn addresses_are_given_in_order() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["default", "back"]));
    let subnets = ["shop/back", "shop/default"].map(|name| subnet(&history, name));
    assert_eq!(subnets, ["10.65.0.0/24", "10.65.1.0/24"]);
    assert_eq!(start(&mut history, 0), Outcome::Done);
    assert_eq!(start(&mut history, 1), Outcome::Done);
    assert_eq!(addresses(&history, 0), ["10.65.1.3", "10.65.0.3"], "in the order of attachment");
    assert_eq!(addresses(&history, 1), ["10.65.1.4", "10.65.0.4"]);
    assert_eq!(violations(&history.state), vec![]);
}

/// NET-3: an address stays out of use for a minute after its node reported the instance gone, and the
/// search goes on behind the last one that was given.
#[test]
fn an_address_is_given_again_a_minute_after_its_holder_is_gone() {
    let mut history = networked();
    history.apply(attached("shop", "web:1", &[("default", Some(26))]));
    for index in 0..60 {
        assert_eq!(start(&mut history, index), Outcome::Done, "{index}");
    }
    observe(&mut history, 7, ReplicaState::Running);
    let gone = history.state.slots.get(&replica("shop-web-7")).unwrap().current_id();
    assert_eq!(
        history.batch(vec![Change::SlotRemove { id: replica("shop-web-7") }]),
        Outcome::Done
    );
    let full = |history: &mut History| {
        let Outcome::Rejected(rejection) = start(history, 60) else { panic!("it got an address") };
        assert_eq!(rejection.code, ErrorCode::StalePlan);
        assert!(rejection.message.contains("network shop/default"), "{}", rejection.message);
    };
    // As long as its node has it, it may take any time.
    history.now = history.now.after(Millis(3_600_000));
    full(&mut history);
    history.apply(Observe::new(N1).gone(vec![gone]).into());
    history.now = history.now.after(Millis(59_999));
    full(&mut history);
    history.now = history.now.after(Millis(1));
    assert_eq!(start(&mut history, 60), Outcome::Done);
    assert_eq!(addresses(&history, 60), ["10.65.0.10"], "that of replica 7");
    assert_eq!(violations(&history.state), vec![]);
}

/// NET-3: a service that lacks an address is not stuck while one is in quarantine; it is when all are in use.
#[test]
fn a_service_waits_for_addresses_in_quarantine() {
    let mut history = networked();
    history.apply(attached("shop", "web:1", &[("default", Some(26))]));
    for index in 0..60 {
        start(&mut history, index);
    }
    let lacking =
        Unplaced { count: 1, reason: NO_ADDRESS.to_owned(), details: BTreeMap::default() };
    let record = Scheduling {
        planned_revision: Revision(1),
        unplaced: vec![lacking],
        ..Scheduling::default()
    };
    let record = Box::new(record);
    history.batch(vec![Change::SchedulingSet { service: key("shop", "web"), record }]);
    let status = |history: &History| {
        let shop = history.state.deployments.get(&deployment("shop")).unwrap();
        convergence(&history.state, shop)
    };
    assert_eq!(status(&history), Convergence::CannotPlace);
    history.batch(vec![Change::SlotRemove { id: replica("shop-web-7") }]);
    assert_eq!(status(&history), Convergence::Progressing);
    history.now = history.now.after(Millis(60_000));
    history.apply(Observe::new(N1).into());
    assert_eq!(start(&mut history, 60), Outcome::Done);
    assert_eq!(status(&history), Convergence::CannotPlace);
    // Its node has the container, so it is to report that it is gone; one that is down does not.
    observe(&mut history, 8, ReplicaState::Running);
    history.batch(vec![Change::SlotRemove { id: replica("shop-web-8") }]);
    for (at, expected) in [
        (NodeStatus::Down, Convergence::CannotPlace),
        (NodeStatus::Ready, Convergence::Progressing),
    ] {
        let change = Change::NodeStatusSet { node: N1, status: at, reason: String::new() };
        assert_eq!(history.batch(vec![change]), Outcome::Done);
        assert_eq!(status(&history), expected, "{at:?}");
    }
}

/// Next-fit: while there are addresses that were never given, none is given again.
#[test]
fn freed_addresses_are_given_last() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["default"]));
    start(&mut history, 0);
    for step in 0..100 {
        history.now = history.now.after(Millis(120_000));
        assert_eq!(start_again(&mut history, 0, Previous::Drop), Outcome::Done);
        let expected = Ipv4Addr::new(10, 65, 0, 4 + step).to_string();
        assert_eq!(addresses(&history, 0), [expected]);
    }
}

/// A successor has addresses of its own as long as both run; a reverted one gives its own back.
#[test]
fn handovers_hold_both_addresses() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["default"]));
    start(&mut history, 0);
    start_again(&mut history, 0, Previous::Retire);
    assert_eq!(addresses(&history, 0), ["10.65.0.4"]);
    assert_eq!(violations(&history.state), vec![]);
    history.batch(vec![Change::SlotRevert { id: replica("shop-web-0") }]);
    assert_eq!(addresses(&history, 0), ["10.65.0.3"]);
    assert_eq!(history.state.networks.quarantine.len(), 1);
    assert_eq!(violations(&history.state), vec![]);
}

/// What ends leaves a network that has nobody; it is removed with the last address, and not before.
#[test]
fn networks_of_deployments_go_with_their_last_address() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["default"]));
    start(&mut history, 0);
    observe(&mut history, 0, ReplicaState::Running);
    let gone = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    history.batch(vec![Change::SlotRemove { id: replica("shop-web-0") }]);
    assert_eq!(history.state.networks.rows.len(), 1, "its node still has the container");
    history.apply(Observe::new(N1).gone(vec![gone]).into());
    history.now = history.now.after(Millis(60_000));
    history.apply(Observe::new(N1).into());
    assert!(history.state.networks.rows.is_empty() && history.state.networks.quarantine.is_empty());
    // The next one gets the part of the pool behind it.
    history.apply(deploy_attached("blog", "web:1", &["default"]));
    assert_eq!(subnet(&history, "blog/default"), "10.65.1.0/24");
}

/// A finished slot gives its addresses back; a disabled one has none and gets new ones.
#[test]
fn slots_that_run_nothing_have_no_addresses() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["default"]));
    start(&mut history, 0);
    start(&mut history, 1);
    observe(&mut history, 0, ReplicaState::Stopped);
    history.batch(vec![Change::SlotFinish {
        id: replica("shop-web-0"),
        completion: Completion::Succeeded,
        consecutive_failures: 0,
    }]);
    let instance = crate::attached::new_instance(&history, N1);
    history.batch(vec![Change::SlotDisable { id: replica("shop-web-1"), instance }]);
    assert_eq!((addresses(&history, 0), addresses(&history, 1)), (vec![], vec![]));
    assert_eq!(history.state.networks.quarantine.len(), 2);
    start_again(&mut history, 1, Previous::Drop);
    assert_eq!(addresses(&history, 1), ["10.65.0.5"]);
    assert_eq!(violations(&history.state), vec![]);
}

/// A node that leaves reports nothing any more: what it ran is in quarantine from then on.
#[test]
fn addresses_of_a_removed_node_are_freed() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["default"]));
    start(&mut history, 0);
    observe(&mut history, 0, ReplicaState::Running);
    start_again(&mut history, 0, Previous::Drop);
    history.apply(NodeRemove::new(N1).into());
    history.now = history.now.after(Millis(60_000));
    let n2 = history.join("n2");
    history.apply(Observe::new(n2).into());
    assert!(history.state.networks.quarantine.is_empty());
    assert_eq!(violations(&history.state), vec![]);
}

/// Four times the replicas fit, within /24 and /20; what the file asks for wins.
#[test]
fn networks_have_room_for_their_replicas() {
    for (replicas, expected) in [(1, 24), (63, 24), (64, 23), (500, 21), (511, 21), (5000, 20)] {
        let mut history = networked();
        history.apply(crate::attached::deploy_replicas("shop", replicas));
        let scope = NetworkScope::parse("shop/default").unwrap();
        let network = history.state.networks.find(&scope, None).unwrap();
        assert_eq!(network.subnet.prefix().length(), expected, "{replicas}");
        assert!(network.subnet.capacity() >= (4 * replicas).min(4092), "{replicas}");
    }
    let mut history = networked();
    history.apply(attached("shop", "web:1", &[("default", Some(26))]));
    assert_eq!(subnet(&history, "shop/default"), "10.65.0.0/26");
    let wide = attached("blog", "web:1", &[("default", Some(27))]);
    assert_eq!(history.refused(wide), ErrorCode::InvalidRequest);
}

/// A revision that is rolled back to finds its network as it was; one of another reach is another network.
#[test]
fn earlier_revisions_keep_their_networks() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["back"]));
    start(&mut history, 0);
    history.apply(deploy_attached("shop", "web:2", &["default"]));
    start_again(&mut history, 0, Previous::Drop);
    assert_eq!(addresses(&history, 0), ["10.65.1.3"]);
    history.apply(DeploymentRollback::new(deployment("shop")).to(Some(Revision(1))).into());
    start_again(&mut history, 0, Previous::Drop);
    assert_eq!(addresses(&history, 0), ["10.65.0.4"]);
    let reach = NetworkReach::Internal;
    let internal = NetworkSpec { reach, length: None };
    history.apply(crate::attached::deploy_networks("shop", "web:3", &[("back", internal)]));
    start_again(&mut history, 0, Previous::Drop);
    assert_eq!(addresses(&history, 0), ["10.65.2.3"]);
    assert_eq!(violations(&history.state), vec![]);
}

/// Without a pool nobody has networks; with one, it cannot become another.
#[test]
fn networks_begin_once() {
    let mut history = History::founded();
    let spec = deploy_attached("shop", "web:1", &["default"]);
    assert_eq!(history.refused(spec), ErrorCode::NetworksNotEnabled);
    let create = NetworkCreate::new(network_name("backbone"));
    assert_eq!(history.refused(create.into()), ErrorCode::NetworksNotEnabled);
    assert_eq!(history.refused(begin("10.64.0.0/16", 1420)), ErrorCode::InvalidRequest);
    assert_eq!(history.refused(begin("10.64.0.0/12", 100)), ErrorCode::InvalidRequest);
    assert_eq!(history.apply(begin("10.64.0.0/12", 1420)), Outcome::Done);
    assert_eq!(history.last_event(), "networks_enabled mtu=1420 pool=10.64.0.0/12");
    assert_eq!(history.apply(begin("10.64.0.0/12", 1420)), Outcome::Done);
    assert_eq!(history.refused(begin("10.64.0.0/12", 1400)), ErrorCode::NetworkExists);
}

/// NET-6: members get addresses of the mesh when the pool begins and when they join; a number is used
/// again as late as possible.
#[test]
fn nodes_have_mesh_addresses() {
    let mut history = History::founded();
    history.join("n2");
    history.apply(begin("10.64.0.0/12", 1420));
    let n3 = history.join("n3");
    history.apply(NodeRemove::new(n3).into());
    history.join("n4");
    let nodes = history.state.nodes.values();
    let own = nodes.map(|node| node.mesh_address.unwrap().to_string());
    assert_eq!(own.collect::<Vec<_>>(), ["10.64.0.1", "10.64.0.2", "10.64.0.4"]);
    assert_eq!(violations(&history.state), vec![]);
}

/// Shared networks are operators' to create, and stay while a deployment names them or has addresses.
#[test]
fn shared_networks_stay_while_they_are_used() {
    let mut history = networked();
    let create = || NetworkCreate::new(network_name("backbone")).length(Some(25));
    let uses = || crate::attached::deploy_shared("shop", "web:1", "backbone");
    assert_eq!(history.refused(uses()), ErrorCode::NetworkNotFound);
    assert_eq!(history.apply(create().into()), Outcome::Done);
    assert_eq!(history.last_event(), "network_created network=backbone subnet=10.65.0.0/25");
    assert_eq!(history.refused(create().into()), ErrorCode::NetworkExists);
    assert_eq!(history.apply(NetworkResize::new(shared("backbone"), 24).into()), Outcome::Done);
    assert_eq!(history.last_event(), "network_resized network=backbone subnet=10.65.1.0/24");
    history.apply(uses());
    start(&mut history, 0);
    assert_eq!(addresses(&history, 0), ["10.65.1.3"]);
    let remove = || NetworkRemove::new(network_name("backbone")).into();
    assert_eq!(history.refused(remove()), ErrorCode::NetworkInUse);
    let resize = || NetworkResize::new(shared("backbone"), 23).into();
    assert_eq!(history.refused(resize()), ErrorCode::NetworkInUse);
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    history.batch(vec![Change::SlotRemove { id: replica("shop-web-0") }]);
    assert_eq!(history.refused(remove()), ErrorCode::NetworkInUse, "its address is in quarantine");
    history.now = history.now.after(Millis(60_000));
    assert_eq!(history.apply(resize()), Outcome::Done);
    assert_eq!(history.apply(remove()), Outcome::Done);
    assert_eq!(history.last_event(), "network_removed network=backbone subnet=10.65.2.0/23");
    assert_eq!(history.refused(remove()), ErrorCode::NetworkNotFound);
    assert!(history.state.networks.rows.is_empty());
}

/// Two deployments meet in one shared network, each replica with an address of its own.
#[test]
fn deployments_share_a_network() {
    let mut history = networked();
    history.apply(NetworkCreate::new(network_name("backbone")).into());
    for name in ["shop", "blog"] {
        history.apply(crate::attached::deploy_shared(name, "web:1", "backbone"));
        let web = key(name, "web");
        let change = crate::attached::created(&history, &web, 0, N1);
        assert_eq!(history.batch(vec![change]), Outcome::Done);
    }
    let own =
        history.state.slots.values().map(|slot| slot.current.addresses[0].address.to_string());
    assert_eq!(own.collect::<Vec<_>>(), ["10.65.0.4", "10.65.0.3"]);
    assert_eq!(violations(&history.state), vec![]);
}

/// The pool is finite, and says so.
#[test]
fn a_pool_without_room_refuses() {
    let mut history = History::founded();
    history.apply(begin("10.64.0.0/15", 1420));
    for index in 0..16 {
        let create = NetworkCreate::new(network_name(&format!("n{index}"))).length(Some(20));
        assert_eq!(history.apply(create.into()), Outcome::Done, "{index}");
    }
    let create = || NetworkCreate::new(network_name("late")).length(Some(26)).into();
    assert_eq!(history.refused(create()), ErrorCode::NetworkPoolExhausted);
    let apply = deploy_attached("shop", "web:1", &["default"]);
    assert_eq!(history.refused(apply), ErrorCode::NetworkPoolExhausted);
    history.apply(NetworkRemove::new(network_name("n3")).into());
    assert_eq!(history.apply(create()), Outcome::Done);
    assert_eq!(subnet(&history, "late"), "10.65.48.0/26");
    assert_eq!(violations(&history.state), vec![]);
}

/// The event of an apply names networks among what changed.
#[test]
fn changed_networks_are_named() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["default"]));
    history.apply(deploy_attached("shop", "web:1", &["default", "back"]));
    let event = "apply changes=web: networks deployment=shop revision=2 services=web";
    assert_eq!(history.last_event(), event);
}

/// Since when replica `index` of `shop/web` is to be attached to its networks.
fn joining_since(history: &History, index: u64) -> Option<Timestamp> {
    let slot = history.state.slots.get(&replica(&format!("shop-web-{index}"))).unwrap();
    slot.current.joining_since
}

/// NET-4: what runs while its deployment moves to networks of the cluster gets addresses in these, and is attached to them
/// once its own node says so. What does not run yet, or no more, is left as it is, and a plan that was made before stays
/// right.
#[test]
fn running_replicas_join_the_networks_of_their_deployment() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &[]));
    for index in 0..4 {
        start(&mut history, index);
    }
    observe(&mut history, 0, ReplicaState::Running);
    observe(&mut history, 1, ReplicaState::Pulling);
    observe(&mut history, 2, ReplicaState::Failed);
    observe(&mut history, 3, ReplicaState::Degraded);
    let before = history.state.clone();
    history.apply(deploy_attached("shop", "web:2", &["default", "back"]));
    assert!((0..4).all(|index| addresses(&history, index).is_empty()), "nobody asked for it");
    history.state = before;
    history.apply(joining(deploy_attached("shop", "web:2", &["default", "back"])));
    assert_eq!(addresses(&history, 0), ["10.65.1.3", "10.65.0.3"], "in the order of attachment");
    assert_eq!(addresses(&history, 3), ["10.65.1.4", "10.65.0.4"]);
    assert!([1, 2].iter().all(|index| addresses(&history, *index).is_empty()));
    assert_eq!(joining_since(&history, 0), Some(history.now));
    assert_eq!(violations(&history.state), vec![]);
    let desired = desired_on(&history.state, N1);
    let id = history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
    assert_eq!(desired[&id].attachment, Attachment::Joining);
    assert_eq!(desired[&id].networks.len(), 2);
    // Nobody else says it.
    let n2 = history.join("n2");
    history.apply(Observe::new(n2).joined(vec![id.clone()]).into());
    assert!(joining_since(&history, 0).is_some());
    let based_on = history.state.index;
    history.apply(Observe::new(N1).joined(vec![id.clone()]).into());
    assert_eq!((joining_since(&history, 0), addresses(&history, 0).len()), (None, 2));
    assert_eq!(desired_on(&history.state, N1)[&id].attachment, Attachment::Joined);
    let instance = new_instance(&history, N1);
    let change = Change::SlotReplace {
        id: replica("shop-web-0"),
        instance,
        previous: Previous::Retire,
        cause: ReplaceCause::SpecChanged,
        consecutive_failures: 0,
    };
    let batch = Batch::new(based_on, vec![change]);
    assert_eq!(history.apply(batch.into()), Outcome::Done, "the plan is not stale");
    assert_eq!(addresses(&history, 0), ["10.65.1.5", "10.65.0.5"]);
    assert_eq!(violations(&history.state), vec![]);
    // What it had is given again a minute after it is gone, as ever.
    history.batch(vec![Change::SlotSettle { id: replica("shop-web-0") }]);
    assert!(history.state.networks.quarantine.contains(&id));
    history.apply(Observe::new(N1).gone(vec![id.clone()]).into());
    history.now = history.now.after(Millis(60_000));
    history.apply(Observe::new(N1).into());
    assert!(!history.state.networks.quarantine.contains(&id));
}

/// NET-4: more than half of a network stays free for the successors of what joins it.
#[test]
fn replicas_that_join_leave_room_for_their_successors() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &[]));
    for index in 0..40 {
        start(&mut history, index);
        observe(&mut history, index, ReplicaState::Running);
    }
    history.apply(joining(attached("shop", "web:2", &[("default", Some(26))])));
    let joined = (0..40).filter(|index| !addresses(&history, *index).is_empty()).count();
    assert_eq!(joined, 30, "of 60");
    assert_eq!(violations(&history.state), vec![]);
}
