//! The status of each node, from its last heartbeat.

use jaco_state::Change;
use jaco_types::{Millis, Node, NodeStatus, Timestamp};

use super::drain;
use crate::draft::Pass;
use crate::input::{EngineSignal, PlanInput};
use crate::nodes::NodeTable;

/// Judges every node, and notes which of them take new replicas in this pass.
pub(crate) fn judge_nodes(pass: &mut Pass<'_>) {
    let Pass { input, nodes, changes, .. } = pass;
    let mut wake_at = None;
    let left = drain::left_behind(input);
    for at in all(nodes) {
        let row = nodes.row_mut(at);
        let verdict = judge(input, row.node);
        row.silent_since = verdict.silent_since;
        let until = match drain::judge(input, row.node, &left) {
            drain::Verdict::Continues { until } => until,
            drain::Verdict::TimedOut { before, left } => {
                row.availability = before;
                changes.push(Change::DrainTimeout { node: row.id, left });
                None
            }
        };
        wake_at = wake_at.into_iter().chain(verdict.until).chain(until).min();
        // Only a change of status is written: the words of a failing engine may differ each time.
        if verdict.status != row.status {
            row.status = verdict.status;
            row.reason = Some(verdict.reason.clone());
            let (node, status, reason) = (row.id, verdict.status, verdict.reason);
            changes.push(Change::NodeStatusSet { node, status, reason });
        }
    }
    nodes.note_open();
    if let Some(at) = wake_at {
        pass.wake(at);
    }
}

fn all(nodes: &NodeTable<'_>) -> Vec<crate::nodes::NodeIx> {
    nodes.rows().map(|(at, _)| at).collect()
}

struct Verdict {
    status: NodeStatus,
    reason: String,
    silent_since: Timestamp,
    /// When silence would turn it into another one.
    until: Option<Timestamp>,
}

/// Silence counts from the last heartbeat, but never from before this leader received any or the node
/// joined: a new leader must not take what it missed for the nodes' silence.
fn judge(input: &PlanInput<'_>, node: &Node) -> Verdict {
    let signal = input.signals.nodes.get(&node.id);
    let heard_at = signal.map(|signal| signal.heard_at).unwrap_or_default();
    let silent_since = heard_at.max(input.signals.listening_since).max(node.joined_at);
    let down_at = silent_since.after(input.config.node_down_after);
    if input.now >= down_at {
        let reason = silence(input.config.node_down_after);
        return Verdict { status: NodeStatus::Down, reason, silent_since, until: None };
    }
    let (status, reason) = match signal.map(|signal| &signal.engine) {
        Some(EngineSignal::Up) => (NodeStatus::Ready, String::new()),
        Some(EngineSignal::DiskFull(reason)) => (NodeStatus::DiskFull, reason.clone()),
        Some(EngineSignal::Down(reason)) => (NodeStatus::EngineDown, reason.clone()),
        // It is heard, so it is not down any more.
        Some(EngineSignal::Unknown) if node.status == NodeStatus::Down => (
            NodeStatus::EngineDown,
            "its engine has not answered since its daemon started".to_owned(),
        ),
        Some(EngineSignal::Unknown) | None => (node.status, node.status_reason.clone()),
    };
    let until = (status != NodeStatus::Down).then_some(down_at);
    Verdict { status, reason, silent_since, until }
}

fn silence(length: Millis) -> String {
    format!("no heartbeat for more than {length}")
}
