//! Networks, volumes, configs and secrets that a container uses.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A network of the deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// The name on the nodes.
    pub name: String,
    pub internal: bool,
    /// Shared with other deployments that name it.
    pub external: bool,
    /// Which network of the cluster it is; none where it is the node's own.
    pub cluster: Option<ClusterNetwork>,
}

/// Among which networks of the cluster one is. Its subnet and addresses are those of the cluster, and its
/// names are not the engine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterNetwork {
    /// Those of its deployment.
    Deployment,
    /// Those for all deployments.
    Shared,
}

/// A named volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Volume {
    /// The name on the nodes.
    pub name: String,
    /// Exists already; never created or removed.
    pub external: bool,
    /// The class of storage of the node that it is on; the engine's own without.
    pub class: Option<String>,
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
    /// The version of its content.
    pub version: Option<String>,
    /// A config written into the compose file; never set for a secret.
    pub content: Option<String>,
    /// Where the client reads it, as long as no version is known.
    pub file: Option<String>,
    /// Which variable the client reads, as long as no version is known.
    pub environment: Option<String>,
}
