//! The changes that the planner makes, and the instances that they start.

use std::sync::Arc;

use jaco_types::slot::Exhausted;
use jaco_types::{
    Completion, ConsumerName, DesiredState, ImageDigest, InstanceId, NodeId, NodeStatus, Ordinal,
    ReplicaId, Revision, Scheduling, ServiceKey, SpecHash,
};

/// One change of the planner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new slot with its first instance.
    SlotCreate {
        /// Its name.
        id: ReplicaId,
        /// The service it belongs to.
        service: ServiceKey,
        /// Its ordinal.
        ordinal: Ordinal,
        /// Its first instance; of one that is disabled, what it would run.
        instance: NewInstance,
        /// Whether it runs that.
        desired_state: DesiredState,
    },
    /// A new instance in an existing slot.
    SlotReplace {
        /// The slot.
        id: ReplicaId,
        /// The new instance.
        instance: NewInstance,
        /// What becomes of the instance that it replaces.
        previous: Previous,
        /// Why.
        cause: ReplaceCause,
        /// The failures in a row, from now on.
        consecutive_failures: u32,
    },
    /// The handover is complete: the retiring instance may stop.
    SlotSettle {
        /// The slot.
        id: ReplicaId,
    },
    /// The handover is reverted: the retiring instance is the current one again.
    SlotRevert {
        /// The slot.
        id: ReplicaId,
    },
    /// The failures in a row, without a new instance.
    SlotSetRestarts {
        /// The slot.
        id: ReplicaId,
        /// How many.
        consecutive: u32,
        /// Whether the restart budget is exhausted.
        exhausted: Exhausted,
    },
    /// The slot runs nothing from now on: what it has stops as what is replaced does, and its
    /// failures are forgotten. Or, where it is disabled already, what it would run is something else.
    SlotDisable {
        /// The slot.
        id: ReplicaId,
        /// What it would run, and where.
        instance: NewInstance,
    },
    /// The current instance ran to its end, and is not run again (R-JOB-1). Its node keeps the container.
    SlotFinish {
        /// The slot.
        id: ReplicaId,
        /// How it ended.
        completion: Completion,
        /// The failures in a row.
        consecutive_failures: u32,
    },
    /// The slot is surplus; its instances stop.
    SlotRemove {
        /// The slot.
        id: ReplicaId,
    },
    /// The planner's record of a service. `apply` stamps `modified`.
    SchedulingSet {
        /// The service.
        service: ServiceKey,
        /// The record, whole. Boxed: it is far larger than what most changes say.
        record: Box<Scheduling>,
    },
    /// All consumers acknowledged that this instance left the endpoints, or the deadline has passed: it
    /// stops.
    TerminatingRemove {
        /// The instance.
        id: InstanceId,
    },
    /// The lease of a consumer expired.
    ConsumerExpire {
        /// Its name.
        name: ConsumerName,
    },
    /// The status of a node.
    NodeStatusSet {
        /// The node.
        node: NodeId,
        /// From now on.
        status: NodeStatus,
        /// The reason, for display.
        reason: String,
    },
    /// Pins the image digest of a service at a revision.
    ImageResolve {
        /// The service.
        service: ServiceKey,
        /// The revision.
        revision: Revision,
        /// The digest that the first node with the image reported.
        digest: ImageDigest,
    },
    /// A drain timed out: the node returns to its previous availability.
    DrainTimeout {
        /// The node.
        node: NodeId,
        /// Some of the replicas that did not leave, for display.
        left: String,
    },
}

/// An instance before `apply` stamps its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInstance {
    /// The node that shall run it.
    pub node: NodeId,
    /// The revision whose spec it runs.
    pub revision: Revision,
    /// The hash of that spec.
    pub spec_hash: SpecHash,
    /// The ids of the GPUs of the node that it has for itself.
    pub gpus: Vec<Arc<str>>,
}

/// What becomes of the instance that a new one replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Previous {
    /// It serves until its successor does (start-first).
    Retire,
    /// It stops now: it failed, its node is gone, or the two cannot run side by side.
    Drop,
}

/// Why a slot gets a new instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplaceCause {
    /// The spec changed.
    SpecChanged,
    /// The instance failed.
    Failed,
    /// The node cannot keep it.
    NodeLost,
    /// The slot moves to another node.
    Moved,
    /// A service that it shares a namespace with was replaced.
    ColocatedReplaced,
    /// It was disabled, and is not any more.
    Enabled,
}

impl ReplaceCause {
    /// Every one of them.
    pub const ALL: [Self; 6] = [
        Self::SpecChanged,
        Self::Failed,
        Self::NodeLost,
        Self::Moved,
        Self::ColocatedReplaced,
        Self::Enabled,
    ];

    /// The cause as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpecChanged => "spec_changed",
            Self::Failed => "failed",
            Self::NodeLost => "node_lost",
            Self::Moved => "moved",
            Self::ColocatedReplaced => "colocated_replaced",
            Self::Enabled => "enabled",
        }
    }
}
