//! Answers the steps that failed (R-ROLL-3).

use jaco_types::slot::Exhausted;
use jaco_types::spec::{BackFailureAction, FailureAction};
use jaco_types::{GoingBack, Millis, ReplicaId, RestartCount, RolloutState, Timestamp};

use super::goal::goal_after_abort;
use super::progress::{Progress, is_step};
use super::renews_step;
use super::step::{pace, way_of};
use crate::company::InCompany;
use crate::draft::{Handover, Live, Pass, Roll, ServiceDraft, SlotDraft};
use crate::prepare::{self, Stand};

/// Whether an aborted rollout was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It was aborted now, and what was under way was reverted.
    Aborted,
    /// All is as it was.
    Unchanged,
}

/// Answers the steps that failed: those that may are passed over, and too many end the rollout, or its
/// way back, the way that the service asks for.
pub(crate) fn judge<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Judgement {
    let Some(rollout) = &service.record.rollout else { return Judgement::Unchanged };
    if rollout.target_revision != service.deployment.revision {
        return Judgement::Unchanged;
    }
    match (service.goal.roll, rollout.state) {
        (Roll::Forward, RolloutState::InProgress) if rollout.preparing.is_some() => {
            judge_preparing(service, pass)
        }
        (Roll::Forward, RolloutState::InProgress) => judge_steps(service, pass),
        (Roll::Back, _) => {
            judge_way_back(service, pass);
            Judgement::Unchanged
        }
        (Roll::Forward | Roll::Frozen, _) => Judgement::Unchanged,
    }
}

fn judge_steps<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Judgement {
    let policy = service.goal.spec.update;
    let total = service.record.rollout.as_ref().map_or(0, |rollout| rollout.total_steps);
    let Some(failures) = Failures::of(service, policy.step_timeout, pass) else {
        return Judgement::Unchanged;
    };
    let action = match failures.are_too_many(policy.max_failure_permille, total) {
        true => policy.failure_action,
        false => FailureAction::Continue,
    };
    match action {
        FailureAction::Rollback => {
            abort(service, pass, failures.reason);
            Judgement::Aborted
        }
        FailureAction::Pause => {
            pause(service, failures.reason);
            Judgement::Unchanged
        }
        FailureAction::Continue => {
            leave_alone(service, &failures.late, pass);
            Judgement::Unchanged
        }
    }
}

fn judge_way_back<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let Some(going) = service.record.rollout.as_ref().and_then(|rollout| rollout.going_back) else {
        return;
    };
    let wanted = service.spec_at(service.deployment.revision);
    let policy = wanted.map_or(service.goal.spec.update, |spec| spec.update);
    let Some(failures) = Failures::of(service, policy.step_timeout, pass) else { return };
    let are_too_many = failures.are_too_many(policy.back.max_failure_permille, going.total_steps);
    match policy.back.failure_action {
        BackFailureAction::Pause if are_too_many => pause(service, failures.reason),
        BackFailureAction::Pause | BackFailureAction::Continue => {
            leave_alone(service, &failures.late, pass);
        }
    }
}

/// Steps that failed.
struct Failures {
    /// Those that are not proven in time; places in the list of slots.
    late: Vec<usize>,
    /// How many there are, with those that failed too often.
    count: usize,
    /// What happened to the first of them.
    reason: String,
}

impl Failures {
    /// None where no step failed.
    fn of<'a>(service: &ServiceDraft<'a>, limit: Millis, pass: &mut Pass<'a>) -> Option<Self> {
        let begun = service.record.rollout.as_ref().map_or(Timestamp(0), |one| one.last_step_at);
        let late = late(service, pass, begun.after(limit));
        let is_spent = |slot: &&SlotDraft<'_>| {
            slot.restarts.exhausted == Exhausted::Yes
                && !slot.is_outdated(&service.goal)
                && is_step(service, slot, pass)
                // One that was spent before, and is what it should be again, did not fail on the way.
                && (service.goal.roll == Roll::Forward || slot.retiring.is_some())
        };
        let spent: Vec<&ReplicaId> =
            service.slots.iter().filter(is_spent).map(|slot| &slot.id).collect();
        let count = spent.len() + late.len();
        let reason = match (spent.first(), late.first()) {
            (Some(spent), _) => format!("restart_exhausted: {spent} failed too often in a row"),
            (None, Some(late)) => {
                format!("step_timeout: {} did not run within {limit}", service.slots[*late].id)
            }
            (None, None) => return None,
        };
        Some(Self { late, count, reason })
    }

    /// Whether more failed than this share of all steps.
    fn are_too_many(&self, permille: u32, total: u32) -> bool {
        let may_fail = u64::from(permille) * u64::from(total.max(1)) / 1000;
        u64::try_from(self.count).unwrap_or(u64::MAX) > may_fail
    }
}

/// The replicas of steps whose time is over. What waits for a neighbour, or was asked for by somebody
/// else a moment ago, is not judged by the clock of a step before.
fn late<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>, due: Timestamp) -> Vec<usize> {
    let mut unproven = Progress::of(service, pass).unproven;
    unproven.retain(|at| {
        let slot = &service.slots[*at];
        slot.company == InCompany::Yes && !renews_step(service, slot, pass)
    });
    if pass.input.now < due {
        if !unproven.is_empty() {
            pass.wake(due);
        }
        unproven.clear();
    }
    unproven
}

