//! How a replica is: the one judgement that signs, colours and sentences follow.

use jaco_proto::v1::ReplicaInfo;

use crate::reason::is_wait;

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// As it is wanted.
    Well,
    /// On its way there.
    Changing,
    /// It needs an operator.
    Failing,
}

/// Codes of replicas that need an operator, also those that are tried again.
const FAILURES: [&str; 10] = [
    "container_exited",
    "container_missing",
    "engine_error",
    "image_pull_failed",
    "network_conflict",
    "no_eligible_node",
    "node_down",
    "node_isolated",
    "restart_exhausted",
    "unhealthy",
];

/// How a replica is.
#[must_use]
pub fn of_replica(replica: &ReplicaInfo) -> Condition {
    let has_completed = replica.state == "stopped" && replica.exit_code == 0;
    match (replica.state.as_str(), replica.code.as_str()) {
        ("running", _) | (_, "disabled") => Condition::Well,
        _ if has_completed => Condition::Well,
        ("failed" | "degraded", _) => Condition::Failing,
        (_, code) if FAILURES.contains(&code) => Condition::Failing,
        _ => Condition::Changing,
    }
}

/// Whether what is wrong with a replica is said of something else: of its service, which has no place for it, or of its node,
/// which is down. Each has one sentence, however many replicas there are.
pub(crate) fn is_said_elsewhere(replica: &ReplicaInfo) -> bool {
    replica.code == "node_down" || (replica.state == "pending" && is_wait(&replica.code))
}
