//! Volumes.

pub(crate) use jaco_json::volume::json;
use jaco_proto::v1::{VolumeInfo, VolumeMountInfo};
use jaco_types::unit::Bytes;

use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// Volumes as a table.
pub(crate) fn table(volumes: &[VolumeInfo], frame: &Frame) -> String {
    let mut table = Table::new(&[
        "VOLUME",
        "NODE",
        "CLASS",
        "SIZE",
        "USED",
        "MOUNTED BY",
        "CREATED",
        "ENGINE NAME",
    ]);
    for volume in volumes {
        let created = match volume.created_at_ms {
            0 => "-".to_owned(),
            at => time::ago(at, frame.now_ms),
        };
        table.row([
            format!("{}/{}", volume.deployment, volume.volume),
            volume.node.clone(),
            class(volume),
            amount((volume.size_bytes > 0).then_some(volume.size_bytes)),
            amount(volume.used_bytes),
            mounted_by(&volume.mounts),
            created,
            volume.engine_name.clone(),
        ]);
    }
    table.render()
}

fn class(volume: &VolumeInfo) -> String {
    if volume.class.is_empty() { "-".to_owned() } else { volume.class.clone() }
}

fn amount(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string())
}

/// Volumes that take more than their size, each with what to do.
pub(crate) fn over_size(volumes: &[VolumeInfo]) -> impl Iterator<Item = (&VolumeInfo, String)> {
    let over = |volume: &&VolumeInfo| {
        volume.size_bytes > 0 && volume.used_bytes.is_some_and(|used| used > volume.size_bytes)
    };
    volumes.iter().filter(over).map(|volume| {
        let VolumeInfo { volume: name, class, .. } = volume;
        let help = format!(
            "free some of it, or raise `volumes.{name}.size` of jaco.yaml, by which the space of class {class} is planned"
        );
        (volume, help)
    })
}

/// What a volume takes beside its size, as a part of a sentence.
pub(crate) fn taken(volume: &VolumeInfo) -> String {
    let used = Bytes(volume.used_bytes.unwrap_or_default());
    format!("takes {used} and has a size of {}", Bytes(volume.size_bytes))
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
