//! Whether what a service depends on is there: before its first replica, and before the first step of a
//! rollout that changes what it depends on too (R-ROLL-7).
//!
//! Nothing waits for ever: a rollout that is waited for ends (PL-19), one that is paused pauses those
//! that wait for it, and what never gets up after it has a time.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::slot::Exhausted;
use jaco_types::spec::{Dependency, DependencyCondition, DependencyRequirement};
use jaco_types::{
    Completion, DesiredState, ReplicaState, Rollout, RolloutState, ServiceName, Timestamp,
};

use super::goal::{is_news, serving_revision};
use crate::draft::{Draft, Roll, ServiceDraft, ServiceRole, SlotDraft};

/// What the next step of a rollout has before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Another service is not ready; at this moment it is given up, if there is one.
    Waits(Option<Timestamp>),
    /// Another service will not be ready, for this reason.
    Shut(String),
}

/// What a service still waits for before its first replica, or before the first step to another spec, by
/// the name of the service waited for; `None` when nothing is in the way. Of a job that runs,
/// `SERVICE/since_ms` says since when: nothing but its end ends the wait, and it may not come. Of what has failed for good
/// `SERVICE/failed` says that.
pub(crate) fn unmet(draft: &Draft<'_>, at: usize) -> Option<BTreeMap<String, String>> {
    let mut unmet = BTreeMap::new();
    for dependency in unmet_dependencies(draft, at) {
        let (name, condition) = (&dependency.service, dependency.condition);
        unmet.insert(name.to_string(), condition_name(condition).to_owned());
        let job = draft.sibling(at, name);
        let job = job.filter(|_| condition == DependencyCondition::CompletedSuccessfully);
        if let Some(since) = job.and_then(running_since) {
            unmet.insert(format!("{name}/since_ms"), since.0.to_string());
        }
        if draft.sibling(at, name).is_some_and(has_failed) {
            unmet.insert(format!("{name}/failed"), "yes".to_owned());
        }
    }
    (!unmet.is_empty()).then_some(unmet)
}

/// Since when a replica of this service has been running, of those that have not completed.
fn running_since(job: &ServiceDraft<'_>) -> Option<Timestamp> {
    let running = job.slots.iter().filter(|slot| slot.is_active() && slot.current.is_running());
    let observed = running.filter_map(|slot| slot.current.observed);
    observed.map(|observed| observed.started_at.unwrap_or(observed.since)).min()
}

/// Whether a replica of what is wanted has failed for good: it is not tried again before the next apply.
fn has_failed(other: &ServiceDraft<'_>) -> bool {
    let goal = other.goal();
    other.slots.iter().filter(|slot| !slot.is_outdated(&goal)).any(|slot| {
        slot.desired_state == DesiredState::Finished(Completion::Failed)
            || slot.restarts.exhausted == Exhausted::Yes
    })
}

/// The services that wait for others, and what that means for their next steps.
pub(crate) fn waiting(draft: &Draft<'_>) -> BTreeMap<usize, Gate> {
    let all = 0..draft.services().len();
    let waiting = all.filter(|at| unmet_dependencies(draft, *at).next().is_some());
    waiting.map(|at| (at, gate(draft, at))).collect()
}

/// How many replicas of a service that waits would be replaced.
pub(crate) fn held_replicas(service: &ServiceDraft<'_>) -> u32 {
    let held = service.slots.iter().filter(|slot| is_outdated(service, slot)).count();
    u32::try_from(held).unwrap_or(u32::MAX)
}

/// Whether a service may take the first step of its rollout.
pub(super) fn gate(draft: &Draft<'_>, at: usize) -> Gate {
    let mut gate = Gate::Open;
    for dependency in unmet_dependencies(draft, at) {
        let Some(other) = draft.sibling(at, &dependency.service) else { continue };
        match gate_of(draft, &draft.services()[at], other, dependency) {
            Gate::Shut(reason) => return Gate::Shut(reason),
            Gate::Waits(until) => {
                let known = if let Gate::Waits(known) = gate { known } else { None };
                gate = Gate::Waits(known.into_iter().chain(until).min());
            }
            Gate::Open => {}
        }
    }
    gate
}

