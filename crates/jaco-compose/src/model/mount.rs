//! Mounts of a container.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::read::{optional_bytes, optional_mode};

/// Something mounted into the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mount {
    #[serde(rename = "type")]
    pub kind: MountKind,
    /// The key of a volume, a path, or an image; nothing for an anonymous volume.
    pub source: Option<String>,
    pub target: String,
    pub read_only: bool,
    pub bind: BindOptions,
    pub volume: VolumeOptions,
    pub tmpfs: TmpfsOptions,
    pub image: ImageOptions,
}

/// What is mounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountKind {
    /// A path of the node, or an uploaded one.
    Bind,
    /// A named or anonymous volume.
    #[default]
    Volume,
    /// Memory.
    Tmpfs,
    /// A CSI volume of Swarm; the audit refuses it.
    Cluster,
    /// A pipe of Windows; the audit refuses it.
    Npipe,
    /// The content of an image.
    Image,
}

/// Options of a bind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BindOptions {
    pub create_host_path: bool,
    pub propagation: Option<String>,
    pub recursive: Option<String>,
    /// `z` or `Z`.
    pub selinux: Option<String>,
}

/// Options of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeOptions {
    pub labels: BTreeMap<String, String>,
    pub nocopy: bool,
    pub subpath: Option<String>,
}

/// Options of a memory mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TmpfsOptions {
    /// Permission bits.
    pub mode: Option<u32>,
    #[serde(deserialize_with = "optional_bytes", rename = "size")]
    pub size_bytes: Option<i64>,
}

/// Options of an image mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageOptions {
    pub subpath: Option<String>,
}

/// A config or secret in the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileMount {
    /// The key of the config or secret.
    pub source: String,
    /// The path in the container.
    pub target: String,
    pub uid: Option<String>,
    pub gid: Option<String>,
    /// Permission bits.
    #[serde(deserialize_with = "optional_mode")]
    pub mode: Option<u32>,
}
