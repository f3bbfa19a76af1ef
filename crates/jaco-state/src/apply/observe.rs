//! What a node saw of its instances.

use jaco_types::{InstanceId, InstanceObserved, NodeId};

use super::cluster::{is_member, unknown_node};
use crate::command::Outcome;
use crate::state::ClusterState;

/// Records what `node` saw. A node can only speak of its own instances: what it says of another
/// node's is passed over, and so is anything about an instance that no slot names any more.
pub(super) fn record(
    state: &mut ClusterState,
    node: NodeId,
    observed: &[InstanceObserved],
    gone: &[InstanceId],
) -> Outcome {
    if !is_member(state, node) {
        return unknown_node(node);
    }
    for id in gone {
        if state.observed.get(id).is_some_and(|known| known.node == node) {
            state.observed.remove(id);
        }
    }
    for seen in observed.iter().filter(|seen| seen.node == node) {
        if is_live(state, &seen.id, node) && state.observed.get(&seen.id) != Some(seen) {
            state.observed.insert(seen.id.clone(), seen.clone());
        }
    }
    Outcome::Done
}

/// Whether some slot names this instance on this node, or named it and the node still has it.
fn is_live(state: &ClusterState, id: &InstanceId, node: NodeId) -> bool {
    let named = state.slots.get(&id.replica).is_some_and(|slot| {
        slot.instances().any(|(live, instance)| live == *id && instance.node == node)
    });
    named || state.observed.contains(id)
}
