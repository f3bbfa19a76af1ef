//! Images, networks and volumes.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `docker image inspect`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Image {
    pub(crate) id: String,
    pub(crate) repo_tags: Vec<String>,
    pub(crate) repo_digests: Vec<String>,
    pub(crate) config: ImageConfig,
}

/// What an image gives its containers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct ImageConfig {
    pub(crate) env: Vec<String>,
    pub(crate) cmd: Vec<String>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) healthcheck: Option<Health>,
    pub(crate) user: String,
    pub(crate) working_dir: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) volumes: BTreeMap<String, serde_json::Value>,
    pub(crate) stop_signal: String,
}

/// A health check; times in nanoseconds, 0 is the engine's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Health {
    pub(crate) test: Vec<String>,
    pub(crate) interval: u64,
    pub(crate) timeout: u64,
    pub(crate) start_period: u64,
    pub(crate) start_interval: u64,
    pub(crate) retries: u64,
}

/// `docker network inspect`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Network {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) internal: bool,
    pub(crate) labels: BTreeMap<String, String>,
}

/// `docker volume inspect`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, String>,
}
