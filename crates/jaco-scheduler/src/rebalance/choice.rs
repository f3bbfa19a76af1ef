//! Which replica leaves a hot node, and where to. Averages say that a node is hot; what a move
//! would do is counted from the last samples.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use jaco_state::ClusterState;
use jaco_state::view::slots_of;
use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::{Node, NodeId, ReplicaState, ServiceKey, Slot};

use super::heat::{Hot, fresh};
use super::movable::is_movable;
use super::taken;
use super::{CycleInput, Load, Rebalancer, Share, Weighed};
use crate::attribute::{affinity, value_of};
use crate::draft::DisabledNodes;
use crate::eligibility::{ColocationView, Ineligible, Limit, Others, refusals};
use crate::nodes::{NodeIx, NodeRow, NodeTable};
use crate::placement::{Preference, RankingPolicy};

/// Why a replica stays on a hot node. The order is that of the checks: of several destinations, the
/// one that came furthest is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No replica of the node may be moved.
    NoCandidate,
    /// It began to run lately, or is being replaced.
    CooldownReplica,
    /// No other node takes new replicas of the service.
    NoEligibleDst,
    /// The destination received a replica lately.
    CooldownNode,
    /// The destination has too little for it, measured or reserved.
    ResourceLimits,
    /// The service's placement speaks against the destination.
    AntiAffinity,
    /// The destination would be nearly hot.
    DstCap,
    /// It would take too little off the hot node.
    ReliefFloor,
}

impl Reason {
    /// The name as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCandidate => "no_candidate",
            Self::CooldownReplica => "cooldown_replica",
            Self::NoEligibleDst => "no_eligible_dst",
            Self::CooldownNode => "cooldown_node",
            Self::ResourceLimits => "resource_limits",
            Self::AntiAffinity => "anti_affinity",
            Self::DstCap => "dst_cap",
            Self::ReliefFloor => "relief_floor",
        }
    }
}

/// The best move off the hot node, if one passes, and why the others do not.
pub(super) fn choose(
    input: CycleInput<'_>,
    memory: &Rebalancer,
    hot: &Hot,
) -> (Option<Weighed>, Vec<(Weighed, Reason)>) {
    let Some(view) = View::new(input, memory, hot) else { return (None, Vec::new()) };
    let mut skipped = Vec::new();
    let mut best: Option<Weighed> = None;
    let candidates: Vec<_> = view.candidates().collect();
    if candidates.is_empty() {
        skipped.push((view.weigh(None, Load::default(), None), Reason::NoCandidate));
    }
    for (slot, spec) in candidates {
        match view.destination(slot, spec) {
            // Candidates come by id, so that a tie stays with the smaller one.
            Ok(weighed) if best.as_ref().is_none_or(|best| weighed.relief > best.relief) => {
                best = Some(weighed);
            }
            Ok(_) => {}
            Err(skip) => skipped.push(*skip),
        }
    }
    (best, skipped)
}

/// The cluster around one hot node.
struct View<'a> {
    input: CycleInput<'a>,
    memory: &'a Rebalancer,
    hot: &'a Hot,
    src: &'a Node,
    src_load: Load,
    nodes: NodeTable<'a>,
    /// What the hot node has, by id.
    here: Vec<&'a Slot>,
    /// The other nodes with a recent sample, and how hot they are.
    others: Vec<(Share, NodeIx, Load)>,
    /// Where the services of the hot node have instances, and how many.
    homes: BTreeMap<&'a ServiceKey, BTreeMap<NodeId, u32>>,
}

impl<'a> View<'a> {
    fn new(input: CycleInput<'a>, memory: &'a Rebalancer, hot: &'a Hot) -> Option<Self> {
        let state = input.state;
        let src = state.nodes.get(&hot.node)?;
        let src_load = fresh(input, hot.node)?.load;
        let mut here = Vec::new();
        let nodes = taken::nodes(state, |slot| {
            if slot.current.node == hot.node {
                here.push(slot);
            }
        });
        let homes = here.iter().map(|slot| (&slot.service, homes(state, &slot.service))).collect();
        let others = nodes.rows().filter(|(_, row)| row.id != hot.node);
        let others = others
            .filter_map(|(at, row)| {
                let load = fresh(input, row.id)?.load;
                Some((load.cpu.max(load.memory), at, load))
            })
            .collect();
        Some(Self { input, memory, hot, src, src_load, nodes, here, others, homes })
    }

    /// The replicas of the hot node that may move at all, by id.
    fn candidates(&self) -> impl Iterator<Item = (&'a Slot, &'a ServiceSpec)> {
        let state = self.input.state;
        self.here.iter().copied().filter_map(move |slot| {
            let spec = &**state.service_spec(&slot.service, slot.current.revision)?;
            let may_move = is_movable(state, slot, spec);
            let seen = state.observed.get(&slot.current_id())?;
            (may_move && seen.state == ReplicaState::Running).then_some((slot, spec))
        })
    }

