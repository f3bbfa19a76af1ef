//! Volumes.

pub(crate) use jaco_json::volume::json;
use jaco_proto::v1::{VolumeInfo, VolumeMountInfo};

use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

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