/// Answers a node that cannot get the image: nothing was replaced yet.
pub(super) fn judge_preparing<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
) -> Judgement {
    let action = service.goal.spec.update.failure_action;
    let reason = match prepare::follow(service, pass) {
        Stand::Waits => return Judgement::Unchanged,
        Stand::Through => None,
        Stand::Failed(reason) => Some(reason).filter(|_| action != FailureAction::Continue),
    };
    if let Some(rollout) = &mut service.record.rollout {
        rollout.preparing = None;
    }
    match (reason, action) {
        (None, _) => Judgement::Unchanged,
        (Some(reason), FailureAction::Pause) => {
            pause(service, reason);
            Judgement::Unchanged
        }
        (Some(reason), FailureAction::Rollback | FailureAction::Continue) => {
            abort(service, pass, reason);
            Judgement::Aborted
        }
    }
}

/// Ends a rollout whose next step would have to stop one more replica first, where as many as may be
/// missing already were left alone, or have not served for as long as a step may take, without being
/// one: nothing would ever change that.
pub(super) fn judge_held<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    progress: &Progress,
) {
    let may_be_missing = usize::try_from(pace(service).parallelism.max(1)).unwrap_or(usize::MAX);
    let stops_first = |at: &usize| {
        let way = way_of(service, pass, *at);
        service.slots[*at].serves(service.role)
            && way.is_some_and(|(_, handover)| handover == Handover::StopFirst)
    };
    let is_on_its_way = service.record.rollout.as_ref().is_some_and(|rollout| {
        rollout.state == RolloutState::InProgress || rollout.going_back.is_some()
    });
    let is_held =
        is_on_its_way && progress.in_flight == 0 && progress.outdated.iter().any(stops_first);
    if !is_held {
        return;
    }
    let missing: Vec<String> =
        service.slots.iter().filter_map(|slot| missing_for_good(service, slot, pass)).collect();
    if missing.len() >= may_be_missing {
        let reason = format!(
            "too_few_would_serve: {}, and the next replica has to stop before its successor starts",
            missing[0]
        );
        pause(service, reason);
    }
}

/// What is to be said of a replica that serves nobody and is not waited for any more. One of a node that
/// does not answer has a place in the report of its own.
fn missing_for_good<'a>(
    service: &ServiceDraft<'a>,
    slot: &SlotDraft<'a>,
    pass: &mut Pass<'a>,
) -> Option<String> {
    if slot.serves(service.role) {
        return None;
    }
    if slot.restarts.exhausted == Exhausted::Yes {
        return Some(format!("{} is left alone", slot.id));
    }
    let is_reachable = slot.current.at.is_some_and(|node| pass.nodes.row(node).status.is_working());
    let seen = slot.current.seen.filter(|_| is_reachable && slot.is_active())?;
    let wanted = service.spec_at(service.deployment.revision).unwrap_or(service.goal.spec);
    let begun = service.record.rollout.as_ref().map_or(Timestamp(0), |one| one.last_step_at);
    let limit = wanted.update.step_timeout;
    let due = seen.since.max(begun).after(limit);
    if pass.input.now < due {
        pass.wake(due);
        return None;
    }
    Some(format!("{} has not run for {limit}", slot.id))
}

/// Replaces nothing more: what runs goes on, what failed stays as it is with its predecessor.
fn pause(service: &mut ServiceDraft<'_>, reason: String) {
    let was = std::mem::replace(&mut service.goal.roll, Roll::Frozen);
    let Some(rollout) = &mut service.record.rollout else { return };
    if was == Roll::Back {
        rollout.state = RolloutState::RollbackPaused;
        rollout.failure_reason.push_str("; on the way back: ");
        rollout.failure_reason.push_str(&reason);
        rollout.going_back = None;
    } else {
        rollout.state = RolloutState::Paused;
        rollout.failure_reason = reason;
    }
}

/// Nothing more is tried with these replicas until the next apply.
fn leave_alone<'a>(service: &mut ServiceDraft<'a>, late: &[usize], pass: &mut Pass<'a>) {
    for late in late {
        let slot = &mut service.slots[*late];
        let consecutive = slot.restarts.consecutive.saturating_add(1);
        slot.set_restarts(pass, RestartCount { consecutive, exhausted: Exhausted::Yes });
    }
}

fn abort<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, reason: String) {
    let target = service.goal;
    service.goal = goal_after_abort(service);
    if let Some(rollout) = &mut service.record.rollout {
        rollout.state = RolloutState::Aborted;
        rollout.failure_reason = reason;
    }
    if service.goal.roll == Roll::Frozen {
        return;
    }
    let previous = service.record.rollout.as_ref().map(|rollout| rollout.previous_revision);
    let is_under_way = |slot: &&mut SlotDraft<'_>| {
        let is_new = slot.current.hash == target.spec.hash;
        let follows = |retiring: &Live<'_>| {
            let is_moved =
                Some(slot.current.revision) > previous && retiring.revision < slot.current.revision;
            retiring.hash != target.spec.hash || is_moved
        };
        is_new && slot.retiring.as_deref().is_some_and(follows)
    };
    for slot in service.slots.iter_mut().filter(is_under_way) {
        slot.revert(pass);
    }
    let total_steps = Progress::of(service, pass).steps();
    if let Some(rollout) = &mut service.record.rollout {
        rollout.last_step_at = pass.input.now;
        rollout.going_back =
            (total_steps > 0).then_some(GoingBack { total_steps, current_step: 0 });
    }
}
