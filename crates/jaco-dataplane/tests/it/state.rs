//! From the replicated state to the topology.

use std::collections::{BTreeMap, BTreeSet};

use jaco_dataplane::{Readiness, Topology, plan};
use jaco_state::Change;
use jaco_state::command::{DeploymentApply, NodeReport, Observe, Previous, ReplaceCause};
use jaco_state::invariants::violations;
use jaco_types::spec::{Attachment, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::{
    InstanceId, Millis, NodeFacts, NodeId, NodeRouter, ReplicaState, RouterLink, TunnelBackend,
};
use proptest::prelude::*;

use crate::attached::{created, deploy_attached, network_name, networked, start, start_again};
use crate::history::{History, deployment, key, replica, seen, service, spec};

const N1: NodeId = NodeId::FIRST;

/// The node says that it has the router with this key.
fn report(history: &mut History, node: NodeId, key: u8, problem: Option<&str>) {
    let link = RouterLink { key: [key; 32], port: 51820, backend: TunnelBackend::Userspace };
    let router = NodeRouter { link: Some(link), problem: problem.map(str::to_owned) };
    let facts = NodeFacts { router: Some(router), ..NodeFacts::default() };
    let address = format!("192.0.2.{node}:7000");
    history.apply(NodeReport::new(node, address, facts).into());
}

fn observe(history: &mut History, id: &InstanceId, node: NodeId, state: ReplicaState) {
    history.apply(Observe::new(node).observed(vec![seen(id.clone(), node, state)]).into());
}

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
    let status = jaco_types::NodeStatus::Ready;
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

/// Members with one router are one site, kept by the lowest; a router that stopped keeps its link.
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
}

/// Without a pool there is nothing to plan.
#[test]
fn a_cluster_without_networks_has_an_empty_topology() {
    let mut history = History::founded();
    report(&mut history, N1, 7, None);
    assert_eq!(Topology::of(&history.state), Topology::default());
}

#[derive(Debug, Clone)]
enum Step {
    Deploy(bool, Vec<bool>),
    Create(bool, u64, u64),
    Replace(usize, u64, bool),
    Remove(usize),
    Observe(usize, ReplicaState),
    Gone(usize),
    Report(u64, u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let state = prop_oneof![
        3 => Just(ReplicaState::Running),
        1 => Just(ReplicaState::Starting),
        1 => Just(ReplicaState::Failed),
    ];
    let keys = prop::collection::vec(any::<bool>(), 2);
    prop_oneof![
        2 => (any::<bool>(), keys).prop_map(|(name, keys)| Step::Deploy(name, keys)),
        6 => (any::<bool>(), 0..4_u64, 0..3_u64)
            .prop_map(|(name, index, node)| Step::Create(name, index, node)),
        4 => (0..8_usize, 0..3_u64, any::<bool>())
            .prop_map(|(slot, node, retire)| Step::Replace(slot, node, retire)),
        1 => (0..8_usize).prop_map(Step::Remove),
        5 => (0..8_usize, state).prop_map(|(slot, state)| Step::Observe(slot, state)),
        2 => (0..8_usize).prop_map(Step::Gone),
        3 => (0..3_u64, 1..4_u8).prop_map(|(node, key)| Step::Report(node, key)),
        2 => (0..90_u64).prop_map(Step::Wait),
    ]
}

fn carry_out(history: &mut History, nodes: &[NodeId], step: &Step) {
    let name = |shop: bool| if shop { "shop" } else { "blog" };
    let slots: Vec<_> = history.state.slots.values().cloned().collect();
    let nth = |at: usize| slots.get(at % slots.len().max(1));
    match step {
        Step::Deploy(shop, keys) => {
            let keys = keys.iter().zip(["default", "back"]);
            let keys: Vec<_> = keys.filter(|(named, _)| **named).map(|(_, key)| key).collect();
            history.apply(deploy_attached(name(*shop), "web:1", &keys));
        }
        Step::Create(shop, index, node) => {
            let service = key(name(*shop), "web");
            if history.state.deployments.contains(&service.deployment) {
                let change =
                    created(history, &service, *index, nodes[usize::try_from(*node).unwrap()]);
                history.batch(vec![change]);
            }
        }
        Step::Replace(at, node, retire) => {
            let Some(slot) = nth(*at) else { return };
            let Change::SlotCreate { instance, .. } =
                created(history, &slot.service, 0, nodes[usize::try_from(*node).unwrap()])
            else {
                return;
            };
            let previous = if *retire { Previous::Retire } else { Previous::Drop };
            let cause = ReplaceCause::SpecChanged;
            let id = slot.id.clone();
            history.batch(vec![Change::SlotReplace {
                id,
                instance,
                previous,
                cause,
                consecutive_failures: 0,
            }]);
        }
        Step::Remove(at) => {
            if let Some(slot) = nth(*at) {
                history.batch(vec![Change::SlotRemove { id: slot.id.clone() }]);
            }
        }
        Step::Observe(at, state) => {
            if let Some(slot) = nth(*at) {
                observe(history, &slot.current_id(), slot.current.node, *state);
            }
        }
        Step::Gone(at) => {
            if let Some(slot) = nth(*at) {
                let gone = Observe::new(slot.current.node).gone(vec![slot.current_id()]);
                history.apply(gone.into());
            }
        }
        Step::Report(node, key) => {
            report(history, nodes[usize::try_from(*node).unwrap()], *key, None);
        }
        Step::Wait(seconds) => history.now = history.now.after(Millis(seconds * 1000)),
    }
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
    fn topologies_of_states_can_be_planned_for(steps in prop::collection::vec(step(), 0..40)) {
        let mut history = networked();
        let nodes = [N1, history.join("n2"), history.join("n3")];
        for step in &steps {
            carry_out(&mut history, &nodes, step);
            check(&history)?;
        }
    }
}
