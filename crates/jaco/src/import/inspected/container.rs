//! `docker container inspect`

use std::collections::BTreeMap;

use serde::Deserialize;

use super::resource::Health;

/// A container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Container {
    pub(crate) id: String,
    /// With a `/` before it.
    pub(crate) name: String,
    /// The id of the image.
    pub(crate) image: String,
    /// In RFC 3339.
    pub(crate) created: String,
    pub(crate) state: State,
    pub(crate) config: ContainerConfig,
    pub(crate) host_config: HostConfig,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) network_settings: NetworkSettings,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct State {
    pub(crate) running: bool,
    pub(crate) exit_code: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct NetworkSettings {
    /// By the name of the network.
    pub(crate) networks: BTreeMap<String, Endpoint>,
}

/// What the container was asked for, with what its image says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ContainerConfig {
    pub(crate) hostname: String,
    pub(crate) domainname: String,
    pub(crate) user: String,
    pub(crate) tty: bool,
    pub(crate) open_stdin: bool,
    pub(crate) env: Vec<String>,
    pub(crate) cmd: Vec<String>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) healthcheck: Option<Health>,
    /// As it was named.
    pub(crate) image: String,
    pub(crate) working_dir: String,
    pub(crate) mac_address: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) stop_signal: String,
    /// In seconds.
    pub(crate) stop_timeout: Option<u64>,
}

/// What the container has of its host.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct HostConfig {
    pub(crate) binds: Vec<String>,
    pub(crate) mounts: Vec<MountOptions>,
    pub(crate) tmpfs: BTreeMap<String, String>,
    pub(crate) network_mode: String,
    pub(crate) port_bindings: BTreeMap<String, Vec<PortBinding>>,
    pub(crate) publish_all_ports: bool,
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) log_config: LogConfig,
    pub(crate) cap_add: Vec<String>,
    pub(crate) cap_drop: Vec<String>,
    pub(crate) privileged: bool,
    pub(crate) security_opt: Vec<String>,
    pub(crate) sysctls: BTreeMap<String, String>,
    pub(crate) storage_opt: BTreeMap<String, String>,
    pub(crate) readonly_rootfs: bool,
    pub(crate) init: Option<bool>,
    pub(crate) dns: Vec<String>,
    pub(crate) dns_options: Vec<String>,
    pub(crate) dns_search: Vec<String>,
    pub(crate) extra_hosts: Vec<String>,
    pub(crate) group_add: Vec<String>,
    pub(crate) ipc_mode: String,
    pub(crate) pid_mode: String,
    #[serde(rename = "UTSMode")]
    pub(crate) uts_mode: String,
    pub(crate) userns_mode: String,
    pub(crate) runtime: String,
    pub(crate) cgroup_parent: String,
    /// In bytes, as all of memory.
    pub(crate) shm_size: i64,
    pub(crate) memory: i64,
    pub(crate) memory_reservation: i64,
    pub(crate) memory_swap: i64,
    pub(crate) memory_swappiness: Option<i64>,
    /// In billionths of a core.
    pub(crate) nano_cpus: i64,
    pub(crate) cpu_shares: i64,
    pub(crate) cpu_period: i64,
    pub(crate) cpu_quota: i64,
    pub(crate) cpu_realtime_period: i64,
    pub(crate) cpu_realtime_runtime: i64,
    pub(crate) cpuset_cpus: String,
    pub(crate) blkio_weight: i64,
    pub(crate) pids_limit: i64,
    pub(crate) oom_score_adj: i64,
    pub(crate) oom_kill_disable: bool,
    pub(crate) ulimits: Vec<Ulimit>,
    pub(crate) devices: Vec<Device>,
    pub(crate) device_cgroup_rules: Vec<String>,
    pub(crate) device_requests: Vec<DeviceRequest>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct RestartPolicy {
    pub(crate) name: String,
    pub(crate) maximum_retry_count: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct LogConfig {
    #[serde(rename = "Type")]
    pub(crate) driver: String,
    pub(crate) config: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Ulimit {
    pub(crate) name: String,
    pub(crate) soft: i64,
    pub(crate) hard: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Device {
    pub(crate) path_on_host: String,
    pub(crate) path_in_container: String,
    pub(crate) cgroup_permissions: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct DeviceRequest {
    pub(crate) driver: String,
    /// -1 is all.
    pub(crate) count: i64,
    #[serde(rename = "DeviceIDs")]
    pub(crate) device_ids: Vec<String>,
    pub(crate) capabilities: Vec<Vec<String>>,
    pub(crate) options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct PortBinding {
    pub(crate) host_ip: String,
    /// A port, a range, or nothing.
    pub(crate) host_port: String,
}

/// A mount as it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Mount {
    #[serde(rename = "Type")]
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) destination: String,
    #[serde(rename = "RW")]
    pub(crate) is_writable: bool,
    /// Options, separated by commas.
    pub(crate) mode: String,
    pub(crate) propagation: String,
}

/// A mount as it was asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct MountOptions {
    #[serde(rename = "Type")]
    pub(crate) kind: String,
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) read_only: bool,
    pub(crate) bind_options: BindOptions,
    pub(crate) volume_options: VolumeOptions,
    pub(crate) tmpfs_options: TmpfsOptions,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct BindOptions {
    pub(crate) propagation: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct VolumeOptions {
    pub(crate) no_copy: bool,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) driver_config: DriverConfig,
    pub(crate) subpath: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct DriverConfig {
    pub(crate) name: String,
    pub(crate) options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct TmpfsOptions {
    pub(crate) size_bytes: i64,
    pub(crate) mode: u32,
}

/// How the container is attached to a network.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Endpoint {
    pub(crate) aliases: Vec<String>,
    /// `CONTAINER:ALIAS`
    pub(crate) links: Vec<String>,
    #[serde(rename = "IPAMConfig")]
    pub(crate) ipam_config: Addresses,
}

/// Addresses that were asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Addresses {
    #[serde(rename = "IPv4Address")]
    pub(crate) ipv4: String,
    #[serde(rename = "IPv6Address")]
    pub(crate) ipv6: String,
}
