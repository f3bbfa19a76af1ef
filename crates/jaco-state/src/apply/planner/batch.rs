//! The planner's changes: all of them, or none.

use jaco_types::slot::{Exhausted, SlotData};
use jaco_types::spec::Storage;
use jaco_types::{
    AllocationScope, Completion, DesiredState, ErrorCode, Instance, InstanceId, NodeId, Ordinal,
    Rejection, ReplicaId, RestartCount, Scheduling, ServiceKey, Slot, StateIndex,
    TerminationOutcome,
};

use super::{rollout, routing, termination};
use crate::apply::audit::Audit;
use crate::apply::cluster::{disabled, drain, hostname};
use crate::apply::deployment::revision;
use crate::apply::job;
use crate::apply::network::address;
use crate::audit::AuditKind;
use crate::command::{Change, Entry, NewInstance, Outcome, Previous, ReplaceCause};
use crate::state::ClusterState;

/// Law ST-2: a batch is refused whole if an object it touches changed after `based_on`.
pub(in crate::apply) fn apply_batch(
    state: &mut ClusterState,
    entry: &Entry,
    based_on: StateIndex,
    changes: &[Change],
    audit: &mut Audit<'_>,
) -> Outcome {
    if let Some(moved) = changes.iter().find_map(|change| moved_since(state, based_on, change)) {
        let message = format!("{moved} changed after index {based_on}, which the plan is based on");
        return Outcome::Rejected(Rejection::new(ErrorCode::StalePlan, message));
    }
    if let Some(what) = address::lacking(state, entry.at, changes) {
        let message = format!("{what} is not what it was at index {based_on}");
        return Outcome::Rejected(Rejection::new(ErrorCode::StalePlan, message));
    }
    address::expire(state, entry.at);
    for change in changes {
        let job = ending_job(state, change);
        execute(state, entry, change, audit);
        if let Some(service) = job {
            job::close_if_over(state, entry, &service, audit);
        }
    }
    Outcome::Done
}

/// Names the object that makes `change` stale, if there is one.
fn moved_since(state: &ClusterState, based_on: StateIndex, change: &Change) -> Option<String> {
    match change {
        Change::SlotCreate { id, service, instance, .. } => {
            if state.slots.contains(id) {
                return Some(format!("replica {id}"));
            }
            service_moved(state, based_on, service)
                .or_else(|| node_moved(state, based_on, instance.node))
                .or_else(|| disabled_moved(state, based_on))
        }
        Change::SlotReplace { id, instance, .. } => slot_moved(state, based_on, id)
            .or_else(|| service_moved(state, based_on, &state.slots.get(id)?.service))
            .or_else(|| node_moved(state, based_on, instance.node))
            .or_else(|| origin_moved(state, based_on, id))
            .or_else(|| disabled_moved(state, based_on)),
        Change::SlotDisable { id, .. } => {
            slot_moved(state, based_on, id).or_else(|| disabled_moved(state, based_on))
        }
        Change::SlotSettle { id }
        | Change::SlotRevert { id }
        | Change::SlotFinish { id, .. }
        | Change::SlotSetRestarts { id, .. } => slot_moved(state, based_on, id),
        Change::SlotRemove { id } => slot_moved(state, based_on, id)
            .or_else(|| origin_moved(state, based_on, id))
            .or_else(|| wanted_since(state, based_on, &state.slots.get(id)?.service)),
        Change::SchedulingSet { service, .. } => {
            let record = state.scheduling.get(service)?;
            (record.modified > based_on).then(|| format!("the scheduling of {service}"))
        }
        Change::TerminatingRemove { id } => {
            (!state.terminating.contains(id)).then(|| format!("terminating instance {id}"))
        }
        Change::ConsumerExpire { name } => {
            let fresh = state.consumers.get(name).is_some_and(|known| known.session <= based_on);
            (!fresh).then(|| format!("consumer {name}"))
        }
        Change::ImageResolve { service, revision, .. } => {
            let is_open = state.service_spec(service, *revision).is_some()
                && state.image_digest(service, *revision).is_none();
            (!is_open).then(|| format!("the image of {service} at revision {revision}"))
        }
        Change::NodeStatusSet { node, .. } | Change::DrainTimeout { node, .. } => {
            node_moved(state, based_on, *node)
        }
    }
}

fn slot_moved(state: &ClusterState, based_on: StateIndex, id: &ReplicaId) -> Option<String> {
    let fresh = state.slots.get(id).is_some_and(|slot| slot.modified <= based_on);
    (!fresh).then(|| format!("replica {id}"))
}

