//! Whether what a service depends on is there (R-ROLL-7).

use std::collections::BTreeMap;

use jaco_types::ReplicaState;
use jaco_types::spec::{Condition, Required};

use crate::draft::{ServiceDraft, SlotDraft};

/// What `services[at]` still waits for before its first replica, by the name of the service waited
/// for; `None` when nothing is in the way. A service that has replicas is past this gate.
pub(crate) fn unmet(services: &[ServiceDraft<'_>], at: usize) -> Option<BTreeMap<String, String>> {
    let service = &services[at];
    if !service.slots.is_empty() || service.goal.spec.depends_on.is_empty() {
        return None;
    }
    let mut unmet = BTreeMap::new();
    for dependency in &service.goal.spec.depends_on {
        let wanted = (&service.key.deployment, &dependency.service);
        let other = services
            .binary_search_by(|other| (&other.key.deployment, &other.key.service).cmp(&wanted));
        let is_met = match other {
            Ok(other) => has_reached(&services[other].slots, dependency.condition),
            Err(_) => dependency.required == Required::No,
        };
        if !is_met {
            let condition = match dependency.condition {
                Condition::Started => "service_started",
                Condition::Healthy => "service_healthy",
                Condition::CompletedSuccessfully => "service_completed_successfully",
            };
            unmet.insert(dependency.service.to_string(), condition.to_owned());
        }
    }
    (!unmet.is_empty()).then_some(unmet)
}

fn has_reached(slots: &[SlotDraft<'_>], condition: Condition) -> bool {
    match condition {
        Condition::Started => slots.iter().any(has_started),
        Condition::Healthy => slots.iter().any(|slot| slot.current.is_running()),
        Condition::CompletedSuccessfully => {
            !slots.is_empty() && slots.iter().all(|slot| slot.current.is_done())
        }
    }
}

fn has_started(slot: &SlotDraft<'_>) -> bool {
    match slot.current.state() {
        Some(ReplicaState::Starting | ReplicaState::Running | ReplicaState::Degraded) => true,
        Some(ReplicaState::Stopped) => slot.current.is_done(),
        Some(ReplicaState::Pending | ReplicaState::Pulling | ReplicaState::Failed) | None => false,
    }
}
