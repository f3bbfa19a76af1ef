//! Rebalancing on operator request, whatever is measured: replicas of a service apart, or nodes free of them.
//!
//! Each move lowers a whole number, the potential, so that there is an end; and after the last one no
//! single move lowers it, so that a second run finds nothing. Where a replica may go is asked as for
//! any new one; nothing is moved that the rebalancer would not move.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::ClusterState;
use jaco_state::NewInstance;
use jaco_state::command::RebalanceMove;
use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::{DesiredState, Node, NodeId, ReplicaId, ReplicaState, ServiceKey, Slot, SpecHash};

use super::movable::is_movable;
use super::taken;
use crate::attribute::affinity;
use crate::draft::DisabledNodes;
use crate::eligibility::{ColocationView, Limit, Others, refusals};
use crate::nodes::{Grouping, NodeIx, NodeTable};
use crate::placement::{Preference, RankingPolicy, criteria};

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
        let Some((group, to)) = board.best() else { break };
        moves.push(board.make(group, to));
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
    /// In the order of their first replicas.
    groups: Vec<Group<'a>>,
    /// The groups whose move may lower the potential: who promises most comes first, of equal ones the
    /// one with the first replica.
    queue: BTreeSet<(Reverse<u64>, &'a ReplicaId, usize)>,
    /// How many replicas that the goal counts are where: of one service each, or of all together.
    tallies: Vec<Tally>,
    /// Where each service has replicas.
    homes: BTreeMap<&'a ServiceKey, Vec<NodeIx>>,
    /// Where operators disabled services.
    disabled: DisabledNodes<'a>,
    potential: u64,
}

/// Replicas of a service on one node that may move and have not: they are all the same here.
struct Group<'a> {
    spec: &'a ServiceSpec,
    at: NodeIx,
    /// Which tally they are counted in.
    tally: usize,
    /// The domains that the service is spread over. None leaves its own.
    domains: Arc<Grouping>,
    /// By their ids, the last first.
    slots: Vec<&'a Slot>,
    /// What a move of one takes off the potential at most; zero of a group that is not in the queue.
    /// Room is only ever taken here, so that this holds as long as the counts do that it was worked out
    /// from.
    promise: u64,
}

/// How many replicas are where.
#[derive(Default)]
struct Tally {
    on: BTreeMap<NodeIx, u64>,
}

impl<'a> Board<'a> {
    fn read(state: &'a ClusterState, goal: Goal) -> Self {
        let nodes = taken::nodes(state, |_| {});
        let mut board = Self {
            goal,
            groups: Vec::new(),
            queue: BTreeSet::new(),
            tallies: Vec::new(),
            homes: BTreeMap::new(),
            disabled: DisabledNodes::read(&state.disabled, &nodes),
            nodes,
            potential: 0,
        };
        board.put_up(state);
        board.potential = board.first_potential();
        for group in 0..board.groups.len() {
            board.promise(group, board.most(group));
        }
        board
    }

    /// Counts the replicas, and gathers those that may move.
    fn put_up(&mut self, state: &'a ClusterState) {
        let mut tallies: BTreeMap<Option<&ServiceKey>, usize> = BTreeMap::new();
        let mut groups: BTreeMap<(&ServiceKey, NodeIx, SpecHash), usize> = BTreeMap::new();
        let active = state.slots.values().filter(|slot| slot.desired_state == DesiredState::Active);
        for slot in active {
            let Some(at) = self.nodes.find(slot.current.node) else { continue };
            let Some(spec) = spec_now(state, slot) else { continue };
            self.homes.entry(&slot.service).or_default().push(at);
            let next = self.tallies.len();
            let tally = *tallies.entry(counted(self.goal, slot)).or_insert(next);
            if tally == next {
                self.tallies.push(Tally::default());
            }
            *self.tallies[tally].on.entry(at).or_default() += 1;
            if is_movable_now(state, slot, spec) && is_meant(self.goal, spec) {
                let next = self.groups.len();
                let key = (&slot.service, at, slot.current.spec_hash);
                let group = *groups.entry(key).or_insert(next);
                if group == next {
                    let domains = self.nodes.grouping(&criteria(&spec.scheduling));
                    let slots = Vec::new();
                    self.groups.push(Group { spec, at, tally, domains, slots, promise: 0 });
                }
                self.groups[group].slots.push(slot);
            }
        }
        for group in &mut self.groups {
            group.slots.reverse();
        }
    }

