//! Replicas of services.

use jaco_proto::v1::{ReplicaAddress, ReplicaInfo, RetiringInfo, TerminatingInfo};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::fields::{non_empty, string_map, without_null};
use crate::time::rfc3339;
use crate::{pull, termination};

/// A replica as JSON.
#[must_use]
pub fn json(replica: &ReplicaInfo) -> Value {
    serde_json::to_value(Json::of(replica)).expect("texts and numbers are JSON")
}

/// What JSON shows of a replica. It borrows from the message, because a status has thousands of them.
///
/// The members are in alphabetical order, as those of a [`Value`] are.
#[derive(Debug, Serialize)]
pub struct Json<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    joining_since: Option<String>,
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
    /// The form of a replica.
    #[must_use]
    pub fn of(replica: &'a ReplicaInfo) -> Self {
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
            joining_since: rfc3339(replica.joining_since_ms),
            node: &replica.node,
            ports: ports(replica).iter().map(Port::json).collect(),
            pull: replica.pull.as_ref().map(pull::json),
            raft_index: replica.raft_index,
            restart_at: rfc3339(replica.restart_at_ms),
            retiring: replica.retiring.as_ref().map(retiring_json),
            revision: (replica.revision > 0).then_some(replica.revision),
            service: &replica.service,
            since: rfc3339(replica.since_ms),
            spec_hash: &replica.spec_hash,
            started_at: rfc3339(replica.started_at_ms),
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
        "in_node_networks": terminating.in_node_networks.then_some(true),
        "reason": "terminating",
        "since": rfc3339(terminating.since_ms),
        "waits_for": terminating.waits_for,
    }))
}

/// A published port of a container.
#[derive(Debug, Clone, Copy)]
pub struct Port<'a> {
    /// The port inside of the container.
    pub container: u32,
    /// Where it is reached: `ADDRESS:PORT`.
    pub address: &'a str,
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

/// The published ports of a replica, by their number.
#[must_use]
pub fn ports(replica: &ReplicaInfo) -> Vec<Port<'_>> {
    let pairs = replica.ports.iter();
    let mut ports: Vec<_> =
        pairs.map(|(container, address)| Port { container: *container, address }).collect();
    ports.sort_by_key(|port| port.container);
    ports
}

/// Replicas of which each is converted when it is written.
#[derive(Debug, Clone, Copy)]
pub struct OneByOne<'a>(pub &'a [ReplicaInfo]);

impl Serialize for OneByOne<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        one_by_one(self.0, to)
    }
}

/// Writes a list of replicas, each of which is converted when it is written.
///
/// # Errors
/// Those of the serializer.
pub fn one_by_one<S: Serializer>(replicas: &[ReplicaInfo], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(replicas.iter().map(Json::of))
}
