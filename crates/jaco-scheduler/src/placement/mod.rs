//! Choosing a node for one replica after another: the one that is preferred (`preference`), of those
//! that have room.
//!
//! Nobody compares all nodes for each replica. `domain` knows the domain that is furthest below its
//! share, a cell sorts its nodes out by affinity, and `spread`, `pack` and `best_fit` find the best among
//! those that are equal so far; with `scoring: nomad` one score by Nomad's formulas takes the place of
//! all that (`nomad`).
//!
//! One file per placement; a new mode is a new file and a variant of [`Within`].

mod apportion;
mod best_fit;
mod domain;
mod fixed;
pub(crate) mod hosts;
mod nomad;
mod pack;
mod preference;
mod scores;
mod spread;
mod successor;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jaco_types::Ordinal;
use jaco_types::spec::{Placement, Scoring, ServiceSpec, SpreadCriterion};
use jaco_types::unit::Resources;

use crate::attribute::affinity;
use crate::draft::ServiceDraft;
use crate::eligibility::{ColocationView, Limit, Room};
use crate::nodes::{Grouping, NodeIx, NodeTable};
pub use domain::SpreadShare;
pub(crate) use domain::{Domains, Presence, criteria};
pub use nomad::NodeScore;
pub(crate) use preference::{Preference, RankingPolicy, ReplicaCount};
pub(crate) use scores::{scores, shares};
pub(crate) use spread::Seed;

/// Chooses nodes for the replicas of one service. It counts what it chose, so its caller has to
/// place exactly what was chosen. Valid as long as nothing gives room back.
pub(crate) struct Chooser<'a> {
    ground: Ground<'a>,
    /// The node of each replica, the chosen ones included.
    on_nodes: Vec<NodeIx>,
    stage: Stage,
    choice: Choice<'a>,
}

/// What a choice is made by.
struct Ground<'a> {
    goal: &'a ServiceSpec,
    seed: spread::Seed,
    colocation: Rc<ColocationView<'a>>,
    disabled: Rc<BTreeSet<NodeIx>>,
    /// Where a replica is that is started anew: of domains that lack one equally, it keeps its own.
    stays: Option<NodeIx>,
}

/// A colocated service has one replica with each of its partner's first, and what is
/// more than that wherever one of the other is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Paired,
    Any,
}

/// The nodes, sorted out for the choice.
struct Choice<'a> {
    /// The domains, where there are spread criteria. Without, there is one cell of all nodes.
    domains: Option<Domains<'a>>,
    cells: Vec<Cell>,
    limit: Option<Limit>,
}

/// The nodes of one domain. Most services use few of their domains, so what a cell needs to choose
/// among its nodes is made when it is first asked.
struct Cell {
    candidates: Rc<[NodeIx]>,
    on_nodes: Vec<NodeIx>,
    tiers: Option<Vec<Within>>,
}

/// Chooses among nodes that are equal in domain and affinity; `Nomad` looks at both by itself.
enum Within {
    Spread(spread::Spread),
    Pack(pack::Pack),
    BestFit(best_fit::BestFit),
    Nomad(nomad::Nomad),
}

impl<'a> Chooser<'a> {
    /// A chooser for replicas of `service`, by the placement and policy of its goal.
    pub(crate) fn new(nodes: &NodeTable<'a>, service: &ServiceDraft<'a>) -> Self {
        let on_nodes: Vec<_> = service.slots.iter().filter_map(|slot| slot.current.at).collect();
        Self::among(nodes, service, &on_nodes, None)
    }

