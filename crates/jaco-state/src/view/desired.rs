//! What a node should run, fetch and stop.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use jaco_types::spec::{PullPolicy, ServiceMode, ServiceSpec};
use jaco_types::{
    DeploymentName, DesiredState, FirstWatch, ImageDigest, ImageNeed, Instance, InstanceAddress,
    InstanceId, NetworkId, NetworkReach, NetworkScope, NodeId, NodeStatus, Scheduling, ServiceKey,
    ServiceName, Slot, Subnet,
};

use super::replica::is_running;
use crate::state::ClusterState;

/// An instance that a node should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredInstance {
    /// The instance.
    pub id: InstanceId,
    /// The service it belongs to.
    pub service: ServiceKey,
    /// The spec to run. Absent only if the revision is no longer kept: a running container stays then,
    /// and a missing one cannot be started.
    pub spec: Option<Arc<ServiceSpec>>,
    /// Whether it serves, or runs to its end because its service says so or others wait for that.
    pub mode: ServiceMode,
    /// Its pinned image digest, if there is one.
    pub digest: Option<ImageDigest>,
    /// The ids of the GPUs that it has for itself.
    pub gpus: Vec<Arc<str>>,
    /// The networks of the cluster that it is attached to, in order; none where its networks are those of its
    /// node.
    pub networks: Vec<AttachedNetwork>,
    /// How it comes to these networks.
    pub attachment: Attachment,
    /// Whether it is to be started, or only kept.
    pub role: Role,
}

/// How an instance comes to its networks of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// Its container is created in them.
    Created,
    /// Its container was created in networks of its node, and was attached to them while it ran.
    Joined,
    /// The same is still to be done.
    Joining,
}

/// A network of the cluster, as a node needs it for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedNetwork {
    /// The network.
    pub id: NetworkId,
    /// Whose it is, under which name.
    pub scope: NetworkScope,
    /// Its subnet, which is the same on all nodes.
    pub subnet: Subnet,
    /// What its members reach besides each other.
    pub reach: NetworkReach,
    /// The MTU of the instance's interface in it.
    pub mtu: u16,
    /// The address of the instance in it.
    pub address: Ipv4Addr,
}

/// Whether an instance is to be started, or only kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It should run: start it if it never ran.
    Current,
    /// It ran to its end: keep its container for the log, never start it again.
    Finished,
    /// It serves until its successor does: keep it, never start it again.
    Retiring,
    /// It is out of the endpoints and traffic may still reach it: keep it until it is removed; its
    /// successor on this node waits.
    Terminating,
}

/// The instances that `node` should run. Nothing on a node that was removed, although a slot whose
/// data is there stays assigned to it.
#[must_use]
pub fn desired_on(state: &ClusterState, node: NodeId) -> BTreeMap<InstanceId, DesiredInstance> {
    let mut desired = BTreeMap::new();
    if !state.nodes.contains(&node) {
        return desired;
    }
    let mut jobs = Jobs { state, of: BTreeMap::new() };
    for slot in state.slots.values() {
        let current = match slot.desired_state {
            DesiredState::Active => Some(Role::Current),
            DesiredState::Finished(_) => Some(Role::Finished),
            DesiredState::Disabled => None,
        };
        let retiring = slot.retiring.as_ref().map(|instance| (instance, Role::Retiring));
        let roles = current.map(|role| (&slot.current, role)).into_iter().chain(retiring);
        for (instance, role) in roles {
            if instance.node == node {
                let mode = jobs.mode(&slot.service);
                let wanted = desired_instance(state, slot, instance, (role, mode));
                desired.insert(wanted.id.clone(), wanted);
            }
        }
    }
    for terminating in state.terminating.values().filter(|terminating| terminating.node == node) {
        let wanted = DesiredInstance {
            id: terminating.id.clone(),
            service: terminating.service.clone(),
            spec: state.service_spec(&terminating.service, terminating.revision).map(Arc::clone),
            mode: jobs.mode(&terminating.service),
            digest: state.image_digest(&terminating.service, terminating.revision).cloned(),
            gpus: terminating.gpus.clone(),
            networks: attached(state, &terminating.addresses),
            attachment: Attachment::Created,
            role: Role::Terminating,
        };
        desired.insert(wanted.id.clone(), wanted);
    }
    desired
}

/// The jobs of deployments, each deployment read once.
struct Jobs<'a> {
    state: &'a ClusterState,
    of: BTreeMap<&'a DeploymentName, BTreeSet<&'a ServiceName>>,
}

impl<'a> Jobs<'a> {
    fn mode(&mut self, service: &ServiceKey) -> ServiceMode {
        let Some(deployment) = self.state.deployments.get(&service.deployment) else {
            return ServiceMode::Service;
        };
        let jobs = self.of.entry(&deployment.name).or_insert_with(|| deployment.spec().jobs());
        match jobs.contains(&service.service) {
            true => ServiceMode::Job,
            false => ServiceMode::Service,
        }
    }
}

