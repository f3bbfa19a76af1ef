//! Answers the steps that failed (R-ROLL-3).

use jaco_types::slot::Exhausted;
use jaco_types::spec::{FailureAction, RollbackFailureAction};
use jaco_types::{Millis, RestartCount, RollbackProgress, RolloutState, Timestamp};

use super::better_node::OnNodes;
use super::goal::goal_after_abort;
use super::prepull;
use super::progress::{Awaited, Progress, Stage, is_step};
use super::step::{pace, target_of};
use crate::draft::{
    Goal, Handover, InstanceDraft, Pass, Roll, ServiceDraft, ServiceRole, SlotDraft,
};
use crate::eligibility::Colocation;
use crate::verdict::ServiceFacts;

/// How much of an engine's message the reason of a rollout has.
const REASON_CHARS_MAX: usize = 200;

/// Whether an aborted rollout was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It was aborted now, and the steps in flight were reverted.
    Aborted,
    /// All is as it was.
    Unchanged,
}

/// Answers the steps that failed: as many as may are passed over, and too many end the rollout, or the
/// rollback, as the service asks for.
pub(crate) fn answer_failures<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Answered {
    let Some(rollout) = &service.record.rollout else { return Answered::Unchanged };
    if rollout.target_revision != service.deployment.revision {
        return Answered::Unchanged;
    }
    match (service.goal().roll, rollout.state) {
        (Roll::Forward, RolloutState::InProgress) if rollout.prepull.is_some() => {
            judge_prepull(service, pass)
        }
        (Roll::Forward, RolloutState::InProgress) => judge_steps(service, pass),
        (Roll::Back, _) => {
            judge_rollback(service, pass);
            Answered::Unchanged
        }
        (Roll::Forward | Roll::Paused, _) => Answered::Unchanged,
    }
}

fn judge_steps<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Answered {
    let policy = service.goal().spec.update;
    let total = service.record.rollout.as_ref().map_or(0, |rollout| rollout.total_steps);
    let Some(failures) = Failures::of(service, policy.step_timeout, pass) else {
        return Answered::Unchanged;
    };
    let action = match failures.are_too_many(policy.max_failure_permille, total) {
        true => failure_action(service),
        false => FailureAction::Continue,
    };
    match action {
        FailureAction::Rollback => {
            abort(service, pass, failures.reason);
            Answered::Aborted
        }
        FailureAction::Pause => {
            pause(service, failures.reason);
            Answered::Unchanged
        }
        FailureAction::Continue => {
            exhaust(service, &failures.late, pass);
            Answered::Unchanged
        }
    }
}

/// What too many failed steps do to a rollout. A job does not go back: the earlier one ran already, and is not
/// run again (R-JOB-1).
fn failure_action(service: &ServiceDraft<'_>) -> FailureAction {
    match service.role {
        ServiceRole::Job => FailureAction::Continue,
        ServiceRole::Server => service.goal().spec.update.failure_action,
    }
}