fn node_moved(state: &ClusterState, based_on: StateIndex, id: NodeId) -> Option<String> {
    let fresh = state.nodes.get(&id).is_some_and(|node| node.modified <= based_on);
    (!fresh).then(|| format!("node {id}"))
}

/// A node that the slot is on, or is named after, changed: whether the replica has to leave it was decided
/// by the status, availability and labels that it had. A node that is gone cannot keep it.
fn origin_moved(state: &ClusterState, based_on: StateIndex, id: &ReplicaId) -> Option<String> {
    let slot = state.slots.get(id)?;
    let instances = std::iter::once(&slot.current).chain(&slot.retiring);
    let hosts = instances.filter_map(|instance| state.nodes.get(&instance.node));
    let named = match &slot.ordinal {
        Ordinal::Host(host) => state.node_by_hostname(host),
        Ordinal::Index(_) => None,
    };
    let changed = hosts.chain(named).find(|node| node.modified > based_on);
    changed.map(|node| format!("node {}", node.id))
}

/// The disabled allocations changed: a plan that was made before must neither start nor stop replicas
/// (R-SEL-3).
fn disabled_moved(state: &ClusterState, based_on: StateIndex) -> Option<String> {
    (state.disabled.modified > based_on).then(|| "what is disabled".to_owned())
}

fn service_moved(state: &ClusterState, based_on: StateIndex, key: &ServiceKey) -> Option<String> {
    let deployment = state.deployments.get(&key.deployment);
    let fresh = deployment.is_some_and(|deployment| deployment.modified <= based_on);
    (!fresh).then(|| format!("deployment {}", key.deployment))
}

/// A replica that was surplus when the plan was made must not be removed if its deployment was applied
/// since. Without a deployment nothing can have changed.
fn wanted_since(state: &ClusterState, based_on: StateIndex, key: &ServiceKey) -> Option<String> {
    let deployment = state.deployments.get(&key.deployment)?;
    (deployment.modified > based_on).then(|| format!("deployment {}", key.deployment))
}

/// The service of a slot that ends or goes: its run may be over then.
fn ending_job(state: &ClusterState, change: &Change) -> Option<ServiceKey> {
    let (Change::SlotFinish { id, .. } | Change::SlotRemove { id }) = change else { return None };
    let slot = state.slots.get(id).filter(|_| !state.jobs.is_empty());
    slot.map(|slot| slot.service.clone())
}

pub(in crate::apply) fn execute(
    state: &mut ClusterState,
    entry: &Entry,
    change: &Change,
    audit: &mut Audit<'_>,
) {
    let before = departing_slot(change).map(|id| (id, nodes_of(state, id)));
    let slot = written_slot(change);
    let held = address::held(state, slot);
    drop_instances(state, entry, change);
    carry_out(state, entry, change, audit);
    address::withhold_dropped(state, entry.at, slot, held);
    if let Some((id, before)) = before {
        let after = nodes_of(state, id);
        for node in before.into_iter().flatten().filter(|node| !after.contains(&Some(*node))) {
            drain::note_progress(state, entry, node);
        }
    }
}

/// Where the instances of a slot are.
fn nodes_of(state: &ClusterState, id: &ReplicaId) -> [Option<NodeId>; 2] {
    let Some(slot) = state.slots.get(id) else { return [None; 2] };
    let mut nodes = slot.instances().map(|(_, instance)| instance.node);
    [nodes.next(), nodes.next()]
}

/// The slot whose instances may be others after this change.
fn written_slot(change: &Change) -> Option<&ReplicaId> {
    if let Change::SlotCreate { id, .. } = change { Some(id) } else { departing_slot(change) }
}

/// The slot that an instance may leave with this change.
fn departing_slot(change: &Change) -> Option<&ReplicaId> {
    match change {
        Change::SlotReplace { id, .. }
        | Change::SlotSettle { id }
        | Change::SlotRevert { id }
        | Change::SlotDisable { id, .. }
        | Change::SlotFinish { id, .. }
        | Change::SlotRemove { id } => Some(id),
        Change::SlotCreate { .. }
        | Change::SlotSetRestarts { .. }
        | Change::SchedulingSet { .. }
        | Change::TerminatingRemove { .. }
        | Change::ConsumerExpire { .. }
        | Change::ImageResolve { .. }
        | Change::NodeStatusSet { .. }
        | Change::DrainTimeout { .. } => None,
    }
}

