//! Scopes of disabled allocations: whether the cluster has them, and their form for users.

use jaco_types::{AllocationScope, NodeId};

use crate::state::ClusterState;

/// A scope as users see it: `shop/web on n1`.
#[must_use]
pub fn describe(state: &ClusterState, scope: &AllocationScope) -> String {
    let host = |id: &NodeId| match state.nodes.get(id) {
        Some(node) => node.hostname.to_string(),
        None => id.to_string(),
    };
    match scope {
        AllocationScope::Node(node) => format!("node {}", host(node)),
        AllocationScope::Service(service) => service.to_string(),
        AllocationScope::Pair { service, node } => format!("{service} on {}", host(node)),
        AllocationScope::Replica { id, .. } => format!("replica {id}"),
    }
}

/// Whether the cluster has the node, service and replica that a scope names.
pub(crate) fn exists(state: &ClusterState, scope: &AllocationScope) -> bool {
    let has_node = scope.node().is_none_or(|node| state.nodes.contains(&node));
    let has_service = scope.service().is_none_or(|key| {
        let deployment = state.deployments.get(&key.deployment);
        deployment.is_some_and(|known| known.spec().services.contains_key(&key.service))
    });
    let has_replica = match scope {
        AllocationScope::Replica { service, id } => {
            state.slots.get(id).is_some_and(|slot| slot.service == *service)
        }
        AllocationScope::Node(_) | AllocationScope::Service(_) | AllocationScope::Pair { .. } => {
            true
        }
    };
    has_node && has_service && has_replica
}
