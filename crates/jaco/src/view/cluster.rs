//! The cluster as one node knows it.

use std::fmt::Write as _;

use jaco_proto::v1::ClusterStatusResponse;
use serde_json::{Value, json};

use super::{node, non_empty, without_null};
use crate::ui::{Frame, Show};

/// A cluster, as `jaco cluster status` shows it.
#[derive(Debug)]
pub struct Cluster<'a>(pub &'a ClusterStatusResponse);

impl Show for Cluster<'_> {
    fn json(&self) -> Value {
        let cluster = self.0;
        without_null(json!({
            "initialized": cluster.initialized,
            "cluster_id": non_empty(&cluster.cluster_id),
            "name": non_empty(&cluster.name),
            "leader": non_empty(&cluster.leader),
            "term": cluster.term,
            "raft_index": cluster.raft_index,
            "quorum_lost": cluster.quorum_lost,
            "answered_by": non_empty(&cluster.answered_by),
            "version": cluster.version,
            "nodes": cluster.nodes.iter().map(node::json).collect::<Value>(),
        }))
    }

    fn text(&self, frame: &Frame) -> String {
        let cluster = self.0;
        if !cluster.initialized {
            return "This daemon has no cluster yet.\n\
                    `jaco cluster init` makes one, `jaco cluster join` joins one.\n"
                .to_owned();
        }
        let leader = match (cluster.quorum_lost, cluster.leader.as_str()) {
            (true, _) => "none: too few voters answer",
            (false, "") => "none at the moment",
            (false, leader) => leader,
        };
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            writeln!(text, "{name:<12}{value}").expect("a string takes it");
        };
        line("Cluster", &format!("{} ({})", cluster.name, cluster.cluster_id));
        line("Leader", leader);
        line("Term", &cluster.term.to_string());
        line("Raft index", &cluster.raft_index.to_string());
        line("Answered by", &format!("{}, version {}", cluster.answered_by, cluster.version));
        format!("{text}\n{}", node::table(&cluster.nodes, frame))
    }
}
