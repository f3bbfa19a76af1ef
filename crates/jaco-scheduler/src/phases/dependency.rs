//! Whether what a service depends on is there (R-ROLL-7).

use std::collections::BTreeMap;

use jaco_types::ReplicaState;
use jaco_types::spec::{DependencyCondition, DependencyRequirement};

use crate::draft::{Draft, SlotDraft};

/// What a service still waits for before its first replica, by the name of the service waited for;
/// `None` when nothing is in the way. A service that has replicas is past this gate.
pub(crate) fn unmet(draft: &Draft<'_>, at: usize) -> Option<BTreeMap<String, String>> {
    let service = &draft.services()[at];
    let spec = service.goal().spec;
    if !service.slots.is_empty() || spec.depends_on.is_empty() {
        return None;
    }
    let mut unmet = BTreeMap::new();
    for dependency in &spec.depends_on {
        let is_met = match draft.sibling(at, &dependency.service) {
            Some(other) => has_reached(&other.slots, dependency.condition),
            None => dependency.required == DependencyRequirement::Optional,
        };
        if !is_met {
            let condition = match dependency.condition {
                DependencyCondition::Started => "service_started",
                DependencyCondition::Healthy => "service_healthy",
                DependencyCondition::CompletedSuccessfully => "service_completed_successfully",
            };
            unmet.insert(dependency.service.to_string(), condition.to_owned());
        }
    }
    (!unmet.is_empty()).then_some(unmet)
}

fn has_reached(slots: &[SlotDraft<'_>], condition: DependencyCondition) -> bool {
    match condition {
        DependencyCondition::Started => slots.iter().any(has_started),
        DependencyCondition::Healthy => slots.iter().any(|slot| slot.current.is_running()),
        DependencyCondition::CompletedSuccessfully => {
            !slots.is_empty() && slots.iter().all(|slot| slot.current.is_completed())
        }
    }
}

fn has_started(slot: &SlotDraft<'_>) -> bool {
    match slot.current.state() {
        Some(ReplicaState::Starting | ReplicaState::Running | ReplicaState::Degraded) => true,
        Some(ReplicaState::Stopped) => slot.current.is_completed(),
        Some(ReplicaState::Pending | ReplicaState::Pulling | ReplicaState::Failed) | None => false,
    }
}
