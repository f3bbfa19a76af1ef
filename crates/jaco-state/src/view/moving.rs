//! Deployments that move from networks of each node to those of the cluster (ADR 0173).

use jaco_types::{Revision, ServiceKey};

use crate::state::ClusterState;

/// Whether instances of this revision are in networks of their node, and their successors in those of the cluster: others
/// on the node, from before as well, find them by the engine's names.
#[must_use]
pub fn is_apart(state: &ClusterState, service: &ServiceKey, revision: Revision) -> bool {
    let is_in_none = |revision| {
        state.service_spec(service, revision).is_some_and(|spec| spec.networks.is_empty())
    };
    let deployment = state.deployments.get(&service.deployment);
    let desired = deployment.map(|deployment| deployment.revision);
    is_in_none(revision) && desired.is_some_and(|desired| !is_in_none(desired))
}
