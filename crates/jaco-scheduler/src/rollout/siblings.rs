//! A revision of a deployment is given up as a whole (R-ROLL-3): where the rollout of one service is
//! aborted, those of the others to the same revision go back too, also where they were completed.

use std::collections::BTreeMap;

use jaco_types::{DeploymentName, Rollout, RolloutState};

use crate::draft::{Draft, ServiceDraft, ServiceRole};

/// The reason of a service whose own replicas did not fail, before that of the one that did.
const SIBLING_ABORTED: &str = "sibling_aborted";

/// The services whose rollouts go back because that of another service of their deployment was aborted,
/// by their places, each with the reason. One that is paused stays: its file asks for that.
pub(crate) fn left_behind(draft: &Draft<'_>) -> Vec<(usize, String)> {
    let mut causes: BTreeMap<&DeploymentName, String> = BTreeMap::new();
    for service in draft.services() {
        if let Some(aborted) = rollout_to_wanted(service).filter(|it| is_given_up(it)) {
            let name = &service.key.service;
            let reason = || format!("{SIBLING_ABORTED}: {name}: {}", aborted.failure_reason);
            causes.entry(&service.key.deployment).or_insert_with(reason);
        }
    }
    if causes.is_empty() {
        return Vec::new();
    }
    let concerned = draft.services().iter().enumerate().filter_map(|(at, service)| {
        let reason = causes.get(&service.key.deployment)?;
        let state = rollout_to_wanted(service)?.state;
        let goes_back = matches!(state, RolloutState::InProgress | RolloutState::Completed)
            && !is_job_that_began(service);
        goes_back.then(|| (at, reason.clone()))
    });
    concerned.collect()
}

/// Whether a service is a job, and the wanted revision of it was started: that goes on to its end, because the
/// one before it ran already, and is not run again (R-JOB-1).
fn is_job_that_began(service: &ServiceDraft<'_>) -> bool {
    let wanted = service.deployment.revision;
    service.role == ServiceRole::Job
        && service.slots.iter().any(|slot| slot.current.revision == wanted)
}

/// The rollout of a service to the revision that users want, if there was something to do.
fn rollout_to_wanted<'s>(service: &'s ServiceDraft<'_>) -> Option<&'s Rollout> {
    let rollout = service.record.rollout.as_ref();
    rollout.filter(|one| one.target_revision == service.deployment.revision)
}

/// Whether a rollout was aborted that led to this revision; a later one, that put something right within
/// the same revision, says nothing about it.
fn is_given_up(rollout: &Rollout) -> bool {
    rollout.state == RolloutState::Aborted
        && rollout.previous_revision < rollout.target_revision
        && !rollout.failure_reason.starts_with(SIBLING_ABORTED)
}
