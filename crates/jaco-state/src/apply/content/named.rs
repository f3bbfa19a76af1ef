//! Named configs and secrets, kept until they are removed (ADR 0042). Must never read a content, nor
//! reveal anything of it but its size.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::{ContentId, ErrorCode, NamedKey, Rejection};

use super as content;
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{Entry, NamedContentPut, NamedContentRemove, Outcome};
use crate::contents::{ContentUsers, Expiry, FormerContent, NamedContent};
use crate::state::ClusterState;
use crate::view::users;

/// Stores a content under a name. The same content again is the same version: its users and its expiry may be others.
pub(in crate::apply) fn put(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NamedContentPut,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NamedContentPut { key, tree, pieces, size, users, terms } = command;
    let (tree, size) = (*tree, *size);
    let at = entry.at;
    let before = state.named.get(key);
    if let Err(rejection) = check_base(key, before, terms.and_then(|terms| terms.based_on)) {
        return Outcome::Rejected(rejection);
    }
    let said = Said { users: users.as_ref(), expiry: terms.and_then(|terms| terms.expiry) };
    let is_same = before.is_some_and(|named| named.tree == tree);
    if is_same && (users.is_some() || terms.is_some()) {
        amend(state, key, said, audit);
        return Outcome::Done;
    }
    let ids: BTreeSet<ContentId> = pieces.iter().map(|piece| piece.id).collect();
    if !ids.contains(&tree) {
        let message = format!("the upload of {key} does not contain its list of files");
        return Outcome::Rejected(Rejection::new(ErrorCode::InvalidRequest, message));
    }
    if is_same {
        return Outcome::Done;
    }
    let named = NamedContent {
        version: before.map_or(1, |named| named.version.saturating_add(1)),
        tree,
        pieces: ids,
        size,
        stored_at: at,
        users: said.users.or(before.map(|named| &named.users)).cloned().unwrap_or_default(),
        expires_at: said.expiry.and_then(Expiry::at),
        former: match (before, terms) {
            (Some(before), Some(_)) => former(before, tree),
            (None, _) | (_, None) => BTreeMap::new(),
        },
    };
    if let Outcome::Rejected(rejection) = content::put(state, at, pieces) {
        return Outcome::Rejected(rejection);
    }
    let version = named.version;
    state.named.insert(key.clone(), named);
    content::settle(state, at);
    note_stored(key, version, said, audit);
    Outcome::Done
}

/// What a command says beside the content.
#[derive(Clone, Copy)]
struct Said<'a> {
    users: Option<&'a ContentUsers>,
    expiry: Option<Expiry>,
}

/// Refuses a change that was made from another version than the present one.
fn check_base(
    key: &NamedKey,
    before: Option<&NamedContent>,
    based_on: Option<u64>,
) -> Result<(), Rejection> {
    let version = before.map(|named| named.version);
    let Some(based_on) = based_on.filter(|based_on| version != Some(*based_on)) else {
        return Ok(());
    };
    let now = version.map_or("gone".to_owned(), |version| format!("at version {version}"));
    let message =
        format!("the change was made from version {based_on} of {key}, which is {now} by now");
    Err(Rejection::new(ErrorCode::StalePlan, message))
}

/// The versions that are remembered once another content follows: each content once, under its last number.
fn former(before: &NamedContent, next: ContentId) -> BTreeMap<u64, FormerContent> {
    let mut former = before.former.clone();
    former.retain(|_, one| one.tree != before.tree && one.tree != next);
    let last = FormerContent { tree: before.tree, stored_at: before.stored_at };
    former.insert(before.version, last);
    former
}

/// Changes the users and the expiry of the content that is stored.
fn amend(state: &mut ClusterState, key: &NamedKey, said: Said<'_>, audit: &mut Audit<'_>) {
    let Some(before) = state.named.get(key) else { return };
    let named = NamedContent {
        users: said.users.unwrap_or(&before.users).clone(),
        expires_at: said.expiry.map_or(before.expires_at, Expiry::at),
        ..before.clone()
    };
    if named == *before {
        return;
    }
    note_stored(key, named.version, said, audit);
    state.named.insert(key.clone(), named);
}

fn note_stored(key: &NamedKey, version: u64, said: Said<'_>, audit: &mut Audit<'_>) {
    let facts = [
        ("kind", key.kind.as_str().to_owned()),
        ("name", key.name.to_string()),
        ("version", version.to_string()),
    ];
    let users = said.users.map(|users| ("deployments", users.to_string()));
    let expiry = said.expiry.map(|expiry| ("expires_at_ms", expiry.to_string()));
    let facts = facts.into_iter().chain(users).chain(expiry);
    let facts = facts.map(|(key, value)| (key.to_owned(), value)).collect();
    audit.note(AuditKind::ContentStored, facts);
}

/// Forgets the earlier versions that no kept revision has any more.
pub(super) fn forget(state: &mut ClusterState, referred: &BTreeSet<ContentId>) {
    let is_kept = |former: &FormerContent| referred.contains(&former.tree);
    let stale = state.named.iter().filter(|(_, named)| !named.former.values().all(is_kept));
    let stale: Vec<NamedKey> = stale.map(|(key, _)| key.clone()).collect();
    for key in stale {
        if let Some(named) = state.named.get_mut(&key) {
            named.former.retain(|_, former| is_kept(former));
        }
    }
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
