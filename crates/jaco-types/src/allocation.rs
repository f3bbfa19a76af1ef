//! Allocations: a service on a node, and which of them are disabled (R-SEL-2, R-SEL-3, R-SEL-4).

use crate::id::{NodeId, ReplicaId, ServiceKey};
use crate::identity::Identity;
use crate::time::Timestamp;

/// A set of allocations. Lists are in this order: the widest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationScope {
    /// Everything on a node.
    Node(NodeId),
    /// All of a service, wherever it is.
    Service(ServiceKey),
    /// What a service has on a node.
    Pair {
        /// The service.
        service: ServiceKey,
        /// The node.
        node: NodeId,
    },
    /// One replica, wherever it is.
    Replica {
        /// The service that it belongs to.
        service: ServiceKey,
        /// The replica.
        id: ReplicaId,
    },
}

impl AllocationScope {
    /// The node that it names.
    #[must_use]
    pub const fn node(&self) -> Option<NodeId> {
        match self {
            Self::Node(node) | Self::Pair { node, .. } => Some(*node),
            Self::Service(_) | Self::Replica { .. } => None,
        }
    }

    /// The service that it names.
    #[must_use]
    pub const fn service(&self) -> Option<&ServiceKey> {
        match self {
            Self::Service(service) | Self::Pair { service, .. } | Self::Replica { service, .. } => {
                Some(service)
            }
            Self::Node(_) => None,
        }
    }

    /// Whether `other` lies in this scope, wherever replicas are. A replica belongs to its service; to a
    /// node it belongs only for a time.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        match self {
            Self::Node(node) => other.node() == Some(*node),
            Self::Service(service) => other.service() == Some(service),
            Self::Pair { .. } | Self::Replica { .. } => self == other,
        }
    }
}

/// Who disabled allocations, and when: they keep their placement and run nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disablement {
    /// Who.
    pub by: Identity,
    /// When, by the leader's clock.
    pub at: Timestamp,
}
