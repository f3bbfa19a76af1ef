//! SIM-11: once all faults are over, every wanted replica runs once, and nothing else is left. What only a user can
//! put right, because data stays on its node, may wait.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::ClusterState;
use jaco_state::view::{Convergence, convergence, is_running, replica};
use jaco_types::rollout::Unplaced;
use jaco_types::spec::{ServiceSpec, Storage};
use jaco_types::{DeploymentName, DesiredState, InstanceId, ReplicaId, ServiceKey, Slot};

use super::{Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct Converged;

impl Invariant for Converged {
    fn converged(&mut self, facts: &Facts) -> Verdict {
        let mut wrong = unfinished(&facts.state);
        wrong.extend(leftovers(facts));
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(InvariantViolation::NotConverged { wrong }),
        }
    }
}

/// Why the cluster is not where it should be; empty when it is.
fn unfinished(state: &ClusterState) -> Vec<String> {
    let mut wrong = Vec::new();
    for deployment in state.deployments.values() {
        let reached = convergence(state, deployment);
        match reached {
            Convergence::Converged | Convergence::Paused | Convergence::RolledBack => {}
            Convergence::CannotPlace if waits_for_user(state, &deployment.name) => {}
            Convergence::Progressing | Convergence::CannotPlace
                if waits_for_lost_data(state, &deployment.name) => {}
            Convergence::Progressing | Convergence::CannotPlace | Convergence::Exhausted => {
                wrong.push(format!("{} is {}", deployment.name, reached.as_str()));
            }
        }
    }
    for slot in state.slots.values() {
        let is_disabled =
            slot.desired_state == DesiredState::Disabled && state.disabled.of_slot(slot).is_some();
        let waits = is_kept_by_data(state, slot) || waits_with_lost_data(state, slot);
        if is_disabled || is_finished(slot) || waits {
            continue;
        }
        if !is_running(state, &slot.current_id()) {
            let view = replica(state, slot);
            let code = view.code.map(jaco_types::ReasonCode::as_str).unwrap_or_default();
            wrong.push(format!("{} is {} {code}", slot.id, view.state.as_str()));
        }
        if slot.retiring.is_some() {
            wrong.push(format!("{} is still being replaced", slot.id));
        }
    }
    wrong
}

/// Data stays on its node, and its replica with it, also where the placement does not want it or
/// where two replicas on a node want the same port, until the user changes one of them.
fn waits_for_user(state: &ClusterState, name: &DeploymentName) -> bool {
    let records = state.scheduling.iter().filter(|(key, _)| key.deployment == *name);
    let is_stateful = |key: &ServiceKey| {
        let deployment = state.deployments.get(name);
        let services = deployment.map(|deployment| &deployment.spec().services);
        services
            .and_then(|services| services.get(&key.service))
            .is_some_and(|spec| spec.storage == Storage::Stateful)
    };
    let mut waits = records.flat_map(|(key, record)| record.unplaced.iter().map(move |u| (key, u)));
    let concerned = |unplaced: &Unplaced| {
        let id = ReplicaId::parse(unplaced.details.get("replica")?).ok()?;
        state.slots.get(&id)
    };
    waits.all(|(key, unplaced)| match unplaced.reason.as_str() {
        "data_stays_on_node" => true,
        "no_room_to_roll" => is_stateful(key),
        "no_room_to_start" => concerned(unplaced).is_some_and(|slot| is_kept_by_gpus(state, slot)),
        "waiting_for_node" => {
            concerned(unplaced).is_some_and(|slot| is_lost_with_its_node(state, slot))
        }
        _ => false,
    })
}

/// Whether a deployment has a replica whose data was on a node that was removed. As long as it waits, so does what shares
/// its node, and a rollout that would replace it (harsh seeds 208134, 208860).
fn waits_for_lost_data(state: &ClusterState, name: &DeploymentName) -> bool {
    let records = state.scheduling.iter().filter(|(key, _)| key.deployment == *name);
    let mut unplaced = records.flat_map(|(_, record)| &record.unplaced);
    unplaced.any(|one| names_lost_data(state, one))
}

