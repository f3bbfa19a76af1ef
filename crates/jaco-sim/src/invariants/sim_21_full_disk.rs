//! SIM-21: a node whose disk is full keeps what it has, and gets nothing new that would run (R-NODE-1).

use jaco_state::ClusterState;
use jaco_types::spec::Storage;
use jaco_types::{DesiredState, NodeId, NodeStatus, Slot};

use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct FullDisk;

impl Invariant for FullDisk {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        let is_full = |state: &ClusterState, node| {
            state.nodes.get(&node).is_some_and(|node| node.status == NodeStatus::DiskFull)
        };
        if !step.before.nodes.values().any(|node| node.status == NodeStatus::DiskFull) {
            return Ok(());
        }
        let is_new = |slot: &&Slot| {
            let node = slot.current.node;
            slot.desired_state == DesiredState::Active
                && slot.current.raft_index == step.entry.index
                && is_full(step.before, node)
                && is_full(&facts.state, node)
                && !had_one(step.before, slot, node)
        };
        match facts.state.slots.values().find(is_new) {
            None => Ok(()),
            Some(slot) => Err(InvariantViolation::PlacedOnFullDisk {
                instance: slot.current_id(),
                node: slot.current.node,
            }),
        }
    }
}

/// Whether an instance of the slot was on the node before, or data of one that was disabled.
fn had_one(before: &ClusterState, slot: &Slot, node: NodeId) -> bool {
    let Some(known) = before.slots.get(&slot.id) else { return false };
    let spec = before.service_spec(&known.service, known.current.revision);
    let has_data = spec.is_some_and(|spec| spec.storage == Storage::Stateful);
    known.instances().any(|(_, instance)| instance.node == node)
        || has_data && known.current.node == node
}
