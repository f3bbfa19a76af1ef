//! Replicas.

use jaco_proto::v1::{LeavingInfo, ReplicaInfo, RetiringInfo};
use serde_json::{Value, json};

use super::{ending, facts, named, non_empty, without_null};
use crate::progress;
use crate::table::Table;
use crate::ui::{Detail, Frame};
use crate::when;

/// For programs.
#[must_use]
pub fn json(replica: &ReplicaInfo) -> Value {
    without_null(json!({
        "id": replica.id,
        "deployment": replica.deployment,
        "service": replica.service,
        "node": replica.node,
        "state": replica.state,
        "code": non_empty(&replica.code),
        "details": facts(&replica.details),
        "image": replica.image,
        "image_digest": non_empty(&replica.image_digest),
        "revision": replica.revision,
        "spec_hash": replica.spec_hash,
        "raft_index": replica.raft_index,
        "container_id": non_empty(&replica.container_id),
        "gpus": (!replica.gpus.is_empty()).then_some(&replica.gpus),
        "ports": ports(replica).iter().map(Port::json).collect::<Value>(),
        "started_at": when::rfc3339(replica.started_at_ms),
        "since": when::rfc3339(replica.since_ms),
        "consecutive_failures": replica.consecutive_failures,
        "exit_code": replica.exited.then_some(replica.exit_code),
        "retiring": replica.retiring.as_ref().map(retiring_json),
        "in_routing": replica.in_routing,
        "leaving": (!replica.leaving.is_empty())
            .then(|| replica.leaving.iter().map(leaving_json).collect::<Value>()),
        "restart_at": when::rfc3339(replica.restart_at_ms),
        "endings": (!replica.endings.is_empty())
            .then(|| replica.endings.iter().map(ending::json).collect::<Value>()),
    }))
}

fn retiring_json(retiring: &RetiringInfo) -> Value {
    without_null(json!({
        "node": retiring.node,
        "state": non_empty(&retiring.state),
        "raft_index": retiring.raft_index,
        "container_id": non_empty(&retiring.container_id),
    }))
}

fn leaving_json(leaving: &LeavingInfo) -> Value {
    without_null(json!({
        "node": leaving.node,
        "raft_index": leaving.raft_index,
        "container_id": non_empty(&leaving.container_id),
        "reason": "leaving_routing",
        "since": when::rfc3339(leaving.since_ms),
        "waits_for": leaving.waits_for,
    }))
}

/// Where a container's port answers on its node.
struct Port<'a> {
    container: u32,
    address: &'a str,
}

impl Port<'_> {
    fn host(&self) -> Option<u16> {
        self.address.rsplit_once(':')?.1.parse().ok()
    }

    fn json(&self) -> Value {
        without_null(json!({
            "container": self.container,
            "host": self.host(),
            "address": self.address,
        }))
    }
}

fn ports(replica: &ReplicaInfo) -> Vec<Port<'_>> {
    let pairs = replica.ports.iter();
    let mut ports: Vec<_> =
        pairs.map(|(container, address)| Port { container: *container, address }).collect();
    ports.sort_by_key(|port| port.container);
    ports
}

/// For people.
#[must_use]
pub fn table(replicas: &[ReplicaInfo], frame: &Frame) -> String {
    let mut head = vec!["REPLICA", "STATE", "NODE", "REVISION", "SINCE", "REASON"];
    if frame.detail == Detail::Wide {
        head.extend(["CONTAINER", "PORTS", "IMAGE", "SPEC", "FAILURES", "LAST STOP"]);
    }
    let mut table = Table::new(&head);
    for replica in replicas {
        let mut row = vec![
            replica.id.clone(),
            replica.state.clone(),
            replica.node.clone(),
            replica.revision.to_string(),
            when::ago(replica.since_ms, frame.now_ms),
            reason(replica),
        ];
        if frame.detail == Detail::Wide {
            let ports = ports(replica);
            let ports = ports.iter().map(|port| format!("{}→{}", port.address, port.container));
            row.extend([
                replica.container_id.chars().take(12).collect(),
                ports.collect::<Vec<_>>().join(" "),
                named(&replica.image, &replica.image_digest),
                replica.spec_hash.clone(),
                replica.consecutive_failures.to_string(),
                last_stop(replica, frame),
            ]);
        }
        table.row(row);
    }
    table.render()
}

/// How its last instance ended that was not well, and how long ago.
fn last_stop(replica: &ReplicaInfo, frame: &Frame) -> String {
    let ending = replica.endings.first();
    ending.map_or(String::new(), |last| {
        format!("{}, {}", ending::text(last), when::ago(last.at_ms, frame.now_ms))
    })
}

fn reason(replica: &ReplicaInfo) -> String {
    let mut parts = Vec::new();
    if replica.state != "running" {
        parts.push(progress::reason(replica));
    }
    if let Some(retiring) = &replica.retiring {
        parts.push(format!("its predecessor on {} still serves", retiring.node));
    }
    for leaving in &replica.leaving {
        let consumers = leaving.waits_for.join(", ");
        parts.push(format!(
            "leaving_routing: its instance on {} stops once {consumers} let go of it",
            leaving.node
        ));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}