    /// A chooser that counts only these replicas of `service`; for one that is started anew, and
    /// `stays` where it is if all else is equal.
    pub(crate) fn among(
        nodes: &NodeTable<'a>,
        service: &ServiceDraft<'a>,
        on_nodes: &[NodeIx],
        stays: Option<NodeIx>,
    ) -> Self {
        let on_nodes = on_nodes.to_vec();
        let (goal, colocation) = (service.goal().spec, Rc::clone(service.colocation()));
        let (seed, disabled) = (spread::Seed::of(&service.key), Rc::clone(&service.disabled_on));
        let ground = Ground { goal, seed, colocation, disabled, stays };
        let stage = match ground.colocation.paired_with() {
            Some(_) => Stage::Paired,
            None => Stage::Any,
        };
        let choice = Choice::new(nodes, &ground, &on_nodes, stage);
        Self { ground, on_nodes, stage, choice }
    }

    /// The node for this replica, or `None` if no candidate has room for it.
    pub(crate) fn choose(
        &mut self,
        nodes: &NodeTable<'a>,
        spec: &ServiceSpec,
        ordinal: &Ordinal,
    ) -> Option<NodeIx> {
        let mut chosen = self.choice.find(nodes, spec, ordinal, &self.ground);
        let may_share = self.stage == Stage::Paired
            && !self.choice.limit.as_ref().is_some_and(Limit::has_pairs_to_come);
        if chosen.is_none() && may_share {
            self.stage = Stage::Any;
            self.choice = Choice::new(nodes, &self.ground, &self.on_nodes, self.stage);
            chosen = self.choice.find(nodes, spec, ordinal, &self.ground);
        }
        let chosen = chosen?;
        debug_assert!(self.is_preferred(nodes, spec, ordinal, chosen), "PL-21");
        self.choice.note(chosen);
        self.on_nodes.push(chosen);
        Some(chosen)
    }

    /// PL-21: whether no node that has room is preferred to this one, each asked by itself. In small
    /// clusters only: it looks at all pairs of nodes.
    fn is_preferred(
        &self,
        nodes: &NodeTable<'a>,
        spec: &ServiceSpec,
        ordinal: &Ordinal,
        chosen: NodeIx,
    ) -> bool {
        const NODES_MAX: usize = 32;
        let Ground { goal, colocation, disabled, .. } = &self.ground;
        if nodes.rows().len() > NODES_MAX || goal.scheduling.scoring == Scoring::Nomad {
            return true;
        }
        let room = Room { nodes, spec, limit: self.choice.limit.as_ref(), disabled };
        let ranking = RankingPolicy::new(nodes, goal);
        let has_room = |at: &NodeIx| nodes.row(*at).has_left(ranking.minimum) && room.is_on(*at);
        let others = candidates(nodes, goal, colocation);
        let best = others.iter().copied().filter(has_room);
        let best = best.min_by_key(|at| self.preference(nodes, ordinal, *at, ranking));
        best == Some(chosen)
    }

    /// How much a node is preferred for the next replica, by nothing but what is there.
    fn preference(
        &self,
        nodes: &NodeTable<'a>,
        ordinal: &Ordinal,
        at: NodeIx,
        ranking: RankingPolicy,
    ) -> Preference {
        let Ground { goal, colocation, seed, .. } = &self.ground;
        let suits = |at: NodeIx| affinity(nodes.row(at).node, &goal.scheduling.affinities);
        let domain_of = |at| self.choice.domains.as_ref().map_or(0, |all| all.domain_of(at));
        let (own_affinity, domain) = (suits(at), domain_of(at));
        let is_peer = |it: &NodeIx| domain_of(*it) == domain && suits(*it) == own_affinity;
        let peers = candidates(nodes, goal, colocation);
        let peers: Vec<NodeIx> = peers.iter().copied().filter(is_peer).collect();
        let is_hashed =
            goal.placement != Placement::Pack && ranking.minimum == Resources::default();
        let place = peers.binary_search(&at).ok().filter(|_| is_hashed);
        let here = self.on_nodes.iter().filter(|on| **on == at).count();
        let of_domain = self.choice.domains.as_ref().map(|all| all.below_share(domain));
        Preference {
            below_share: Reverse(of_domain.unwrap_or_default()),
            domain,
            affinity: Reverse(own_affinity),
            turn: place.map_or(at.0, |place| seed.turn(ordinal, place, peers.len())),
            ..ranking.of(nodes.row(at), u32::try_from(here).unwrap_or(u32::MAX))
        }
    }
}

