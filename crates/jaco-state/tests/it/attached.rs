//! Deployments with networks, and short ways to start their replicas.

use std::collections::BTreeMap;

use jaco_state::command::{DeploymentApply, NetworkBegin, Previous, ReplaceCause, Running};
use jaco_state::{Change, Command, NewInstance, Outcome};
use jaco_types::spec::{Attachment, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::{
    DesiredState, NetworkName, NetworkReach, NetworkScope, NodeId, Ordinal, ReplicaId, ServiceKey,
};

use crate::history::{History, deployment, key, replica, service, spec};

pub(crate) fn network_name(text: &str) -> NetworkName {
    NetworkName::new(text).unwrap()
}

pub(crate) fn begin(prefix: &str, mtu: u16) -> Command {
    NetworkBegin::new(prefix.parse().unwrap(), mtu).into()
}

/// A cluster of one node whose networks are its own.
pub(crate) fn networked() -> History {
    let mut history = History::founded();
    assert_eq!(history.apply(begin("10.64.0.0/12", 1420)), Outcome::Done);
    history
}

/// An apply of one service `web` that is attached to these networks of its deployment, in this order.
pub(crate) fn deploy_attached(name: &str, image: &str, networks: &[&str]) -> Command {
    let networks: Vec<_> = networks.iter().map(|key| (*key, None)).collect();
    attached(name, image, &networks)
}

/// The same, with the prefix lengths that they ask for.
pub(crate) fn attached(name: &str, image: &str, networks: &[(&str, Option<u8>)]) -> Command {
    let networks: Vec<_> = networks
        .iter()
        .map(|(key, length)| (*key, NetworkSpec { reach: NetworkReach::Outside, length: *length }))
        .collect();
    deploy_networks(name, image, &networks)
}

pub(crate) fn deploy_networks(
    name: &str,
    image: &str,
    networks: &[(&str, NetworkSpec)],
) -> Command {
    let own = networks.iter().map(|(key, _)| NetworkRef::Own(network_name(key)));
    let web = web(image, own.collect());
    let mut spec = spec(&[web]);
    spec.networks = networks.iter().map(|(key, spec)| (network_name(key), *spec)).collect();
    DeploymentApply::new(deployment(name), spec).into()
}

/// The same apply, by which instances that run join the networks.
pub(crate) fn joining(command: Command) -> Command {
    let Command::DeploymentApply(apply) = command else { panic!("an apply: {command:?}") };
    apply.running(Running::JoinNetworks).into()
}

/// An apply of one service that is attached to a shared network.
pub(crate) fn deploy_shared(name: &str, image: &str, network: &str) -> Command {
    let web = web(image, vec![NetworkRef::Shared(network_name(network))]);
    DeploymentApply::new(deployment(name), spec(&[web])).into()
}

/// An apply of one service with so many replicas in the network `default`.
pub(crate) fn deploy_replicas(name: &str, replicas: u32) -> Command {
    let own = vec![NetworkRef::Own(network_name("default"))];
    let mut spec = spec(&[ServiceSpec { replicas, ..web("web:1", own) }]);
    spec.networks = BTreeMap::from([(network_name("default"), NetworkSpec::default())]);
    DeploymentApply::new(deployment(name), spec).into()
}

fn web(image: &str, networks: Vec<NetworkRef>) -> ServiceSpec {
    let attach = |network| Attachment { network, aliases: Vec::new() };
    let networks = networks.into_iter().map(attach).collect();
    ServiceSpec { networks, ..service("web", image) }
}

/// What the planner would write for a replica of the desired revision of `shop`.
pub(crate) fn new_instance(history: &History, node: NodeId) -> NewInstance {
    instance_of(history, &key("shop", "web"), node)
}

fn instance_of(history: &History, service: &ServiceKey, node: NodeId) -> NewInstance {
    let deployment = history.state.deployments.get(&service.deployment).unwrap();
    let spec_hash = deployment.spec().services[&service.service].hash;
    NewInstance { node, revision: deployment.revision, spec_hash, gpus: Vec::new() }
}

pub(crate) fn created(history: &History, service: &ServiceKey, index: u64, node: NodeId) -> Change {
    let ordinal = Ordinal::Index(index);
    Change::SlotCreate {
        id: ReplicaId::new(service, &ordinal),
        service: service.clone(),
        ordinal,
        instance: instance_of(history, service, node),
        desired_state: DesiredState::Active,
    }
}

/// Starts replica `index` of `shop/web` on the first node.
pub(crate) fn start(history: &mut History, index: u64) -> Outcome {
    let change = created(history, &key("shop", "web"), index, NodeId::FIRST);
    history.batch(vec![change])
}

/// Starts it anew, at the desired revision.
pub(crate) fn start_again(history: &mut History, index: u64, previous: Previous) -> Outcome {
    let change = Change::SlotReplace {
        id: replica(&format!("shop-web-{index}")),
        instance: new_instance(history, NodeId::FIRST),
        previous,
        cause: ReplaceCause::SpecChanged,
        consecutive_failures: 0,
    };
    history.batch(vec![change])
}

/// The addresses of replica `index` of `shop/web`.
pub(crate) fn addresses(history: &History, index: u64) -> Vec<String> {
    let slot = history.state.slots.get(&replica(&format!("shop-web-{index}"))).unwrap();
    slot.current.addresses.iter().map(|own| own.address.to_string()).collect()
}

/// The subnet of the network of this name.
pub(crate) fn subnet(history: &History, scope: &str) -> String {
    let scope = NetworkScope::parse(scope).unwrap();
    history.state.networks.find(&scope, None).unwrap().subnet.prefix().to_string()
}
