//! Deployments, replicas and nodes at one state.

use jaco_proto::v1::{PastInfo, ReplicaInfo, StatusResponse};
use serde::Serialize;
use serde_json::{Value, json};

use crate::fields::non_empty;
use crate::{deployment, node, replica, staleness, time};

/// What JSON shows of a status. The replicas are converted one by one, when each is written.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<&'a str>,
    deployments: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<&'a str>,
    nodes: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    past: Option<Value>,
    raft_index: u64,
    #[serde(serialize_with = "replica::one_by_one")]
    replicas: &'a [ReplicaInfo],
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<Value>,
}

impl<'a> Json<'a> {
    /// The form of a status.
    #[must_use]
    pub fn of(status: &'a StatusResponse) -> Self {
        Self {
            answered_by: non_empty(&status.answered_by),
            deployments: status.deployments.iter().map(deployment::json).collect(),
            leader: non_empty(&status.leader),
            nodes: status.nodes.iter().map(node::json).collect(),
            past: status.past.as_ref().map(past),
            raft_index: status.raft_index,
            replicas: &status.replicas,
            stale: status.staleness.as_ref().map(staleness::json),
        }
    }
}

/// When the state was, and which ones the node can show.
fn past(past: &PastInfo) -> Value {
    let mut shown = json!({ "kept_from": past.kept_from, "kept_to": past.kept_to });
    if let Some(at) = time::rfc3339(past.at_ms).filter(|_| past.at_ms > 0) {
        shown["at"] = at.into();
    }
    shown
}
