//! Volumes.

use jaco_proto::v1::{VolumeInfo, VolumeMountInfo};
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// A volume as JSON.
pub(crate) fn json(volume: &VolumeInfo) -> Value {
    let mount = |mount: &VolumeMountInfo| {
        without_null(json!({ "replica": non_empty(&mount.replica), "access": mount.access }))
    };
    without_null(json!({
        "deployment": volume.deployment,
        "volume": volume.volume,
        "node": volume.node,
        "engine_name": volume.engine_name,
        "created_at": (volume.created_at_ms > 0).then(|| time::rfc3339(volume.created_at_ms)),
        "mounts": volume.mounts.iter().map(mount).collect::<Value>(),
    }))
}

/// Volumes as a table.
pub(crate) fn table(volumes: &[VolumeInfo], frame: &Frame) -> String {
    let mut table = Table::new(&["VOLUME", "NODE", "MOUNTED BY", "CREATED", "ENGINE NAME"]);
    for volume in volumes {
        let created = match volume.created_at_ms {
            0 => "-".to_owned(),
            at => time::ago(at, frame.now_ms),
        };
        table.row([
            format!("{}/{}", volume.deployment, volume.volume),
            volume.node.clone(),
            mounted_by(&volume.mounts),
            created,
            volume.engine_name.clone(),
        ]);
    }
    table.render()
}

fn mounted_by(mounts: &[VolumeMountInfo]) -> String {
    if mounts.is_empty() {
        return "-".to_owned();
    }
    let mount = |mount: &VolumeMountInfo| {
        let name = if mount.replica.is_empty() { "another container" } else { &mount.replica };
        match mount.access.as_str() {
            "writes" => name.to_owned(),
            other => format!("{name} ({other})"),
        }
    };
    mounts.iter().map(mount).collect::<Vec<_>>().join(", ")
}
