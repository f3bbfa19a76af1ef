//! Drains: their start, progress and timeout. The planner moves the replicas.

use jaco_types::{Availability, Drain, NodeId};

use super::{make_available, unknown_node};
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{Entry, NodeDrain, Outcome};
use crate::state::ClusterState;

/// The code of a drain that took too long (R-NODE-2).
const DRAIN_TIMEOUT: &str = "drain_timeout";

/// Starts a drain, or changes the timeout of one that has started.
pub(in crate::apply) fn begin(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NodeDrain,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NodeDrain { node: id, timeout } = command;
    let (id, timeout) = (*id, *timeout);
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
        node.drain = Some(Drain { timeout, progress_at: entry.at, before });
        node.modified = entry.index;
    }
    Outcome::Done
}

/// Notes that a replica has left a node.
pub(in crate::apply) fn note_progress(state: &mut ClusterState, entry: &Entry, id: NodeId) {
    // Most nodes are not drained, and a look is cheaper than a change.
    if state.nodes.get(&id).is_none_or(|node| node.drain.is_none()) {
        return;
    }
    if let Some(drain) = state.nodes.get_mut(&id).and_then(|node| node.drain.as_mut()) {
        drain.progress_at = drain.progress_at.max(entry.at);
    }
}

/// Cancels a drain: the node returns to its previous availability. Replicas that left are not moved
/// back.
pub(in crate::apply) fn cancel(
    state: &mut ClusterState,
    entry: &Entry,
    id: NodeId,
    left: &str,
    audit: &mut Audit<'_>,
) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let Some(drain) = node.drain.take() else { return };
    let seconds = drain.timeout.0 / 1000;
    node.availability_reason = format!("{DRAIN_TIMEOUT}: nothing left for {seconds} s; {left}");
    audit.event(
        AuditKind::NodeDrainTimeout,
        [
            ("node", node.hostname.to_string()),
            ("to", drain.before.as_str().to_owned()),
            ("left", left.to_owned()),
            ("timeout_ms", drain.timeout.0.to_string()),
        ],
    );
    node.availability = drain.before;
    node.modified = entry.index;
}
