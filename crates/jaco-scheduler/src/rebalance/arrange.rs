//! Order at a person's word, whatever is measured: replicas of a service apart, or nodes free of them.
//!
//! Each move lowers a whole number, the potential, so that there is an end; and after the last one no
//! single move lowers it, so that a second run finds nothing. Where a replica may go is asked as for
//! any new one; nothing is moved that the rebalancer would not move.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::ClusterState;
use jaco_state::NewInstance;
use jaco_state::command::RebalanceMove;
use jaco_types::spec::{Placement, ServiceSpec, Storage, UpdateOrder};
use jaco_types::{Node, NodeId, ReplicaId, ReplicaState, ServiceKey, Slot, Standing};

use super::choice::goes_with_others;
use crate::asked::ClusterDemands;
use crate::attribute::value_of;
use crate::company::Company;
use crate::eligibility::{Others, verdict};
use crate::node_table::{NodeIx, NodeTable};
use crate::placement::Limit;
use crate::resting::Resting;
use crate::usage::Usage;

/// What is made better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Replicas of a spread service stand apart. The potential is, of each service, the sum of the
    /// squares of how many replicas each node has of it.
    Spread,
    /// Replicas of packed services stand together, so that nodes become free. The potential is how many
    /// pairs of replicas stand on different nodes.
    Pack,
}

impl Goal {
    /// The goal as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Pack => "pack",
        }
    }
}

/// One move towards a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arranged {
    /// The replica.
    pub replica: ReplicaId,
    /// Its service.
    pub service: ServiceKey,
    /// Where it is.
    pub src: NodeId,
    /// Where it goes.
    pub dst: NodeId,
    /// The potential before and after; it falls.
    pub potential: (u64, u64),
}

/// The moves that lead to the goal, in order, `most` at most.
#[must_use]
pub fn arrange(state: &ClusterState, goal: Goal, most: usize) -> Vec<Arranged> {
    let mut board = Board::read(state, goal);
    let mut moves = Vec::new();
    while moves.len() < most {
        let Some(next) = board.best() else { break };
        moves.push(board.make(next));
    }
    moves
}

/// The moves as the log takes them, with what each buys.
#[must_use]
pub fn arrangement(state: &ClusterState, goal: Goal, moves: &[Arranged]) -> Vec<RebalanceMove> {
    let host = |id: NodeId| {
        let node = state.nodes.get(&id);
        node.map_or_else(|| id.to_string(), |node| node.hostname.to_string())
    };
    let one = |arranged: &Arranged| {
        let current = &state.slots.get(&arranged.replica)?.current;
        let facts = [
            ("goal", goal.as_str().to_owned()),
            ("replica_id", arranged.replica.to_string()),
            ("deployment", arranged.service.deployment.to_string()),
            ("service", arranged.service.service.to_string()),
            ("src", host(arranged.src)),
            ("dst", host(arranged.dst)),
            ("potential_before", arranged.potential.0.to_string()),
            ("potential_after", arranged.potential.1.to_string()),
        ];
        Some(RebalanceMove {
            id: arranged.replica.clone(),
            instance: NewInstance {
                node: arranged.dst,
                revision: current.revision,
                spec_hash: current.spec_hash,
                gpus: Vec::new(),
            },
            facts: facts.map(|(name, fact)| (name.to_owned(), fact)).into(),
        })
    };
    moves.iter().filter_map(one).collect()
}

/// Where everything stands, as far as the goal asks.
struct Board<'a> {
    goal: Goal,
    nodes: NodeTable<'a>,
    pieces: Vec<Piece<'a>>,
    /// How many replicas that the goal counts each node has: of one service, or of all together.
    counts: BTreeMap<Option<&'a ServiceKey>, Vec<u64>>,
    /// Where each service has replicas.
    homes: BTreeMap<&'a ServiceKey, Vec<NodeIx>>,
    /// Where people want services to rest.
    resting: Resting<'a>,
}

/// A replica that may move.
struct Piece<'a> {
    slot: &'a Slot,
    spec: &'a ServiceSpec,
    at: NodeIx,
    /// It has moved: it does not move twice.
    moved: bool,
}

/// A move that lowers the potential: which piece, and where to.
struct Next {
    piece: usize,
    to: NodeIx,
}

impl<'a> Board<'a> {
    fn read(state: &'a ClusterState, goal: Goal) -> Self {
        let ids: Vec<NodeId> = state.nodes.keys().copied().collect();
        let mut usage = vec![Usage::default(); ids.len()];
        for slot in state.slots.values() {
            for (_, instance) in slot.instances() {
                let spec = state.service_spec(&slot.service, instance.revision);
                if let (Some(spec), Ok(at)) = (spec, ids.binary_search(&instance.node)) {
                    usage[at].take(spec, &instance.gpus);
                }
            }
        }
        let rows = state.nodes.values().zip(usage);
        let nodes = NodeTable::new(rows, ClusterDemands::read(&state.constraints));
        let mut board = Self {
            goal,
            pieces: Vec::new(),
            counts: BTreeMap::new(),
            homes: BTreeMap::new(),
            resting: Resting::read(&state.disabled, &nodes),
            nodes,
        };
        let active = state.slots.values().filter(|slot| slot.standing == Standing::Active);
        for slot in active {
            let Some(at) = board.nodes.find(slot.current.node) else { continue };
            let Some(spec) = state.service_spec(&slot.service, slot.current.revision) else {
                continue;
            };
            board.homes.entry(&slot.service).or_default().push(at);
            let none = || vec![0; ids.len()];
            board.counts.entry(counted(goal, slot)).or_insert_with(none)[at.0] += 1;
            if is_movable(state, slot, spec) && is_meant(goal, spec) {
                board.pieces.push(Piece { slot, spec, at, moved: false });
            }
        }
        board
    }

