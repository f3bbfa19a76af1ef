//! Containers of a node: what is requested, and what is observed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use jaco_state::view::AttachedNetwork;
use jaco_types::{
    ClusterId, DeploymentName, Exit, InstanceId, NetworkId, NodeId, ServiceKey, SpecHash, Timestamp,
};

/// Owner of containers. Several nodes may share one engine, and do not touch each other's
/// containers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
}

/// Id that the engine gave to a container.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerId(pub Arc<str>);

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A container of this node, as observed through the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedContainer {
    /// The instance it runs.
    pub instance: InstanceId,
    /// The service that it belongs to.
    pub service: ServiceKey,
    /// Owner, from its labels.
    pub owner: Owner,
    /// Its id in the engine.
    pub container: ContainerId,
    /// Its status.
    pub status: ContainerStatus,
    /// Address on the node, `ip:port`, by container port.
    pub ports: BTreeMap<u16, String>,
    /// Hash of the spec it was created from, if the label can be read.
    pub spec_hash: Option<SpecHash>,
}

/// Status of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerStatus {
    /// Created and never started.
    Created,
    /// Running.
    Up {
        /// State of the healthcheck.
        health: Health,
        /// Start time.
        started_at: Timestamp,
    },
    /// Exited.
    Exited {
        /// Exit code and cause.
        exit: Exit,
        /// Error message of the engine; empty if there is none.
        error: Box<str>,
        /// Last output, after a failure; empty if unknown.
        output: Box<str>,
        /// Start time.
        started_at: Option<Timestamp>,
        /// Exit time.
        finished_at: Timestamp,
    },
}

/// State of a container's healthcheck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// No healthcheck.
    None,
    /// Has not passed yet.
    Starting,
    /// Passes.
    Healthy,
    /// Fails.
    Unhealthy {
        /// Output of the last check.
        output: String,
    },
}

/// A container to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequest {
    /// The instance.
    pub instance: InstanceId,
    /// The service that it belongs to.
    pub service: ServiceKey,
    /// The image.
    pub image: Arc<str>,
    /// Canonical JSON of the container's spec.
    pub container: Arc<str>,
    /// Hash of `container`.
    pub spec_hash: SpecHash,
    /// Files to mount.
    pub files: MountedFiles,
    /// Ids of the GPUs reserved for it.
    pub gpus: Vec<Arc<str>>,
    /// The networks of the cluster that it is attached to, in order, with its addresses; none where its
    /// networks are those of the node.
    pub networks: Vec<AttachedNetwork>,
}

/// The networks that a node may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptNetworks {
    /// Deployments whose networks of this node stay.
    pub deployments: BTreeSet<DeploymentName>,
    /// Networks of the cluster that stay.
    pub cluster: BTreeSet<NetworkId>,
}

impl KeptNetworks {
    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deployments.is_empty() && self.cluster.is_empty()
    }

    /// Whether another one has all of it.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.deployments.is_subset(&other.deployments) && self.cluster.is_subset(&other.cluster)
    }

    /// Adds what another one has.
    pub fn extend(&mut self, other: Self) {
        self.deployments.extend(other.deployments);
        self.cluster.extend(other.cluster);
    }
}

/// Files of a container on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountedFiles {
    /// By the path in a bind mount: the directory or file mounted instead.
    pub binds: BTreeMap<String, PathBuf>,
    /// Configs and secrets, mounted read-only.
    pub mounts: Vec<FileBind>,
}

/// A file on this node and its path in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBind {
    /// Path on the node.
    pub host: PathBuf,
    /// Its path in the container.
    pub target: String,
}
