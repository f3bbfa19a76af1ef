//! What is to be said of a replica.

use jaco_proto::v1::ReplicaInfo;

use crate::{pull, reason};

/// Why it does not run, how far its image is, and which of its earlier instances are still there.
#[must_use]
pub fn notes(replica: &ReplicaInfo, now_ms: i64) -> String {
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
