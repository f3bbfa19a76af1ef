//! Answers the steps that failed (R-ROLL-3).

use jaco_types::slot::Exhausted;
use jaco_types::spec::FailureAction;
use jaco_types::{ReplicaId, RestartCount, RolloutState};

use super::goal::goal_after_abort;
use super::progress::Progress;
use crate::draft::{Pass, Roll, ServiceDraft, SlotDraft};
use crate::prepare::{self, Stand};

/// Whether an aborted rollout was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It was aborted now, and what was under way was reverted.
    Aborted,
    /// All is as it was.
    Unchanged,
}

/// Answers the steps that failed: those that may are passed over, and too many end the rollout the
/// way that the service asks for.
pub(crate) fn judge<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Judgement {
    let Some(rollout) =
        service.record.rollout.as_ref().filter(|_| service.goal.roll == Roll::Forward)
    else {
        return Judgement::Unchanged;
    };
    let is_ours = rollout.target_revision == service.deployment.revision;
    if !is_ours || rollout.state != RolloutState::InProgress {
        return Judgement::Unchanged;
    }
    if rollout.preparing.is_some() {
        return judge_preparing(service, pass);
    }
    let (current_step, last_step_at) = (rollout.current_step, rollout.last_step_at);
    let total = rollout.total_steps.max(1);
    let progress = Progress::of(service, pass);
    let policy = service.goal.spec.update;
    let due = last_step_at.after(policy.step_timeout);
    let is_open = progress.is_open(current_step);
    let late = progress.unproven.filter(|_| is_open && pass.input.now >= due);
    let is_spent = |slot: &&SlotDraft<'_>| {
        slot.restarts.exhausted == Exhausted::Yes && !slot.is_outdated(&service.goal)
    };
    let spent: Vec<&ReplicaId> =
        service.slots.iter().filter(is_spent).map(|slot| &slot.id).collect();
    let reason = match (spent.first(), late) {
        (Some(spent), _) => format!("restart_exhausted: {spent} failed too often in a row"),
        (None, Some(late)) => {
            let (late, limit) = (&service.slots[late].id, policy.step_timeout);
            format!("step_timeout: {late} did not run within {limit}")
        }
        (None, None) => {
            if is_open {
                pass.wake(due);
            }
            return Judgement::Unchanged;
        }
    };
    let failed = u64::try_from(spent.len()).unwrap_or(u64::MAX) + u64::from(late.is_some());
    let may_fail = u64::from(policy.max_failure_permille) * u64::from(total) / 1000;
    let action = if failed <= may_fail { FailureAction::Continue } else { policy.failure_action };
    match action {
        FailureAction::Rollback => {
            abort(service, pass, reason);
            Judgement::Aborted
        }
        FailureAction::Pause => {
            pause(service, reason);
            Judgement::Unchanged
        }
        FailureAction::Continue => {
            match late {
                Some(late) => leave_alone(&mut service.slots[late], pass),
                None if is_open => pass.wake(due),
                None => {}
            }
            Judgement::Unchanged
        }
    }
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

/// Replaces nothing more: what runs goes on, what failed stays as it is with its predecessor.
fn pause(service: &mut ServiceDraft<'_>, reason: String) {
    service.goal.roll = Roll::Frozen;
    if let Some(rollout) = &mut service.record.rollout {
        rollout.state = RolloutState::Paused;
        rollout.failure_reason = reason;
    }
}

/// Nothing more is tried with a replica until the next apply.
fn leave_alone<'a>(slot: &mut SlotDraft<'a>, pass: &mut Pass<'a>) {
    let consecutive = slot.restarts.consecutive.saturating_add(1);
    slot.set_restarts(pass, RestartCount { consecutive, exhausted: Exhausted::Yes });
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
    let is_under_way = |slot: &&mut SlotDraft<'_>| {
        slot.current.hash == target.spec.hash
            && slot.retiring.is_some_and(|retiring| retiring.hash != target.spec.hash)
    };
    for slot in service.slots.iter_mut().filter(is_under_way) {
        slot.revert(pass);
    }
}