    /// The move to the node that is preferred of those that pass every gate, which is the coolest; else
    /// the one that came furthest.
    fn destination(
        &self,
        slot: &Slot,
        spec: &ServiceSpec,
    ) -> Result<Weighed, Box<(Weighed, Reason)>> {
        let footprint = self.footprint(slot, spec);
        if self.is_cooling(slot) {
            let weighed = self.weigh(Some(slot), footprint, None);
            return Err(Box::new((weighed, Reason::CooldownReplica)));
        }
        let mut furthest = (Reverse(Reason::NoEligibleDst), Share::WHOLE, None);
        for (Preference { purpose, .. }, at, load) in self.by_preference(slot, spec) {
            let row = self.nodes.row(at);
            let weighed = || self.weigh(Some(slot), footprint, Some((row.node, load)));
            match self.refuses(slot, spec, footprint, (at, row), load) {
                None => return Ok(weighed()),
                Some(reason) if reason > Reason::NoEligibleDst => {
                    let rank = (Reverse(reason), Share(purpose));
                    if rank < (furthest.0, furthest.1) || furthest.2.is_none() {
                        furthest = (rank.0, rank.1, Some(weighed()));
                    }
                }
                Some(_) => {}
            }
        }
        let (Reverse(reason), _, weighed) = furthest;
        let weighed = weighed.unwrap_or_else(|| self.weigh(Some(slot), footprint, None));
        Err(Box::new((weighed, reason)))
    }

    /// The other nodes, the one that is preferred for this replica first. Most replicas find their place
    /// among the first, so the rest is not put in order.
    fn by_preference(
        &self,
        slot: &Slot,
        spec: &ServiceSpec,
    ) -> impl Iterator<Item = (Preference, NodeIx, Load)> {
        let ranking = RankingPolicy::new(&self.nodes, spec);
        let homes = self.homes.get(&slot.service);
        let preference = |(place, (pressure, at, _)): (usize, &(Share, NodeIx, Load))| {
            let row = self.nodes.row(*at);
            let here = homes.and_then(|homes| homes.get(&row.id)).copied();
            let preference = Preference {
                purpose: pressure.0,
                affinity: Reverse(affinity(row.node, &spec.scheduling.affinities)),
                turn: at.0,
                ..ranking.of(row, here.unwrap_or_default())
            };
            Reverse((preference, place))
        };
        let mut heap: BinaryHeap<_> = self.others.iter().enumerate().map(preference).collect();
        std::iter::from_fn(move || {
            let Reverse((preference, place)) = heap.pop()?;
            let (_, at, load) = self.others[place];
            Some((preference, at, load))
        })
    }

