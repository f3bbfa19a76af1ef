//! Which contents are referred to, and by what.

use std::collections::BTreeSet;

use jaco_types::{ContentId, DeploymentName, NamedKey};

use crate::entity::deployment::Deployment;
use crate::state::ClusterState;

/// Every chunk that a kept revision or a named config or secret refers to.
pub(crate) fn referred(state: &ClusterState) -> BTreeSet<ContentId> {
    let revisions = state.deployments.values().flat_map(|deployment| deployment.revisions.values());
    let of_revisions = revisions.flat_map(|record| record.spec.contents.iter());
    let of_names = state.named.values().flat_map(|named| named.pieces.iter());
    of_revisions.chain(of_names).copied().collect()
}

/// The deployments whose desired revision uses a named config or secret.
pub fn users<'s>(
    state: &'s ClusterState,
    key: &NamedKey,
) -> impl Iterator<Item = &'s DeploymentName> {
    let uses = |deployment: &&Deployment| deployment.spec().named.contains(key);
    state.deployments.values().filter(uses).map(|deployment| &deployment.name)
}
