//! Moves off hot nodes: each is what the planner does to a replica that leaves its node, with the
//! reason in the audit.

use std::collections::BTreeMap;

use jaco_types::slot::Exhausted;
use jaco_types::{ErrorCode, Rejection, StateIndex};

use super::{Audit, batch};
use crate::audit::AuditKind;
use crate::command::{
    Change, Entry, Outcome, Previous, RebalanceMove, RebalanceRevert, ReplaceCause,
};
use crate::state::ClusterState;

/// Law ST-2 holds here as well: all is refused if a replica, its deployment or its destination
/// changed after `based_on`.
pub(super) fn apply_moves(
    state: &mut ClusterState,
    entry: &Entry,
    based_on: StateIndex,
    moves: &[RebalanceMove],
    kept: &[BTreeMap<String, String>],
    audit: &mut Audit<'_>,
) -> Outcome {
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

/// Law ST-2 as above. A replica that settled meanwhile is refused: it changed.
pub(super) fn take_back(
    state: &mut ClusterState,
    entry: &Entry,
    based_on: StateIndex,
    reverts: &[RebalanceRevert],
    audit: &mut Audit<'_>,
) -> Outcome {
    let is_over = |one: &&RebalanceRevert| {
        state.slots.get(&one.id).is_none_or(|slot| slot.retiring.is_none())
    };
    if let Some(one) = reverts.iter().find(is_over) {
        let message = format!("replica {} is on no way to another node", one.id);
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
