//! `docker service inspect`

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::container::{DriverConfig, MountOptions, Ulimit};
use super::resource::Health;

/// A service of Swarm.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Service {
    pub(crate) spec: Spec,
}

impl Service {
    /// The networks that its tasks are attached to.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.spec.task_template.networks.iter().chain(&self.spec.networks)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Spec {
    /// `STACK_SERVICE`
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) task_template: TaskTemplate,
    pub(crate) mode: Mode,
    pub(crate) update_config: Option<UpdateConfig>,
    pub(crate) rollback_config: Option<UpdateConfig>,
    pub(crate) endpoint_spec: EndpointSpec,
    /// Older engines have networks here.
    pub(crate) networks: Vec<Attachment>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct TaskTemplate {
    pub(crate) container_spec: ContainerSpec,
    pub(crate) resources: Resources,
    pub(crate) restart_policy: Option<RestartPolicy>,
    pub(crate) placement: Placement,
    pub(crate) networks: Vec<Attachment>,
    pub(crate) log_driver: Option<DriverConfig>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ContainerSpec {
    pub(crate) image: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// The entrypoint of a compose file.
    pub(crate) command: Vec<String>,
    /// The command of a compose file.
    pub(crate) args: Vec<String>,
    pub(crate) hostname: String,
    pub(crate) env: Vec<String>,
    pub(crate) dir: String,
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    #[serde(rename = "TTY")]
    pub(crate) tty: bool,
    pub(crate) open_stdin: bool,
    pub(crate) read_only: bool,
    pub(crate) mounts: Vec<MountOptions>,
    pub(crate) stop_signal: String,
    /// In nanoseconds.
    pub(crate) stop_grace_period: Option<u64>,
    pub(crate) healthcheck: Option<Health>,
    /// `ADDRESS NAME…`
    pub(crate) hosts: Vec<String>,
    #[serde(rename = "DNSConfig")]
    pub(crate) dns_config: DnsConfig,
    pub(crate) secrets: Vec<FileUse>,
    pub(crate) configs: Vec<FileUse>,
    pub(crate) init: Option<bool>,
    pub(crate) sysctls: BTreeMap<String, String>,
    pub(crate) capability_add: Vec<String>,
    pub(crate) capability_drop: Vec<String>,
    pub(crate) ulimits: Vec<Ulimit>,
    pub(crate) privileges: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct DnsConfig {
    pub(crate) nameservers: Vec<String>,
    pub(crate) search: Vec<String>,
    pub(crate) options: Vec<String>,
}

/// A config or a secret, as a file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct FileUse {
    pub(crate) file: Option<FileTarget>,
    #[serde(rename = "ConfigID")]
    pub(crate) config_id: String,
    #[serde(alias = "SecretName", alias = "ConfigName")]
    pub(crate) name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct FileTarget {
    pub(crate) name: String,
    #[serde(rename = "UID")]
    pub(crate) uid: String,
    #[serde(rename = "GID")]
    pub(crate) gid: String,
    pub(crate) mode: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Resources {
    pub(crate) limits: Amounts,
    pub(crate) reservations: Amounts,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Amounts {
    #[serde(rename = "NanoCPUs")]
    pub(crate) nano_cpus: i64,
    pub(crate) memory_bytes: i64,
    pub(crate) pids: i64,
    pub(crate) generic_resources: Vec<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct RestartPolicy {
    /// `any`, `on-failure` or `none`.
    pub(crate) condition: String,
    pub(crate) max_attempts: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Placement {
    pub(crate) constraints: Vec<String>,
    pub(crate) preferences: Vec<Preference>,
    pub(crate) max_replicas: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Preference {
    pub(crate) spread: Spread,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Spread {
    pub(crate) spread_descriptor: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Attachment {
    /// The id of a network, or its name.
    pub(crate) target: String,
    pub(crate) aliases: Vec<String>,
}

/// One of them is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Mode {
    pub(crate) replicated: Option<Replicated>,
    pub(crate) global: Option<Value>,
    pub(crate) replicated_job: Option<ReplicatedJob>,
    pub(crate) global_job: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Replicated {
    pub(crate) replicas: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ReplicatedJob {
    pub(crate) total_completions: Option<u64>,
}

/// How services are updated; times in nanoseconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct UpdateConfig {
    pub(crate) parallelism: u64,
    pub(crate) delay: u64,
    pub(crate) failure_action: String,
    pub(crate) monitor: u64,
    pub(crate) max_failure_ratio: f64,
    pub(crate) order: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct EndpointSpec {
    pub(crate) mode: String,
    pub(crate) ports: Vec<Port>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Port {
    pub(crate) protocol: String,
    pub(crate) target_port: u16,
    pub(crate) published_port: u16,
    /// `ingress` or `host`.
    pub(crate) publish_mode: String,
}