fn carry_out(state: &mut ClusterState, entry: &Entry, change: &Change, audit: &mut Audit<'_>) {
    let index = entry.index;
    match change {
        Change::SlotCreate { .. }
        | Change::SlotReplace { .. }
        | Change::SlotDisable { .. }
        | Change::SlotFinish { .. }
        | Change::SlotSettle { .. }
        | Change::SlotRevert { .. }
        | Change::SlotSetRestarts { .. }
        | Change::SlotRemove { .. } => change_slot(state, index, change, audit),
        Change::SchedulingSet { service, record } => {
            rollout::record(state, audit, service, record);
            if let Some(rollout) = &record.rollout
                && !rollout.failure_reason.is_empty()
            {
                let (name, reason) = (&service.deployment, &rollout.failure_reason);
                revision::note_failure(state, name, rollout.target_revision, reason);
            }
            let record = Scheduling { modified: index, ..(**record).clone() };
            state.scheduling.insert(service.clone(), record);
        }
        Change::TerminatingRemove { id } => {
            if let Some(row) = state.terminating.remove(id) {
                let (id, node, addresses) = (id.clone(), row.node, row.addresses.clone());
                address::withhold(state, entry.at, id, node, addresses);
            }
        }
        Change::ConsumerExpire { name } => {
            routing::end_consumer(state, name, "lease_expired", audit);
        }
        Change::ImageResolve { service, revision, digest } => {
            let facts = [
                ("service", service.to_string()),
                ("revision", revision.to_string()),
                ("digest", digest.to_string()),
            ];
            audit.event(AuditKind::ImageResolved, facts);
            revision::note_digest(state, service, *revision, digest);
        }
        Change::NodeStatusSet { node, status, reason } => {
            let Some(node) = state.nodes.get_mut(node) else { return };
            audit.event(
                AuditKind::NodeStatus,
                [
                    ("node", node.hostname.to_string()),
                    ("from", node.status.as_str().to_owned()),
                    ("to", status.as_str().to_owned()),
                    ("reason", reason.clone()),
                ],
            );
            node.status = *status;
            node.status_reason.clone_from(reason);
            node.modified = index;
        }
        Change::DrainTimeout { node, left } => drain::cancel(state, entry, *node, left, audit),
    }
}

fn change_slot(
    state: &mut ClusterState,
    index: StateIndex,
    change: &Change,
    audit: &mut Audit<'_>,
) {
    match change {
        Change::SlotCreate { id, service, ordinal, instance, desired_state } => {
            let cause = match desired_state {
                DesiredState::Active | DesiredState::Finished(_) => "created",
                DesiredState::Disabled => "created disabled",
            };
            slot_event(state, audit, AuditKind::ReplicaPlaced, id, instance, cause);
            let data = match desired_state {
                DesiredState::Active | DesiredState::Finished(_) => SlotData::Possible,
                DesiredState::Disabled => SlotData::None,
            };
            let current = match desired_state {
                DesiredState::Active => start(state, index, service, id, instance),
                DesiredState::Disabled | DesiredState::Finished(_) => stamp(instance, index),
            };
            let slot = Slot {
                id: id.clone(),
                service: service.clone(),
                ordinal: ordinal.clone(),
                desired_state: *desired_state,
                current,
                retiring: None,
                data,
                restarts: RestartCount::default(),
                terminations: Vec::new(),
                modified: index,
            };
            state.slots.insert(id.clone(), slot);
        }
        Change::SlotReplace { id, instance, previous, cause, consecutive_failures } => {
            slot_event(state, audit, replaced_kind(*cause), id, instance, cause.as_str());
            let Some(slot) = state.slots.get(id) else { return };
            let service = slot.service.clone();
            let started = start(state, index, &service, id, instance);
            with_slot(state, index, id, |slot| {
                let before = std::mem::replace(&mut slot.current, started);
                match (previous, std::mem::take(&mut slot.desired_state)) {
                    (Previous::Retire, DesiredState::Active) => slot.retiring = Some(before),
                    // The current instance of a disabled slot never ran, that of a finished one has ended.
                    (Previous::Drop, _)
                    | (Previous::Retire, DesiredState::Disabled | DesiredState::Finished(_)) => {}
                }
                slot.data = SlotData::Possible;
                slot.restarts =
                    RestartCount { consecutive: *consecutive_failures, exhausted: Exhausted::No };
            });
        }
        Change::SlotDisable { id, instance } => {
            if state.slots.get(id).is_some_and(|slot| slot.desired_state == DesiredState::Active) {
                slot_event(state, audit, AuditKind::ReplicaDisabled, id, instance, "disabled");
            }
            let data = data_left(state, id);
            with_slot(state, index, id, |slot| {
                slot.data = data;
                slot.desired_state = DesiredState::Disabled;
                slot.current = stamp(instance, index);
                slot.retiring = None;
                slot.restarts = RestartCount::default();
            });
        }
        Change::SlotFinish { id, completion, consecutive_failures } => {
            finish_slot(state, index, id, (*completion, *consecutive_failures), audit);
        }
        Change::SlotSettle { id } => with_slot(state, index, id, |slot| slot.retiring = None),
        Change::SlotRevert { id } => with_slot(state, index, id, |slot| {
            if let Some(retiring) = slot.retiring.take() {
                slot.current = retiring;
            }
        }),
        Change::SlotSetRestarts { id, consecutive, exhausted } => {
            let restarts = RestartCount { consecutive: *consecutive, exhausted: *exhausted };
            set_restarts(state, index, id, restarts, audit);
        }
        Change::SlotRemove { id } => remove_slot(state, index, id, audit),
        Change::SchedulingSet { .. }
        | Change::TerminatingRemove { .. }
        | Change::ConsumerExpire { .. }
        | Change::ImageResolve { .. }
        | Change::NodeStatusSet { .. }
        | Change::DrainTimeout { .. } => {}
    }
}

