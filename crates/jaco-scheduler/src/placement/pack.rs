//! `pack`: one node after another, each filled before the next is opened (R-PLACE-2).

use std::cmp::Reverse;

use crate::eligibility::Room;
use crate::nodes::NodeIx;

/// Nodes that may take replicas, and the one that is being filled.
pub(crate) struct Pack {
    candidates: Vec<Candidate>,
    /// No other is preferred to it as long as it has room: each replica makes it more so.
    filling: Option<usize>,
}

struct Candidate {
    node: NodeIx,
    /// Replicas of the service that are there.
    here: u32,
    left: Left,
}

/// Whether a node may take another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Unknown,
    None,
}

impl Pack {
    /// `candidates` in order; `on_nodes` names the node of each replica there is.
    pub(crate) fn new(candidates: &[NodeIx], on_nodes: impl Iterator<Item = NodeIx>) -> Self {
        let candidate = |node: &NodeIx| Candidate { node: *node, here: 0, left: Left::Unknown };
        let mut candidates: Vec<_> = candidates.iter().map(candidate).collect();
        for node in on_nodes {
            if let Ok(at) = candidates.binary_search_by_key(&node, |candidate| candidate.node) {
                candidates[at].here += 1;
            }
        }
        Self { candidates, filling: None }
    }

    pub(crate) fn choose(&mut self, room: Room<'_, '_>) -> Option<NodeIx> {
        loop {
            let at = self.filling.or_else(|| self.best(room))?;
            let candidate = &mut self.candidates[at];
            if room.is_on(candidate.node) {
                self.filling = Some(at);
                candidate.here += 1;
                return Some(candidate.node);
            }
            candidate.left = Left::None;
            self.filling = None;
        }
    }

    /// Of those that may have room the preferred one. By what tells packed nodes apart alone, because
    /// all nodes of a domain are looked at: `replica_count`, `replicas` and `turn` of a preference.
    fn best(&self, room: Room<'_, '_>) -> Option<usize> {
        let mut best: Option<(usize, _)> = None;
        for (at, it) in self.candidates.iter().enumerate() {
            if it.left == Left::None {
                continue;
            }
            let key = (Reverse(it.here), room.nodes.row(it.node).usage.replicas, it.node);
            if best.is_none_or(|(_, known)| key < known) {
                best = Some((at, key));
            }
        }
        best.map(|(at, _)| at)
    }
}