impl<'a> Choice<'a> {
    fn new(nodes: &NodeTable<'a>, ground: &Ground<'a>, on_nodes: &[NodeIx], stage: Stage) -> Self {
        let Ground { goal, seed, colocation, .. } = ground;
        let paired = (stage == Stage::Paired).then_some(colocation);
        let max = nodes.demands.max_per_node(&goal.scheduling);
        let limit = Limit::new(nodes, max, paired.map(Rc::as_ref), on_nodes);
        if goal.scheduling.spread.is_empty() || goal.scheduling.scoring == Scoring::Nomad {
            let candidates = candidates(nodes, goal, colocation);
            let cells = vec![Cell { candidates, on_nodes: on_nodes.to_vec(), tiers: None }];
            return Self { domains: None, cells, limit };
        }
        let criteria = criteria(&goal.scheduling);
        let grouping = nodes.grouping(&criteria);
        let by_domain = by_domain(nodes, goal, colocation, &grouping, &criteria);
        let present = by_domain.iter().map(|nodes| presence(nodes)).collect();
        let cells = cells(&grouping, &by_domain, on_nodes);
        let on_nodes = on_nodes.iter().copied();
        let (count, favoured) = (goal.replicas, ground.stays);
        let domains = Domains::new(criteria, grouping, seed.0, present, on_nodes, count, favoured);
        Self { domains: Some(domains), cells, limit }
    }

    /// The node that is preferred of those that have room.
    fn find(
        &mut self,
        nodes: &NodeTable<'a>,
        spec: &ServiceSpec,
        ordinal: &Ordinal,
        ground: &Ground<'a>,
    ) -> Option<NodeIx> {
        let Self { domains, cells, limit } = self;
        let room = Room { nodes, spec, limit: limit.as_ref(), disabled: &ground.disabled };
        let Some(domains) = domains else { return cells[0].choose(room, ordinal, ground) };
        loop {
            let at = domains.next()?;
            if let Some(node) = cells[at].choose(room, ordinal, ground) {
                return Some(node);
            }
            domains.fill(at);
        }
    }

    /// Notes that a replica was placed.
    fn note(&mut self, node: NodeIx) {
        if let Some(domains) = &mut self.domains {
            domains.place(node);
        }
        if let Some(limit) = &mut self.limit {
            limit.count(node);
        }
    }
}

/// The nodes that a new replica may go to, whether or not they have room.
pub(crate) fn candidates<'a>(
    nodes: &NodeTable<'a>,
    goal: &'a ServiceSpec,
    colocation: &ColocationView<'_>,
) -> Rc<[NodeIx]> {
    let allowed = nodes.allowed(&goal.scheduling);
    let allowed = match &goal.placement {
        Placement::Hosts(hosts) => hosts::among(nodes, &allowed, hosts),
        Placement::Spread | Placement::Pack | Placement::Global => allowed,
    };
    if colocation.is_empty() {
        return allowed;
    }
    allowed.iter().copied().filter(|node| colocation.is_on(*node)).collect()
}

/// The candidates in each domain. Services that say the same share the lists.
pub(crate) fn by_domain<'a>(
    nodes: &NodeTable<'a>,
    goal: &'a ServiceSpec,
    colocation: &ColocationView<'_>,
    grouping: &Grouping,
    criteria: &[&'a SpreadCriterion],
) -> Rc<[Rc<[NodeIx]>]> {
    let sort = || {
        let mut domains: Vec<_> = (0..grouping.len()).map(|_| Vec::new()).collect();
        for node in candidates(nodes, goal, colocation).iter() {
            domains[grouping.domain_of(*node)].push(*node);
        }
        domains.into_iter().map(Rc::from).collect()
    };
    match &goal.placement {
        Placement::Hosts(_) => sort(),
        Placement::Spread | Placement::Pack | Placement::Global if !colocation.is_empty() => sort(),
        Placement::Spread | Placement::Pack | Placement::Global => {
            nodes.allowed_by_domain(&goal.scheduling, criteria, sort)
        }
    }
}

