//! From the replicated state to the topology.

use std::collections::{BTreeMap, BTreeSet};

use jaco_dataplane::{Readiness, Topology, plan};
use jaco_state::Change;
use jaco_state::command::{DeploymentApply, Observe, Previous, Running};
use jaco_state::invariants::violations;
use jaco_types::spec::{Attachment, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::{InstanceId, Millis, NodeId, NodeStatus, ReplicaState};
use proptest::prelude::*;

use crate::attached::{deploy_attached, network_name, networked, start, start_again};
use crate::histories::{carry_out, observe, report, steps};
use crate::history::{History, deployment, replica, service, spec};

const N1: NodeId = NodeId::FIRST;

fn current(history: &History, name: &str) -> InstanceId {
    history.state.slots.get(&replica(name)).unwrap().current_id()
}

fn readiness(history: &History, id: &InstanceId) -> Option<Readiness> {
    Topology::of(&history.state).instances.get(id).map(|instance| instance.readiness)
}

/// NET-8: names lead to what is in the endpoints; what has ended is nowhere.
#[test]
fn readiness_is_that_of_the_endpoints() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &["default"]));
    start(&mut history, 0);
    let status = NodeStatus::Ready;
    history.batch(vec![Change::NodeStatusSet { node: N1, status, reason: String::new() }]);
    let id = current(&history, "shop-web-0");
    assert_eq!(readiness(&history, &id), Some(Readiness::Starting), "nothing was reported yet");
    for (state, expected) in [
        (ReplicaState::Starting, Some(Readiness::Starting)),
        (ReplicaState::Running, Some(Readiness::Ready)),
        (ReplicaState::Degraded, Some(Readiness::Starting)),
        (ReplicaState::Running, Some(Readiness::Ready)),
    ] {
        observe(&mut history, &id, N1, state);
        assert_eq!(readiness(&history, &id), expected, "{state:?}");
    }
    history.apply(
        jaco_state::command::ConsumerAttach::new("edge".parse().unwrap(), N1, Millis(5000)).into(),
    );
    start_again(&mut history, 0, Previous::Drop);
    assert_eq!(readiness(&history, &id), Some(Readiness::Terminating), "until it is acknowledged");
    let next = current(&history, "shop-web-0");
    observe(&mut history, &next, N1, ReplicaState::Failed);
    assert_eq!(readiness(&history, &next), None);
}

/// NET-8, NET-4: names lead to what joined the networks of its deployment once its container is attached, those of the
/// desired revision too.
#[test]
fn names_lead_to_what_joined_once_it_is_attached() {
    let mut history = networked();
    history.apply(deploy_attached("shop", "web:1", &[]));
    start(&mut history, 0);
    let status = NodeStatus::Ready;
    history.batch(vec![Change::NodeStatusSet { node: N1, status, reason: String::new() }]);
    let id = current(&history, "shop-web-0");
    observe(&mut history, &id, N1, ReplicaState::Running);
    assert_eq!(readiness(&history, &id), None, "it is in no network");
    let attachment = Attachment {
        network: NetworkRef::Own(network_name("default")),
        aliases: vec!["Shop-Front".into()],
    };
    let web = ServiceSpec { networks: vec![attachment], ..service("web", "web:2") };
    let mut moved = spec(&[web]);
    moved.networks = BTreeMap::from([(network_name("default"), NetworkSpec::default())]);
    let apply = DeploymentApply::new(deployment("shop"), moved).running(Running::JoinNetworks);
    history.apply(apply.into());
    assert_eq!(readiness(&history, &id), Some(Readiness::Starting));
    history.apply(Observe::new(N1).joined(vec![id.clone()]).into());
    assert_eq!(readiness(&history, &id), Some(Readiness::Ready));
    let aliases = Topology::of(&history.state).instances[&id].aliases.clone();
    let aliases: Vec<_> = aliases.into_values().flatten().collect();
    assert_eq!(aliases, ["shop-front"]);
}

/// PL-13: what was told to stop is reached at its addresses until its node reports that it is gone, and has no name.
#[test]
fn what_is_told_to_stop_is_reached_until_it_is_gone() {
    let mut history = networked();
    let n2 = history.join("n2");
    history.apply(deploy_attached("shop", "web:1", &["default"]));
    for index in 0..2 {
        start(&mut history, index);
    }
    let [old, other] = ["shop-web-0", "shop-web-1"].map(|name| current(&history, name));
    report(&mut history, N1, 7, None);
    report(&mut history, n2, 8, None);
    for id in [&old, &other] {
        observe(&mut history, id, N1, ReplicaState::Running);
    }
    // Nothing follows the endpoints, so it is told at once.
    start_again(&mut history, 0, Previous::Drop);
    assert_eq!(readiness(&history, &old), Some(Readiness::Terminating));
    let topology = Topology::of(&history.state);
    let (network, address) = topology.instances[&old].addresses[0];
    let names = plan(&topology, N1).names;
    assert!(names.askers.contains_key(&address), "it asks for names until it has ended");
    let found = &names.known[&(network, "web".to_owned())];
    assert!(found.values().all(|addresses| !addresses.contains(address)), "{found:?}");
    history.apply(Observe::new(N1).gone(vec![old.clone()]).into());
    assert_eq!(readiness(&history, &old), None);
}