    /// The move that lowers the potential most: the first replica of the first group that keeps what it
    /// promises. A promise that turns out too high is put right, and costs the group its place.
    fn best(&mut self) -> Option<(usize, NodeIx)> {
        while let Some(&(Reverse(promise), _, group)) = self.queue.first() {
            let best = self.best_of(group);
            let (gain, to) = best.map_or((0, None), |(gain, to)| (gain, Some(to)));
            match to {
                Some(to) if gain == promise => return Some((group, to)),
                Some(_) | None => self.promise(group, gain),
            }
        }
        None
    }

    /// Notes the most that a group's move takes off the potential, and gives it its place.
    fn promise(&mut self, group: usize, promise: u64) {
        let it = &mut self.groups[group];
        let Some(first) = it.slots.last().filter(|_| promise != it.promise) else { return };
        self.queue.remove(&(Reverse(it.promise), &first.id, group));
        it.promise = promise;
        if promise > 0 {
            self.queue.insert((Reverse(promise), &first.id, group));
        }
    }

    /// What a group's move would take off if the best of all nodes took it.
    fn most(&self, group: usize) -> u64 {
        let it = &self.groups[group];
        let tally = &self.tallies[it.tally];
        self.gain(tally.of(it.at), self.extreme(tally))
    }

    /// What the best move of a group takes off the potential, and where it leads: of those that take off
    /// as much, to the node that is preferred.
    fn best_of(&self, group: usize) -> Option<(u64, NodeIx)> {
        let it = &self.groups[group];
        let tally = &self.tallies[it.tally];
        let from = tally.of(it.at);
        let mut best: Option<(u64, Preference, NodeIx)> = None;
        for (to, count) in tally.of_all(self.nodes.rows().len()) {
            let gain = self.gain(from, count);
            if gain == 0 || best.is_some_and(|(most, ..)| gain < most) || !it.may_go(to) {
                continue;
            }
            let preference = self.preference(it, to, gain);
            let is_better = best.is_none_or(|(_, known, _)| preference < known);
            if is_better && self.takes(it, to) {
                best = Some((gain, preference, to));
            }
        }
        best.map(|(gain, _, to)| (gain, to))
    }

    /// How well a node suits a replica of the group that takes `gain` off the potential by going there.
    fn preference(&self, group: &Group<'a>, to: NodeIx, gain: u64) -> Preference {
        let row = self.nodes.row(to);
        let homes = group.slots.last().and_then(|slot| self.homes.get(&slot.service));
        let here = homes.into_iter().flatten().filter(|home| **home == to).count();
        Preference {
            purpose: u64::MAX - gain,
            affinity: Reverse(affinity(row.node, &group.spec.scheduling.affinities)),
            turn: to.0,
            ..RankingPolicy::new(&self.nodes, group.spec)
                .of(row, u32::try_from(here).unwrap_or(u32::MAX))
        }
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

    fn first_potential(&self) -> u64 {
        let counts = self.tallies.iter().flat_map(|tally| tally.on.values());
        let squares: u64 = counts.clone().map(|count| count * count).sum();
        match self.goal {
            Goal::Spread => squares,
            Goal::Pack => {
                let all: u64 = counts.sum();
                (all * all - squares) / 2
            }
        }
    }

    /// The best count that a destination may have for the goal: the fewest, or the most.
    fn extreme(&self, tally: &Tally) -> u64 {
        let counts = &tally.on;
        match self.goal {
            Goal::Spread if counts.len() < self.nodes.rows().len() => 0,
            Goal::Spread => counts.values().copied().min().unwrap_or_default(),
            Goal::Pack => counts.values().copied().max().unwrap_or_default(),
        }
    }

    /// Whether a node takes a replica of this group, as a new one of its service and without undoing
    /// its affinities. That it stays in its domain is asked before.
    fn takes(&self, group: &Group<'a>, to: NodeIx) -> bool {
        let row = self.nodes.row(to);
        let here = self.nodes.row(group.at).node;
        let policy = &group.spec.scheduling;
        let suits = |node: &Node| affinity(node, &policy.affinities);
        let Some(slot) = group.slots.last() else { return false };
        if !row.fits(group.spec) || suits(row.node) < suits(here) {
            return false;
        }
        let colocation = ColocationView::default();
        let max = self.nodes.demands.max_per_node(policy);
        let on = self.homes.get(&slot.service).map(Vec::as_slice).unwrap_or_default();
        let limit = Limit::new(&self.nodes, max, None, on);
        let disabled = self.disabled.of(&slot.service);
        let others = Others { colocation: &colocation, limit: limit.as_ref(), disabled: &disabled };
        refusals(&self.nodes, to, group.spec, group.spec, others).is_empty()
    }

    /// Moves the first replica of a group, on the board: its old place stays taken until the new one
    /// serves, and it does not move twice.
    fn make(&mut self, group: usize, dst: NodeIx) -> Arranged {
        let before = self.potential;
        let it = &mut self.groups[group];
        let (spec, src, tally) = (it.spec, it.at, it.tally);
        let slot = it.slots.pop().expect("it was chosen for its first replica");
        self.queue.remove(&(Reverse(it.promise), &slot.id, group));
        it.promise = 0;
        let gain = self.gain(self.tallies[tally].of(src), self.tallies[tally].of(dst));
        self.potential -= gain;
        // What moves has no GPUs.
        self.nodes.row_mut(dst).usage.take(spec, []);
        self.nodes.row_mut(dst).usage.replicas += 1;
        self.nodes.row_mut(src).usage.replicas -= 1;
        self.homes.entry(&slot.service).or_default().push(dst);
        self.tallies[tally].shift(src, dst);
        for other in 0..self.groups.len() {
            if self.groups[other].tally == tally {
                self.promise(other, self.most_after(other, [src, dst]));
            }
        }
        Arranged {
            replica: slot.id.clone(),
            service: slot.service.clone(),
            src: self.nodes.row(src).id,
            dst: self.nodes.row(dst).id,
            potential: (before, self.potential),
        }
    }

    /// What a group's move takes off at most, now that the counts of two nodes have changed: where they
    /// are its own, all destinations are worth something else; else only these two are.
    fn most_after(&self, group: usize, changed: [NodeIx; 2]) -> u64 {
        let it = &self.groups[group];
        if changed.contains(&it.at) {
            return self.most(group);
        }
        let tally = &self.tallies[it.tally];
        let from = tally.of(it.at);
        let more = changed.into_iter().filter_map(|to| {
            let gain = self.gain(from, tally.of(to));
            (gain > it.promise && it.may_go(to) && self.takes(it, to)).then_some(gain)
        });
        more.max().unwrap_or(it.promise)
    }
}

impl Group<'_> {
    /// Whether a node is another one of the same domain.
    fn may_go(&self, to: NodeIx) -> bool {
        to != self.at && self.domains.domain_of(to) == self.domains.domain_of(self.at)
    }
}

