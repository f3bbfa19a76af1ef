//! Networks of the cluster.

use jaco_proto::v1::NetworkInfo;
use serde_json::{Value, json};

/// A network as JSON.
#[must_use]
pub fn json(network: &NetworkInfo) -> Value {
    json!({
        "id": network.id,
        "name": network.name,
        "subnet": network.subnet,
        "gateway": network.gateway,
        "router": network.router,
        "bridge": network.bridge,
        "internal": network.internal,
        "used": network.used,
        "quarantined": network.quarantined,
        "free": network.free,
        "nodes": network.nodes,
        "deployments": network.deployments,
    })
}
