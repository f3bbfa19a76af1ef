//! With a minimum: the node that satisfies it with the least left over, so that the large ones stay
//! free for those who need them (R-CONS-3).

use super::preference::{Preference, RankingPolicy};
use crate::eligibility::Room;
use crate::nodes::NodeIx;

/// Nodes that may take replicas, and how many of the service they have.
pub(crate) struct BestFit {
    ranking: RankingPolicy,
    candidates: Vec<(NodeIx, u32)>,
}

impl BestFit {
    /// `candidates` in order; `on_nodes` names the node of each replica there is.
    pub(crate) fn new(
        ranking: RankingPolicy,
        candidates: &[NodeIx],
        on_nodes: impl Iterator<Item = NodeIx>,
    ) -> Self {
        let mut candidates: Vec<_> = candidates.iter().map(|node| (*node, 0)).collect();
        for node in on_nodes {
            if let Ok(at) = candidates.binary_search_by_key(&node, |(known, _)| *known) {
                candidates[at].1 += 1;
            }
        }
        Self { ranking, candidates }
    }

    pub(crate) fn choose(&mut self, room: Room<'_, '_>) -> Option<NodeIx> {
        let preference = |(node, here): &(NodeIx, u32)| {
            let row = room.nodes.row(*node);
            let has_room = row.has_left(self.ranking.minimum) && room.is_on(*node);
            has_room.then(|| Preference { turn: node.0, ..self.ranking.of(row, *here) })
        };
        let preferences = self.candidates.iter().enumerate();
        let (_, at) = preferences.filter_map(|(at, it)| Some((preference(it)?, at))).min()?;
        self.candidates[at].1 += 1;
        Some(self.candidates[at].0)
    }
}
