//! Moves off hot nodes: each replaces an instance as the planner does for a drain, with the reason in
//! the audit log.

use jaco_types::slot::Exhausted;
use jaco_types::{ErrorCode, Rejection};

use super::batch;
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{
    Change, Entry, Outcome, Previous, Rebalance, RebalanceMove, RebalanceRevert, ReplaceCause,
    RevertedMove,
};
use crate::state::ClusterState;

/// Law ST-2 holds here as well: all is refused if a replica, its deployment or its destination
/// changed after `based_on`.
pub(in crate::apply) fn apply_moves(
    state: &mut ClusterState,
    entry: &Entry,
    command: &Rebalance,
    audit: &mut Audit<'_>,
) -> Outcome {
    let Rebalance { based_on, moves, kept } = command;
    let based_on = *based_on;
    let is_changing =
        |one: &&RebalanceMove| state.slots.get(&one.id).is_some_and(|slot| slot.retiring.is_some());
    if let Some(one) = moves.iter().find(is_changing) {
        let message = format!("replica {} is being replaced", one.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::StalePlan, message));
    }
    let changes: Vec<_> = moves.iter().map(|one| replacement(state, one)).collect();
    let outcome = batch::apply_batch(state, entry, based_on, &changes, audit);
    if outcome == Outcome::Done {
        for one in moves {
            audit.note(AuditKind::RebalanceMoved, one.facts.clone());
        }
        for facts in kept {
            audit.note(AuditKind::RebalanceSkipped, facts.clone());
        }
    }
    outcome
}

/// Law ST-2 as above. A replica whose move completed meanwhile is refused: it changed.
pub(in crate::apply) fn revert(
    state: &mut ClusterState,
    entry: &Entry,
    command: &RebalanceRevert,
    audit: &mut Audit<'_>,
) -> Outcome {
    let RebalanceRevert { based_on, reverts } = command;
    let based_on = *based_on;
    let is_over =
        |one: &&RevertedMove| state.slots.get(&one.id).is_none_or(|slot| slot.retiring.is_none());
    if let Some(one) = reverts.iter().find(is_over) {
        let message = format!("replica {} is not moving to another node", one.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::StalePlan, message));
    }
    let (consecutive, exhausted) = (0, Exhausted::No);
    // The failures were the successor's, there.
    let changes = reverts.iter().flat_map(|one| {
        let id = one.id.clone();
        [
            Change::SlotRevert { id: id.clone() },
            Change::SlotSetRestarts { id, consecutive, exhausted },
        ]
    });
    let changes: Vec<_> = changes.collect();
    let outcome = batch::apply_batch(state, entry, based_on, &changes, audit);
    if outcome == Outcome::Done {
        for one in reverts {
            audit.note(AuditKind::RebalanceReverted, one.facts.clone());
        }
    }
    outcome
}

/// The old instance serves until the new one does; failures that were counted stay counted.
fn replacement(state: &ClusterState, one: &RebalanceMove) -> Change {
    let failures = state.slots.get(&one.id).map(|slot| slot.restarts.consecutive);
    Change::SlotReplace {
        id: one.id.clone(),
        instance: one.instance.clone(),
        previous: Previous::Retire,
        cause: ReplaceCause::Moved,
        consecutive_failures: failures.unwrap_or_default(),
    }
}
