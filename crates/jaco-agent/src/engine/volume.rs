//! Volumes: what there is, who mounts it, and garbage collection.

use jaco_state::view::Needed;
use jaco_types::unit::Bytes;
use jaco_types::{DeploymentName, InstanceId, Timestamp, VolumeClass};

/// A garbage collection of volumes.
#[derive(Debug, Clone)]
pub struct VolumeGc {
    /// Only volumes of this deployment; of all deployments if `None`.
    pub deployment: Option<DeploymentName>,
    /// Volumes still in use by services; others are removed.
    pub needed: Needed,
    /// Whether to remove anything.
    pub extent: GcMode,
}

/// Whether a garbage collection removes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcMode {
    /// Only lists what would be removed.
    DryRun,
    /// Removes it.
    Remove,
}

/// A volume that nothing uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedVolume {
    /// The deployment it was created for.
    pub deployment: DeploymentName,
    /// Its id in the engine.
    pub name: String,
    /// Why it was not removed, by the engine's message; `None` if it was, or would be.
    pub kept: Option<String>,
}

/// A volume that was created for a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldVolume {
    /// The deployment it was created for.
    pub deployment: DeploymentName,
    /// As the manifest names it: the name of the volume there, or the path of a folder that is kept in a volume.
    pub key: String,
    /// Its id in the engine.
    pub name: String,
    /// Its class, if it is of one that the node offers.
    pub class: Option<VolumeClass>,
    /// What is in it takes so much of the disk; only known of volumes of a class, if it could be counted in time.
    pub used: Option<Bytes>,
    /// If the engine says so.
    pub created_at: Option<Timestamp>,
    /// Containers that mount it, by instance.
    pub mounts: Vec<VolumeMount>,
}

/// A container that mounts a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeMount {
    /// The instance it is of; none if it is another program's container.
    pub instance: Option<InstanceId>,
    /// What it can do to the volume now.
    pub access: VolumeAccess,
}

/// What a container that mounts a volume can do to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeAccess {
    /// Nothing: it does not run.
    Stopped,
    /// It runs and reads it.
    Reads,
    /// It runs and may write to it at any time.
    Writes,
}

impl VolumeAccess {
    /// As the API names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Reads => "reads",
            Self::Writes => "writes",
        }
    }
}

/// A volume that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeTarget {
    /// The deployment it is for.
    pub deployment: DeploymentName,
    /// Its id in the engine.
    pub name: String,
    /// The class that it is to be of if there is none of its name; the engine's own storage without.
    pub class: Option<VolumeClass>,
    /// What becomes of one of this name, whoever it is of.
    pub existing: ExistingVolume,
}

/// What becomes of a volume that is in the way of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingVolume {
    /// It stays, and the new one is refused.
    Refuse,
    /// It is replaced.
    Replace,
}