    /// The move that lowers the potential most; of equal ones the first replica's, to the first node.
    fn best(&self) -> Option<Next> {
        let mut best: Option<(u64, Next)> = None;
        // Replicas of a service on one node are all the same here.
        let mut asked = BTreeSet::new();
        for (piece, it) in self.pieces.iter().enumerate().filter(|(_, it)| !it.moved) {
            let counts = &self.counts[&counted(self.goal, it.slot)];
            let from = counts[it.at.0];
            let at_least = best.as_ref().map_or(0, |(gain, _)| *gain);
            if !asked.insert((&it.slot.service, it.at)) {
                continue;
            }
            if counts.iter().all(|to| self.gain(from, *to) <= at_least) {
                continue;
            }
            for (to, _) in self.nodes.rows() {
                let gain = self.gain(from, counts[to.0]);
                let is_better = gain > best.as_ref().map_or(0, |(gain, _)| *gain);
                if to != it.at && is_better && self.takes(it, to) {
                    best = Some((gain, Next { piece, to }));
                }
            }
        }
        best.map(|(_, next)| next)
    }

    /// How much the potential falls when one goes from a node with `from` of them to one with `to`.
    fn gain(&self, from: u64, to: u64) -> u64 {
        match self.goal {
            // from² + to² - (from - 1)² - (to + 1)²
            Goal::Spread => (2 * from).saturating_sub(2 * to + 2),
            // Pairs that are apart before, less those after.
            Goal::Pack => (to + 1).saturating_sub(from),
        }
    }

    fn potential(&self) -> u64 {
        match self.goal {
            Goal::Spread => self.counts.values().flatten().map(|count| count * count).sum(),
            Goal::Pack => {
                let counts = self.counts.get(&None).map(Vec::as_slice).unwrap_or_default();
                let all: u64 = counts.iter().sum();
                let together: u64 = counts.iter().map(|count| count * count).sum();
                (all * all - together) / 2
            }
        }
    }

    /// Whether a node takes this replica, as a new one of its service and without undoing what its
    /// service asks to be spread over.
    fn takes(&self, piece: &Piece<'_>, to: NodeIx) -> bool {
        let row = self.nodes.row(to);
        let here = self.nodes.row(piece.at).node;
        let leaves =
            |node: &Node, attribute: &_| value_of(here, attribute) != value_of(node, attribute);
        let criteria = &piece.spec.scheduling.spread;
        if criteria.iter().any(|criterion| leaves(row.node, &criterion.attribute)) {
            return false;
        }
        let company = Company::default();
        let max = self.nodes.demands.max_per_node(&piece.spec.scheduling);
        let on = self.homes.get(&piece.slot.service).map(Vec::as_slice).unwrap_or_default();
        let limit = Limit::new(&self.nodes, max, None, on);
        let resting = self.resting.of(&piece.slot.service);
        let others = Others { company: &company, limit: limit.as_ref(), resting: &resting };
        verdict(&self.nodes.demands, (to, row), piece.spec, piece.spec, others).is_empty()
    }

    /// Makes it, on the board: its old place stays taken until the new one serves.
    fn make(&mut self, next: Next) -> Arranged {
        let before = self.potential();
        let piece = &mut self.pieces[next.piece];
        let (src, slot) = (piece.at, piece.slot);
        (piece.at, piece.moved) = (next.to, true);
        let spec = piece.spec;
        // What moves has no GPUs.
        self.nodes.row_mut(next.to).usage.take(spec, []);
        self.homes.entry(&slot.service).or_default().push(next.to);
        let counts = self.counts.entry(counted(self.goal, slot)).or_default();
        counts[src.0] -= 1;
        counts[next.to.0] += 1;
        Arranged {
            replica: slot.id.clone(),
            service: slot.service.clone(),
            src: self.nodes.row(src).node.id,
            dst: self.nodes.row(next.to).node.id,
            potential: (before, self.potential()),
        }
    }
}

/// Of whom the replicas are counted together.
fn counted(goal: Goal, slot: &Slot) -> Option<&ServiceKey> {
    match goal {
        Goal::Spread => Some(&slot.service),
        Goal::Pack => None,
    }
}

/// A placement is not rearranged into another one.
fn is_meant(goal: Goal, spec: &ServiceSpec) -> bool {
    match (&spec.placement, goal) {
        (Placement::Spread | Placement::Hosts(_), Goal::Spread) | (Placement::Pack, Goal::Pack) => {
            true
        }
        (Placement::Spread | Placement::Hosts(_) | Placement::Global, Goal::Pack)
        | (Placement::Pack | Placement::Global, Goal::Spread) => false,
    }
}

/// As for relief: no data, nothing that cannot run beside its successor, nothing that is changing.
fn is_movable(state: &ClusterState, slot: &Slot, spec: &ServiceSpec) -> bool {
    let wanted = state.deployments.get(&slot.service.deployment).and_then(|deployment| {
        deployment.spec().services.get(&slot.service.service).map(|spec| spec.hash)
    });
    let serves = state.observed.get(&slot.current_id());
    spec.storage == Storage::Stateless
        && spec.update.order == UpdateOrder::StartFirst
        && slot.retiring.is_none()
        && wanted == Some(slot.current.spec_hash)
        && serves.is_some_and(|seen| seen.state == ReplicaState::Running)
        && spec.gpus.is_none()
        && !goes_with_others(state, slot)
}
