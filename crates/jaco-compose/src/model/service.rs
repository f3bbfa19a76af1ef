//! The keys of a service that reach its containers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::limits::{Blkio, Deploy, Device, DeviceRequest, Ulimit};
use crate::model::mount::{FileMount, Mount};
use crate::model::read::{optional_bytes, optional_millis, optional_nanos};

/// The service's keys. Absent is `None`, empty or false.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "they are the keys of the specification")]
pub struct Service {
    pub annotations: BTreeMap<String, String>,
    pub blkio_config: Option<Blkio>,
    pub cap_add: Vec<String>,
    pub cap_drop: Vec<String>,
    pub cgroup: Option<String>,
    pub cgroup_parent: Option<String>,
    /// Replaces the image's command; an empty list takes it away.
    pub command: Option<Vec<String>>,
    pub configs: Vec<FileMount>,
    pub container_name: Option<String>,
    pub cpu_period: Option<i64>,
    pub cpu_quota: Option<i64>,
    pub cpu_rt_period: Option<i64>,
    pub cpu_rt_runtime: Option<i64>,
    pub cpu_shares: Option<i64>,
    #[serde(deserialize_with = "optional_millis", rename = "cpus")]
    pub cpu_limit_millis: Option<u64>,
    pub cpuset: Option<String>,
    pub deploy: Option<Deploy>,
    pub device_cgroup_rules: Vec<String>,
    pub devices: Vec<Device>,
    pub dns: Vec<String>,
    pub dns_opt: Vec<String>,
    pub dns_search: Vec<String>,
    pub domainname: Option<String>,
    /// Replaces the image's entrypoint; an empty list takes it away.
    pub entrypoint: Option<Vec<String>>,
    /// A variable without a value is taken out of the image's.
    pub environment: BTreeMap<String, Option<String>>,
    pub expose: Vec<String>,
    /// `host=address`.
    pub extra_hosts: Vec<String>,
    pub gpus: Vec<DeviceRequest>,
    pub group_add: Vec<String>,
    pub healthcheck: Option<Health>,
    pub hostname: Option<String>,
    pub image: String,
    pub init: Option<bool>,
    pub ipc: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// `service` or `service:alias`.
    pub logging: Option<Logging>,
    #[serde(deserialize_with = "optional_bytes", rename = "mem_limit")]
    pub memory_limit_bytes: Option<i64>,
    #[serde(deserialize_with = "optional_bytes", rename = "mem_reservation")]
    pub memory_reservation_bytes: Option<i64>,
    /// From 0 to 100.
    #[serde(deserialize_with = "optional_bytes")]
    pub mem_swappiness: Option<i64>,
    /// Memory and swap together; -1 is unlimited.
    #[serde(deserialize_with = "optional_bytes", rename = "memswap_limit")]
    pub memory_swap_bytes: Option<i64>,
    pub network_mode: Option<String>,
    pub networks: BTreeMap<String, Attachment>,
    pub oom_kill_disable: bool,
    pub oom_score_adj: Option<i64>,
    pub pid: Option<String>,
    pub pids_limit: Option<i64>,
    /// Such as `linux/arm64`.
    pub platform: Option<String>,
    pub ports: Vec<Port>,
    /// Run before the stop signal, one after the other.
    pub pre_stop: Vec<Hook>,
    pub privileged: bool,
    pub read_only: bool,
    pub runtime: Option<String>,
    pub secrets: Vec<FileMount>,
    pub security_opt: Vec<String>,
    #[serde(deserialize_with = "optional_bytes", rename = "shm_size")]
    pub shm_size_bytes: Option<i64>,
    pub stdin_open: bool,
    #[serde(deserialize_with = "optional_nanos", rename = "stop_grace_period")]
    pub stop_grace_period_nanos: Option<u64>,
    pub stop_signal: Option<String>,
    pub storage_opt: BTreeMap<String, String>,
    pub sysctls: BTreeMap<String, String>,
    /// `path` or `path:options`.
    pub tmpfs: Vec<String>,
    pub tty: bool,
    pub ulimits: BTreeMap<String, Ulimit>,
    pub user: Option<String>,
    pub userns_mode: Option<String>,
    pub uts: Option<String>,
    pub volumes: Vec<Mount>,
    pub working_dir: Option<String>,
}

/// A health test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    pub disable: bool,
    /// Begins with `CMD`, `CMD-SHELL` or `NONE`.
    pub test: Vec<String>,
    #[serde(deserialize_with = "optional_nanos", rename = "interval")]
    pub interval_nanos: Option<u64>,
    #[serde(deserialize_with = "optional_nanos", rename = "timeout")]
    pub timeout_nanos: Option<u64>,
    #[serde(deserialize_with = "optional_nanos", rename = "start_period")]
    pub start_period_nanos: Option<u64>,
    #[serde(deserialize_with = "optional_nanos", rename = "start_interval")]
    pub start_interval_nanos: Option<u64>,
    pub retries: Option<i64>,
}

/// A command that is run in the container at a moment of its life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hook {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// In addition to the container's. A variable without a value is left out.
    pub environment: BTreeMap<String, Option<String>>,
    pub privileged: bool,
    /// User, if not the container's.
    pub user: Option<String>,
    /// Working directory, if not the container's.
    pub working_dir: Option<String>,
}

/// A log driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Logging {
    pub driver: Option<String>,
    pub options: BTreeMap<String, Option<String>>,
}

/// How a service is attached to a network.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Attachment {
    pub aliases: Vec<String>,
    /// Which network gives the default route.
    pub gw_priority: Option<f64>,
    /// The order of attachment, the highest first.
    pub priority: Option<f64>,
}

/// A published port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Port {
    pub target: u16,
    /// A port, a range, or nothing.
    pub published: Option<String>,
    pub protocol: Option<String>,
    pub host_ip: Option<String>,
}
