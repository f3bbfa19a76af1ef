//! What a service's replicas should become, and what they go back to.

use jaco_types::{Revision, RolloutState};

use crate::draft::{Goal, Live, Roll, ServiceDraft};

/// Sets what the service's replicas should become: the wanted revision, or the one before it where
/// the rollout to it was aborted.
pub(crate) fn set_goal(service: &mut ServiceDraft<'_>) {
    let target = service.deployment.revision;
    let rollout = service.record.rollout.as_ref();
    match rollout.filter(|one| one.target_revision == target).map(|one| one.state) {
        Some(RolloutState::Aborted) => service.goal = goal_after_abort(service),
        Some(RolloutState::Paused) => service.goal.roll = Roll::Frozen,
        Some(RolloutState::InProgress | RolloutState::Completed) | None => {}
    }
}

pub(super) fn goal_after_abort<'a>(service: &ServiceDraft<'a>) -> Goal<'a> {
    let wanted = Goal { roll: Roll::Frozen, ..service.goal };
    let Some(revision) = previous_good(service) else { return wanted };
    match service.spec_at(revision) {
        Some(spec) => Goal { revision, spec, roll: Roll::Back },
        None => wanted,
    }
}

/// The revision that the rollout led away from; where replicas had none in common, the newest before
/// the wanted one that is kept. Either with another spec of this service.
fn previous_good(service: &ServiceDraft<'_>) -> Option<Revision> {
    let target = service.deployment.revision;
    let unwanted = service.spec_at(target).map(|spec| spec.hash);
    let is_other = |revision: &Revision| {
        service.spec_at(*revision).is_some_and(|spec| Some(spec.hash) != unwanted)
    };
    let noted = service.record.rollout.as_ref().map(|rollout| rollout.previous_revision);
    let kept = || service.deployment.revisions.range(..target).map(|(revision, _)| *revision);
    noted.filter(is_other).or_else(|| kept().rev().find(is_other))
}

/// What the replicas served before a rollout: the revision that the last one led to or went back
/// to, else the newest that a running replica runs, else the newest that one was made from.
pub(super) fn serving_revision(service: &ServiceDraft<'_>) -> Revision {
    let target = service.deployment.revision;
    let of_last = service.record.rollout.as_ref().map(|rollout| match rollout.state {
        RolloutState::Completed => rollout.target_revision,
        RolloutState::Aborted | RolloutState::InProgress | RolloutState::Paused => {
            rollout.previous_revision
        }
    });
    let runs = |wanted: Revision| {
        let slots = service.slots.iter();
        slots.flat_map(|slot| slot.live()).any(|live| live.revision == wanted)
    };
    let newest = |is_eligible: fn(&&Live<'_>) -> bool| {
        let live = service.slots.iter().flat_map(|slot| slot.live()).filter(is_eligible);
        live.map(|live| live.revision).filter(|revision| *revision < target).max()
    };
    of_last
        .filter(|revision| runs(*revision))
        .or_else(|| newest(|live| live.is_running()))
        .or_else(|| newest(|_| true))
        .unwrap_or_default()
}
