//! Nodes of the cluster.

use jaco_proto::v1::NodeInfo;
use serde_json::{Value, json};

use crate::fields::{non_empty, string_map, without_null};
use crate::time::rfc3339;

/// A node as JSON.
#[must_use]
pub fn json(node: &NodeInfo) -> Value {
    without_null(json!({
        "id": node.id,
        "hostname": node.hostname,
        "address": node.address,
        "status": node.status,
        "status_reason": non_empty(&node.status_reason),
        "availability": node.availability,
        "availability_reason": non_empty(&node.availability_reason),
        "suffrage": node.suffrage,
        "net": non_empty(&node.net),
        "net_reason": non_empty(&node.net_reason),
        "edge": non_empty(&node.edge),
        "edge_reason": non_empty(&node.edge_reason),
        "version": node.version,
        "engine": node.engine,
        "os": node.os,
        "arch": node.arch,
        "cpu_millis": node.cpu_millis,
        "memory_bytes": node.memory_bytes,
        "labels": string_map(&node.labels),
        "replicas": node.replicas,
        "stopping": node.stopping,
        "joined_at": rfc3339(node.joined_at_ms),
    }))
}
