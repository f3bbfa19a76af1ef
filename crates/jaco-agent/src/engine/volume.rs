//! Garbage collection of volumes.

use jaco_state::view::Needed;
use jaco_types::DeploymentName;

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