/// What becomes of a service that waits for this one.
fn gate_of(
    draft: &Draft<'_>,
    service: &ServiceDraft<'_>,
    other: &ServiceDraft<'_>,
    dependency: &Dependency,
) -> Gate {
    let (name, condition) = (&dependency.service, condition_name(dependency.condition));
    if let Some(paused) = rollout_to_wanted(other).filter(|one| is_paused(one)) {
        return Gate::Shut(format!("dependency_paused: {name}: {}", paused.failure_reason));
    }
    let is_exhausted = |slot: &SlotDraft<'_>| slot.restarts.exhausted == Exhausted::Yes;
    let is_at_work =
        |slot: &SlotDraft<'_>| has_started(slot, other.role) && !slot.has_completed(other.role);
    let awaits_end = dependency.condition == DependencyCondition::CompletedSuccessfully;
    if is_rolling_out(other) || other.slots.is_empty() {
        return Gate::Waits(None);
    }
    if other.slots.iter().any(is_exhausted) {
        let reason = "its restarts are exhausted";
        return Gate::Shut(format!("dependency_failed: {name} is not {condition}: {reason}"));
    }
    if awaits_end && other.slots.iter().any(is_at_work) {
        return Gate::Waits(None);
    }
    let last_steps = [service, other].into_iter().filter_map(rollout_to_wanted);
    let Some(since) = last_steps.map(|rollout| rollout.last_step_at).max() else {
        return Gate::Waits(None);
    };
    let limits = [other, service].map(|it| it.goal().spec.update.step_timeout);
    let due = limits.into_iter().fold(since, Timestamp::after);
    match draft.pass.input.now < due {
        true => Gate::Waits(Some(due)),
        false => Gate::Shut(format!("dependency_timeout: {name} is not {condition} in time")),
    }
}

fn unmet_dependencies<'d>(draft: &'d Draft<'_>, at: usize) -> impl Iterator<Item = &'d Dependency> {
    let service = &draft.services()[at];
    let dependencies = match service.goal().spec.depends_on.as_slice() {
        [] => &[],
        all if is_before_first_step(service) => all,
        _ => &[],
    };
    dependencies.iter().filter(move |dependency| !is_met(draft, at, dependency))
}

/// Whether nothing of a service runs what its goal says. A service that runs it is past this gate.
fn is_before_first_step(service: &ServiceDraft<'_>) -> bool {
    let goal = service.goal();
    let is_first = |slot: &SlotDraft<'_>| {
        slot.desired_state != DesiredState::Disabled && slot.current.revision == goal.revision
    };
    service.slots.is_empty()
        || goal.roll == Roll::Forward
            && service.slots.iter().any(|slot| is_outdated(service, slot))
            && !service.slots.iter().any(is_first)
}

fn is_outdated(service: &ServiceDraft<'_>, slot: &SlotDraft<'_>) -> bool {
    slot.desired_state != DesiredState::Disabled && slot.is_outdated(&service.goal())
}

/// Whether a dependency is in nobody's way. What was there before the rollout is none of its business,
/// and services that wait for each other do not.
fn is_met(draft: &Draft<'_>, at: usize, dependency: &Dependency) -> bool {
    let service = &draft.services()[at];
    let Some(other) = draft.sibling(at, &dependency.service) else {
        let is_first = service.slots.is_empty();
        return !is_first || dependency.required == DependencyRequirement::Optional;
    };
    if !service.slots.is_empty() && !comes_with(service, other) {
        return true;
    }
    let is_over = !is_rolling_out(other) && !rollout_to_wanted(other).is_some_and(is_paused);
    is_over && has_reached(other, dependency.condition)
        || !service.slots.is_empty() && depends_on(draft, at, &dependency.service)
}

