//! Replacing the replicas of a service one after another (R-ROLL-1 to R-ROLL-4), and going back
//! when that fails.
//!
//! A change of a service is a rollout: another spec, another number, other places. Its
//! steps are the replicas that are replaced, moved, made or removed. Those that are replaced or moved
//! go one after another; what is new replaces nothing, and is created at once; surplus is removed at
//! once. The rollout that takes too long with a step, or whose replica fails for good, ends for good.

use std::collections::BTreeSet;

use jaco_types::{NodeId, Rollout, RolloutState};

use super::better_node::OnNodes;
use super::dependency::{self, Gate};
use super::failures::{judge_held, judge_prepull, pause};
use super::goal::{is_news, serving_revision};
use super::progress::{
    Progress, is_prepulling, is_rolling, is_rolling_back, is_step_renewed, needs_steps,
};
use super::step::{Taken, has_target, next_step_at, take_steps, target_of};
use super::{joining, prepull};
use crate::draft::{Draft, InstanceDraft, Pass, Roll, ServiceDraft};
use crate::verdict::{ServiceFacts, Verdict, Wait, agenda};

/// Starts rollouts, takes their next steps, and ends those that are through.
pub(crate) fn advance(draft: &mut Draft<'_>) {
    for at in draft.order().iter() {
        let gate = dependency::gate(draft, *at);
        let (service, pass) = draft.open(*at);
        agenda(service, pass);
        advance_service(service, pass, gate);
        service.is_rollout_judged = true;
    }
}

fn advance_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, gate: Gate) {
    if service.goal().roll == Roll::Paused || is_quiet(service) {
        return;
    }
    let mut progress = Progress::of(service, pass);
    if service.goal().roll == Roll::Forward {
        let was_prepulling = is_prepulling(service);
        keep_record(service, pass, &mut progress);
        if is_prepulling(service) && !was_prepulling {
            // A node may have given up on the same image a moment ago.
            judge_prepull(service, pass);
        }
        if service.goal().roll != Roll::Forward || is_prepulling(service) {
            return;
        }
        let joins = joining::until(pass.input.state, &service.key.deployment, pass.input.now);
        match joins.map_or(gate, |until| Gate::Waits(Some(until))) {
            Gate::Open => {}
            Gate::Waits(until) => {
                return until.into_iter().for_each(|until| pass.wake(until));
            }
            Gate::Shut(reason) if is_rolling(service) => return pause(service, reason),
            Gate::Shut(_) => return,
        }
    }
    if service.goal().roll == Roll::Back {
        keep_rollback(service, pass, &progress);
    }
    let step_at = next_step_at(service, &progress);
    if pass.input.now < step_at {
        if !progress.outdated.is_empty() {
            pass.wake(step_at);
        }
        return;
    }
    if take_steps(service, pass, &progress) == Taken::None {
        judge_held(service, pass, &progress);
    }
}

/// Nothing is outdated or misplaced, users changed nothing and no rollout is in progress: the case of
/// almost every service.
fn is_quiet(service: &ServiceDraft<'_>) -> bool {
    !is_rolling(service) && !is_rolling_back(service) && !needs_steps(service) && !is_news(service)
}

/// Writes down how far the rollback is, before its next step.
fn keep_rollback<'a>(service: &mut ServiceDraft<'a>, pass: &Pass<'a>, progress: &Progress) {
    let is_renewed = is_step_renewed(service, pass);
    let Some(rollout) = &mut service.record.rollout else { return };
    let Some(back) = &mut rollout.rollback_progress else { return };
    back.current_step = back.current_step.max(progress.done(back.total_steps));
    if is_renewed {
        rollout.last_step_at = pass.input.now;
    }
    if progress.is_through() {
        rollout.rollback_progress = None;
    }
}

/// Writes down where the rollout stands, before its next step.
fn keep_record<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, progress: &mut Progress) {
    let target = service.deployment.revision;
    let rollout = service.record.rollout.as_ref();
    let is_current = rollout.is_some_and(|rollout| rollout.target_revision == target);
    if !(is_current && is_rolling(service)) && begin(service, pass, progress) == Begun::No {
        return;
    }
    let is_renewed = is_step_renewed(service, pass);
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
    rollout.prepull = None;
    rollout.state = RolloutState::Completed;
}

/// Whether a rollout has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Yes,
    No,
}

/// Begins a rollout, where there is something to do: replicas of another spec or in other places, or
/// a change of the service made some come or go. One that is overtaken ends as the next begins.
fn begin<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    progress: &mut Progress,
) -> Begun {
    let was_left_behind = is_rolling(service) || is_rolling_back(service);
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
        prepull: None,
        rollback_progress: None,
        in_flight: BTreeSet::new(),
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
    let preparing = prepull::begin(service, pass, places);
    if let Some(rollout) = &mut service.record.rollout {
        rollout.prepull = preparing;
    }
    Begun::Yes
}

/// Where the successors go, each with what runs there now.
fn places<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    progress: &Progress,
) -> Vec<(NodeId, Option<InstanceDraft<'a>>)> {
    let facts = ServiceFacts::read(service, pass);
    let mut on_nodes = OnNodes::of(service);
    let mut places = Vec::new();
    for at in &progress.outdated {
        let target = target_of(service, &facts, pass, *at, &on_nodes);
        let Some((node, _)) = target else { continue };
        // Where one goes decides where the next one does.
        on_nodes.set(*at, node);
        let slot = &service.slots[*at];
        let there = (slot.current.at == Some(node)).then_some(slot.current);
        places.push((pass.nodes.row(node).id, there));
    }
    places
}

/// Replicas that could be replaced and have nowhere to be, as places in the list of slots; none as long
/// as something else of the service is in flight that could make room.
pub(crate) fn stuck<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Vec<usize> {
    if service.goal().roll == Roll::Paused || is_quiet(service) {
        return Vec::new();
    }
    let progress = Progress::of(service, pass);
    if progress.in_flight > 0 {
        return Vec::new();
    }
    let (facts, on_nodes) = (ServiceFacts::read(service, pass), OnNodes::of(service));
    let mut stuck = progress.outdated;
    stuck.retain(|at| {
        let verdict = facts.of(service, &service.slots[*at], pass).verdict();
        verdict != Verdict::Wait(Wait::Partner)
            && !has_target(service, &facts, pass, *at, &on_nodes)
    });
    stuck
}
