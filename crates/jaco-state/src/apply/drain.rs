//! Drains: how they begin, get on and are given up. Moving the replicas is the planner's.

use jaco_types::{Availability, Drain, Millis, NodeId};

use super::Audit;
use super::cluster::{make_available, unknown_node};
use crate::audit::AuditKind;
use crate::command::{Entry, Outcome};
use crate::state::ClusterState;

/// The code of a drain that took too long (R-NODE-2).
const DRAIN_TIMEOUT: &str = "drain_timeout";

/// Begins a drain. One that is under way goes on, with this patience from now on.
pub(super) fn begin(
    state: &mut ClusterState,
    entry: &Entry,
    id: NodeId,
    patience: Millis,
    audit: &mut Audit<'_>,
) -> Outcome {
    let Some(node) = state.nodes.get(&id) else { return unknown_node(id) };
    let before = match (node.availability, node.drain) {
        (Availability::Draining, Some(drain)) => drain.before,
        (Availability::Draining, None) => Availability::Active,
        (other @ (Availability::Active | Availability::Cordoned), _) => other,
    };
    if node.availability != Availability::Draining {
        make_available(state, entry, id, Availability::Draining, audit);
    }
    if let Some(node) = state.nodes.get_mut(&id) {
        node.drain = Some(Drain { patience, progress_at: entry.at, before });
        node.modified = entry.index;
    }
    Outcome::Done
}

/// Notes that a replica has left a node.
pub(super) fn note_progress(state: &mut ClusterState, entry: &Entry, id: NodeId) {
    // Most nodes are not drained, and a look is cheaper than a change.
    if state.nodes.get(&id).is_none_or(|node| node.drain.is_none()) {
        return;
    }
    if let Some(drain) = state.nodes.get_mut(&id).and_then(|node| node.drain.as_mut()) {
        drain.progress_at = drain.progress_at.max(entry.at);
    }
}

/// Makes a node what it was before its drain. What has left is not moved back.
pub(super) fn give_up(
    state: &mut ClusterState,
    entry: &Entry,
    id: NodeId,
    left: &str,
    audit: &mut Audit<'_>,
) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let Some(drain) = node.drain.take() else { return };
    let seconds = drain.patience.0 / 1000;
    node.availability_reason = format!("{DRAIN_TIMEOUT}: nothing left for {seconds} s; {left}");
    audit.event(
        AuditKind::NodeDrainTimeout,
        [
            ("node", node.hostname.to_string()),
            ("to", drain.before.as_str().to_owned()),
            ("left", left.to_owned()),
            ("patience_ms", drain.patience.0.to_string()),
        ],
    );
    node.availability = drain.before;
    node.modified = entry.index;
}
