//! SIM-7: a slot is removed only if it is not wanted, or is left of a deployment that was deleted before the one
//! that has its name now.

use jaco_scheduler::attribute::{holds, is_built_in};
use jaco_state::{Change, ClusterState};
use jaco_types::spec::{Constraint, Placement, ServiceSpec};
use jaco_types::{Availability, Node, Ordinal, ReplicaId, RolloutState, ServiceKey, Slot};

use super::facts::{in_turn, is_lost, wanted_spec};
use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct WantedRemoved;

impl Invariant for WantedRemoved {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        let Some((_, changes)) = step.plan() else { return Ok(()) };
        in_turn(step.before, changes, |before, change| {
            if let Change::SlotRemove { id } = change {
                check(&facts.state, before, id)?;
            }
            Ok(())
        })
    }
}

fn check(after: &ClusterState, before: &ClusterState, id: &ReplicaId) -> Verdict {
    let Some(slot) = before.slots.get(id) else { return Ok(()) };
    let Some(spec) = wanted_spec(after, &slot.service) else { return Ok(()) };
    if is_of_former_deployment(before, slot) {
        // What it reserves and whether it has data is not known any more; another one is created.
        return Ok(());
    }
    if is_rolled_back(after, &slot.service) {
        // The revision before says what is wanted.
        return Ok(());
    }
    match (&slot.ordinal, &spec.placement) {
        (Ordinal::Host(_), Placement::Global) => check_global(after, slot, spec),
        (Ordinal::Index(_), Placement::Global) | (Ordinal::Host(_), _) => Ok(()),
        (Ordinal::Index(_), _) => {
            let is_index = |slot: &&Slot| matches!(slot.ordinal, Ordinal::Index(_));
            let of_service = |other: &&Slot| other.service == slot.service;
            let left = after.slots.values().filter(of_service).filter(is_index).count();
            let wanted = usize::try_from(spec.replicas).unwrap_or(usize::MAX);
            if left < wanted {
                let slot = id.clone();
                return Err(InvariantViolation::WantedRemoved { slot, left, wanted });
            }
            Ok(())
        }
    }
}

/// Whether the deployment of a slot was deleted before the one that has its name now was applied.
fn is_of_former_deployment(state: &ClusterState, slot: &Slot) -> bool {
    let spec = state.service_spec(&slot.service, slot.current.revision);
    spec.is_none_or(|spec| spec.hash != slot.current.spec_hash)
}

fn check_global(after: &ClusterState, slot: &Slot, spec: &ServiceSpec) -> Verdict {
    let lost = is_lost(after, slot.current.node);
    let node = after.nodes.get(&slot.current.node);
    let leaves = node
        .is_none_or(|node| node.availability == Availability::Draining || is_excluded(node, spec));
    if lost || leaves || is_deserted(after, slot, spec) {
        return Ok(());
    }
    Err(InvariantViolation::GlobalRemoved { slot: slot.id.clone() })
}

/// Whether a constraint on the labels of the node does not hold of it.
fn is_excluded(node: &Node, spec: &ServiceSpec) -> bool {
    let fails = |rule: &Constraint| !is_built_in(&rule.attribute) && !holds(node, rule);
    spec.scheduling.constraints.iter().any(fails)
}

fn is_rolled_back(state: &ClusterState, service: &ServiceKey) -> bool {
    state.scheduling.get(service).is_some_and(|record| {
        let rollout = record.rollout.as_ref();
        rollout.is_some_and(|rollout| {
            matches!(rollout.state, RolloutState::Aborted | RolloutState::RollbackPaused)
        })
    })
}

/// Whether nothing is left on its node of a service whose namespaces the replica shares.
fn is_deserted(state: &ClusterState, slot: &Slot, spec: &ServiceSpec) -> bool {
    spec.scheduling.shares_namespaces_with.iter().any(|other| {
        let mut others = state.slots.values().filter(|known| {
            known.service.deployment == slot.service.deployment && known.service.service == *other
        });
        !others.any(|known| known.instances().any(|(_, one)| one.node == slot.current.node))
    })
}
