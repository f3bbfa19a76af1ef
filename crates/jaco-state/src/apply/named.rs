//! Configs and secrets that the cluster keeps under a name, until people remove them (ADR 0042).
//! Must never look into a content, nor say anything of it but its size.

use std::collections::BTreeSet;

use jaco_types::{ContentId, ErrorCode, NamedKey, Rejection, Timestamp};

use super::{Audit, content};
use crate::audit::AuditKind;
use crate::command::Outcome;
use crate::contents::{NamedContent, Piece, users};
use crate::state::ClusterState;

/// A content, as it was sent.
pub(super) struct Given<'a> {
    pub(super) tree: ContentId,
    pub(super) pieces: &'a [Piece],
    pub(super) size: u64,
}

/// Stores a content under a name. The same content again is the same version.
pub(super) fn put(
    state: &mut ClusterState,
    at: Timestamp,
    key: &NamedKey,
    given: &Given<'_>,
    audit: &mut Audit<'_>,
) -> Outcome {
    let pieces: BTreeSet<ContentId> = given.pieces.iter().map(|piece| piece.id).collect();
    if !pieces.contains(&given.tree) {
        let message = format!("the content of {key} came without the list that it is named by");
        return Outcome::Rejected(Rejection::new(ErrorCode::InvalidRequest, message));
    }
    let before = state.named.get(key);
    if before.is_some_and(|named| named.tree == given.tree) {
        return Outcome::Done;
    }
    let version = before.map_or(1, |named| named.version.saturating_add(1));
    if let Outcome::Rejected(rejection) = content::put(state, at, given.pieces) {
        return Outcome::Rejected(rejection);
    }
    let named = NamedContent { version, tree: given.tree, pieces, size: given.size, stored_at: at };
    state.named.insert(key.clone(), named);
    content::settle(state, at);
    let facts = [
        ("kind", key.kind.as_str().to_owned()),
        ("name", key.name.to_string()),
        ("version", version.to_string()),
    ];
    audit.event(AuditKind::ContentStored, facts);
    Outcome::Done
}

/// Takes a name away, unless a deployment takes its content by it. What revisions refer to, stays.
pub(super) fn remove(
    state: &mut ClusterState,
    at: Timestamp,
    key: &NamedKey,
    audit: &mut Audit<'_>,
) -> Outcome {
    let Some(named) = state.named.get(key) else {
        let message = format!("the cluster keeps no {key}");
        return Outcome::Rejected(Rejection::new(ErrorCode::ContentNotFound, message));
    };
    let version = named.version.to_string();
    let users: Vec<&str> = users(state, key).map(|deployment| deployment.as_str()).collect();
    if !users.is_empty() {
        let message = format!("{key} is used by {}", users.join(", "));
        let rejection = Rejection::new(ErrorCode::ContentInUse, message);
        return Outcome::Rejected(rejection.with("users", users.join(" ")));
    }
    state.named.remove(key);
    content::settle(state, at);
    let facts = [
        ("kind", key.kind.as_str().to_owned()),
        ("name", key.name.to_string()),
        ("version", version),
    ];
    audit.event(AuditKind::ContentRemoved, facts);
    Outcome::Done
}
