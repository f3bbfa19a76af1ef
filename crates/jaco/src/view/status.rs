//! Deployments, replicas and nodes.

use jaco_proto::v1::StatusResponse;
use serde_json::Value;

use super::json::{non_empty, object};
use super::{deployment, node, replica, staleness};
use crate::output::{Frame, Show};

/// The result of `jaco status`.
#[derive(Debug)]
pub(crate) struct Status<'a>(pub(crate) &'a StatusResponse);

impl Show for Status<'_> {
    fn json(&self) -> Value {
        let status = self.0;
        object([
            ("raft_index", status.raft_index.into()),
            ("stale", status.staleness.as_ref().map(staleness::json).into()),
            ("leader", non_empty(&status.leader).into()),
            ("answered_by", non_empty(&status.answered_by).into()),
            ("deployments", status.deployments.iter().map(deployment::json).collect()),
            ("replicas", status.replicas.iter().map(replica::json).collect()),
            ("nodes", status.nodes.iter().map(node::json).collect()),
        ])
    }

    fn text(&self, frame: &Frame) -> String {
        let status = self.0;
        let mut parts = Vec::new();
        parts.extend(status.staleness.as_ref().map(staleness::line));
        if status.deployments.is_empty() {
            parts.push("No deployments. `jaco apply compose.yaml` creates one.\n".to_owned());
        } else {
            parts.push(deployment::table(&status.deployments, frame));
            parts.push(deployment::services_table(status, frame));
        }
        if !status.replicas.is_empty() {
            parts.push(replica::table(&status.replicas, frame));
        }
        parts.push(node::table(&status.nodes, frame));
        parts.join("\n")
    }
}
