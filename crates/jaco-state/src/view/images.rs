//! Pushed images: what an image of a spec leads to, who holds it, and who should.

use std::collections::BTreeSet;

use jaco_types::spec::PullPolicy;
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    Availability, BlobDigest, ImageDigest, ImageTag, NodeId, NodeStatus, ServiceName,
};

use crate::deployment::RevisionRecord;
use crate::images::PushedImage;
use crate::state::ClusterState;

/// The pushed image that an engine is asked for by `image`: its name, or `REPOSITORY@sha256:ID`.
#[must_use]
pub fn pushed<'s>(state: &'s ClusterState, image: &str) -> Option<(BlobDigest, &'s PushedImage)> {
    if state.images.rows.is_empty() {
        return None;
    }
    let id = match ImageDigest::parse(image) {
        Some(pinned) => BlobDigest::parse(pinned.digest())?,
        None => state.images.names.get(&ImageTag::parse(image).ok()?)?.id,
    };
    Some((id, state.images.rows.get(&id)?))
}

/// What a service that is made now is pinned to, where its image was pushed.
pub(crate) fn digest_of(state: &ClusterState, service: &ServiceSpec) -> Option<ImageDigest> {
    if state.images.names.is_empty() || service.pull == PullPolicy::Never {
        return None;
    }
    let name = ImageTag::parse(&service.image).ok()?;
    name.pinned(state.images.names.get(&name)?.id)
}

/// The images that a kept revision runs.
#[must_use]
pub fn pinned(state: &ClusterState) -> BTreeSet<BlobDigest> {
    let records = state.deployments.values().flat_map(|deployment| deployment.revisions.values());
    records
        .flat_map(|record| run_by(record))
        .map(|(_, id)| id)
        .filter(|id| state.images.rows.contains(id))
        .collect()
}

/// The services of a revision that run an image by an id, which may be that of a pushed one: pinned, or named so.
pub fn run_by(record: &RevisionRecord) -> impl Iterator<Item = (&ServiceName, BlobDigest)> {
    let pinned = record.digests.iter().map(|(service, digest)| (service, digest.clone()));
    let named = record.spec.services.iter();
    let named =
        named.filter_map(|(service, spec)| Some((service, ImageDigest::parse(&spec.image)?)));
    let both = pinned.chain(named);
    both.filter_map(|(service, digest)| Some((service, BlobDigest::parse(digest.digest())?)))
}

/// The services whose desired spec names this image, as `DEPLOYMENT/SERVICE`.
#[must_use]
pub fn deployments_with(state: &ClusterState, name: &ImageTag) -> Vec<String> {
    let services = state.deployments.values().flat_map(|deployment| {
        let services = deployment.spec().services.values();
        services.map(move |service| (&deployment.name, service))
    });
    let users = services
        .filter(|(_, service)| ImageTag::parse(&service.image).is_ok_and(|own| own == *name));
    users.map(|(deployment, service)| format!("{deployment}/{}", service.name)).collect()
}

/// The members that hold an image completely.
pub fn holders(state: &ClusterState, id: BlobDigest) -> impl Iterator<Item = NodeId> + '_ {
    let held = state.images.held.iter().filter(move |(_, held)| held.contains(&id));
    held.map(|(node, _)| *node)
}

/// The members that hold this blob, as part of whatever image.
#[must_use]
pub fn holders_of_blob(state: &ClusterState, blob: BlobDigest) -> Vec<NodeId> {
    let has_it = |id: &BlobDigest| {
        *id == blob
            || state
                .images
                .rows
                .get(id)
                .is_some_and(|row| row.layers.iter().any(|layer| layer.digest == blob))
    };
    let held = state.images.held.iter().filter(|(_, held)| held.iter().any(has_it));
    held.map(|(node, _)| *node).collect()
}

/// On how many nodes an image is to be: as many as its user asked for, as far as there are members that work.
#[must_use]
pub fn copies_of(state: &ClusterState, row: &PushedImage) -> usize {
    let working = state.nodes.values().filter(|node| may_hold(node)).count();
    (row.copies as usize).min(working.max(1))
}

/// The nodes that are to keep a copy. Who has one goes first, so that nothing is copied because a node came back; then the node
/// that took the push, which has the blobs though it has not said so yet. The others follow in an order of their own for each
/// image, which spreads images over the nodes.
#[must_use]
pub fn keepers(state: &ClusterState, id: BlobDigest, row: &PushedImage) -> Vec<NodeId> {
    let holding: BTreeSet<NodeId> = holders(state, id).collect();
    let working = state.nodes.values().filter(|node| may_hold(node)).map(|node| node.id);
    let rank = |node: NodeId| (!holding.contains(&node), row.taken_by != Some(node));
    let mut order: Vec<_> = working.map(|node| (rank(node), weight(id, node), node)).collect();
    order.sort_unstable();
    let first = order.into_iter().take(copies_of(state, row));
    first.map(|(_, _, node)| node).collect()
}

/// Whether this node has a copy that nobody needs: those who are to keep one all have it.
#[must_use]
pub fn is_surplus(state: &ClusterState, id: BlobDigest, row: &PushedImage, node: NodeId) -> bool {
    let keepers = keepers(state, id, row);
    let holding: BTreeSet<NodeId> = holders(state, id).collect();
    !keepers.is_empty()
        && !keepers.contains(&node)
        && keepers.iter().all(|keeper| holding.contains(keeper))
}

fn may_hold(node: &jaco_types::Node) -> bool {
    let is_up = match node.status {
        NodeStatus::Ready | NodeStatus::EngineDown => true,
        NodeStatus::Joining | NodeStatus::Down | NodeStatus::DiskFull => false,
    };
    let stays = match node.availability {
        Availability::Active | Availability::Cordoned => true,
        Availability::Draining => false,
    };
    is_up && stays
}

/// Mixes an image and a node: FNV-1a over both.
fn weight(id: BlobDigest, node: NodeId) -> u64 {
    let bytes = id.0.iter().copied().chain(node.0.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
