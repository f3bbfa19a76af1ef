//! A typed view of a container's canonical text, for whoever builds the container.
//!
//! Every key that reaches a container has a field; lengths of time are nanoseconds, amounts of
//! memory are bytes, both said in the name. Reading is strict: a text that does not fit was not
//! made by this crate.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

use crate::units;

/// What a container is made of.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// The service.
    pub service: Service,
    /// Networks of the deployment that the service is attached to, by key.
    #[serde(default)]
    pub networks: BTreeMap<String, Network>,
    /// Named volumes that it mounts, by key.
    #[serde(default)]
    pub volumes: BTreeMap<String, Volume>,
    /// Configs that it gets, by key.
    #[serde(default)]
    pub configs: BTreeMap<String, Content>,
    /// Secrets that it gets, by key.
    #[serde(default)]
    pub secrets: BTreeMap<String, Content>,
    /// Versions of shipped files, by the path that mounts name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A canonical text that is not one.
#[derive(Debug, thiserror::Error)]
#[error("the canonical container text cannot be read")]
pub struct ModelError(#[from] serde_json::Error);

impl ContainerSpec {
    /// Reads [`crate::Container::canonical`].
    ///
    /// # Errors
    ///
    /// When the text was not made by this crate.
    pub fn parse(canonical: &str) -> Result<Self, ModelError> {
        Ok(serde_json::from_str(canonical)?)
    }
}

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

/// What the engine is told to keep free or to add.
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
    /// A path of the node, or a shipped one.
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

/// A network of the deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// The name on the nodes.
    pub name: String,
    pub internal: bool,
    /// Shared with other deployments that name it.
    pub external: bool,
}

/// A named volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Volume {
    /// The name on the nodes.
    pub name: String,
    /// Exists already; never created or removed.
    pub external: bool,
    pub driver: Option<String>,
    pub driver_opts: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
}

/// A config or secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Content {
    /// The name in the cluster.
    pub name: String,
    /// Exists already.
    pub external: bool,
    /// What stands for its content.
    pub version: Option<String>,
    /// A config written into the compose file; never set for a secret.
    pub content: Option<String>,
    /// Where the client reads it, as long as no version is known.
    pub file: Option<String>,
    /// Which variable the client reads, as long as no version is known.
    pub environment: Option<String>,
}

fn optional_nanos<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    read_text(input, "a length of time", units::parse_duration_nanos)
}

fn optional_bytes<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    read_text(input, "a number of bytes", |text| text.parse().ok())
}

fn optional_mode<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    read_text(input, "a file mode", |text| u32::from_str_radix(text, 8).ok())
}

fn read_text<'de, D: Deserializer<'de>, T>(
    input: D,
    what: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    let Some(text) = Option::<String>::deserialize(input)? else {
        return Ok(None);
    };
    match read(&text) {
        Some(value) => Ok(Some(value)),
        None => Err(de::Error::custom(format_args!("{text:?} is not {what}"))),
    }
}

fn optional_millis<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(input)? else {
        return Ok(None);
    };
    match units::scale(&number.to_string(), 1_000) {
        Some(millis) => Ok(Some(millis)),
        None => Err(de::Error::custom(format_args!("{number} is not a number of cores"))),
    }
}
