//! `pack`: one node after another, each filled before the next is opened (R-PLACE-2).

use super::limit::Room;
use crate::node_table::NodeIx;
use crate::preference::{Preference, Taste};

/// Nodes that may take replicas, and the one that is being filled.
pub(crate) struct Pack {
    taste: Taste,
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
    pub(crate) fn new(
        taste: Taste,
        candidates: &[NodeIx],
        on_nodes: impl Iterator<Item = NodeIx>,
    ) -> Self {
        let candidate = |node: &NodeIx| Candidate { node: *node, here: 0, left: Left::Unknown };
        let mut candidates: Vec<_> = candidates.iter().map(candidate).collect();
        for node in on_nodes {
            if let Ok(at) = candidates.binary_search_by_key(&node, |candidate| candidate.node) {
                candidates[at].here += 1;
            }
        }
        Self { taste, candidates, filling: None }
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

    fn best(&self, room: Room<'_, '_>) -> Option<usize> {
        let preference = |it: &Candidate| Preference {
            turn: it.node.0,
            ..self.taste.of(room.nodes.row(it.node), it.here)
        };
        let with_room = self.candidates.iter().enumerate().filter(|(_, c)| c.left == Left::Unknown);
        with_room.min_by_key(|(_, candidate)| preference(candidate)).map(|(at, _)| at)
    }
}
