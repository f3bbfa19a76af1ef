//! Contents of files: put, kept for as long as a revision needs them, and dropped (ST-12).

pub(super) mod named;
pub(super) mod registries;

use std::collections::BTreeSet;

use jaco_types::spec::DeploymentSpec;
use jaco_types::{ContentId, ErrorCode, Rejection, Timestamp};

use crate::command::Outcome;
use crate::contents::{
    CONTENTS_BYTES_MAX, Content, Hold, PIECE_BYTES_MAX, Piece, STAGED_BYTES_MAX, STAGED_LIFE, cost,
    fits, total,
};
use crate::state::ClusterState;
use crate::view::contents::referred;

/// How many ids a refusal names.
const NAMED_MAX: usize = 100;

/// Stages pieces. What is there already stays, and begins its wait anew.
pub(in crate::apply) fn put(state: &mut ClusterState, at: Timestamp, pieces: &[Piece]) -> Outcome {
    if let Some(large) = pieces.iter().find(|piece| !fits(piece)) {
        let size = large.bytes.0.len();
        let message =
            format!("a piece of content has {size} bytes, and {PIECE_BYTES_MAX} are the most");
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    let is_kept = |id: &ContentId| state.contents.get(id).is_some_and(|row| row.hold == Hold::Kept);
    let wanted: Vec<&Piece> = pieces.iter().filter(|piece| !is_kept(&piece.id)).collect();
    let kept = total(&state.contents, |row| row.hold == Hold::Kept);
    let added: usize = wanted.iter().map(|piece| cost(&piece.bytes)).sum();
    if kept + added > CONTENTS_BYTES_MAX || added > STAGED_BYTES_MAX {
        return Outcome::Rejected(full(kept));
    }
    for piece in wanted {
        let hold = Hold::Staged { since: at };
        match state.contents.get_mut(&piece.id) {
            Some(row) => row.hold = hold,
            None => {
                let row = Content { bytes: piece.bytes.clone(), form: piece.form, hold };
                state.contents.insert(piece.id, row);
            }
        }
    }
    drop_expired(state, at);
    drop_beyond_bounds(state, pieces);
    Outcome::Done
}

fn full(kept: usize) -> Rejection {
    let message = format!(
        "the cluster keeps {} MiB of files, and {} MiB are the most",
        kept >> 20,
        CONTENTS_BYTES_MAX >> 20
    );
    Rejection::new(ErrorCode::TooLarge, message)
        .with("kept_bytes", kept.to_string())
        .with("limit_bytes", CONTENTS_BYTES_MAX.to_string())
}

/// Whether everything that a spec refers to is there.
///
/// # Errors
/// `content_missing` with the ids of what is not.
pub(in crate::apply) fn check(
    state: &ClusterState,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    let missing = spec.contents.iter().filter(|id| !state.contents.contains(id));
    let missing: Vec<String> = missing.map(ToString::to_string).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message =
        format!("{} pieces of files that the manifest needs were not sent", missing.len());
    let named = missing.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>();
    Err(Rejection::new(ErrorCode::ContentMissing, message).with("missing", named.join(" ")))
}

/// Brings what is held in step with what the revisions refer to, after one came or went.
pub(in crate::apply) fn settle(state: &mut ClusterState, at: Timestamp) {
    if state.contents.is_empty() {
        return;
    }
    let referred = referred(state);
    state.contents.retain(|id, row| row.hold != Hold::Kept || referred.contains(id));
    let staged = state.contents.iter().filter(|(_, row)| row.hold != Hold::Kept);
    let staged: BTreeSet<ContentId> = staged.map(|(id, _)| *id).collect();
    for id in staged.intersection(&referred) {
        if let Some(row) = state.contents.get_mut(id) {
            row.hold = Hold::Kept;
        }
    }
    named::forget(state, &referred);
    drop_expired(state, at);
}

fn drop_expired(state: &mut ClusterState, at: Timestamp) {
    state.contents.retain(|_, row| match row.hold {
        Hold::Kept => true,
        Hold::Staged { since } => at.since(since) < STAGED_LIFE,
    });
}

/// The oldest of what nothing refers to makes room for what is new.
fn drop_beyond_bounds(state: &mut ClusterState, new: &[Piece]) {
    let is_staged = |row: &Content| row.hold != Hold::Kept;
    let mut staged = total(&state.contents, is_staged);
    let mut all = total(&state.contents, |_| true);
    if staged <= STAGED_BYTES_MAX && all <= CONTENTS_BYTES_MAX {
        return;
    }
    let new: BTreeSet<ContentId> = new.iter().map(|piece| piece.id).collect();
    let old = state.contents.iter().filter(|(id, row)| is_staged(row) && !new.contains(id));
    let mut old: Vec<(Hold, ContentId, usize)> =
        old.map(|(id, row)| (row.hold, *id, cost(&row.bytes))).collect();
    old.sort_unstable();
    for (_, id, freed) in old {
        if staged <= STAGED_BYTES_MAX && all <= CONTENTS_BYTES_MAX {
            return;
        }
        state.contents.remove(&id);
        staged -= freed;
        all -= freed;
    }
}
