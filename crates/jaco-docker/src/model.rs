//! The canonical container text as data: the keys that reach Docker, in the form in which
//! `docker compose config` prints them. Keys that are not named here have no effect on a container.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A container: its service and the resources that this uses.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The service.
    pub service: Service,
    /// The networks it names.
    pub networks: BTreeMap<String, Network>,
    /// The volumes it names.
    pub volumes: BTreeMap<String, Volume>,
}

/// A top-level network.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Network {
    pub name: Option<String>,
    pub internal: bool,
    pub external: bool,
}

/// A top-level volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Volume {
    pub name: Option<String>,
    pub external: bool,
    pub driver: Option<String>,
    pub driver_opts: BTreeMap<String, Text>,
    pub labels: BTreeMap<String, Text>,
}

/// A service, as far as its containers are concerned.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    pub annotations: BTreeMap<String, Text>,
    pub blkio_config: Option<BlkioConfig>,
    pub cap_add: Vec<String>,
    pub cap_drop: Vec<String>,
    pub cgroup: Option<String>,
    pub cgroup_parent: Option<String>,
    pub command: Option<Vec<String>>,
    pub configs: Vec<FileMount>,
    pub container_name: Option<String>,
    pub cpu_period: Option<Text>,
    pub cpu_quota: Option<Text>,
    pub cpu_rt_period: Option<Text>,
    pub cpu_rt_runtime: Option<Text>,
    pub cpu_shares: Option<i64>,
    pub cpus: Option<Text>,
    pub cpuset: Option<String>,
    pub deploy: Deploy,
    pub device_cgroup_rules: Vec<String>,
    pub devices: Vec<Device>,
    pub dns: Vec<String>,
    pub dns_opt: Vec<String>,
    pub dns_search: Vec<String>,
    pub domainname: Option<String>,
    pub entrypoint: Option<Vec<String>>,
    pub environment: BTreeMap<String, Option<Text>>,
    pub expose: Vec<Text>,
    pub extra_hosts: Vec<String>,
    pub gpus: Vec<DeviceReservation>,
    pub group_add: Vec<Text>,
    pub healthcheck: Option<Healthcheck>,
    pub hostname: Option<String>,
    pub init: Option<bool>,
    pub ipc: Option<String>,
    pub labels: BTreeMap<String, Text>,
    pub logging: Option<Logging>,
    pub mem_limit: Option<Text>,
    pub mem_reservation: Option<Text>,
    pub mem_swappiness: Option<Text>,
    pub memswap_limit: Option<Text>,
    pub network_mode: Option<String>,
    pub networks: BTreeMap<String, Option<Attachment>>,
    pub oom_kill_disable: Option<bool>,
    pub oom_score_adj: Option<i64>,
    pub pid: Option<String>,
    pub pids_limit: Option<i64>,
    pub platform: Option<String>,
    pub ports: Vec<Port>,
    pub privileged: Option<bool>,
    pub read_only: Option<bool>,
    pub runtime: Option<String>,
    pub secrets: Vec<FileMount>,
    pub security_opt: Vec<String>,
    pub shm_size: Option<Text>,
    pub stdin_open: Option<bool>,
    pub stop_grace_period: Option<String>,
    pub stop_signal: Option<String>,
    pub storage_opt: BTreeMap<String, Text>,
    pub sysctls: BTreeMap<String, Text>,
    pub tmpfs: Vec<String>,
    pub tty: Option<bool>,
    pub ulimits: BTreeMap<String, Ulimit>,
    pub user: Option<Text>,
    pub userns_mode: Option<String>,
    pub uts: Option<String>,
    pub volumes: Vec<Mount>,
    pub working_dir: Option<String>,
}

/// How a service is attached to a network.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Attachment {
    pub aliases: Vec<String>,
    pub priority: i64,
    pub ipv4_address: Option<String>,
    pub ipv6_address: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Deploy {
    pub resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub limits: Limits,
    pub reservations: Reservations,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Limits {
    pub cpus: Option<Text>,
    pub memory: Option<Text>,
    pub pids: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reservations {
    pub memory: Option<Text>,
    pub devices: Vec<DeviceReservation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceReservation {
    pub capabilities: Vec<String>,
    pub count: Option<Text>,
    pub device_ids: Vec<String>,
    pub driver: Option<String>,
    pub options: BTreeMap<String, Text>,
}

#[derive(Debug, Deserialize)]
pub struct Device {
    pub source: String,
    #[serde(default)]
    pub target: Option<String>,
    #[serde(default)]
    pub permissions: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Healthcheck {
    pub disable: bool,
    pub test: Vec<String>,
    pub interval: Option<String>,
    pub timeout: Option<String>,
    pub start_period: Option<String>,
    pub start_interval: Option<String>,
    pub retries: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Logging {
    pub driver: Option<String>,
    pub options: BTreeMap<String, Text>,
}

#[derive(Debug, Deserialize)]
pub struct Port {
    pub target: u16,
    #[serde(default)]
    pub published: Option<Text>,
    #[serde(default)]
    pub protocol: Option<String>,
    #[serde(default)]
    pub host_ip: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Ulimit {
    Both(i64),
    Each { soft: i64, hard: i64 },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BlkioConfig {
    pub weight: Option<u16>,
    pub weight_device: Vec<BlkioWeight>,
    pub device_read_bps: Vec<BlkioRate>,
    pub device_write_bps: Vec<BlkioRate>,
    pub device_read_iops: Vec<BlkioRate>,
    pub device_write_iops: Vec<BlkioRate>,
}

#[derive(Debug, Deserialize)]
pub struct BlkioWeight {
    pub path: String,
    pub weight: usize,
}

#[derive(Debug, Deserialize)]
pub struct BlkioRate {
    pub path: String,
    pub rate: Text,
}

/// A config or a secret, delivered as a file.
#[derive(Debug, Deserialize)]
pub struct FileMount {
    pub source: String,
}

#[derive(Debug, Deserialize)]
pub struct Mount {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default)]
    pub target: String,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub bind: BindOptions,
    #[serde(default)]
    pub volume: VolumeOptions,
    #[serde(default)]
    pub tmpfs: TmpfsOptions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BindOptions {
    pub propagation: Option<String>,
    pub create_host_path: Option<bool>,
    pub selinux: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeOptions {
    pub nocopy: Option<bool>,
    pub subpath: Option<String>,
    pub labels: BTreeMap<String, Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TmpfsOptions {
    pub size: Option<Text>,
    pub mode: Option<i64>,
}

/// A value that may be written as text, number or truth value, and means its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;

        impl Visitor<'_> for AnyScalar {
            type Value = Text;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, a number or a truth value")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }
        }

        deserializer.deserialize_any(AnyScalar)
    }
}