fn judge_rollback<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let Some(going) = service.record.rollout.as_ref().and_then(|rollout| rollout.rollback_progress)
    else {
        return;
    };
    let wanted = service.spec_at(service.deployment.revision);
    let policy = wanted.map_or(service.goal().spec.update, |spec| spec.update);
    let Some(failures) = Failures::of(service, policy.step_timeout, pass) else { return };
    let are_too_many =
        failures.are_too_many(policy.rollback.max_failure_permille, going.total_steps);
    match policy.rollback.failure_action {
        RollbackFailureAction::Pause if are_too_many => pause(service, failures.reason),
        RollbackFailureAction::Pause | RollbackFailureAction::Continue => {
            exhaust(service, &failures.late, pass);
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
        let is_exhausted = |slot: &&SlotDraft<'_>| {
            slot.restarts.exhausted == Exhausted::Yes
                && !slot.is_outdated(&service.goal())
                && is_step(service, slot, pass)
                // One that was exhausted before, and is what it should be again, did not fail in the rollback.
                && (service.goal().roll == Roll::Forward || slot.retiring.is_some())
        };
        let exhausted: Vec<&SlotDraft<'_>> = service.slots.iter().filter(is_exhausted).collect();
        let count = exhausted.len() + late.len();
        let timed_out = |slot: &SlotDraft<'_>| {
            let (id, last) = (&slot.id, last_report(slot));
            format!("step_timeout: {id} did not run within {limit}{last}")
        };
        let reason = match (exhausted.first(), late.first()) {
            (Some(slot), _) if slot.restarts.is_timeout() => timed_out(slot),
            (Some(slot), _) => {
                let (id, last) = (&slot.id, last_report(slot));
                format!("restart_exhausted: {id} failed too often in a row{last}")
            }
            (None, Some(late)) => timed_out(&service.slots[*late]),
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

/// What the node of a replica reported of it last: how its container ended, what the engine said, or what it waits for. The
/// replica itself may be gone once the rollout has gone back. What the container wrote is not in it, as this is audited.
fn last_report(slot: &SlotDraft<'_>) -> String {
    let Some(seen) = slot.current.observed else { return String::new() };
    let exit = seen.exit.map(|exit| match exit.out_of_memory {
        true => format!("exit code {}, out of memory", exit.code),
        false => format!("exit code {}", exit.code),
    });
    let reason = seen.details.get("reason").filter(|reason| !reason.is_empty());
    let code = seen.code.map(|code| code.as_str().replace('_', " "));
    let last = exit.or_else(|| reason.map(|reason| one_line(reason))).or(code);
    last.map_or_else(String::new, |last| format!("; last: {last}"))
}

/// A message of a container engine, which may have several lines, and be long.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(REASON_CHARS_MAX).collect()
}

/// The replicas of steps whose time is over. What waits for a partner, or was asked for by something
/// else a moment ago, is not judged by the clock of a step before.
fn late<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>, due: Timestamp) -> Vec<usize> {
    let starting = Progress::of(service, pass).unproven.into_iter();
    let starting = starting.filter(|(_, stage)| *stage == Stage::Starting).map(|(at, _)| at);
    let awaited = Awaited::by(service);
    let mut late: Vec<usize> = starting
        .filter(|at| {
            let slot = &service.slots[*at];
            service.colocation_of(slot) == Colocation::Met
                && !awaited.renews_step(service, slot, pass)
        })
        .collect();
    if pass.input.now < due {
        if !late.is_empty() {
            pass.wake(due);
        }
        late.clear();
    }
    late
}

/// Answers a node that cannot get the image: nothing was replaced yet.
pub(super) fn judge_prepull<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Answered {
    let action = failure_action(service);
    let reason = match prepull::follow(service, pass) {
        prepull::Progress::Waits => return Answered::Unchanged,
        prepull::Progress::Through => None,
        prepull::Progress::Failed(reason) => {
            Some(reason).filter(|_| action != FailureAction::Continue)
        }
    };
    if let Some(rollout) = &mut service.record.rollout {
        rollout.prepull = None;
    }
    match (reason, action) {
        (None, _) => Answered::Unchanged,
        (Some(reason), FailureAction::Pause) => {
            pause(service, reason);
            Answered::Unchanged
        }
        (Some(reason), FailureAction::Rollback | FailureAction::Continue) => {
            abort(service, pass, reason);
            Answered::Aborted
        }
    }
}

