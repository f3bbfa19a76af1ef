//! Replacing the replicas of a service one after another (R-ROLL-1 to R-ROLL-4), and going back
//! when that fails.
//!
//! A step puts a successor in. It is over when no replica of the goal is unproven. The step that
//! takes too long, or whose replica fails for good, ends the rollout for good.

mod goal;
mod judge;
mod progress;
mod step;

use jaco_types::{NodeId, ReplicaId, Rollout, RolloutState};

use self::goal::serving_revision;
use self::judge::judge_preparing;
use self::progress::Progress;
use self::step::{next_step_at, take_steps, way_of};
use crate::company::{InCompany, in_order, meet};
use crate::draft::{Draft, Live, Pass, Roll, ServiceDraft, SlotDraft};
use crate::prepare;
use crate::waiting::Waiting;

pub(crate) use self::goal::set_goal;
pub(crate) use self::judge::{Judgement, judge};

/// Whether steps may have given room back that others wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Some room.
    Something,
    /// None.
    Nothing,
}

/// Starts rollouts, their next steps, and ends those that are through.
pub(crate) fn advance(draft: &mut Draft<'_>) -> Freed {
    let mut freed = Freed::Nothing;
    for at in in_order(&draft.services) {
        meet(&mut draft.services, at);
        if advance_service(&mut draft.services[at], &mut draft.pass) == Freed::Something {
            freed = Freed::Something;
        }
    }
    freed
}

fn advance_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Freed {
    if service.goal.roll == Roll::Frozen || is_quiet(service) {
        return Freed::Nothing;
    }
    let mut progress = Progress::of(service, pass);
    if service.goal.roll == Roll::Forward {
        let was_preparing = is_preparing(service);
        keep_record(service, pass, &mut progress);
        if is_preparing(service) && !was_preparing {
            // A node may have given up on the same image a moment ago.
            judge_preparing(service, pass);
        }
        if service.goal.roll != Roll::Forward || is_preparing(service) {
            return Freed::Nothing;
        }
    }
    let step_at = next_step_at(service);
    if pass.input.now < step_at {
        if !progress.outdated.is_empty() {
            pass.wake(step_at);
        }
        return Freed::Nothing;
    }
    take_steps(service, pass, &progress)
}

/// Whether its first step waits for the nodes.
fn is_preparing(service: &ServiceDraft<'_>) -> bool {
    service.record.rollout.as_ref().is_some_and(|rollout| rollout.preparing.is_some())
}

/// Nothing is outdated and no rollout is under way: the case of almost every service.
fn is_quiet(service: &ServiceDraft<'_>) -> bool {
    let under_way = service
        .record
        .rollout
        .as_ref()
        .is_some_and(|rollout| rollout.state == RolloutState::InProgress);
    let is_outdated = |slot: &SlotDraft<'_>| slot.is_active() && slot.is_outdated(&service.goal);
    !under_way && !service.slots.iter().any(is_outdated)
}

/// Writes down where the rollout stands, before its next step.
fn keep_record<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, progress: &mut Progress) {
    let target = service.deployment.revision;
    let now = pass.input.now;
    let is_current = service.record.rollout.as_ref().is_some_and(|rollout| {
        rollout.target_revision == target && rollout.state == RolloutState::InProgress
    });
    if !is_current {
        let was_left_behind = service
            .record
            .rollout
            .as_ref()
            .is_some_and(|rollout| rollout.state == RolloutState::InProgress);
        if progress.outdated.is_empty() && !was_left_behind {
            return;
        }
        progress.total = progress.outdated_anywhere;
        let previous_revision = serving_revision(service);
        service.record.rollout = Some(Rollout {
            target_revision: target,
            previous_revision,
            total_steps: progress.total,
            current_step: 0,
            state: RolloutState::InProgress,
            failure_reason: String::new(),
            started_at: now,
            last_step_at: now,
            preparing: None,
        });
        let preparing = prepare::begin(service, pass, places(service, pass, progress));
        if let Some(rollout) = &mut service.record.rollout {
            rollout.preparing = preparing;
        }
    }
    let Some(rollout) = &mut service.record.rollout else { return };
    rollout.current_step = rollout.current_step.max(progress.done().min(rollout.total_steps));
    if progress.outdated.is_empty() && progress.in_flight == 0 {
        rollout.current_step = rollout.total_steps;
        rollout.state = RolloutState::Completed;
        rollout.preparing = None;
    }
}

/// Where the successors go, each with what runs there now.
fn places<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    progress: &Progress,
) -> Vec<(NodeId, Option<Live<'a>>)> {
    let place = |at: &usize| {
        let slot = &service.slots[*at];
        let (node, _) = way_of(service, pass, *at)?;
        let there = (slot.current.at == Some(node)).then_some(slot.current);
        Some((pass.nodes.row(node).node.id, there))
    };
    progress.outdated.iter().filter_map(place).collect()
}

/// Replicas that would be replaced if what they cannot do without were not being replaced itself.
pub(crate) fn held<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Vec<Waiting<'a>> {
    if service.company.is_empty() || service.goal.roll == Roll::Frozen || is_quiet(service) {
        return Vec::new();
    }
    let outdated = Progress::of(service, pass).outdated;
    let held = outdated.into_iter().map(|at| &service.slots[at]);
    let held = held.filter(|slot| slot.company == InCompany::Soon);
    let beside = companions(service);
    held.map(|slot| Waiting::ForCompany { replica: slot.id.clone(), beside: beside.clone() })
        .collect()
}

/// What replicas of a service cannot do without, for people.
pub(crate) fn companions(service: &ServiceDraft<'_>) -> String {
    let beside = service.goal.spec.scheduling.beside.iter();
    beside.map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Replicas that could be replaced and have nowhere to be, where nothing else of the service is
/// under way that could make room.
pub(crate) fn stuck<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Vec<ReplicaId> {
    if service.goal.roll == Roll::Frozen || is_quiet(service) {
        return Vec::new();
    }
    let progress = Progress::of(service, pass);
    if progress.in_flight > 0 {
        return Vec::new();
    }
    let mut stuck = progress.outdated;
    stuck.retain(|at| {
        service.slots[*at].company != InCompany::Soon && way_of(service, pass, *at).is_none()
    });
    stuck.into_iter().map(|at| service.slots[at].id.clone()).collect()
}
