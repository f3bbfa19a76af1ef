//! What is to be said of a replica.

use jaco_proto::v1::{ReplicaInfo, TerminatingInfo};

use crate::{pull, reason};

/// Why it does not run, how far its image is, and which of its earlier instances are still there.
#[must_use]
pub fn notes(replica: &ReplicaInfo, now_ms: i64) -> String {
    let mut parts = Vec::new();
    if replica.state != "running" {
        parts.push(reason::of_replica(replica));
    }
    if replica.joining_since_ms > 0 {
        parts.push("being attached to networks of the cluster".to_owned());
    }
    parts.extend(replica.pull.as_ref().map(|pull| pull::text(pull, now_ms)));
    if let Some(retiring) = &replica.retiring {
        parts.push(format!("the retiring instance on {} still serves", retiring.node));
    }
    parts.extend(replica.terminating.iter().map(of_terminating));
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// What an instance waits for that is out of the endpoints.
fn of_terminating(terminating: &TerminatingInfo) -> String {
    let TerminatingInfo { node, waits_for, in_node_networks, .. } = terminating;
    let mut waits = Vec::new();
    if !waits_for.is_empty() {
        waits.push(format!("{} acknowledge", waits_for.join(", ")));
    }
    if *in_node_networks {
        waits.push(format!(
            "others on {node} that find it by the engine's names are replaced (2 min at most)"
        ));
    }
    match waits.is_empty() {
        true => format!("terminating: the instance on {node} is about to stop"),
        false => format!("terminating: the instance on {node} stops when {}", waits.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-10: what a replica waits for is said, whatever that is.
    #[test]
    fn waits_have_reasons() {
        let terminating = |waits_for: &[&str], in_node_networks| TerminatingInfo {
            node: "n1".to_owned(),
            waits_for: waits_for.iter().map(ToString::to_string).collect(),
            in_node_networks,
            ..TerminatingInfo::default()
        };
        let told = |terminating, joining_since_ms| {
            let terminating = vec![terminating];
            let state = "running".to_owned();
            notes(
                &ReplicaInfo { state, terminating, joining_since_ms, ..ReplicaInfo::default() },
                9,
            )
        };
        assert_eq!(
            told(terminating(&["edge-n1", "router-n2"], false), 0),
            "terminating: the instance on n1 stops when edge-n1, router-n2 acknowledge"
        );
        assert_eq!(
            told(terminating(&["edge-n1"], true), 0),
            "terminating: the instance on n1 stops when edge-n1 acknowledge and others on n1 that find it \
             by the engine's names are replaced (2 min at most)"
        );
        assert_eq!(
            told(terminating(&[], false), 5),
            "being attached to networks of the cluster; terminating: the instance on n1 is about to stop"
        );
    }
}