/// Whether some node of a domain can take a replica.
pub(crate) fn presence(candidates: &[NodeIx]) -> Presence {
    if candidates.is_empty() { Presence::Absent } else { Presence::Present }
}

fn cells(grouping: &Grouping, by_domain: &[Rc<[NodeIx]>], on_nodes: &[NodeIx]) -> Vec<Cell> {
    let cell = |candidates: &Rc<[NodeIx]>| Cell {
        candidates: Rc::clone(candidates),
        on_nodes: Vec::new(),
        tiers: None,
    };
    let mut cells: Vec<_> = by_domain.iter().map(cell).collect();
    for node in on_nodes {
        cells[grouping.domain_of(*node)].on_nodes.push(*node);
    }
    cells
}

impl Cell {
    fn choose(
        &mut self,
        room: Room<'_, '_>,
        ordinal: &Ordinal,
        ground: &Ground<'_>,
    ) -> Option<NodeIx> {
        if self.tiers.is_none() {
            self.tiers = Some(self.sort_out(room.nodes, ground.goal, ground.seed));
        }
        self.tiers.iter_mut().flatten().find_map(|tier| tier.choose(room, ordinal))
    }

    /// The nodes by affinity, the best first.
    fn sort_out(
        &self,
        nodes: &NodeTable<'_>,
        goal: &ServiceSpec,
        seed: spread::Seed,
    ) -> Vec<Within> {
        if goal.scheduling.scoring == Scoring::Nomad {
            let nomad = nomad::Nomad::new(nodes, goal, &self.candidates, &self.on_nodes);
            return vec![Within::Nomad(nomad)];
        }
        let within = |candidates| Within::new(nodes, goal, seed, candidates, &self.on_nodes);
        let affinities = &goal.scheduling.affinities;
        if affinities.is_empty() {
            return vec![within(Rc::clone(&self.candidates))];
        }
        let mut tiers: BTreeMap<Reverse<i64>, Vec<NodeIx>> = BTreeMap::new();
        for node in self.candidates.iter() {
            let suits = affinity(nodes.row(*node).node, affinities);
            tiers.entry(Reverse(suits)).or_default().push(*node);
        }
        tiers.into_values().map(|candidates| within(candidates.into())).collect()
    }
}

impl Within {
    fn new(
        nodes: &NodeTable<'_>,
        goal: &ServiceSpec,
        seed: spread::Seed,
        candidates: Rc<[NodeIx]>,
        on_nodes: &[NodeIx],
    ) -> Self {
        let on_nodes = on_nodes.iter().copied();
        let ranking = RankingPolicy::new(nodes, goal);
        match (&goal.placement, ranking.minimum == Resources::default()) {
            (_, false) => Self::BestFit(best_fit::BestFit::new(ranking, &candidates, on_nodes)),
            (Placement::Pack, true) => Self::Pack(pack::Pack::new(&candidates, on_nodes)),
            (Placement::Spread | Placement::Hosts(_) | Placement::Global, true) => {
                Self::Spread(spread::Spread::new(seed, candidates, on_nodes))
            }
        }
    }

    fn choose(&mut self, room: Room<'_, '_>, ordinal: &Ordinal) -> Option<NodeIx> {
        match self {
            Self::Spread(spread) => spread.choose(room, ordinal),
            Self::Pack(pack) => pack.choose(room),
            Self::BestFit(best_fit) => best_fit.choose(room),
            Self::Nomad(nomad) => nomad.choose(room),
        }
    }
}
