//! Limits, reservations and devices of a container.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::read::{optional_bytes, optional_millis};

/// Block device limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Blkio {
    pub device_read_bps: Vec<BlkioLimit>,
    pub device_read_iops: Vec<BlkioLimit>,
    pub device_write_bps: Vec<BlkioLimit>,
    pub device_write_iops: Vec<BlkioLimit>,
    pub weight: Option<u16>,
    pub weight_device: Vec<BlkioWeight>,
}

/// A limit of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlkioLimit {
    pub path: String,
    /// Bytes or operations per second.
    #[serde(deserialize_with = "optional_bytes")]
    pub rate: Option<i64>,
}

/// A weight of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlkioWeight {
    pub path: String,
    pub weight: u16,
}

/// What of `deploy` reaches the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Deploy {
    pub resources: Resources,
}

/// Limits and reservations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    pub limits: Limits,
    pub reservations: Reservations,
}

/// What the engine enforces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    #[serde(deserialize_with = "optional_millis", rename = "cpus")]
    pub cpu_millis: Option<u64>,
    #[serde(deserialize_with = "optional_bytes", rename = "memory")]
    pub memory_bytes: Option<i64>,
    pub pids: Option<i64>,
}

/// Reservations of a container that the engine takes into account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reservations {
    #[serde(deserialize_with = "optional_bytes", rename = "memory")]
    pub memory_bytes: Option<i64>,
    pub devices: Vec<DeviceRequest>,
}

/// A request for devices of a driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceRequest {
    pub capabilities: Vec<String>,
    /// -1 is all.
    pub count: Option<i64>,
    pub device_ids: Vec<String>,
    pub driver: Option<String>,
    pub options: BTreeMap<String, String>,
}

/// A device of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Device {
    pub source: String,
    pub target: Option<String>,
    pub permissions: Option<String>,
}

/// A limit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenUlimit")]
pub struct Ulimit {
    pub soft: i64,
    pub hard: i64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenUlimit {
    Both(i64),
    Each { soft: i64, hard: i64 },
}

impl From<WrittenUlimit> for Ulimit {
    fn from(written: WrittenUlimit) -> Self {
        match written {
            WrittenUlimit::Both(limit) => Self { soft: limit, hard: limit },
            WrittenUlimit::Each { soft, hard } => Self { soft, hard },
        }
    }
}
