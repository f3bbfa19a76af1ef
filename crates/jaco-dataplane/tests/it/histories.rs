//! Random histories of the replicated state, as far as routers look at it.

use jaco_state::Change;
use jaco_state::Command;
use jaco_state::command::{
    ConsumerAttach, DeploymentApply, DeploymentDelete, NetworkCreate, NetworkRemove, NodeReport,
    Observe, Previous, ReplaceCause, Running,
};
use jaco_types::spec::{Attachment, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::{
    InstanceId, Millis, NetworkReach, NodeFacts, NodeId, NodeRouter, NodeStatus, ReplicaState,
    RouterLink, Slot, TunnelBackend,
};
use proptest::prelude::*;

use crate::attached::{created, deploy_shared, network_name};
use crate::history::{History, deployment, key, seen, service, spec};

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A deployment, its networks, aliases in them, and what the first of them reaches.
    Deploy(bool, Vec<bool>, u8, bool),
    /// A deployment in a shared network.
    DeployShared(bool),
    /// A deployment is deleted; its replicas are there until they are removed.
    Delete(bool),
    /// A shared network is created, or removed if nothing is attached.
    Share(bool),
    /// Something follows the endpoints from now on: what is dropped terminates.
    Consume,
    /// A write to a node that changes nothing of the network.
    Judge(u64),
    Create(bool, u64, u64),
    Replace(usize, u64, bool),
    Remove(usize),
    Observe(usize, ReplicaState),
    Gone(usize),
    Joined(usize),
    Report(u64, u8),
    Wait(u64),
}

/// A random history.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..40)
}

/// One in which deployments are deleted too. All specs have one hash here, so replicas that are left pass for those of
/// the next deployment of the name.
pub(crate) fn steps_and_deletions() -> impl Strategy<Value = Vec<Step>> {
    let deletion = any::<bool>().prop_map(Step::Delete);
    prop::collection::vec(prop_oneof![25 => step(), 1 => deletion], 0..40)
}

fn step() -> impl Strategy<Value = Step> {
    let state = prop_oneof![
        3 => Just(ReplicaState::Running),
        1 => Just(ReplicaState::Starting),
        1 => Just(ReplicaState::Failed),
    ];
    let keys = prop::collection::vec(any::<bool>(), 2);
    prop_oneof![
        2 => (any::<bool>(), keys, 0..3_u8, prop::bool::weighted(0.2))
            .prop_map(|(name, keys, alias, internal)| Step::Deploy(name, keys, alias, internal)),
        1 => any::<bool>().prop_map(Step::DeployShared),
        1 => any::<bool>().prop_map(Step::Share),
        1 => Just(Step::Consume),
        1 => (0..3_u64).prop_map(Step::Judge),
        6 => (any::<bool>(), 0..4_u64, 0..3_u64)
            .prop_map(|(name, index, node)| Step::Create(name, index, node)),
        4 => (0..8_usize, 0..3_u64, any::<bool>())
            .prop_map(|(slot, node, retire)| Step::Replace(slot, node, retire)),
        1 => (0..8_usize).prop_map(Step::Remove),
        5 => (0..8_usize, state).prop_map(|(slot, state)| Step::Observe(slot, state)),
        2 => (0..8_usize).prop_map(Step::Gone),
        2 => (0..8_usize).prop_map(Step::Joined),
        3 => (0..3_u64, 1..4_u8).prop_map(|(node, key)| Step::Report(node, key)),
        2 => (0..90_u64).prop_map(Step::Wait),
    ]
}

/// Carries a step out, if it means anything in this state.
pub(crate) fn carry_out(history: &mut History, nodes: &[NodeId], step: &Step) {
    let name = |shop: bool| if shop { "shop" } else { "blog" };
    let slots: Vec<_> = history.state.slots.values().cloned().collect();
    let nth = |at: usize| slots.get(at % slots.len().max(1));
    match step {
        Step::Deploy(shop, keys, alias, internal) => {
            let keys = keys.iter().zip(["default", "back"]);
            let keys: Vec<_> = keys.filter(|(named, _)| **named).map(|(_, key)| key).collect();
            history.apply(deploy(name(*shop), &keys, *alias, *internal));
        }
        Step::DeployShared(shop) => {
            history.apply(deploy_shared(name(*shop), "web:1", "common"));
        }
        Step::Delete(shop) => {
            history.apply(DeploymentDelete::new(deployment(name(*shop))).into());
        }
        Step::Share(true) => {
            history.apply(NetworkCreate::new(network_name("common")).into());
        }
        Step::Share(false) => {
            history.apply(NetworkRemove::new(network_name("common")).into());
        }
        Step::Consume => {
            let consumer = ConsumerAttach::new("edge".parse().unwrap(), nodes[0], Millis(5000));
            history.apply(consumer.into());
        }
        Step::Judge(node) => {
            let (node, status) = (nodes[usize::try_from(*node).unwrap()], NodeStatus::Ready);
            let reason = history.state.index.to_string();
            history.batch(vec![Change::NodeStatusSet { node, status, reason }]);
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
            let is_there =
                |slot: &&Slot| history.state.deployments.contains(&slot.service.deployment);
            let Some(slot) = nth(*at).filter(is_there) else { return };
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
        Step::Joined(at) => {
            if let Some(slot) = nth(*at) {
                let joined = Observe::new(slot.current.node).joined(vec![slot.current_id()]);
                history.apply(joined.into());
            }
        }
        Step::Report(node, key) => {
            report(history, nodes[usize::try_from(*node).unwrap()], *key, None);
        }
        Step::Wait(seconds) => history.now = history.now.after(Millis(seconds * 1000)),
    }
}

/// The node says that it has the router with this key.
pub(crate) fn report(history: &mut History, node: NodeId, key: u8, problem: Option<&str>) {
    let link = RouterLink { key: [key; 32], port: 51820, backend: TunnelBackend::Userspace };
    let router = NodeRouter { link: Some(link), problem: problem.map(str::to_owned) };
    let facts = NodeFacts { router: Some(router), ..NodeFacts::default() };
    let address = format!("192.0.2.{node}:7000");
    history.apply(NodeReport::new(node, address, facts).into());
}

pub(crate) fn observe(history: &mut History, id: &InstanceId, node: NodeId, state: ReplicaState) {
    history.apply(Observe::new(node).observed(vec![seen(id.clone(), node, state)]).into());
}

/// An apply of one service `web` in these networks of its deployment. Its alias is another one for each number but 0.
fn deploy(name: &str, networks: &[&str], alias: u8, internal: bool) -> Command {
    let attach = |key: &&str| Attachment {
        network: NetworkRef::Own(network_name(key)),
        aliases: (1..=alias).map(|number| format!("alias-{number}").into()).collect(),
    };
    let attached = networks.iter().map(attach).collect();
    let mut spec = spec(&[ServiceSpec { networks: attached, ..service("web", "web:1") }]);
    let reach = if internal { NetworkReach::Internal } else { NetworkReach::Outside };
    spec.networks =
        networks.iter().map(|key| (network_name(key), NetworkSpec::default())).collect();
    if let Some(mut first) = spec.networks.first_entry() {
        first.get_mut().reach = reach;
    }
    DeploymentApply::new(deployment(name), spec).running(Running::JoinNetworks).into()
}
