//! What the restart budget says about failures (R-HEAL-1, R-HEAL-2).

use jaco_types::slot::Exhausted;
use jaco_types::spec::RestartPolicy;
use jaco_types::{Completion, ReasonCode, ReplicaState, RestartCount, Timestamp};

use super::slot_facts::{Failure, Restarts};
use crate::draft::{Pass, ServiceRole, SlotDraft};

/// What the restart budget says of a failure. The moment of it is by its node's clock: where that is
/// ahead, nothing is waited for.
pub(super) fn failure(
    slot: &SlotDraft<'_>,
    role: ServiceRole,
    pass: &Pass<'_>,
    note: &mut impl FnMut(Timestamp),
) -> Failure {
    let current = &slot.current;
    let has_failed = match current.state() {
        Some(ReplicaState::Failed | ReplicaState::Degraded) => true,
        Some(ReplicaState::Stopped) => !current.has_completed(role),
        Some(
            ReplicaState::Pending
            | ReplicaState::Pulling
            | ReplicaState::Starting
            | ReplicaState::Running
            | ReplicaState::Completed,
        )
        | None => false,
    };
    let is_exhausted = slot.restarts.exhausted == Exhausted::Yes;
    // It restarts as what it was, because only a rollout changes that. One whose spec is no longer kept
    // is the rollout's to replace.
    let is_tried = slot.is_active() && has_failed && !is_exhausted;
    let Some(observed) = current.observed.filter(|_| is_tried) else {
        return Failure::None;
    };
    let Some(spec) = current.spec else { return Failure::None };
    if observed.code == Some(ReasonCode::NodeIsolated) {
        return Failure::Restartable;
    }
    let consecutive = failures_with_this(slot);
    if consecutive >= attempts(spec.restart, pass.input.config.failure_budget) {
        return Failure::BudgetSpent;
    }
    let due = observed.since.after(RestartCount::back_off(consecutive));
    if observed.since <= pass.input.now && pass.input.now < due {
        note(due);
        return Failure::BackOff;
    }
    Failure::Restartable
}

/// How many attempts an instance's restart policy allows: one and its retries, or the restart budget.
fn attempts(policy: RestartPolicy, budget: u32) -> u32 {
    match policy {
        RestartPolicy::Always | RestartPolicy::OnFailure { retries: None } => budget,
        RestartPolicy::OnFailure { retries: Some(retries) } => retries.saturating_add(1),
        RestartPolicy::Never => 1,
    }
}

/// How its current instance ran to its end, if it did and that is not recorded: with 0, or with the last
/// failure that its restart policy allows. During a handover the retiring instance ends first.
pub(super) fn completion(
    slot: &SlotDraft<'_>,
    role: ServiceRole,
    failure: Failure,
) -> Option<Completion> {
    let current = &slot.current;
    if !slot.is_active() || slot.retiring.is_some() {
        return None;
    }
    if current.has_completed(role) {
        return Some(Completion::Succeeded);
    }
    let is_over = current.state().is_some_and(ReplicaState::is_over);
    (is_over && failure == Failure::BudgetSpent && current.may_complete(role))
        .then_some(Completion::Failed)
}

/// How many failures in a row there are with the one of the current instance. A node that stopped it
/// because it was cut off says nothing about the replica.
pub(crate) fn failures_with_this(slot: &SlotDraft<'_>) -> u32 {
    let code = slot.current.observed.and_then(|observed| observed.code);
    let counts = code != Some(ReasonCode::NodeIsolated);
    slot.restarts.consecutive.saturating_add(u32::from(counts))
}

/// A steady run clears the count, unless the budget is exhausted: then only an apply does. The retries of
/// one that runs to its end are counted over its whole life.
pub(super) fn restarts(
    slot: &SlotDraft<'_>,
    role: ServiceRole,
    pass: &Pass<'_>,
    note: &mut impl FnMut(Timestamp),
) -> Restarts {
    if slot.restarts.exhausted == Exhausted::Yes {
        return Restarts::Exhausted;
    }
    if slot.restarts.consecutive == 0 || counts_for_life(slot, role) {
        return Restarts::None;
    }
    let Some(observed) = slot.current.observed.filter(|_| slot.current.is_running()) else {
        return Restarts::Counted;
    };
    let steady_at = observed.since.after(pass.input.config.steady_after);
    if pass.input.now < steady_at {
        note(steady_at);
        return Restarts::Counted;
    }
    Restarts::Forgettable
}

/// Whether failures are held against it however long it ran between them: where it retries a bounded number
/// of times until it completes.
fn counts_for_life(slot: &SlotDraft<'_>, role: ServiceRole) -> bool {
    let policy = slot.current.spec.map(|spec| spec.restart);
    role == ServiceRole::Job
        || matches!(
            policy,
            Some(RestartPolicy::OnFailure { retries: Some(_) } | RestartPolicy::Never)
        )
}