/// Whether a service is rolled to the same revision, or was added by it.
fn comes_with(service: &ServiceDraft<'_>, other: &ServiceDraft<'_>) -> bool {
    let rollout = rollout_to_wanted(service);
    let before = rollout.map_or_else(|| serving_revision(service), |it| it.previous_revision);
    let before = service.deployment.revisions.get(&before);
    let is_added =
        before.is_some_and(|before| !before.spec.services.contains_key(&other.key.service));
    is_added || rollout_to_wanted(other).is_some() || is_about_to_roll(other)
}

/// Whether the rollout of a service to the wanted revision goes on, or begins in this pass.
fn is_rolling_out(other: &ServiceDraft<'_>) -> bool {
    let rollout = rollout_to_wanted(other);
    let goes_on = rollout.is_some_and(|rollout| rollout.state == RolloutState::InProgress);
    goes_on || is_about_to_roll(other)
}

/// Whether a rollout may begin that was not looked at in this pass.
fn is_about_to_roll(other: &ServiceDraft<'_>) -> bool {
    let has_outdated = || other.slots.iter().any(|slot| is_outdated(other, slot));
    !other.is_rollout_judged
        && other.goal().roll == Roll::Forward
        && rollout_to_wanted(other).is_none()
        && (is_news(other) || has_outdated())
}

/// Whether the service of this name depends on `services[at]`, itself or through others: a circle, which
/// compose files cannot have.
fn depends_on(draft: &Draft<'_>, at: usize, name: &ServiceName) -> bool {
    let own = &draft.services()[at].key.service;
    let (mut open, mut seen) = (vec![name], BTreeSet::new());
    while let Some(name) = open.pop() {
        if name == own {
            return true;
        }
        if seen.insert(name) {
            let next = draft.sibling(at, name).map(|other| &other.goal().spec.depends_on);
            open.extend(next.into_iter().flatten().map(|dependency| &dependency.service));
        }
    }
    false
}

fn rollout_to_wanted<'s>(service: &'s ServiceDraft<'_>) -> Option<&'s Rollout> {
    let rollout = service.record.rollout.as_ref();
    rollout.filter(|one| one.target_revision == service.deployment.revision)
}

fn is_paused(rollout: &Rollout) -> bool {
    matches!(rollout.state, RolloutState::Paused | RolloutState::RollbackPaused)
}

fn condition_name(condition: DependencyCondition) -> &'static str {
    match condition {
        DependencyCondition::Started => "service_started",
        DependencyCondition::Healthy => "service_healthy",
        DependencyCondition::CompletedSuccessfully => "service_completed_successfully",
    }
}

/// Whether the replicas that run what their goal says meet a condition.
fn has_reached(other: &ServiceDraft<'_>, condition: DependencyCondition) -> bool {
    let goal = other.goal();
    let mut current = other.slots.iter().filter(|slot| !slot.is_outdated(&goal));
    match condition {
        DependencyCondition::Started => current.any(|slot| has_started(slot, other.role)),
        DependencyCondition::Healthy => {
            // What has completed serves nobody, whatever its node still reports of it.
            current.any(|slot| slot.is_active() && slot.current.is_running())
        }
        DependencyCondition::CompletedSuccessfully => {
            let is_done = |slot: &SlotDraft<'_>| {
                !slot.is_outdated(&goal) && slot.has_completed(ServiceRole::Job)
            };
            !other.slots.is_empty() && other.slots.iter().all(is_done)
        }
    }
}

fn has_started(slot: &SlotDraft<'_>, role: ServiceRole) -> bool {
    match slot.current.state() {
        Some(ReplicaState::Starting | ReplicaState::Running | ReplicaState::Degraded) => true,
        Some(
            ReplicaState::Pending
            | ReplicaState::Pulling
            | ReplicaState::Failed
            | ReplicaState::Stopped
            | ReplicaState::Completed,
        )
        | None => slot.has_completed(role),
    }
}
