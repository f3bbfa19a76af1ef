//! Observed state of instances.

use jaco_types::{InstanceId, NodeId};

use crate::apply::cluster::{is_member, unknown_node};
use crate::apply::network::{address, join};
use crate::command::{Entry, Observe, Outcome};
use crate::state::ClusterState;

/// Records a report. A node can only report its own instances: a report about another node's is
/// ignored, and so is one about an instance that is in no slot any more.
pub(in crate::apply) fn record(
    state: &mut ClusterState,
    entry: &Entry,
    command: &Observe,
) -> Outcome {
    let Observe { node, observed, gone, joined } = command;
    let node = *node;
    if !is_member(state, node) {
        return unknown_node(node);
    }
    for id in gone {
        if state.observed.get(id).is_some_and(|known| known.node == node) {
            state.observed.remove(id);
        }
        address::note_gone(state, entry.at, node, id);
    }
    for seen in observed.iter().filter(|seen| seen.node == node) {
        if !is_live(state, &seen.id, node) {
            address::note_there(state, entry.at, node, &seen.id);
        } else if state.observed.get(&seen.id) != Some(seen) {
            state.observed.insert(seen.id.clone(), seen.clone());
        }
    }
    for id in joined {
        join::end(state, node, id);
    }
    address::expire(state, entry.at);
    Outcome::Done
}

/// Whether some slot names this instance on this node, or named it and this node still has it.
fn is_live(state: &ClusterState, id: &InstanceId, node: NodeId) -> bool {
    let named = state.slots.get(&id.replica).is_some_and(|slot| {
        slot.kept_instances().any(|(live, instance)| live == *id && instance.node == node)
    });
    named || state.observed.get(id).is_some_and(|known| known.node == node)
}