/// Whether a slot that is disabled may leave data on its node. One that was disabled before keeps what
/// was known; a spec that is not kept any more may have had some.
fn data_left(state: &ClusterState, id: &ReplicaId) -> SlotData {
    let Some(slot) = state.slots.get(id) else { return SlotData::Possible };
    if slot.desired_state == DesiredState::Disabled {
        return slot.data;
    }
    // That of a finished slot may have left data, too.
    let is_stateless = |instance: &Instance| {
        let spec = state.service_spec(&slot.service, instance.revision);
        spec.is_some_and(|spec| {
            spec.hash == instance.spec_hash && spec.storage == Storage::Stateless
        })
    };
    match slot.kept_instances().all(|(_, instance)| is_stateless(instance)) {
        true => SlotData::None,
        false => SlotData::Possible,
    }
}

fn set_restarts(
    state: &mut ClusterState,
    index: StateIndex,
    id: &ReplicaId,
    restarts: RestartCount,
    audit: &mut Audit<'_>,
) {
    if restarts.exhausted == Exhausted::Yes {
        let failures = restarts.consecutive.to_string();
        audit.event(
            AuditKind::ReplicaExhausted,
            [("replica", id.to_string()), ("failures", failures)],
        );
    }
    with_slot(state, index, id, |slot| slot.restarts = restarts);
}

/// Records that the current instance ran to its end (ST-18): it takes no room any more, its container stays.
fn finish_slot(
    state: &mut ClusterState,
    index: StateIndex,
    id: &ReplicaId,
    (completion, consecutive): (Completion, u32),
    audit: &mut Audit<'_>,
) {
    let (kind, exhausted) = match completion {
        Completion::Succeeded => (AuditKind::JobCompleted, Exhausted::No),
        Completion::Failed => (AuditKind::JobFailed, Exhausted::Yes),
    };
    let Some(slot) = state.slots.get(id) else { return };
    let exit = state.observed.get(&slot.current_id()).and_then(|seen| seen.exit);
    audit.event(
        kind,
        [
            ("replica", id.to_string()),
            ("revision", slot.current.revision.to_string()),
            ("failures", consecutive.to_string()),
            ("exit_code", exit.map(|exit| exit.code.to_string()).unwrap_or_default()),
        ],
    );
    with_slot(state, index, id, |slot| {
        slot.desired_state = DesiredState::Finished(completion);
        slot.current.addresses.clear();
        slot.current.joining_since = None;
        slot.restarts = RestartCount { consecutive, exhausted };
    });
}

fn remove_slot(state: &mut ClusterState, index: StateIndex, id: &ReplicaId, audit: &mut Audit<'_>) {
    audit.event(AuditKind::ReplicaRemoved, [("replica", id.to_string())]);
    state.slots.remove(id);
    let is_of_it = |scope: &AllocationScope| match scope {
        AllocationScope::Replica { id: disabled, .. } => disabled == id,
        AllocationScope::Node(_) | AllocationScope::Service(_) | AllocationScope::Pair { .. } => {
            false
        }
    };
    disabled::forget(state, index, is_of_it);
}

