//! `pack`: one node after another, each filled before the next is opened (R-PLACE-2).

use super::limit::Room;
use crate::node_table::{NodeIx, NodeTable};

/// Nodes that may take replicas, and the one that is being filled.
pub(crate) struct Pack {
    candidates: Vec<Candidate>,
    filling: Option<usize>,
}

struct Candidate {
    node: NodeIx,
    score: PackScore,
    left: Left,
}

/// Whether a node may take another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Unknown,
    None,
}

/// Which node is opened next; smaller is better, fields are compared top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PackScore {
    /// A node that has some of the service is open already.
    opened: Opened,
    /// Replicas on the node, of any service.
    replicas: u32,
    /// The order of the host names breaks ties.
    node: NodeIx,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Opened {
    Yes,
    No,
}

impl Pack {
    /// `candidates` in order; `on_nodes` names the node of each replica there is.
    pub(crate) fn new(
        nodes: &NodeTable<'_>,
        candidates: &[NodeIx],
        on_nodes: impl Iterator<Item = NodeIx>,
    ) -> Self {
        let mut opened = vec![Opened::No; candidates.len()];
        for node in on_nodes {
            if let Ok(at) = candidates.binary_search(&node) {
                opened[at] = Opened::Yes;
            }
        }
        let candidates = candidates.iter().zip(opened).map(|(node, opened)| Candidate {
            node: *node,
            score: PackScore { opened, replicas: nodes.row(*node).usage.replicas, node: *node },
            left: Left::Unknown,
        });
        Self { candidates: candidates.collect(), filling: None }
    }

    pub(crate) fn choose(&mut self, room: Room<'_, '_>) -> Option<NodeIx> {
        loop {
            let at = self.filling.or_else(|| self.best())?;
            let candidate = &mut self.candidates[at];
            if room.is_on(candidate.node) {
                self.filling = Some(at);
                return Some(candidate.node);
            }
            candidate.left = Left::None;
            self.filling = None;
        }
    }

    fn best(&self) -> Option<usize> {
        let with_room = self.candidates.iter().enumerate().filter(|(_, c)| c.left == Left::Unknown);
        with_room.min_by_key(|(_, candidate)| candidate.score).map(|(at, _)| at)
    }
}
