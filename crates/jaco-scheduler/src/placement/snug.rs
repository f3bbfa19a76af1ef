//! With a minimum: the node that satisfies it with the least left over, so that the large ones stay
//! free for those who need them (R-CONS-3).

use jaco_types::unit::{Bytes, MilliCores, Resources};

use super::limit::Room;
use crate::node_table::NodeIx;

/// Nodes that may take replicas, and how many of the service they have.
pub(crate) struct Snug {
    minimum: Resources,
    candidates: Vec<(NodeIx, u32)>,
}

/// Which node is taken; smaller is better, fields are compared top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SnugScore {
    /// Replicas of the service on the node; zero for all where the service is packed.
    replicas: u32,
    /// Memory left; zero where the service asks for none.
    memory: Bytes,
    /// Processor time left; zero where the service asks for none.
    cpu: MilliCores,
    /// The order of the host names breaks ties.
    node: NodeIx,
}

impl Snug {
    /// `candidates` in order; `on_nodes` names the node of each replica that counts.
    pub(crate) fn new(
        minimum: Resources,
        candidates: &[NodeIx],
        on_nodes: impl Iterator<Item = NodeIx>,
    ) -> Self {
        let mut candidates: Vec<_> = candidates.iter().map(|node| (*node, 0)).collect();
        for node in on_nodes {
            if let Ok(at) = candidates.binary_search_by_key(&node, |(known, _)| *known) {
                candidates[at].1 += 1;
            }
        }
        Self { minimum, candidates }
    }

    pub(crate) fn choose(&mut self, room: Room<'_, '_>) -> Option<NodeIx> {
        let score = |(node, replicas): &(NodeIx, u32)| {
            let row = room.nodes.row(*node);
            let left = row.left();
            let asked = |minimum: u64, left: u64| if minimum == 0 { 0 } else { left };
            let memory = left.memory.unwrap_or_default().0;
            let cpu = left.cpu.unwrap_or_default().0;
            (row.has_left(self.minimum) && room.is_on(*node)).then(|| SnugScore {
                replicas: *replicas,
                memory: Bytes(asked(self.minimum.memory.0, memory)),
                cpu: MilliCores(asked(self.minimum.cpu.0, cpu)),
                node: *node,
            })
        };
        let scored = self.candidates.iter().enumerate();
        let best = scored.filter_map(|(at, entry)| Some((score(entry)?, at))).min()?;
        let (SnugScore { node, .. }, at) = best;
        self.candidates[at].1 += 1;
        Some(node)
    }
}
