//! The observed state of an instance. Only the node that runs it writes this.

use std::collections::BTreeMap;

use crate::id::{InstanceId, NodeId, ServiceKey};
use crate::time::Timestamp;

/// The last report of a node about an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceObserved {
    /// The instance.
    pub id: InstanceId,
    /// The service that it belongs to: known here even when no slot names it any more.
    pub service: ServiceKey,
    /// The node that reported it.
    pub node: NodeId,
    /// Its state.
    pub state: ReplicaState,
    /// Why, where there is a reason to give.
    pub code: Option<ReasonCode>,
    /// Facts that belong to the reason (`reason`, `exit_code`, …), as the failing component reported them.
    pub details: BTreeMap<String, String>,
    /// The engine's id of the container; empty before there is one.
    pub container_id: String,
    /// Where the container answers on its node, `ip:port` pairs by container port, as far as known.
    pub ports: BTreeMap<u16, String>,
    /// When the container was started, by the node's clock.
    pub started_at: Option<Timestamp>,
    /// When this state began, by the cluster's time as the node knew it.
    pub since: Timestamp,
    /// How it ended, if it did.
    pub exit: Option<Exit>,
}

/// The state of a replica as users see it. The names are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaState {
    /// Desired, not started: waiting, or a pull failed and will be tried again.
    Pending,
    /// Its image is being fetched.
    Pulling,
    /// The container is up, its healthcheck has not passed yet.
    Starting,
    /// The container is up, and healthy where there is a healthcheck.
    Running,
    /// The container is up and its healthcheck fails.
    Degraded,
    /// The container ended with an error, cannot be started, or is gone.
    Failed,
    /// The container ended by itself without an error.
    Stopped,
    /// It ran to its end, and is not run again (R-JOB-1). Nodes do not report it: the slot says so.
    Completed,
}

impl ReplicaState {
    /// The state as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Pulling => "pulling",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Completed => "completed",
        }
    }

    /// Whether the instance has ended and will not change any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        match self {
            Self::Failed | Self::Stopped | Self::Completed => true,
            Self::Pending | Self::Pulling | Self::Starting | Self::Running | Self::Degraded => {
                false
            }
        }
    }
}

/// Why an instance is in its state. A closed set: the names are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonCode {
    /// The image is being fetched.
    Pulling,
    /// The image could not be fetched; it is tried again.
    ImagePullFailed,
    /// The container is up and its healthcheck has not passed yet.
    HealthPending,
    /// The healthcheck fails.
    Unhealthy,
    /// The container ended by itself.
    ContainerExited,
    /// The container is gone, removed from outside of JACO.
    ContainerMissing,
    /// The engine refused to create or start the container.
    EngineError,
    /// It exhausted its restart budget; it is not restarted before the next apply.
    RestartExhausted,
    /// Its node was cut off from the cluster and stopped it, as the service asks for.
    NodeIsolated,
    /// It was disabled.
    Disabled,
    /// The engine cannot have a network of the cluster, because something else has its addresses; it is tried
    /// again.
    NetworkConflict,
    /// The router of its node does not hold its addresses yet; it is tried again.
    NetworkNotReady,
}

impl ReasonCode {
    /// Every code, in the order of declaration.
    pub const ALL: &[Self] = &[
        Self::Pulling,
        Self::ImagePullFailed,
        Self::HealthPending,
        Self::Unhealthy,
        Self::ContainerExited,
        Self::ContainerMissing,
        Self::EngineError,
        Self::RestartExhausted,
        Self::NodeIsolated,
        Self::Disabled,
        Self::NetworkConflict,
        Self::NetworkNotReady,
    ];

    /// The code as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pulling => "pulling",
            Self::ImagePullFailed => "image_pull_failed",
            Self::HealthPending => "health_pending",
            Self::Unhealthy => "unhealthy",
            Self::ContainerExited => "container_exited",
            Self::ContainerMissing => "container_missing",
            Self::EngineError => "engine_error",
            Self::RestartExhausted => "restart_exhausted",
            Self::NodeIsolated => "node_isolated",
            Self::Disabled => "disabled",
            Self::NetworkConflict => "network_conflict",
            Self::NetworkNotReady => "network_not_ready",
        }
    }
}

/// How a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 plus the signal's number where a signal ended it.
    pub code: i64,
    /// Whether the kernel killed it for using too much memory.
    pub out_of_memory: bool,
}
