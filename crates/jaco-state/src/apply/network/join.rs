//! Instances that run while their deployment moves from networks of each node to those of the cluster: they get addresses
//! in these too, so that they and their successors reach each other until they are replaced (NET-4).

use jaco_types::{
    DeploymentName, DesiredState, Instance, InstanceId, NodeId, ReplicaId, ReplicaState, Revision,
    ServiceKey, Timestamp,
};

use super::address;
use crate::command::Entry;
use crate::state::ClusterState;
use crate::view::slots_of;

/// Gives the instances of a deployment that run in networks of their nodes addresses in those that its desired revision
/// has, as far as more than half of each network stays free for their successors.
pub(in crate::apply) fn begin(state: &mut ClusterState, entry: &Entry, name: &DeploymentName) {
    let Some(revision) = state.deployments.get(name).map(|deployment| deployment.revision) else {
        return;
    };
    let slots = slots_of(state, name);
    let active = slots.filter(|slot| slot.desired_state == DesiredState::Active);
    let ids: Vec<ReplicaId> = active.map(|slot| slot.id.clone()).collect();
    for id in ids {
        let Some(slot) = state.slots.get(&id) else { continue };
        let service = slot.service.clone();
        let joining = slot.instances().filter(|(id, instance)| runs_apart(state, id, instance));
        let joining: Vec<InstanceId> = joining.map(|(id, _)| id).collect();
        for id in joining {
            if has_room(state, entry.at, &service, revision) {
                let addresses = address::assign(state, &service, &id, revision);
                with_instance(state, &id, |instance| {
                    instance.joining_since = (!addresses.is_empty()).then_some(entry.at);
                    instance.addresses = addresses;
                });
            }
        }
    }
}

/// Notes that the container of an instance is attached to its networks.
pub(in crate::apply) fn end(state: &mut ClusterState, node: NodeId, id: &InstanceId) {
    let is_joining = |(known, instance): (InstanceId, &Instance)| {
        known == *id && instance.node == node && instance.joining_since.is_some()
    };
    if state.slots.get(&id.replica).is_some_and(|slot| slot.instances().any(is_joining)) {
        with_instance(state, id, |instance| instance.joining_since = None);
    }
}

/// Whether the container of an instance runs and is in no network of the cluster.
fn runs_apart(state: &ClusterState, id: &InstanceId, instance: &Instance) -> bool {
    let observed = state.observed.get(id).filter(|seen| seen.node == instance.node);
    let runs = observed.is_some_and(|seen| match seen.state {
        ReplicaState::Starting | ReplicaState::Running | ReplicaState::Degraded => {
            !seen.container_id.is_empty()
        }
        ReplicaState::Pending
        | ReplicaState::Pulling
        | ReplicaState::Failed
        | ReplicaState::Stopped
        | ReplicaState::Completed => false,
    });
    runs && instance.addresses.is_empty()
}

/// Whether each network of a service at a revision has more than half of its addresses left.
fn has_room(
    state: &ClusterState,
    now: Timestamp,
    service: &ServiceKey,
    revision: Revision,
) -> bool {
    let networks = state.networks_of(service, revision).unwrap_or_default();
    let is_roomy = |free: u32, capacity: u32| free > capacity / 2;
    networks
        .iter()
        .all(|network| is_roomy(state.networks.free(network, now), network.subnet.capacity()))
}

/// Changes an instance in its slot. A plan that is based on an earlier state stays right: the slot counts as unchanged.
fn with_instance(state: &mut ClusterState, id: &InstanceId, edit: impl FnOnce(&mut Instance)) {
    let Some(slot) = state.slots.get_mut(&id.replica) else { return };
    let instances = std::iter::once(&mut slot.current).chain(&mut slot.retiring);
    if let Some(instance) = { instances }.find(|one| one.raft_index == id.raft_index) {
        edit(instance);
    }
}
