//! What people want to rest, and what that means for a replica.

use jaco_types::{AllocationScope, NodeId, ReplicaId, Rest, ServiceKey, Slot, StateIndex};

use crate::state::ClusterState;
use crate::table::Table;

/// How many wishes are kept: the pairs of 100 services on 100 nodes. Whoever needs more names whole
/// services or nodes.
pub const DISABLED_MAX: usize = 10_000;

/// What people want to rest; only people write it (R-SEL-4).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisabledSet {
    /// Each wish, with who has it since when. What it names exists (ST-14).
    pub scopes: Table<AllocationScope, Rest>,
    /// The last entry that changed any of them: a plan that is older may not start anything.
    pub modified: StateIndex,
}

impl DisabledSet {
    /// The widest wish that an allocation rests by; `None` where it may run. Without a replica,
    /// whether a new one of the service would rest on the node.
    #[must_use]
    pub fn of(
        &self,
        service: &ServiceKey,
        replica: Option<&ReplicaId>,
        node: NodeId,
    ) -> Option<(AllocationScope, &Rest)> {
        if self.scopes.is_empty() {
            return None;
        }
        let service = || service.clone();
        let replica =
            replica.map(|id| AllocationScope::Replica { service: service(), id: id.clone() });
        [
            AllocationScope::Node(node),
            AllocationScope::Service(service()),
            AllocationScope::Pair { service: service(), node },
        ]
        .into_iter()
        .chain(replica)
        .find_map(|scope| {
            let rest = self.scopes.get(&scope)?;
            Some((scope, rest))
        })
    }

    /// The widest wish that a slot rests by, wherever it is.
    #[must_use]
    pub fn of_slot(&self, slot: &Slot) -> Option<(AllocationScope, &Rest)> {
        self.of(&slot.service, Some(&slot.id), slot.current.node)
    }
}

/// A scope as people read it: `shop/web on n1`.
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

/// What breaks ST-14 or ST-15.
pub(crate) fn violations(state: &ClusterState) -> Vec<(&'static str, String)> {
    let mut broken = Vec::new();
    for scope in state.disabled.scopes.keys() {
        if !exists(state, scope) {
            broken.push(("ST-14", format!("{} rests and is not there", describe(state, scope))));
        }
    }
    for slot in state.slots.values() {
        if slot.standing == jaco_types::Standing::Disabled && slot.retiring.is_some() {
            broken.push(("ST-15", format!("{} is disabled and retires an instance", slot.id)));
        }
    }
    broken
}

/// Whether the cluster has what a scope names.
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
