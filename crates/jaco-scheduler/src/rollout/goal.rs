//! What a service's replicas should become, and what they go back to.

use jaco_state::view::{asks_differently, goes_back_to};
use jaco_types::{Revision, RolloutState};

use crate::draft::{Goal, InstanceDraft, Roll, ServiceDraft};

/// Sets what the service's replicas should become: the wanted revision, or the one before it where
/// the rollout to it was aborted.
pub(crate) fn set_goal(service: &mut ServiceDraft<'_>) {
    let target = service.deployment.revision;
    let rollout = service.record.rollout.as_ref();
    let goal = match rollout.filter(|one| one.target_revision == target).map(|one| one.state) {
        Some(RolloutState::Aborted) => goal_after_abort(service),
        Some(RolloutState::Paused) => Goal { roll: Roll::Paused, ..service.goal() },
        Some(RolloutState::RollbackPaused) => {
            Goal { roll: Roll::Paused, ..goal_after_abort(service) }
        }
        Some(RolloutState::InProgress | RolloutState::Completed) | None => return,
    };
    service.set_goal(goal);
}

pub(super) fn goal_after_abort<'a>(service: &ServiceDraft<'a>) -> Goal<'a> {
    let wanted = Goal { roll: Roll::Paused, ..service.goal() };
    let rollout = service.record.rollout.as_ref();
    let revision = goes_back_to(service.deployment, &service.key.service, rollout);
    let Some(revision) = revision else { return wanted };
    match service.spec_at(revision) {
        Some(spec) => Goal { revision, spec, roll: Roll::Back },
        None => wanted,
    }
}

/// Whether the wanted revision is new to the planner and asks for something else of the service than
/// the one before, which it knew too: what follows from that is a rollout. A first deployment is none.
pub(super) fn is_news(service: &ServiceDraft<'_>) -> bool {
    let planned = service.record.planned_revision;
    if planned == service.deployment.revision {
        return false;
    }
    // What was given up was never reached: the same again is a new attempt.
    let last = service.record.rollout.as_ref().filter(|last| last.target_revision == planned);
    let reached = last.map_or(planned, |last| match last.state {
        RolloutState::Completed | RolloutState::InProgress => planned,
        RolloutState::Aborted | RolloutState::Paused | RolloutState::RollbackPaused => {
            last.previous_revision
        }
    });
    let before = service.spec_at(reached).or_else(|| service.spec_at(planned));
    before.is_some_and(|before| asks_differently(before, service.goal().spec))
}

/// What the replicas served before a rollout: the revision that the last one led to or went back
/// to, or a later one that left nothing to do; else the newest that a running replica runs, else the
/// newest that one was made from.
pub(super) fn serving_revision(service: &ServiceDraft<'_>) -> Revision {
    let target = service.deployment.revision;
    let planned = service.record.planned_revision;
    let of_last = service.record.rollout.as_ref().map(|last| match last.state {
        RolloutState::Completed if last.target_revision < planned && planned < target => planned,
        RolloutState::Completed => last.target_revision,
        RolloutState::Aborted
        | RolloutState::InProgress
        | RolloutState::Paused
        | RolloutState::RollbackPaused => last.previous_revision,
    });
    let of_last = of_last.or((planned < target).then_some(planned));
    // Replicas that a revision left as they were run an older one with the same content.
    let serves = |wanted: &Revision| {
        let mut live = service.slots.iter().flat_map(|slot| slot.instances());
        service
            .spec_at(*wanted)
            .is_some_and(|spec| service.slots.is_empty() || live.any(|live| live.hash == spec.hash))
    };
    let newest = |is_eligible: fn(&&InstanceDraft<'_>) -> bool| {
        let live = service.slots.iter().flat_map(|slot| slot.instances()).filter(is_eligible);
        live.map(|live| live.revision).filter(|revision| *revision < target).max()
    };
    of_last
        .filter(serves)
        .or_else(|| newest(|live| live.is_running()))
        .or_else(|| newest(|_| true))
        .unwrap_or_default()
}
