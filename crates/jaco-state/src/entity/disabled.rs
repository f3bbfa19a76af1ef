//! Disabled allocations.

use jaco_types::{AllocationScope, Disablement, NodeId, ReplicaId, ServiceKey, Slot, StateIndex};

use crate::table::Table;

/// The most scopes that are kept: the pairs of 100 services on 100 nodes. Larger sets name whole services
/// or nodes.
pub const DISABLED_MAX: usize = 10_000;

/// The scopes that operators disabled (R-SEL-4).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisabledAllocations {
    /// Each scope, with who disabled it and when. It exists (ST-14).
    pub scopes: Table<AllocationScope, Disablement>,
    /// Jobs that wait for the next run of their schedule (ST-24), since when: nothing of them runs, and users do not enable
    /// them.
    pub waiting: Table<ServiceKey, Disablement>,
    /// The last entry that changed any of them: an older plan may not start anything.
    pub modified: StateIndex,
}

impl DisabledAllocations {
    /// The widest scope that disables an allocation, or its service where that waits for its schedule; `None` if it is
    /// enabled. Without a replica: whether
    /// a new one of the service would be disabled on the node.
    #[must_use]
    pub fn of(
        &self,
        service: &ServiceKey,
        replica: Option<&ReplicaId>,
        node: NodeId,
    ) -> Option<(AllocationScope, &Disablement)> {
        self.by_users(service, replica, node).or_else(|| {
            let waits = self.waiting.get(service)?;
            Some((AllocationScope::Service(service.clone()), waits))
        })
    }

    /// The widest scope that users disabled an allocation with.
    #[must_use]
    pub fn by_users(
        &self,
        service: &ServiceKey,
        replica: Option<&ReplicaId>,
        node: NodeId,
    ) -> Option<(AllocationScope, &Disablement)> {
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
            let disablement = self.scopes.get(&scope)?;
            Some((scope, disablement))
        })
    }

    /// The widest scope that disables a slot.
    #[must_use]
    pub fn of_slot(&self, slot: &Slot) -> Option<(AllocationScope, &Disablement)> {
        self.of(&slot.service, Some(&slot.id), slot.current.node)
    }
}