/// Ends a rollout whose next step would have to stop one more replica first, where as many as may be
/// missing already are exhausted, or have not served for as long as a step may take, without being
/// one: nothing would ever change that.
pub(super) fn judge_held<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    progress: &Progress,
) {
    let may_be_missing = usize::try_from(pace(service).parallelism.max(1)).unwrap_or(usize::MAX);
    let (facts, on_nodes) = (ServiceFacts::read(service, pass), OnNodes::of(service));
    let stops_first = |at: &usize| {
        let target = target_of(service, &facts, pass, *at, &on_nodes);
        service.slots[*at].serves(service.role)
            && target.is_some_and(|(_, handover)| handover == Handover::StopFirst)
    };
    let is_on_its_way = service.record.rollout.as_ref().is_some_and(|rollout| {
        rollout.state == RolloutState::InProgress || rollout.rollback_progress.is_some()
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

/// What is reported of a replica that does not serve and is not waited for any more. One of a node that
/// does not answer has a place in the report of its own.
fn missing_for_good<'a>(
    service: &ServiceDraft<'a>,
    slot: &SlotDraft<'a>,
    pass: &mut Pass<'a>,
) -> Option<String> {
    if slot.serves(service.role) {
        return None;
    }
    if slot.restarts.is_timeout() {
        return Some(format!("{} did not run within the time of its step", slot.id));
    }
    if slot.restarts.exhausted == Exhausted::Yes {
        return Some(format!("the restart budget of {} is exhausted", slot.id));
    }
    let is_reachable = slot.current.at.is_some_and(|node| pass.nodes.row(node).status.is_working());
    let seen = slot.current.observed.filter(|_| is_reachable && slot.is_active())?;
    let wanted = service.spec_at(service.deployment.revision).unwrap_or(service.goal().spec);
    let begun = service.record.rollout.as_ref().map_or(Timestamp(0), |one| one.last_step_at);
    let limit = wanted.update.step_timeout;
    let due = seen.since.max(begun).after(limit);
    if pass.input.now < due {
        pass.wake(due);
        return None;
    }
    Some(format!("{} has not run for {limit}", slot.id))
}

/// Pauses the rollout: nothing more is replaced, what runs continues, and what failed stays as it is with
/// its predecessor.
pub(super) fn pause(service: &mut ServiceDraft<'_>, reason: String) {
    let was = service.goal().roll;
    service.set_goal(Goal { roll: Roll::Paused, ..service.goal() });
    let Some(rollout) = &mut service.record.rollout else { return };
    if was == Roll::Back {
        rollout.state = RolloutState::RollbackPaused;
        rollout.failure_reason.push_str("; during the rollback: ");
        rollout.failure_reason.push_str(&reason);
        rollout.rollback_progress = None;
    } else {
        rollout.state = RolloutState::Paused;
        rollout.failure_reason = reason;
    }
}

/// Nothing more is tried with these replicas until the next apply.
fn exhaust<'a>(service: &mut ServiceDraft<'a>, late: &[usize], pass: &mut Pass<'a>) {
    for late in late {
        service.slots.edit(*late).set_restarts(pass, RestartCount::TIMED_OUT);
    }
}

/// Gives a rollout up: steps in flight are reverted, and the others go back one after another.
pub(crate) fn abort<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, reason: String) {
    let target = service.goal();
    service.set_goal(goal_after_abort(service));
    if let Some(rollout) = &mut service.record.rollout {
        rollout.state = RolloutState::Aborted;
        rollout.failure_reason = reason;
    }
    if service.goal().roll == Roll::Paused {
        return;
    }
    let previous = service.record.rollout.as_ref().map(|rollout| rollout.previous_revision);
    let is_in_flight = |slot: &SlotDraft<'_>| {
        let is_new = slot.current.hash == target.spec.hash;
        let follows = |retiring: &InstanceDraft<'_>| {
            let is_moved =
                Some(slot.current.revision) > previous && retiring.revision < slot.current.revision;
            retiring.hash != target.spec.hash || is_moved
        };
        // Where only the new instance serves, a step of the rollback replaces it like any other.
        let is_worth_it =
            |old: &&InstanceDraft<'_>| old.is_running() || !slot.current.is_up(service.role);
        is_new && slot.retiring.as_deref().filter(is_worth_it).is_some_and(follows)
    };
    let in_flight: Vec<usize> =
        (0..service.slots.len()).filter(|at| is_in_flight(&service.slots[*at])).collect();
    for at in in_flight {
        service.slots.edit(at).revert_handover(pass);
    }
    let total_steps = Progress::of(service, pass).steps();
    if let Some(rollout) = &mut service.record.rollout {
        rollout.last_step_at = pass.input.now;
        rollout.rollback_progress =
            (total_steps > 0).then_some(RollbackProgress { total_steps, current_step: 0 });
    }
}
