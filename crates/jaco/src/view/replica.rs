//! Replicas of services.

use jaco_proto::v1::{ReplicaAddress, ReplicaInfo, RetiringInfo, TerminatingInfo};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::json::{image_with_digest, non_empty, string_map, without_null};
use super::{pull, termination};
use crate::format::quantity::natural_order;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame, JsonLayout, Show};
use crate::view::reason;

/// A replica as JSON.
pub(crate) fn json(replica: &ReplicaInfo) -> Value {
    serde_json::to_value(Json::of(replica)).expect("texts and numbers are JSON")
}

/// What JSON shows of a replica. It borrows from the message, because a status has thousands of them.
///
/// The members are in alphabetical order, as those of a [`Value`] are.
#[derive(Debug, Serialize)]
pub(crate) struct Json<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    consecutive_failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_id: Option<&'a str>,
    deployment: &'a str,
    details: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    gpus: &'a [String],
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_digest: Option<&'a str>,
    in_routing: bool,
    node: &'a str,
    ports: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pull: Option<Value>,
    raft_index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retiring: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    service: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    spec_hash: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    state: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terminating: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terminations: Vec<Value>,
}

impl<'a> Json<'a> {
    pub(crate) fn of(replica: &'a ReplicaInfo) -> Self {
        Self {
            addresses: replica.addresses.iter().map(address_json).collect(),
            code: non_empty(&replica.code),
            consecutive_failures: replica.consecutive_failures,
            container_id: non_empty(&replica.container_id),
            deployment: &replica.deployment,
            details: string_map(&replica.details),
            exit_code: replica.exited.then_some(replica.exit_code),
            gpus: &replica.gpus,
            id: &replica.id,
            image: non_empty(&replica.image),
            image_digest: non_empty(&replica.image_digest),
            in_routing: replica.in_routing,
            node: &replica.node,
            ports: ports(replica).iter().map(Port::json).collect(),
            pull: replica.pull.as_ref().map(pull::json),
            raft_index: replica.raft_index,
            restart_at: time::rfc3339(replica.restart_at_ms),
            retiring: replica.retiring.as_ref().map(retiring_json),
            revision: (replica.revision > 0).then_some(replica.revision),
            service: &replica.service,
            since: time::rfc3339(replica.since_ms),
            spec_hash: &replica.spec_hash,
            started_at: time::rfc3339(replica.started_at_ms),
            state: &replica.state,
            terminating: replica.terminating.iter().map(terminating_json).collect(),
            terminations: replica.terminations.iter().map(termination::json).collect(),
        }
    }
}

fn address_json(address: &ReplicaAddress) -> Value {
    json!({ "network": address.network, "address": address.address })
}

fn retiring_json(retiring: &RetiringInfo) -> Value {
    without_null(json!({
        "node": retiring.node,
        "state": non_empty(&retiring.state),
        "raft_index": retiring.raft_index,
        "container_id": non_empty(&retiring.container_id),
    }))
}

fn terminating_json(terminating: &TerminatingInfo) -> Value {
    without_null(json!({
        "node": terminating.node,
        "raft_index": terminating.raft_index,
        "container_id": non_empty(&terminating.container_id),
        "reason": "terminating",
        "since": time::rfc3339(terminating.since_ms),
        "waits_for": terminating.waits_for,
    }))
}

/// A published port of a container.
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

/// The result of `jaco get replicas`.
#[derive(Debug)]
pub(crate) struct Replicas<'a>(pub(crate) &'a [ReplicaInfo]);

impl Show for Replicas<'_> {
    fn json(&self) -> Value {
        self.0.iter().map(json).collect()
    }

    fn json_text(&self, layout: JsonLayout) -> String {
        layout.text(&OneByOne(self.0))
    }

    fn text(&self, frame: &Frame) -> String {
        table(self.0, frame)
    }
}

/// Replicas of which each is converted when it is written.
struct OneByOne<'a>(&'a [ReplicaInfo]);

impl Serialize for OneByOne<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        one_by_one(self.0, to)
    }
}

/// Writes a list of replicas, each of which is converted when it is written.
pub(crate) fn one_by_one<S: Serializer>(
    replicas: &[ReplicaInfo],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(replicas.iter().map(Json::of))
}

/// Replicas as a table, in natural order of their ids.
pub(crate) fn table(replicas: &[ReplicaInfo], frame: &Frame) -> String {
    let mut head = vec!["REPLICA", "STATE", "NODE", "REVISION", "SINCE", "REASON"];
    if frame.detail == Detail::Wide {
        head.extend([
            "ADDRESS",
            "CONTAINER",
            "PORTS",
            "IMAGE",
            "SPEC",
            "FAILURES",
            "LAST TERMINATION",
        ]);
    }
    let mut table = Table::new(&head);
    let mut replicas: Vec<&ReplicaInfo> = replicas.iter().collect();
    replicas.sort_by(|a, b| natural_order(&a.id, &b.id));
    for replica in replicas {
        let mut row = vec![
            replica.id.clone(),
            replica.state.clone(),
            replica.node.clone(),
            revision(replica),
            time::ago(replica.since_ms, frame.now_ms),
            reason(replica, frame.now_ms),
        ];
        if frame.detail == Detail::Wide {
            let ports = ports(replica);
            let ports = ports.iter().map(|port| format!("{}→{}", port.address, port.container));
            let addresses = replica.addresses.iter().map(|address| address.address.as_str());
            row.extend([
                addresses.collect::<Vec<_>>().join(" "),
                replica.container_id.chars().take(12).collect(),
                ports.collect::<Vec<_>>().join(" "),
                image_with_digest(&replica.image, &replica.image_digest),
                replica.spec_hash.clone(),
                replica.consecutive_failures.to_string(),
                last_termination(replica, frame),
            ]);
        }
        table.row(row);
    }
    table.render()
}

/// The revision that it runs, if it is known.
fn revision(replica: &ReplicaInfo) -> String {
    if replica.revision == 0 { String::new() } else { replica.revision.to_string() }
}

/// The outcome and age of its last recorded termination.
fn last_termination(replica: &ReplicaInfo, frame: &Frame) -> String {
    let termination = replica.terminations.first();
    termination.map_or(String::new(), |last| {
        format!("{}, {}", termination::text(last), time::ago(last.at_ms, frame.now_ms))
    })
}

fn reason(replica: &ReplicaInfo, now_ms: i64) -> String {
    let mut parts = Vec::new();
    if replica.state != "running" {
        parts.push(reason::of_replica(replica));
    }
    parts.extend(replica.pull.as_ref().map(|pull| pull::text(pull, now_ms)));
    if let Some(retiring) = &replica.retiring {
        parts.push(format!("the retiring instance on {} still serves", retiring.node));
    }
    for terminating in &replica.terminating {
        let consumers = terminating.waits_for.join(", ");
        parts.push(format!(
            "terminating: the instance on {} stops when {consumers} acknowledge",
            terminating.node
        ));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}
