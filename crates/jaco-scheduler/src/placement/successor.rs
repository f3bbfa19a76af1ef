//! Whether a replica that is started anew keeps its node: it does unless another one is preferred.

use std::cmp::Reverse;

use jaco_types::Ordinal;
use jaco_types::spec::ServiceSpec;

use super::{Chooser, Domains, RankingPolicy, ReplicaCount};
use crate::attribute::affinity;
use crate::nodes::{NodeIx, NodeTable};

/// How well a node suits the spread; smaller is better. The fields of a [`super::Preference`] that a
/// replica moves for: neither the place of a domain, nor what a node has left, nor whose turn it is, is
/// worth a move.
type Suitability = (Reverse<i64>, Reverse<i64>, ReplicaCount);

impl<'a> Chooser<'a> {
    /// The node for this replica if it were new, unless its `own` one suits the spread as well. The
    /// replica itself is not among those that the chooser counts.
    pub(crate) fn better_than(
        mut self,
        nodes: &NodeTable<'a>,
        spec: &ServiceSpec,
        ordinal: &Ordinal,
        own: NodeIx,
    ) -> Option<NodeIx> {
        // Choosing fills domains that have no room; what they lack is asked before.
        let domains = self.choice.domains.clone();
        let on_nodes = self.on_nodes.clone();
        let chosen = self.choose(nodes, spec, ordinal)?;
        let suits = |at| self.suitability(nodes, domains.as_ref(), &on_nodes, at);
        (chosen != own && suits(chosen) < suits(own)).then_some(chosen)
    }

    fn suitability(
        &self,
        nodes: &NodeTable<'a>,
        domains: Option<&Domains<'a>>,
        on_nodes: &[NodeIx],
        at: NodeIx,
    ) -> Suitability {
        let goal = self.ground.goal;
        let row = nodes.row(at);
        let here = on_nodes.iter().filter(|on| **on == at).count();
        let ranking = RankingPolicy::new(nodes, goal);
        let below = domains.map_or(0, |all| all.below_share(all.domain_of(at)));
        let suits = affinity(row.node, &goal.scheduling.affinities);
        let here = ranking.of(row, u32::try_from(here).unwrap_or(u32::MAX));
        (Reverse(below), Reverse(suits), here.replica_count)
    }
}