    /// The first gate that keeps the replica off this node.
    fn refuses(
        &self,
        slot: &Slot,
        spec: &ServiceSpec,
        footprint: Load,
        (at, row): (NodeIx, &NodeRow<'_>),
        load: Load,
    ) -> Option<Reason> {
        let colocation = ColocationView::default();
        let disabled =
            DisabledNodes::read(&self.input.state.disabled, &self.nodes).of(&slot.service);
        let limit = self.limit(slot, spec);
        let others = Others { colocation: &colocation, limit: limit.as_ref(), disabled: &disabled };
        let ineligible = refusals(&self.nodes, at, spec, spec, others);
        if let Some(reason) = ineligible.iter().map(reason_of).min() {
            return Some(reason);
        }
        if self.memory.received.contains_key(&row.id) {
            return Some(Reason::CooldownNode);
        }
        let after = self.after(footprint, row.node, load);
        if after.cpu > Share::WHOLE || after.memory > Share::WHOLE {
            return Some(Reason::ResourceLimits);
        }
        if self.is_crowded(slot, spec, row.node) {
            return Some(Reason::AntiAffinity);
        }
        if after.cpu.max(after.memory) >= self.input.config.destination_cap {
            return Some(Reason::DstCap);
        }
        (self.relief(footprint) < self.input.config.relief_floor).then_some(Reason::ReliefFloor)
    }

    /// What of the service is on each node, where a node may not have any number of it.
    fn limit(&self, slot: &Slot, spec: &ServiceSpec) -> Option<Limit> {
        let max = self.nodes.demands.max_per_node(&spec.scheduling)?;
        let homes = self.homes.get(&slot.service).into_iter().flatten();
        let on_nodes = homes.filter_map(|(id, count)| Some((self.nodes.find(*id)?, *count)));
        let on_nodes: Vec<_> =
            on_nodes.flat_map(|(at, count)| (0..count).map(move |_| at)).collect();
        Limit::new(&self.nodes, Some(max), None, &on_nodes)
    }

    /// Spread replicas do not share a node, and none leaves its domain: both would undo what the
    /// planner spread.
    fn is_crowded(&self, slot: &Slot, spec: &ServiceSpec, dst: &Node) -> bool {
        let homes = self.homes.get(&slot.service);
        let is_spread = spec.placement == Placement::Spread;
        let leaves_domain = spec.scheduling.spread.iter().any(|criterion| {
            value_of(self.src, &criterion.attribute) != value_of(dst, &criterion.attribute)
        });
        leaves_domain || (is_spread && homes.is_some_and(|homes| homes.contains_key(&dst.id)))
    }

    /// A new leader does not know what the last one moved, but sees since when it runs.
    fn is_cooling(&self, slot: &Slot) -> bool {
        let state = self.input.state;
        // A revision that changes another service only leaves this one as it is.
        let wanted = state.deployments.get(&slot.service.deployment).and_then(|deployment| {
            deployment.spec().services.get(&slot.service.service).map(|spec| spec.hash)
        });
        let is_changing = slot.retiring.is_some() || wanted != Some(slot.current.spec_hash);
        let is_young = state.observed.get(&slot.current_id()).is_some_and(|seen| {
            self.input.now.since(seen.since) < self.input.config.replica_cooldown
        });
        is_changing || is_young || self.memory.moved.contains_key(&slot.id)
    }

    /// What the replica uses of the hot node: measured, else limited, else taken for granted.
    fn footprint(&self, slot: &Slot, spec: &ServiceSpec) -> Load {
        if let Some(measured) = self.input.pressure.instances.get(&slot.current_id()) {
            return *measured;
        }
        let (limit, has, config) = (spec.limit, self.src.facts.capacity, self.input.config);
        let cpu = Share::of(limit.cpu.0, has.cpu.0).filter(|share| *share > Share(0));
        let memory = Share::of(limit.memory.0, has.memory.0).filter(|share| *share > Share(0));
        Load {
            cpu: cpu.unwrap_or(config.default_cpu),
            memory: memory.unwrap_or(config.default_memory),
        }
    }

    fn relief(&self, footprint: Load) -> Share {
        let before = self.hot.dominant.of(self.src_load);
        before.minus(before.minus(self.hot.dominant.of(footprint)))
    }

    fn after(&self, footprint: Load, dst: &Node, load: Load) -> Load {
        let (from, to) = (self.src.facts.capacity, dst.facts.capacity);
        Load {
            cpu: load.cpu.plus(footprint.cpu.carried(from.cpu.0, to.cpu.0)),
            memory: load.memory.plus(footprint.memory.carried(from.memory.0, to.memory.0)),
        }
    }

    fn weigh(&self, slot: Option<&Slot>, footprint: Load, dst: Option<(&Node, Load)>) -> Weighed {
        let dominant = self.hot.dominant;
        let before = dominant.of(self.src_load);
        let dst_pressure = dst.map(|(node, load)| {
            let after = self.after(footprint, node, load);
            (load.cpu.max(load.memory), after.cpu.max(after.memory))
        });
        Weighed {
            replica: slot.map(|slot| (slot.id.clone(), slot.service.clone())),
            src: self.hot.node,
            dst: dst.map(|(node, _)| node.id),
            dominant,
            footprint,
            relief: self.relief(footprint),
            move_cost: self.input.config.move_cost,
            src_pressure: (before, before.minus(dominant.of(footprint))),
            dst_pressure: dst_pressure.unwrap_or_default(),
        }
    }
}

/// Where a service has instances, and how many.
fn homes(state: &ClusterState, service: &ServiceKey) -> BTreeMap<NodeId, u32> {
    let mut homes = BTreeMap::new();
    let slots = slots_of(state, &service.deployment).filter(|slot| slot.service == *service);
    for (_, instance) in slots.flat_map(Slot::instances) {
        *homes.entry(instance.node).or_default() += 1;
    }
    homes
}

fn reason_of(ineligible: &Ineligible) -> Reason {
    match ineligible {
        Ineligible::NotReady
        | Ineligible::EngineDown
        | Ineligible::DiskFull { .. }
        | Ineligible::NoNetwork { .. }
        | Ineligible::Cordoned
        | Ineligible::Draining
        | Ineligible::Disabled
        | Ineligible::MissingLabel { .. }
        | Ineligible::ConstraintFails { .. }
        | Ineligible::DataElsewhere
        | Ineligible::NoVolumeClass { .. }
        | Ineligible::HostPortTaken { .. } => Reason::NoEligibleDst,
        Ineligible::NotPinned
        | Ineligible::OnePerNode
        | Ineligible::PartnerMissing { .. }
        | Ineligible::PartnerPending { .. }
        | Ineligible::MaxPerNode { .. } => Reason::AntiAffinity,
        Ineligible::BelowMinimum { .. }
        | Ineligible::TooManyInstances { .. }
        | Ineligible::InsufficientCpu { .. }
        | Ineligible::InsufficientMemory { .. }
        | Ineligible::InsufficientGpus { .. }
        | Ineligible::InsufficientVolumeSpace { .. } => Reason::ResourceLimits,
    }
}