/// Service and replica are names in every network, aliases in their own; all in lower case.
#[test]
fn aliases_belong_to_one_network() {
    let mut history = networked();
    let attach = |name: &str, alias: &str| Attachment {
        network: NetworkRef::Own(network_name(name)),
        aliases: vec![alias.into()],
    };
    let networks = vec![attach("front", "Www"), attach("back", "api")];
    let mut spec = spec(&[ServiceSpec { networks, ..service("web", "web:1") }]);
    let own = |name: &str| (network_name(name), NetworkSpec::default());
    spec.networks = BTreeMap::from([own("back"), own("front")]);
    history.apply(DeploymentApply::new(deployment("shop"), spec).into());
    start(&mut history, 0);
    let topology = Topology::of(&history.state);
    let instance = topology.instances.values().next().unwrap();
    assert_eq!((instance.replica.as_str(), instance.deployment.as_str()), ("web-0", "shop"));
    assert_eq!(instance.names, BTreeSet::from(["web".to_owned()]));
    let ids: Vec<_> = instance.addresses.iter().map(|(id, _)| *id).collect();
    let alias = |at: usize| instance.aliases[&ids[at]].iter().cloned().collect::<Vec<_>>();
    assert_eq!((alias(0), alias(1)), (vec!["www".to_owned()], vec!["api".to_owned()]));
    let names = plan(&topology, N1).names;
    let knows = |at: usize, name: &str| names.known.contains_key(&(ids[at], name.to_owned()));
    assert!(knows(0, "www") && !knows(1, "www") && knows(1, "api") && !knows(0, "api"));
    assert!(knows(0, "web") && knows(1, "web") && knows(0, "web-0"));
}

/// Members with one router are one site, kept by the lowest that is not down; a router that stopped keeps its link.
#[test]
fn members_that_share_a_router_are_one_site() {
    let mut history = networked();
    let (second, third) = (history.join("n2"), history.join("n3"));
    assert_eq!(Topology::of(&history.state).nodes[&second].link, None);
    report(&mut history, second, 7, None);
    report(&mut history, third, 7, None);
    report(&mut history, N1, 8, Some("its process has ended"));
    let topology = Topology::of(&history.state);
    assert_eq!([N1, second, third].map(|node| topology.site_of(node)), [N1, second, second]);
    let link = topology.nodes[&N1].link.clone().unwrap();
    assert_eq!(link.endpoint.unwrap().to_string(), format!("192.0.2.{N1}:51820"));
    assert_eq!(Some(link.address), history.state.nodes.get(&N1).unwrap().mesh_address);
    let mut site_once = |node: NodeId, status: NodeStatus| {
        let change = Change::NodeStatusSet { node, status, reason: String::new() };
        history.batch(vec![change]);
        let topology = Topology::of(&history.state);
        [second, third].map(|node| topology.site_of(node))
    };
    assert_eq!(site_once(second, NodeStatus::Down), [third, third]);
    assert_eq!(site_once(third, NodeStatus::Down), [second, second]);
    assert_eq!(site_once(second, NodeStatus::EngineDown), [second, second]);
}

/// Without a pool there is nothing to plan.
#[test]
fn a_cluster_without_networks_has_an_empty_topology() {
    let mut history = History::founded();
    report(&mut history, N1, 7, None);
    assert_eq!(Topology::of(&history.state), Topology::default());
}

/// What `plan` takes for granted.
fn check(history: &History) -> Result<(), TestCaseError> {
    prop_assert_eq!(violations(&history.state), vec![]);
    let topology = Topology::of(&history.state);
    let mut addresses = BTreeSet::new();
    for (id, instance) in &topology.instances {
        prop_assert!(topology.nodes.contains_key(&instance.node), "{} is nowhere", id);
        for (network, address) in &instance.addresses {
            let network = topology.networks.get(network);
            let subnet = network.map(|network| network.subnet);
            prop_assert!(subnet.is_some_and(|subnet| subnet.is_for_instances(*address)));
            prop_assert!(addresses.insert(*address), "{} is held twice", address);
        }
    }
    let mut mesh = BTreeSet::new();
    for node in topology.nodes.values() {
        prop_assert_eq!(topology.nodes[&node.site].site, node.site, "a site keeps its own router");
        let address = node.link.as_ref().map(|link| link.address);
        prop_assert!(address.is_none_or(|address| mesh.insert(address)));
    }
    for site in topology.nodes.values().map(|node| node.site) {
        let plan = plan(&topology, site);
        for route in plan.routes.keys() {
            let peers = plan.peers.values().filter(|peer| peer.addresses.contains(route));
            prop_assert_eq!(peers.count(), 1, "{} has one peer", route);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// NET-1, NET-2, NET-6: of every state that a history leads to, the topology is one that can be planned for.
    #[test]
    fn topologies_of_states_can_be_planned_for(steps in steps()) {
        let mut history = networked();
        let nodes = [N1, history.join("n2"), history.join("n3")];
        for step in &steps {
            carry_out(&mut history, &nodes, step);
            check(&history)?;
        }
    }
}
