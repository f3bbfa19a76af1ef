//! Checks of each node: reachability, clock, engine, progress of its log, availability.

use jaco_proto::v1::{ExaminedNode, NodeInfo};

use super::examination::Examination;
use super::finding::Findings;

/// A larger clock difference distorts what is measured across nodes: `update.monitor`, the steady run of
/// 10 s, the times in the audit log.
const CLOCK_MS_MAX: i64 = 1000;

/// A member with a larger lag, in log entries, does not keep up: it is more than a busy second.
const LAG_MAX: u64 = 10_000;

/// Checks what a member reports about itself.
pub(super) fn member(node: &ExaminedNode, examination: &Examination<'_>, found: &mut Findings) {
    let name = node.node.as_str();
    if !node.unreachable.is_empty() {
        let message =
            format!("{} cannot reach it: {}", examination.members.asked, node.unreachable);
        let help = format!("check its daemon (journalctl -u jacod on {name}) and the network");
        found.failing("reach", name, message, help);
        return;
    }
    for reach in node.reaches.iter().filter(|reach| !reach.unreachable.is_empty()) {
        let asked = examination.members.nodes.iter().find(|other| other.node == reach.node);
        // Summary of that one already.
        if asked.is_none_or(|other| !other.unreachable.is_empty()) {
            continue;
        }
        let message =
            format!("it cannot reach {}, which other nodes can: {}", reach.node, reach.unreachable);
        let help = "check firewalls and routes from the one to the other";
        found.failing("reach", name, message, help);
    }
    let error_ms = i64::try_from(node.round_trip_us / 2000).unwrap_or(i64::MAX);
    let off = node.clock_ahead_ms.saturating_abs();
    if off > CLOCK_MS_MAX.saturating_add(error_ms) {
        let side = if node.clock_ahead_ms > 0 { "ahead of" } else { "behind" };
        let message = format!(
            "its clock is {:.1} s {side} that of {}",
            seconds(off),
            examination.members.asked
        );
        found.warning("clock", name, message, "synchronise it with a time service such as chrony");
    }
    if !node.engine_down.is_empty() {
        let message = format!("its container engine does not answer: {}", node.engine_down);
        let help = format!("docker info on {name}");
        found.failing("engine", name, message, help);
    }
    if !node.key_problem.is_empty() {
        let help = format!(
            "copy data_dir/node/kek from another node to {name} and restart jacod there; see jaco help error kek_mismatch"
        );
        found.failing("kek", name, node.key_problem.clone(), help);
    }
    let newest =
        examination.members.nodes.iter().map(|node| node.applied).max().unwrap_or_default();
    let behind = newest.saturating_sub(node.applied);
    if behind > LAG_MAX {
        let message = format!("its state is {behind} entries behind");
        let help = "it catches up by itself unless its disk or network is too slow";
        found.warning("behind", name, message, help);
    }
}

#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

/// Checks the replicated status of a node.
pub(super) fn availability(node: &NodeInfo, examination: &Examination<'_>, found: &mut Findings) {
    let name = node.hostname.as_str();
    let member = examination.members.nodes.iter().find(|member| member.node == node.hostname);
    let answers = member.is_some_and(|member| member.unreachable.is_empty());
    match node.status.as_str() {
        // Without a quorum, which is a finding of its own, it is not known.
        "ready" | "joining" | "unknown" => {}
        // Reported by the check of the member, which is newer than the replicated state.
        "down" if !answers => {}
        "engine_down" if member.is_some_and(|member| !member.engine_down.is_empty()) => {}
        status => {
            let reason = match node.status_reason.as_str() {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            let message = format!("it is {status}{reason}");
            let help = "no new replicas are placed there until it is ready again";
            found.failing("node", name, message, help);
        }
    }
    if node.availability == "cordoned" {
        let help = format!("jaco node uncordon {name}");
        found.warning("cordon", name, "it gets no new replicas", help);
    }
}
