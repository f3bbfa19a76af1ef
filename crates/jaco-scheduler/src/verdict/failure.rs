//! What the restart budget says about failures (R-HEAL-1, R-HEAL-2).

use jaco_types::slot::Exhausted;
use jaco_types::{ReasonCode, ReplicaState, RestartCount, Timestamp};

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
        Some(ReplicaState::Stopped) => role == ServiceRole::Server || !current.is_completed(),
        Some(
            ReplicaState::Pending
            | ReplicaState::Pulling
            | ReplicaState::Starting
            | ReplicaState::Running,
        )
        | None => false,
    };
    let is_exhausted = slot.restarts.exhausted == Exhausted::Yes;
    // It restarts as what it was, because only a rollout changes that. One whose spec is no longer kept
    // is the rollout's to replace.
    let Some(observed) = current.observed.filter(|_| has_failed && !is_exhausted) else {
        return Failure::None;
    };
    if current.spec.is_none() {
        return Failure::None;
    }
    if observed.code == Some(ReasonCode::NodeIsolated) {
        return Failure::Restartable;
    }
    let consecutive = failures_with_this(slot);
    if consecutive >= pass.input.config.failure_budget {
        return Failure::BudgetSpent;
    }
    let due = observed.since.after(RestartCount::back_off(consecutive));
    if observed.since <= pass.input.now && pass.input.now < due {
        note(due);
        return Failure::BackOff;
    }
    Failure::Restartable
}

/// How many failures in a row there are with the one of the current instance. A node that stopped it
/// because it was cut off says nothing about the replica.
pub(crate) fn failures_with_this(slot: &SlotDraft<'_>) -> u32 {
    let code = slot.current.observed.and_then(|observed| observed.code);
    let counts = code != Some(ReasonCode::NodeIsolated);
    slot.restarts.consecutive.saturating_add(u32::from(counts))
}

/// A steady run clears the count, unless the budget is exhausted: then only an apply does.
pub(super) fn restarts(
    slot: &SlotDraft<'_>,
    pass: &Pass<'_>,
    note: &mut impl FnMut(Timestamp),
) -> Restarts {
    if slot.restarts.exhausted == Exhausted::Yes {
        return Restarts::Exhausted;
    }
    if slot.restarts.consecutive == 0 {
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
