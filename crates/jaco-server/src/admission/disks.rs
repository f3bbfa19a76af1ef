//! Whether the voters have room for what an apply would have them write.

use std::collections::BTreeSet;

use jaco_state::Table;
use jaco_types::{ErrorCode, Node, NodeId, NodeStatus, Rejection};

/// Checks that no majority of the voters has a full disk: one more, and nothing could be changed any more.
///
/// # Errors
/// `disk_full`, with the names of the voters.
pub(super) fn check(
    voters: &BTreeSet<NodeId>,
    nodes: &Table<NodeId, Node>,
) -> Result<(), Rejection> {
    let is_full = |node: &&Node| voters.contains(&node.id) && node.status == NodeStatus::DiskFull;
    let full: Vec<_> = nodes.values().filter(is_full).collect();
    if full.len() * 2 <= voters.len() {
        return Ok(());
    }
    let why = |node: &&Node| format!("{} ({})", node.hostname, node.status_reason);
    let (count, all) = (full.len(), voters.len());
    let named = full.iter().map(why).collect::<Vec<_>>().join(", ");
    let message = format!(
        "the disks of {count} of {all} voters are full: {named}; free space there, or ask for fewer replicas"
    );
    Err(Rejection::new(ErrorCode::DiskFull, message))
}
