//! What is true at the moment, for every law to look at.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jaco_agent::engine::{ContainerId, ContainerStatus, Health, ObservedContainer};
use jaco_dataplane::{Seen, SitePlan};
use jaco_state::job::JobRecord;
use jaco_state::{Change, ClusterState};
use jaco_types::spec::{ServiceSpec, UpdateOrder};
use jaco_types::unit::Resources;
use jaco_types::{
    InstanceAddress, InstanceId, Millis, NodeId, NodeStatus, ReplicaId, Revision, ServiceKey, Slot,
    Timestamp,
};

use crate::daemon::before_all_entries;
use crate::network::MachineIx;

/// What is agreed on, and what is on the machines.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The simulated time.
    pub(crate) now: Timestamp,
    /// The log executed once more, by no daemon.
    pub(crate) state: ClusterState,
    /// The containers that carry the cluster's labels.
    pub(crate) machines: BTreeMap<MachineIx, BTreeMap<ContainerId, ObservedContainer>>,
    /// What the routers of machines hold.
    pub(super) routers: BTreeMap<MachineIx, RouterHolds>,
    /// The addresses that instances were started with, or got while they ran.
    pub(super) addresses: BTreeMap<InstanceId, Vec<InstanceAddress>>,
}

/// What the router of a machine holds.
#[derive(Debug)]
pub(crate) struct RouterHolds {
    pub(crate) node: NodeId,
    pub(crate) seen: Seen,
    /// The same as a plan that is carried out in full.
    pub(crate) plan: SitePlan,
}

impl Facts {
    pub(super) fn new() -> Self {
        Self {
            now: Timestamp(0),
            state: before_all_entries(),
            machines: BTreeMap::new(),
            routers: BTreeMap::new(),
            addresses: BTreeMap::new(),
        }
    }

    /// The live containers of all machines.
    pub(crate) fn live(&self) -> impl Iterator<Item = &ObservedContainer> {
        self.containers().filter(|seen| is_up(seen))
    }

    /// The containers of all machines.
    pub(super) fn containers(&self) -> impl Iterator<Item = &ObservedContainer> {
        self.machines.values().flat_map(BTreeMap::values)
    }

    /// The containers of one machine.
    pub(super) fn on(&self, machine: MachineIx) -> impl Iterator<Item = &ObservedContainer> {
        self.machines.get(&machine).into_iter().flat_map(BTreeMap::values)
    }

    /// Whether a container serves as far as its engine can tell.
    pub(super) fn is_serving(&self, container: &ContainerId) -> bool {
        self.machines.values().any(|there| there.get(container).is_some_and(serves))
    }

    /// Whether some container of the slot serves.
    pub(super) fn slot_serves(&self, slot: &ReplicaId) -> bool {
        self.containers().any(|seen| seen.instance.replica == *slot && serves(seen))
    }
}

pub(super) fn is_up(seen: &ObservedContainer) -> bool {
    matches!(seen.status, ContainerStatus::Up { .. })
}

pub(super) fn serves(seen: &ObservedContainer) -> bool {
    match &seen.status {
        ContainerStatus::Up { health: Health::None | Health::Healthy, .. } => true,
        ContainerStatus::Up { health: Health::Starting | Health::Unhealthy { .. }, .. }
        | ContainerStatus::Created
        | ContainerStatus::Exited { .. } => false,
    }
}

/// After how long without a leader an instance must stop by itself, if its service asks for that.
pub(super) fn stops_after(
    state: &ClusterState,
    service: &ServiceKey,
    revision: Revision,
) -> Option<Millis> {
    let spec = state.service_spec(service, revision);
    spec.and_then(|spec| spec.on_node_loss.stops_after())
}

/// Whether a node cannot keep what it has.
pub(super) fn is_lost(state: &ClusterState, node: NodeId) -> bool {
    state.nodes.get(&node).is_none_or(|node| match node.status {
        NodeStatus::Down | NodeStatus::EngineDown => true,
        NodeStatus::Joining | NodeStatus::Ready | NodeStatus::DiskFull => false,
    })
}

/// Whether the next instance of a slot cannot run beside the present one. Two of a job would do the same
/// work at once.
pub(super) fn must_stop_first(state: &ClusterState, slot: &Slot, next: Revision) -> bool {
    let service = &slot.service;
    let deployment = state.deployments.get(&service.deployment);
    let is_job = deployment.is_some_and(|it| it.spec().jobs().contains(&service.service));
    is_job
        || state.service_spec(service, next).is_none_or(|spec| {
            spec.update.order == UpdateOrder::StopFirst
                || !spec.host_ports.is_empty()
                || spec.gpus.is_some()
                || spec.reservation != Resources::default()
        })
}

pub(super) fn wanted_spec<'a>(
    state: &'a ClusterState,
    service: &ServiceKey,
) -> Option<&'a ServiceSpec> {
    let deployment = state.deployments.get(&service.deployment)?;
    deployment.spec().services.get(&service.service).map(|spec| &**spec)
}

/// The jobs of which an entry began a run, with their records.
pub(super) fn begun_runs<'a>(
    before: &'a ClusterState,
    after: &'a ClusterState,
) -> impl Iterator<Item = (&'a ServiceKey, &'a JobRecord)> {
    after.jobs.iter().filter(|(service, record)| {
        record.runs > before.jobs.get(service).map_or(0, |known| known.runs)
    })
}

/// Calls `check` with each change of a batch and the state that it meets: what an earlier change of
/// the batch reverted may move on at once.
pub(super) fn in_turn<E>(
    before: &ClusterState,
    changes: &[Change],
    mut check: impl FnMut(&ClusterState, &Change) -> Result<(), E>,
) -> Result<(), E> {
    let mut state = Cow::Borrowed(before);
    for change in changes {
        check(&state, change)?;
        if let Change::SlotRevert { id } = change
            && let Some(slot) = state.to_mut().slots.get_mut(id)
            && let Some(old) = slot.retiring.take()
        {
            slot.current = old;
        }
    }
    Ok(())
}
