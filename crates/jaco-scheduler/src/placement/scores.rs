//! What the choice among nodes goes by, for users who ask: shares of spread criteria, and scores by Nomad's
//! formulas. Computed by the code that chooses; nothing is chosen here.

use jaco_types::spec::{Placement, Scoring};

use super::domain::{Domains, SpreadShare, criteria};
use super::nomad::{NodeScore, Nomad};
use super::spread::Seed;
use super::{by_domain, candidates, presence};
use crate::draft::ServiceDraft;
use crate::nodes::{NodeIx, NodeTable};

/// The score of each node that one more replica may go to; empty without `scoring: nomad`.
pub(crate) fn scores<'a>(
    nodes: &NodeTable<'a>,
    service: &ServiceDraft<'a>,
) -> Vec<(NodeIx, NodeScore)> {
    let goal = service.goal().spec;
    if goal.scheduling.scoring != Scoring::Nomad {
        return Vec::new();
    }
    let candidates = candidates(nodes, goal, service.colocation());
    Nomad::new(nodes, goal, &candidates, &on_nodes(service)).scores(nodes, goal)
}

/// The shares of the service's spread criteria; empty without any, and where there is no choice of nodes.
pub(crate) fn shares<'a>(nodes: &NodeTable<'a>, service: &ServiceDraft<'a>) -> Vec<SpreadShare> {
    let domains = domains(nodes, service, on_nodes(service).into_iter());
    domains.map(Domains::shares).unwrap_or_default()
}

/// The domains of a service's spread criteria; none without any, and where there is no choice of nodes.
fn domains<'a>(
    nodes: &NodeTable<'a>,
    service: &ServiceDraft<'a>,
    on_nodes: impl Iterator<Item = NodeIx>,
) -> Option<Domains<'a>> {
    let goal = service.goal().spec;
    if goal.scheduling.spread.is_empty() || goal.placement == Placement::Global {
        return None;
    }
    let criteria = criteria(&goal.scheduling);
    let grouping = nodes.grouping(&criteria);
    let by_domain = by_domain(nodes, goal, service.colocation(), &grouping, &criteria);
    let present = by_domain.iter().map(|nodes| presence(nodes)).collect();
    let seed = Seed::of(&service.key).0;
    Some(Domains::new(criteria, grouping, seed, present, on_nodes, goal.replicas, None))
}

/// The node of each replica.
fn on_nodes(service: &ServiceDraft<'_>) -> Vec<NodeIx> {
    service.slots.iter().filter_map(|slot| slot.current.at).collect()
}
