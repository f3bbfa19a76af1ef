//! Volumes.

use jaco_proto::v1::{VolumeInfo, VolumeMountInfo};
use serde_json::{Value, json};

use crate::fields::{non_empty, without_null};
use crate::time::rfc3339;

/// A volume as JSON.
#[must_use]
pub fn json(volume: &VolumeInfo) -> Value {
    let mount = |mount: &VolumeMountInfo| {
        without_null(json!({ "replica": non_empty(&mount.replica), "access": mount.access }))
    };
    without_null(json!({
        "deployment": volume.deployment,
        "volume": volume.volume,
        "node": volume.node,
        "engine_name": volume.engine_name,
        "class": non_empty(&volume.class),
        "size_bytes": (volume.size_bytes > 0).then_some(volume.size_bytes),
        "used_bytes": volume.used_bytes,
        "created_at": (volume.created_at_ms > 0).then(|| rfc3339(volume.created_at_ms)),
        "mounts": volume.mounts.iter().map(mount).collect::<Value>(),
    }))
}