impl Tally {
    fn of(&self, node: NodeIx) -> u64 {
        self.on.get(&node).copied().unwrap_or_default()
    }

    /// The counts of all of so many nodes, in order.
    fn of_all(&self, nodes: usize) -> impl Iterator<Item = (NodeIx, u64)> {
        let mut counts = self.on.iter().peekable();
        (0..nodes).map(NodeIx).map(move |node| {
            let count = counts.next_if(|(at, _)| **at == node);
            (node, count.map_or(0, |(_, count)| *count))
        })
    }

    fn shift(&mut self, src: NodeIx, dst: NodeIx) {
        if let Some(count) = self.on.get_mut(&src) {
            *count -= 1;
        }
        self.on.retain(|_, count| *count > 0);
        *self.on.entry(dst).or_default() += 1;
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
pub(super) fn is_meant(goal: Goal, spec: &ServiceSpec) -> bool {
    match (&spec.placement, goal) {
        (Placement::Spread | Placement::Hosts(_), Goal::Spread) | (Placement::Pack, Goal::Pack) => {
            true
        }
        (Placement::Spread | Placement::Hosts(_) | Placement::Global, Goal::Pack)
        | (Placement::Pack | Placement::Global, Goal::Spread) => false,
    }
}

/// What is desired of a replica: a change of the placement alone gives it no new instance, and the one that it
/// has is of the revision before.
pub(super) fn spec_now<'a>(state: &'a ClusterState, slot: &Slot) -> Option<&'a ServiceSpec> {
    let deployment = state.deployments.get(&slot.service.deployment);
    let desired = deployment.and_then(|it| it.spec().services.get(&slot.service.service));
    let desired = desired.map(|spec| &**spec).filter(|spec| spec.hash == slot.current.spec_hash);
    desired.or_else(|| state.service_spec(&slot.service, slot.current.revision).map(|spec| &**spec))
}

/// Whether a replica may be moved now: it serves as what its service wants it to be.
pub(super) fn is_movable_now(state: &ClusterState, slot: &Slot, spec: &ServiceSpec) -> bool {
    let wanted = state.deployments.get(&slot.service.deployment).and_then(|deployment| {
        deployment.spec().services.get(&slot.service.service).map(|spec| spec.hash)
    });
    let observed = state.observed.get(&slot.current_id());
    is_movable(state, slot, spec)
        && slot.retiring.is_none()
        && wanted == Some(slot.current.spec_hash)
        && observed.is_some_and(|observed| observed.state == ReplicaState::Running)
}