fn names_lost_data(state: &ClusterState, one: &Unplaced) -> bool {
    let id = one.details.get("replica").and_then(|id| ReplicaId::parse(id).ok());
    let slot = id.and_then(|id| state.slots.get(&id));
    one.reason == "waiting_for_node" && slot.is_some_and(|slot| is_lost_with_its_node(state, slot))
}

/// Whether a replica waits with one whose data was on a node that was removed: it is of the same service, or cannot be beside it.
fn waits_with_lost_data(state: &ClusterState, slot: &Slot) -> bool {
    let unplaced = || state.scheduling.get(&slot.service).into_iter().flat_map(|it| &it.unplaced);
    let is_apart = |one: &Unplaced| {
        one.details.contains_key("not_beside")
            && one.details.get("replica").is_some_and(|id| id == slot.id.as_str())
    };
    unplaced().any(|one| names_lost_data(state, one))
        || unplaced().any(is_apart) && waits_for_lost_data(state, &slot.service.deployment)
}

/// Whether the data of a replica was on a node that was removed: only the user knows whether it may begin without.
fn is_lost_with_its_node(state: &ClusterState, slot: &Slot) -> bool {
    let spec = state.service_spec(&slot.service, slot.current.revision);
    let has_data = spec.is_some_and(|spec| spec.storage == Storage::Stateful);
    has_data && !state.nodes.contains(&slot.current.node)
}

/// Whether the user wants a replica to run, and not where its data is.
fn is_kept_by_data(state: &ClusterState, slot: &Slot) -> bool {
    let record = state.scheduling.get(&slot.service);
    let mut unplaced = record.into_iter().flat_map(|record| &record.unplaced);
    unplaced.any(|one| {
        let names_it = one.details.get("replica").is_some_and(|id| id == slot.id.as_str());
        let waits = match one.reason.as_str() {
            "data_stays_on_node" => true,
            "no_room_to_start" => is_kept_by_gpus(state, slot),
            "waiting_for_node" => is_lost_with_its_node(state, slot),
            _ => false,
        };
        waits && names_it
    })
}

/// Whether the GPUs of the node with the data of a replica are held by replicas that have data there too: one
/// that was disabled meanwhile waits until the user moves one of them (harsh seed 405742).
fn is_kept_by_gpus(state: &ClusterState, slot: &Slot) -> bool {
    let spec = |slot: &Slot| state.service_spec(&slot.service, slot.current.revision).cloned();
    let has_data = |spec: &ServiceSpec| spec.storage == Storage::Stateful;
    let there = state.slots.values().filter(|other| other.current.node == slot.current.node);
    let mut holders = there.filter_map(spec).filter(|spec| spec.gpus.is_some());
    let needs = spec(slot).is_some_and(|spec| has_data(&spec) && spec.gpus.is_some());
    needs && holders.all(|spec| has_data(&spec))
}

/// Whether the replica ran to its end: what is expected of it is over.
fn is_finished(slot: &Slot) -> bool {
    matches!(slot.desired_state, DesiredState::Finished(_))
}

fn leftovers(facts: &Facts) -> Vec<String> {
    let slots = || facts.state.slots.values();
    let wanted: BTreeSet<InstanceId> =
        slots().flat_map(Slot::kept_instances).map(|(id, _)| id).collect();
    let unwanted = facts.containers().filter(|seen| !wanted.contains(&seen.instance));
    let mut wrong: Vec<String> =
        unwanted.map(|seen| format!("{} is left of {}", seen.container, seen.instance)).collect();
    let mut live: BTreeMap<&ReplicaId, usize> = BTreeMap::new();
    for seen in facts.live() {
        *live.entry(&seen.instance.replica).or_default() += 1;
    }
    for slot in slots() {
        let id = &slot.id;
        let count = live.get(id).copied().unwrap_or_default();
        let wanted = match slot.desired_state {
            // It may serve where it is, or not.
            DesiredState::Active
                if is_kept_by_data(&facts.state, slot)
                    || waits_with_lost_data(&facts.state, slot) =>
            {
                count.min(1)
            }
            DesiredState::Active => 1,
            DesiredState::Disabled | DesiredState::Finished(_) => 0,
        };
        if count != wanted {
            wrong.push(format!("{id} has {count} live containers"));
        }
    }
    wrong
}