/// What becomes of an instance of a slot.
#[derive(Clone, Copy)]
enum Fate {
    Stays,
    Goes(TerminationOutcome),
}

/// Removes the instances that a slot is about to drop from the endpoints, and records how they ended.
fn drop_instances(state: &mut ClusterState, entry: &Entry, change: &Change) {
    let (id, current, retiring) = match change {
        Change::SlotReplace { id, previous: Previous::Drop, cause, .. } => {
            (id, Fate::Goes(termination::outcome(*cause)), Fate::Stays)
        }
        Change::SlotRevert { id } => (id, Fate::Goes(TerminationOutcome::Reverted), Fate::Stays),
        Change::SlotSettle { id } => (id, Fate::Stays, Fate::Goes(TerminationOutcome::Succeeded)),
        Change::SlotRemove { id } => (
            id,
            Fate::Goes(TerminationOutcome::Succeeded),
            Fate::Goes(TerminationOutcome::Succeeded),
        ),
        Change::SlotDisable { id, .. } => (
            id,
            Fate::Goes(TerminationOutcome::Disabled),
            Fate::Goes(TerminationOutcome::Succeeded),
        ),
        Change::SlotReplace { previous: Previous::Retire, .. }
        | Change::SlotCreate { .. }
        | Change::SlotFinish { .. }
        | Change::SlotSetRestarts { .. }
        | Change::SchedulingSet { .. }
        | Change::TerminatingRemove { .. }
        | Change::ConsumerExpire { .. }
        | Change::ImageResolve { .. }
        | Change::NodeStatusSet { .. }
        | Change::DrainTimeout { .. } => return,
    };
    let Some(slot) = state.slots.get(id).cloned() else { return };
    if slot.desired_state != DesiredState::Active {
        // It has no live instance that could end.
        return;
    }
    let instances = [(Some(&slot.current), current), (slot.retiring.as_ref(), retiring)];
    for (instance, fate) in instances {
        if let (Some(instance), Fate::Goes(outcome)) = (instance, fate) {
            termination::note(state, entry, &slot, instance, outcome);
            routing::leave(state, entry, &slot, instance);
        }
    }
}

fn with_slot(
    state: &mut ClusterState,
    index: StateIndex,
    id: &ReplicaId,
    edit: impl FnOnce(&mut Slot),
) {
    if let Some(slot) = state.slots.get_mut(id) {
        edit(slot);
        slot.modified = index;
    }
}

fn stamp(instance: &NewInstance, index: StateIndex) -> Instance {
    Instance {
        raft_index: index,
        node: instance.node,
        revision: instance.revision,
        spec_hash: instance.spec_hash,
        gpus: instance.gpus.clone(),
        addresses: Vec::new(),
        joining_since: None,
    }
}

/// An instance that starts, with its addresses.
fn start(
    state: &mut ClusterState,
    index: StateIndex,
    service: &ServiceKey,
    id: &ReplicaId,
    instance: &NewInstance,
) -> Instance {
    let id = InstanceId { replica: id.clone(), raft_index: index };
    let addresses = address::assign(state, service, &id, instance.revision);
    Instance { addresses, ..stamp(instance, index) }
}

fn replaced_kind(cause: ReplaceCause) -> AuditKind {
    match cause {
        ReplaceCause::SpecChanged | ReplaceCause::ColocatedReplaced => AuditKind::ReplicaReplaced,
        ReplaceCause::Failed => AuditKind::ReplicaRestarted,
        ReplaceCause::NodeLost | ReplaceCause::Moved => AuditKind::ReplicaMoved,
        ReplaceCause::Enabled => AuditKind::ReplicaEnabled,
    }
}

fn slot_event(
    state: &ClusterState,
    audit: &mut Audit<'_>,
    kind: AuditKind,
    id: &ReplicaId,
    instance: &NewInstance,
    cause: &str,
) {
    let slot = state.slots.get(id);
    let from = slot.map(|slot| hostname(state, slot.current.node)).unwrap_or_default();
    audit.event(
        kind,
        [
            ("replica", id.to_string()),
            ("node", hostname(state, instance.node)),
            ("from", from),
            ("revision", instance.revision.to_string()),
            ("cause", cause.to_owned()),
        ],
    );
}
