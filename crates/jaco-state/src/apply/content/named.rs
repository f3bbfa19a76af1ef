//! Named configs and secrets, kept until they are removed (ADR 0042). Must never read a content, nor
//! reveal anything of it but its size.

use std::collections::BTreeSet;

use jaco_types::{ContentId, ErrorCode, NamedKey, Rejection};

use super as content;
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{Entry, NamedContentPut, NamedContentRemove, Outcome};
use crate::contents::{ContentUsers, NamedContent};
use crate::state::ClusterState;
use crate::view::users;

/// Stores a content under a name. The same content again is the same version.
pub(in crate::apply) fn put(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NamedContentPut,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NamedContentPut { key, tree, pieces, size, users } = command;
    let (tree, size) = (*tree, *size);
    let at = entry.at;
    if let Some(users) = users
        && state.named.get(key).is_some_and(|named| named.tree == tree)
    {
        share(state, key, users, audit);
        return Outcome::Done;
    }
    let ids: BTreeSet<ContentId> = pieces.iter().map(|piece| piece.id).collect();
    if !ids.contains(&tree) {
        let message = format!("the upload of {key} does not contain its list of files");
        return Outcome::Rejected(Rejection::new(ErrorCode::InvalidRequest, message));
    }
    let before = state.named.get(key);
    if before.is_some_and(|named| named.tree == tree) {
        return Outcome::Done;
    }
    let version = before.map_or(1, |named| named.version.saturating_add(1));
    if let Outcome::Rejected(rejection) = content::put(state, at, pieces) {
        return Outcome::Rejected(rejection);
    }
    let before = state.named.get(key).map(|named| named.users.clone());
    let for_users = users.clone().or(before).unwrap_or_default();
    let named = NamedContent { version, tree, pieces: ids, size, stored_at: at, users: for_users };
    state.named.insert(key.clone(), named);
    content::settle(state, at);
    note_stored(key, version, users.as_ref(), audit);
    Outcome::Done
}

/// Changes which deployments may use the content that is stored.
fn share(state: &mut ClusterState, key: &NamedKey, users: &ContentUsers, audit: &mut Audit<'_>) {
    let Some(named) = state.named.get(key).filter(|named| named.users != *users) else { return };
    let named = NamedContent { users: users.clone(), ..named.clone() };
    note_stored(key, named.version, Some(users), audit);
    state.named.insert(key.clone(), named);
}

fn note_stored(key: &NamedKey, version: u64, users: Option<&ContentUsers>, audit: &mut Audit<'_>) {
    let facts = [
        ("kind", key.kind.as_str().to_owned()),
        ("name", key.name.to_string()),
        ("version", version.to_string()),
    ];
    let users = users.map(|users| ("deployments", users.to_string()));
    let facts = facts.into_iter().chain(users);
    let facts = facts.map(|(key, value)| (key.to_owned(), value)).collect();
    audit.note(AuditKind::ContentStored, facts);
}

/// Removes a named config or secret, unless a deployment uses it. Chunks that revisions refer to are
/// kept.
pub(in crate::apply) fn remove(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NamedContentRemove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NamedContentRemove { key } = command;
    let at = entry.at;
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
