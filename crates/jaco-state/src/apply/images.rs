//! Images that users push: recorded, named, held by nodes, and dropped once nothing uses them (ST-30).

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::{BlobDigest, ErrorCode, ImageTag, Millis, NodeId, Rejection, Timestamp};

use super::audit::Audit;
use super::cluster::{is_member, unknown_node};
use crate::audit::AuditKind;
use crate::command::{Entry, ImagePush, ImageRemove, ImageTagSet, ImagesHeld, InUse, Outcome};
use crate::images::{
    CONFIG_BYTES_MAX, COPIES_MAX, IMAGE_NAMES_MAX, IMAGES_MAX, LAYERS_MAX, NamedImage, PushedImage,
};
use crate::state::ClusterState;
use crate::view::images::{copies_of, deployments_with, holders, pinned};

/// The longest time that an unused image is kept: a year.
const KEEP_UNUSED_MAX: Millis = Millis(366 * 24 * 60 * 60 * 1000);

/// Records an image. One that is there stays as it is, but for how it is kept.
pub(in crate::apply) fn push(
    state: &mut ClusterState,
    entry: &Entry,
    command: &ImagePush,
    audit: &mut Audit<'_>,
) -> Outcome {
    if let Err(rejection) = check(command) {
        return Outcome::Rejected(rejection);
    }
    settle(state, entry.at, audit);
    let ImagePush { id, config_bytes, layers, copies, keep_unused, taken_by } = command;
    let known = state.images.rows.get(id);
    if known.is_none() && state.images.rows.len() >= IMAGES_MAX {
        let message = format!(
            "{IMAGES_MAX} pushed images are kept, and these are the most: remove one with `jaco image rm`"
        );
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    let unused_since = match known {
        Some(known) if known.unused_since.is_none() => None,
        Some(_) | None => Some(entry.at),
    };
    let row = PushedImage {
        config_bytes: *config_bytes,
        layers: Arc::clone(layers),
        copies: *copies,
        keep_unused: *keep_unused,
        pushed_at: entry.at,
        by: entry.by.clone(),
        unused_since,
        taken_by: *taken_by,
    };
    state.images.rows.insert(*id, row);
    settle(state, entry.at, audit);
    Outcome::Done
}

fn check(command: &ImagePush) -> Result<(), Rejection> {
    let ImagePush { id: _, config_bytes, layers, copies, keep_unused, taken_by: _ } = command;
    if layers.len() > LAYERS_MAX || *config_bytes > CONFIG_BYTES_MAX {
        let message = format!(
            "an image has at most {LAYERS_MAX} layers and a configuration of {CONFIG_BYTES_MAX} bytes"
        );
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    if !(1..=COPIES_MAX).contains(copies) || *keep_unused > KEEP_UNUSED_MAX {
        let message =
            format!("an image is kept on 1 to {COPIES_MAX} nodes, and unused for 366 days at most");
        return Err(Rejection::new(ErrorCode::InvalidRequest, message));
    }
    Ok(())
}

/// Has a name lead to an image that enough nodes hold.
pub(in crate::apply) fn tag(
    state: &mut ClusterState,
    entry: &Entry,
    command: &ImageTagSet,
    audit: &mut Audit<'_>,
) -> Outcome {
    let ImageTagSet { name, id } = command;
    let Some(row) = state.images.rows.get(id) else {
        let message =
            format!("no image {id} was pushed, or it was removed meanwhile: push it again");
        return Outcome::Rejected(Rejection::new(ErrorCode::ImageNotFound, message));
    };
    let (holding, wanted) = (holders(state, *id).count(), copies_of(state, row));
    if holding < wanted {
        let message = format!(
            "{holding} of {wanted} nodes hold image {id}: it gets its name once all of them do"
        );
        return Outcome::Rejected(Rejection::new(ErrorCode::ImageNotHeld, message));
    }
    let before = state.images.names.get(name);
    if before.is_some_and(|before| before.id == *id) {
        return Outcome::Done;
    }
    if before.is_none() && state.images.names.len() >= IMAGE_NAMES_MAX {
        let message = format!(
            "pushed images have {IMAGE_NAMES_MAX} names, and these are the most: remove one with \
             `jaco image rm`"
        );
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    let bytes = row.bytes(*id);
    let named = NamedImage { id: *id, tagged_at: entry.at, by: entry.by.clone() };
    state.images.names.insert(name.clone(), named);
    let facts = [("image", name.to_string()), ("id", id.to_string()), ("bytes", bytes.to_string())];
    audit.event(AuditKind::ImagePush, facts);
    settle(state, entry.at, audit);
    Outcome::Done
}

/// Removes a name. An image without a name that no kept revision runs goes with it.
pub(in crate::apply) fn remove(
    state: &mut ClusterState,
    entry: &Entry,
    command: &ImageRemove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let ImageRemove { name, in_use } = command;
    let Some(named) = state.images.names.get(name) else {
        let message = format!("no image {name} was pushed");
        return Outcome::Rejected(Rejection::new(ErrorCode::ImageNotFound, message));
    };
    let id = named.id;
    let users = deployments_with(state, name);
    if *in_use == InUse::Refuse && !users.is_empty() {
        return Outcome::Rejected(used(name, &users));
    }
    state.images.names.remove(name);
    audit.event(AuditKind::ImageRemove, [("image", name.to_string()), ("id", id.to_string())]);
    let is_named = state.images.names.values().any(|other| other.id == id);
    if !is_named && !pinned(state).contains(&id) {
        forget(state, &[id].into());
    }
    settle(state, entry.at, audit);
    Outcome::Done
}

fn used(name: &ImageTag, users: &[String]) -> Rejection {
    let users = users.join(", ");
    let message = format!(
        "image {name} is used by {users}: delete or change that first, or remove it all the same with \
         `jaco image rm {name} --in-use`"
    );
    Rejection::new(ErrorCode::ImageInUse, message).with("deployments", users)
}

/// Keeps what a node says that it holds, as far as it is there.
pub(in crate::apply) fn held(state: &mut ClusterState, command: &ImagesHeld) -> Outcome {
    let ImagesHeld { node, images } = command;
    if !is_member(state, *node) {
        return unknown_node(*node);
    }
    let known = images.iter().copied().filter(|id| state.images.rows.contains(id));
    let known: BTreeSet<BlobDigest> = known.collect();
    match known.is_empty() {
        true => drop(state.images.held.remove(node)),
        false => drop(state.images.held.insert(*node, known)),
    }
    Outcome::Done
}

/// Notes which images are used, after revisions or names came or went, and drops those that have not been for long enough.
/// Unused ones go when something else is pushed, applied or deleted: nothing else needs the room meanwhile.
pub(in crate::apply) fn settle(state: &mut ClusterState, at: Timestamp, audit: &mut Audit<'_>) {
    if state.images.rows.is_empty() {
        return;
    }
    let used = pinned(state);
    let changed = state.images.rows.iter();
    let changed = changed.filter(|(id, row)| used.contains(id) != row.unused_since.is_none());
    let changed: Vec<BlobDigest> = changed.map(|(id, _)| *id).collect();
    for id in changed {
        if let Some(row) = state.images.rows.get_mut(&id) {
            row.unused_since = (!used.contains(&id)).then_some(at);
        }
    }
    let is_over = |row: &PushedImage| {
        row.unused_since.is_some_and(|since| at.since(since) >= row.keep_unused)
    };
    let expired = state.images.rows.iter().filter(|(_, row)| is_over(row));
    let expired: BTreeSet<BlobDigest> = expired.map(|(id, _)| *id).collect();
    if expired.is_empty() {
        return;
    }
    let ids = expired.iter().take(16).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    audit.event(AuditKind::ImagesExpired, [("count", expired.len().to_string()), ("ids", ids)]);
    forget(state, &expired);
}

fn forget(state: &mut ClusterState, ids: &BTreeSet<BlobDigest>) {
    state.images.rows.retain(|id, _| !ids.contains(id));
    state.images.names.retain(|_, named| !ids.contains(&named.id));
    let concerned = state.images.held.iter().filter(|(_, held)| !held.is_disjoint(ids));
    let nodes: Vec<NodeId> = concerned.map(|(node, _)| *node).collect();
    for node in nodes {
        let Some(held) = state.images.held.get_mut(&node) else { continue };
        held.retain(|id| !ids.contains(id));
        if held.is_empty() {
            state.images.held.remove(&node);
        }
    }
}
