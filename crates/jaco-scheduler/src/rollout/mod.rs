//! Replacing the replicas of a service one after another (R-ROLL-1 to R-ROLL-4), and going back
//! when that fails.
//!
//! What people change of a service is a rollout: another spec, another number, other places. Its
//! steps are the replicas that are replaced, moved, made or removed. Those that are replaced or moved
//! go one after another; what is made replaces nobody, and is made at once; what is too much goes at
//! once. The rollout that takes too long with a step, or whose replica fails for good, ends for good.

mod goal;
mod judge;
mod progress;
mod step;

use std::collections::BTreeSet;

use jaco_types::{NodeId, ReplicaId, Rollout, RolloutState};

use self::goal::{is_news, serving_revision};
use self::judge::{judge_held, judge_preparing};
use self::progress::{Progress, is_step};
use self::step::{next_step_at, take_steps, way_of};
use crate::company::{InCompany, in_order, meet};
use crate::draft::{Draft, Live, Pass, Roll, ServiceDraft, SlotDraft};
use crate::eligibility::is_misplaced;
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
    if service.goal.roll == Roll::Frozen || is_quiet(service, pass) {
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
    if service.goal.roll == Roll::Back {
        keep_way_back(service, pass, &progress);
    }
    let step_at = next_step_at(service);
    if pass.input.now < step_at {
        if !progress.outdated.is_empty() {
            pass.wake(step_at);
        }
        return Freed::Nothing;
    }
    let freed = take_steps(service, pass, &progress);
    if freed == Freed::Nothing {
        judge_held(service, pass, &progress);
    }
    freed
}

/// Whether its first step waits for the nodes.
fn is_preparing(service: &ServiceDraft<'_>) -> bool {
    service.record.rollout.as_ref().is_some_and(|rollout| rollout.preparing.is_some())
}

/// Nothing is outdated or misplaced, people changed nothing and no rollout is under way: the case of
/// almost every service.
fn is_quiet(service: &ServiceDraft<'_>, pass: &Pass<'_>) -> bool {
    let goal = &service.goal;
    // What rests has its definition renewed without a step.
    let needs_step = |slot: &SlotDraft<'_>| {
        slot.is_active() && (slot.is_outdated(goal) || is_misplaced(slot, goal, &pass.nodes))
    };
    !is_under_way(service)
        && !is_going_back(service)
        && !is_news(service)
        && !service.slots.iter().any(needs_step)
}

fn is_under_way(service: &ServiceDraft<'_>) -> bool {
    let rollout = service.record.rollout.as_ref();
    rollout.is_some_and(|rollout| rollout.state == RolloutState::InProgress)
}

/// Whether an aborted rollout has not taken everything back yet.
fn is_going_back(service: &ServiceDraft<'_>) -> bool {
    service.record.rollout.as_ref().is_some_and(|rollout| rollout.going_back.is_some())
}

/// Writes down how far the way back is, before its next step.
fn keep_way_back<'a>(service: &mut ServiceDraft<'a>, pass: &Pass<'a>, progress: &Progress) {
    let is_renewed = service.slots.iter().any(|slot| renews_step(service, slot, pass));
    let Some(rollout) = &mut service.record.rollout else { return };
    let Some(back) = &mut rollout.going_back else { return };
    back.current_step = back.current_step.max(progress.done(back.total_steps));
    if is_renewed {
        rollout.last_step_at = pass.input.now;
    }
    if progress.is_through() {
        rollout.going_back = None;
    }
}

/// Writes down where the rollout stands, before its next step.
fn keep_record<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, progress: &mut Progress) {
    let target = service.deployment.revision;
    let rollout = service.record.rollout.as_ref();
    let is_current = rollout.is_some_and(|rollout| rollout.target_revision == target);
    if !(is_current && is_under_way(service)) && begin(service, pass, progress) == Begun::No {
        return;
    }
    let is_renewed = service.slots.iter().any(|slot| renews_step(service, slot, pass));
    let now = pass.input.now;
    let Some(rollout) = &mut service.record.rollout else { return };
    if is_renewed {
        rollout.last_step_at = now;
    }
    rollout.current_step = rollout.current_step.max(progress.done(rollout.total_steps));
    if !progress.is_through() {
        return;
    }
    rollout.current_step = rollout.total_steps;
    rollout.preparing = None;
    match progress.watched_until.filter(|until| now < *until) {
        Some(until) => pass.wake(until),
        None => rollout.state = RolloutState::Completed,
    }
}

/// Whether a rollout has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Yes,
    No,
}

/// Begins a rollout, where there is something to do: replicas of another spec or in other places, or
/// what people changed made some come or go. One that is overtaken ends as the beginning of the next.
fn begin<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    progress: &mut Progress,
) -> Begun {
    let was_left_behind = is_under_way(service) || is_going_back(service);
    let is_news = is_news(service);
    if progress.outdated.is_empty() && !was_left_behind && !is_news {
        return Begun::No;
    }
    let (target_revision, now) = (service.deployment.revision, pass.input.now);
    let previous_revision = serving_revision(service);
    let last = service.record.rollout.replace(Rollout {
        target_revision,
        previous_revision,
        total_steps: 0,
        current_step: 0,
        state: RolloutState::InProgress,
        failure_reason: String::new(),
        started_at: now,
        last_step_at: now,
        preparing: None,
        going_back: None,
        under_way: BTreeSet::new(),
    });
    let mut steps = Progress::of(service, pass).steps();
    if is_news {
        steps = steps.saturating_add(service.removed);
    }
    if steps == 0 && !was_left_behind {
        service.record.rollout = last;
        return Begun::No;
    }
    if let Some(rollout) = &mut service.record.rollout {
        rollout.total_steps = steps;
    }
    *progress = Progress::of(service, pass);
    let places = places(service, pass, progress);
    let preparing = prepare::begin(service, pass, places);
    if let Some(rollout) = &mut service.record.rollout {
        rollout.preparing = preparing;
    }
    Begun::Yes
}

/// The replicas whose steps have begun and are not over, as the pass leaves them.
pub(crate) fn under_way<'a>(
    service: &ServiceDraft<'a>,
    pass: &mut Pass<'a>,
) -> BTreeSet<ReplicaId> {
    let is_moving = is_under_way(service) || is_going_back(service);
    if !is_moving || is_preparing(service) || !pass.input.state.audit.tells_steps() {
        return BTreeSet::new();
    }
    let unproven = Progress::of(service, pass).unproven;
    unproven.into_iter().map(|at| service.slots[at].id.clone()).collect()
}

/// Whether a replica was made, started anew or moved since the record was written: it gets the whole
/// time of a step from now. One whose predecessor of before the rollout still serves has never been
/// proven, and its time runs on.
fn renews_step(service: &ServiceDraft<'_>, slot: &SlotDraft<'_>, pass: &Pass<'_>) -> bool {
    let is_first_attempt =
        slot.retiring.as_ref().is_some_and(|retiring| retiring.revision != slot.current.revision);
    let is_newer = slot.current.since.is_none_or(|since| since > service.record.modified);
    // What rests has its definition renewed without a step.
    slot.is_active() && is_newer && !is_first_attempt && is_step(service, slot, pass)
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
        Some((pass.nodes.row(node).id, there))
    };
    progress.outdated.iter().filter_map(place).collect()
}

/// Replicas that would be replaced if what they cannot do without were not being replaced itself.
pub(crate) fn held<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Vec<Waiting<'a>> {
    if service.company.is_empty() || service.goal.roll == Roll::Frozen || is_quiet(service, pass) {
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
    if service.goal.roll == Roll::Frozen || is_quiet(service, pass) {
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
