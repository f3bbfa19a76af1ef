//! The cluster as one node knows it.

use std::fmt::Write as _;

use jaco_proto::v1::ClusterStatusResponse;
use serde_json::Value;

use super::{node, staleness};
use crate::output::{Frame, Show};

/// The result of `jaco cluster status`.
#[derive(Debug)]
pub(crate) struct ClusterStatus<'a>(pub(crate) &'a ClusterStatusResponse);

impl Show for ClusterStatus<'_> {
    fn json(&self) -> Value {
        jaco_json::cluster::json(self.0)
    }

    fn text(&self, frame: &Frame) -> String {
        let cluster = self.0;
        if !cluster.initialized {
            return "This daemon belongs to no cluster.\n\
                    `jaco cluster init` creates one, `jaco cluster join` joins one.\n"
                .to_owned();
        }
        let leader = match (cluster.quorum_lost, cluster.leader.as_str()) {
            (true, _) => "none: no quorum",
            (false, "") => "none",
            (false, leader) => leader,
        };
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            writeln!(text, "{name:<12}{value}").expect("writing to a string cannot fail");
        };
        line("Cluster", &format!("{} ({})", cluster.name, cluster.cluster_id));
        line("Leader", leader);
        line("Term", &cluster.term.to_string());
        line("Raft index", &cluster.raft_index.to_string());
        line("Answered by", &format!("{}, version {}", cluster.answered_by, cluster.version));
        if let Some(staleness) = &cluster.staleness {
            text.push_str(&staleness::line(staleness));
        }
        format!("{text}\n{}", node::table(&cluster.nodes, frame))
    }
}
