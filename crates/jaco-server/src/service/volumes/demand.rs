//! What manifests say of the class and the size of a volume.

use jaco_types::{DeploymentName, VolumeDemand};

/// What the manifest says of the class of a volume that it calls `key`, and the engine `name`.
pub(super) fn demand<'d>(
    mut demands: impl Iterator<Item = &'d VolumeDemand>,
    deployment: &DeploymentName,
    (key, name): (&str, &str),
) -> Option<&'d VolumeDemand> {
    let own = format!("{deployment}_{key}");
    demands.find(|demand| *demand.volume == *own || *demand.volume == *name)
}