/// Instances that belong to no slot any more and of which something is left, with their nodes. Not
/// those of a node that is down: it would not report when they are gone.
pub fn stopping(state: &ClusterState) -> impl Iterator<Item = (&InstanceId, NodeId)> {
    let has_slot = |id: &InstanceId| {
        let slot = state.slots.get(&id.replica);
        slot.is_some_and(|slot| slot.kept_instances().any(|(held, _)| held == *id))
    };
    let answers =
        |node: NodeId| state.nodes.get(&node).is_some_and(|node| node.status != NodeStatus::Down);
    let terminating =
        state.terminating.values().filter(|terminating| !state.observed.contains(&terminating.id));
    let terminating = terminating.map(|terminating| (&terminating.id, terminating.node));
    let observed = state.observed.iter().filter(move |(id, _)| !has_slot(id));
    let observed = observed.map(|(id, seen)| (id, seen.node));
    terminating.chain(observed).filter(move |(_, node)| answers(*node))
}

/// The images that `node` should pre-pull, each with a spec that needs it, for the rollouts that wait
/// for the node before their first step; and those that its first replicas of a service run, which nobody
/// has resolved to a digest yet.
#[must_use]
pub fn prepull_on(state: &ClusterState, node: NodeId) -> BTreeMap<ImageNeed, Arc<ServiceSpec>> {
    let waits = |record: &Scheduling| {
        let rollout = record.rollout.as_ref()?;
        let is_asked = rollout.prepull.as_ref()?.nodes.contains_key(&node);
        is_asked.then_some(rollout.target_revision)
    };
    let asked = state.scheduling.iter().filter_map(|(service, record)| {
        let revision = waits(record)?;
        let spec = state.service_spec(service, revision)?;
        let digest = state.image_digest(service, revision).cloned();
        Some((ImageNeed { spec: spec.hash, digest }, Arc::clone(spec)))
    });
    let unresolved = state.scheduling.iter().filter_map(|(service, record)| {
        let spec = unresolved(state, service, record)?;
        let runs_here = state.slots.values().any(|slot| {
            slot.service == *service
                && slot.current.node == node
                && slot.current.spec_hash == spec.hash
                && is_running(state, &slot.current_id())
        });
        let need = ImageNeed { spec: spec.hash, digest: None };
        runs_here.then(|| (need, Arc::clone(spec)))
    });
    asked.chain(unresolved).collect()
}

/// The spec of a service whose first replicas are watched and whose image has no digest yet, where its
/// name is to be resolved to one: not where each node's own counts, or where it is looked for each time.
fn unresolved<'a>(
    state: &'a ClusterState,
    service: &ServiceKey,
    record: &Scheduling,
) -> Option<&'a Arc<ServiceSpec>> {
    if record.first_watch == FirstWatch::Over {
        return None;
    }
    let revision = state.deployments.get(&service.deployment)?.revision;
    let spec = state.service_spec(service, revision)?;
    let is_by_name = spec.pull == PullPolicy::Missing && !spec.image.contains('@');
    let is_open = is_by_name && state.image_digest(service, revision).is_none();
    is_open.then_some(spec)
}

fn desired_instance(
    state: &ClusterState,
    slot: &Slot,
    instance: &Instance,
    (role, mode): (Role, ServiceMode),
) -> DesiredInstance {
    let spec = state.service_spec(&slot.service, instance.revision).map(Arc::clone);
    DesiredInstance {
        id: InstanceId { replica: slot.id.clone(), raft_index: instance.raft_index },
        service: slot.service.clone(),
        attachment: attachment(spec.as_deref(), instance),
        spec,
        mode,
        digest: state.image_digest(&slot.service, instance.revision).cloned(),
        gpus: instance.gpus.clone(),
        networks: attached(state, &instance.addresses),
        role,
    }
}

fn attachment(spec: Option<&ServiceSpec>, instance: &Instance) -> Attachment {
    let was_apart = spec.is_some_and(|spec| spec.networks.is_empty());
    match instance.joining_since {
        Some(_) => Attachment::Joining,
        None if was_apart && !instance.addresses.is_empty() => Attachment::Joined,
        None => Attachment::Created,
    }
}

/// The networks of an instance with these addresses. They exist as long as it does.
fn attached(state: &ClusterState, addresses: &[InstanceAddress]) -> Vec<AttachedNetwork> {
    let Some(pool) = &state.networks.pool else { return Vec::new() };
    let one = |one: &InstanceAddress| {
        let network = state.networks.rows.get(&one.network)?;
        Some(AttachedNetwork {
            id: network.id,
            scope: network.scope.clone(),
            subnet: network.subnet,
            reach: network.reach,
            mtu: pool.mtu,
            address: one.address,
        })
    };
    addresses.iter().filter_map(one).collect()
}
