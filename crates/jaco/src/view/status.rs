//! Deployments, replicas and nodes.

use jaco_json::status::Json;
use jaco_proto::v1::StatusResponse;
use jaco_sentences::past;
use serde_json::Value;

use super::{deployment, node, replica, staleness};
use crate::output::{Frame, JsonLayout, Show};

/// The result of `jaco status`.
#[derive(Debug)]
pub(crate) struct Status<'a>(pub(crate) &'a StatusResponse);

impl Show for Status<'_> {
    fn json(&self) -> Value {
        serde_json::to_value(Json::of(self.0)).expect("texts and numbers are JSON")
    }

    fn json_text(&self, layout: JsonLayout) -> String {
        layout.text(&Json::of(self.0))
    }

    fn text(&self, frame: &Frame) -> String {
        let status = self.0;
        let mut parts = Vec::new();
        parts.extend(status.staleness.as_ref().map(staleness::line));
        parts.extend(past::sentence(status).map(|sentence| format!("{sentence}\n")));
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

#[cfg(test)]
mod tests {
    use jaco_proto::v1::{
        DeploymentInfo, NodeInfo, PastInfo, PullInfo, ReplicaAddress, ReplicaInfo, RetiringInfo,
        Staleness, TerminatingInfo, TerminationInfo,
    };

    use super::*;

    /// A replica with everything that there is to show.
    fn replica() -> ReplicaInfo {
        let text = str::to_owned;
        ReplicaInfo {
            id: text("shop-web-0"),
            deployment: text("shop"),
            service: text("web"),
            node: text("n1"),
            state: text("running"),
            code: text("exited"),
            details: [(text("why"), text("a \"quote\"\n"))].into(),
            image: text("web:1"),
            revision: 3,
            spec_hash: text("0123"),
            raft_index: 9,
            container_id: text("abc"),
            ports: [(80, text("127.0.0.1:8080")), (53, text("10.0.0.1:53"))].into(),
            started_at_ms: 1_767_225_600_000,
            since_ms: 1_767_225_600_500,
            consecutive_failures: 2,
            retiring: Some(RetiringInfo { node: text("n2"), ..RetiringInfo::default() }),
            exit_code: 137,
            exited: true,
            in_routing: true,
            terminating: vec![TerminatingInfo { raft_index: 4, ..TerminatingInfo::default() }],
            terminations: vec![TerminationInfo { at_ms: 5, ..TerminationInfo::default() }],
            restart_at_ms: 1_767_225_601_000,
            gpus: vec![text("gpu-0")],
            image_digest: text("web@sha256:1"),
            pull: Some(PullInfo { attempts: 1, ..PullInfo::default() }),
            addresses: vec![ReplicaAddress { network: text("n"), address: text("10.0.0.2") }],
            joining_since_ms: 1_767_225_600_900,
        }
    }

    /// R-CLI-6: what is written replica by replica is the text of the value, with the same members in the
    /// same order.
    #[test]
    fn text_is_that_of_the_value() {
        let full = StatusResponse {
            raft_index: 12,
            leader: "n1".to_owned(),
            answered_by: "n2".to_owned(),
            deployments: vec![DeploymentInfo::default()],
            replicas: vec![replica(), ReplicaInfo::default()],
            nodes: vec![NodeInfo::default()],
            staleness: Some(Staleness { age_ms: 7, reason: "no quorum".to_owned() }),
            more: false,
            past: Some(PastInfo { at_ms: 1_767_225_600_000, kept_from: 3, kept_to: 90 }),
        };
        for status in [full, StatusResponse::default()] {
            let shown = Status(&status);
            for layout in [JsonLayout::Indented, JsonLayout::Line] {
                assert_eq!(shown.json_text(layout), layout.text(&shown.json()));
            }
        }
    }

    /// Every member that there is, and none of those that say nothing.
    #[test]
    fn replicas_show_what_is_known() {
        let names = |replica: &ReplicaInfo| -> Vec<String> {
            let Value::Object(members) = replica::json(replica) else { panic!("no object") };
            members.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&replica()).len(), 27);
        let always = [
            "consecutive_failures",
            "deployment",
            "details",
            "id",
            "in_routing",
            "node",
            "ports",
            "raft_index",
            "service",
            "spec_hash",
            "state",
        ];
        assert_eq!(names(&ReplicaInfo::default()), always);
    }
}
