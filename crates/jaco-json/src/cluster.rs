//! The cluster as one node knows it.

use jaco_proto::v1::ClusterStatusResponse;
use serde_json::{Value, json};

use crate::fields::{non_empty, without_null};
use crate::{node, staleness};

/// The cluster as JSON.
#[must_use]
pub fn json(cluster: &ClusterStatusResponse) -> Value {
    without_null(json!({
        "initialized": cluster.initialized,
        "cluster_id": non_empty(&cluster.cluster_id),
        "name": non_empty(&cluster.name),
        "leader": non_empty(&cluster.leader),
        "term": cluster.term,
        "raft_index": cluster.raft_index,
        "quorum_lost": cluster.quorum_lost,
        "stale": cluster.staleness.as_ref().map(staleness::json),
        "answered_by": non_empty(&cluster.answered_by),
        "version": cluster.version,
        "nodes": cluster.nodes.iter().map(node::json).collect::<Value>(),
    }))
}
