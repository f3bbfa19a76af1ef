//! Pushed images as users see them.

use std::collections::{BTreeMap, BTreeSet};

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::images::PushedImage;
use jaco_state::view::images::{copies_of, holders, keepers, run_by};
use jaco_types::BlobDigest;

use crate::view::hostname;

/// One image, or all of them.
pub(super) fn list(state: &ClusterState, id: Option<BlobDigest>) -> Vec<v1::PushedImageInfo> {
    let users = users(state);
    let rows = state.images.rows.iter();
    let rows = rows.filter(|(row, _)| id.is_none_or(|id| id == **row));
    rows.map(|(id, image)| info(state, *id, image, users.get(id))).collect()
}

fn info(
    state: &ClusterState,
    id: BlobDigest,
    image: &PushedImage,
    users: Option<&BTreeSet<String>>,
) -> v1::PushedImageInfo {
    let names = state.images.names.iter().filter(|(_, named)| named.id == id);
    let holding: BTreeSet<_> = holders(state, id).collect();
    let awaited = keepers(state, id, image).into_iter().filter(|node| !holding.contains(node));
    let mut awaited: Vec<String> = awaited.map(|node| hostname(state, node)).collect();
    let mut nodes: Vec<String> = holding.iter().map(|node| hostname(state, *node)).collect();
    nodes.sort_unstable();
    awaited.sort_unstable();
    let expires_at = image.unused_since.map(|since| since.after(image.keep_unused).0);
    v1::PushedImageInfo {
        id: id.to_string(),
        names: names.map(|(name, _)| name.to_string()).collect(),
        bytes: image.bytes(id),
        layers: u32::try_from(image.layers.len()).unwrap_or(u32::MAX),
        copies: image.copies,
        copies_possible: u32::try_from(copies_of(state, image)).unwrap_or(u32::MAX),
        nodes,
        awaited,
        used_by: users.into_iter().flatten().cloned().collect(),
        pushed_at_ms: millis(image.pushed_at.0),
        by: image.by.to_string(),
        expires_at_ms: expires_at.map(millis).unwrap_or_default(),
    }
}

fn millis(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// The services of kept revisions, by the image that they run.
fn users(state: &ClusterState) -> BTreeMap<BlobDigest, BTreeSet<String>> {
    let mut users: BTreeMap<BlobDigest, BTreeSet<String>> = BTreeMap::new();
    for deployment in state.deployments.values() {
        for (revision, record) in &deployment.revisions {
            for (service, id) in run_by(record) {
                let user = format!("{}/{service}@{revision}", deployment.name);
                users.entry(id).or_default().insert(user);
            }
        }
    }
    users
}
