//! What nodes and replicas use, and the moves that relieve hot nodes at a person's word. The leader
//! answers: only it hears the samples.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_scheduler::rebalance::{self, Goal, Load, Pressure, Share};
use jaco_state::{ClusterState, Command};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{Author, ErrorCode, Millis, Node, NodeId, Rejection, Slot, Timestamp};

use crate::member::{Member, Write, name_if_unnamed};
use crate::status::invalid;
use crate::view;

/// More are not made at once: each begins a container and ends one.
const MOVES_MAX: usize = 1000;

#[async_trait]
impl Write for v1::TopRequest {
    const METHOD: &'static str = "/jaco.v1.Planner/Top";
    type Answer = v1::TopResponse;

    /// It changes nothing, so it needs no name.
    fn name(&mut self, _: &dyn Fn() -> String) {}

    async fn execute(self, member: &Member, _: Author) -> Result<v1::TopResponse, Rejection> {
        let state = member.store.read(ClusterState::for_decisions);
        let pressure = heard_lately(member, member.clock.now());
        let done = tokio::task::spawn_blocking(move || top(&state, &pressure)).await;
        done.map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))
    }
}

#[async_trait]
impl Write for v1::RebalanceRequest {
    const METHOD: &'static str = "/jaco.v1.Planner/Rebalance";
    type Answer = v1::RebalanceResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RebalanceResponse, Rejection> {
        let state = member.store.read(ClusterState::for_decisions);
        if self.apply && !member.rebalance.is_understood(&state) {
            let message = "not all nodes run the same version, and an older one does not know \
                           how to take part: upgrade all of them first";
            return Err(Rejection::new(ErrorCode::Unavailable, message));
        }
        let now = member.clock.now();
        let measured = heard_lately(member, now).nodes.len();
        let most = match usize::try_from(self.most) {
            Ok(most @ 1..=MOVES_MAX) => most,
            Ok(_) | Err(_) => MOVES_MAX,
        };
        let goal = Aim::named(&self.goal)?;
        let (desk, known) = (Arc::clone(&member.rebalance), state.clone());
        let asked = tokio::task::spawn_blocking(move || match goal {
            Aim::Load => {
                let moved = desk.relieve(&known, now, most);
                (rebalance::moves(&known, &moved), moved)
            }
            Aim::Order(goal) => {
                let moves = rebalance::arrange(&known, goal, most);
                (rebalance::arrangement(&known, goal, &moves), Vec::new())
            }
        });
        let (moves, moved) =
            asked.await.map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
        let facts = |one: &jaco_state::command::RebalanceMove| v1::Move {
            facts: one.facts.clone().into_iter().collect(),
        };
        let mut answer = v1::RebalanceResponse {
            moves: moves.iter().map(facts).collect(),
            index: 0,
            measured: u32::try_from(measured).unwrap_or(u32::MAX),
        };
        if self.apply && !moves.is_empty() {
            let command = Command::Rebalance { based_on: state.index, moves, kept: vec![] };
            answer.index = member.commit(by, &self.request_id, command).await?.index.0;
            member.rebalance.note_moves(&moved, now);
        }
        Ok(answer)
    }
}

/// What is made better.
#[derive(Debug, Clone, Copy)]
enum Aim {
    /// Hot nodes, by what was measured.
    Load,
    /// Where replicas are.
    Order(Goal),
}

impl Aim {
    fn named(text: &str) -> Result<Self, Rejection> {
        match text {
            "" | "load" => Ok(Self::Load),
            "spread" => Ok(Self::Order(Goal::Spread)),
            "pack" => Ok(Self::Order(Goal::Pack)),
            unknown => {
                let message = format!("{unknown:?} is no goal; there are load, spread and pack");
                Err(invalid(message))
            }
        }
    }
}

/// The samples that are not too old to count.
fn heard_lately(member: &Member, now: Timestamp) -> Pressure {
    let interval = member.rebalance.options().thresholds.sample_interval;
    let oldest = Millis(interval.0.saturating_mul(3));
    let mut pressure = member.rebalance.pressure();
    pressure.nodes.retain(|_, sample| now.since(sample.at) <= oldest);
    pressure
}

fn top(state: &ClusterState, pressure: &Pressure) -> v1::TopResponse {
    let mut sums: BTreeMap<NodeId, Sums> = BTreeMap::new();
    let mut replicas = Vec::new();
    for slot in state.slots.values() {
        for (_, instance) in slot.instances() {
            let sums = sums.entry(instance.node).or_default();
            if let Some(spec) = state.service_spec(&slot.service, instance.revision) {
                add(&mut sums.reserved, spec.reservation);
                add(&mut sums.limit, spec.limit);
            }
        }
        sums.entry(slot.current.node).or_default().replicas += 1;
        replicas.push(replica(state, pressure, slot));
    }
    let of = |node: &Node| self::node(node, pressure, sums.get(&node.id).cloned());
    let mut nodes: Vec<_> = state.nodes.values().map(of).collect();
    nodes.sort_by(|a, b| a.hostname.cmp(&b.hostname));
    v1::TopResponse { nodes, replicas }
}

/// What the replicas of a node may take, together.
#[derive(Debug, Clone, Default)]
struct Sums {
    reserved: Resources,
    limit: Resources,
    replicas: u32,
}

fn add(sum: &mut Resources, part: Resources) {
    sum.cpu = MilliCores(sum.cpu.0.saturating_add(part.cpu.0));
    sum.memory = Bytes(sum.memory.0.saturating_add(part.memory.0));
}

fn node(node: &Node, pressure: &Pressure, sums: Option<Sums>) -> v1::NodeTop {
    let load = pressure.nodes.get(&node.id).map(|sample| sample.load);
    let (sums, has) = (sums.unwrap_or_default(), node.facts.capacity);
    v1::NodeTop {
        hostname: node.hostname.to_string(),
        pressure: load.map(larger),
        measured: load.map(|load| amount_of(load, has)),
        reserved: Some(amount(sums.reserved)),
        limit: Some(amount(sums.limit)),
        capacity: Some(amount(has)),
        replicas: sums.replicas,
    }
}

fn replica(state: &ClusterState, pressure: &Pressure, slot: &Slot) -> v1::ReplicaTop {
    let spec = state.service_spec(&slot.service, slot.current.revision);
    let has = state.nodes.get(&slot.current.node).map(|node| node.facts.capacity);
    let is_fresh = pressure.nodes.contains_key(&slot.current.node);
    let load = pressure.instances.get(&slot.current_id()).copied().filter(|_| is_fresh);
    v1::ReplicaTop {
        id: slot.id.to_string(),
        deployment: slot.service.deployment.to_string(),
        service: slot.service.service.to_string(),
        node: view::hostname(state, slot.current.node),
        pressure: load.map(larger),
        measured: load.map(|load| amount_of(load, has.unwrap_or_default())),
        reserved: Some(amount(spec.map(|spec| spec.reservation).unwrap_or_default())),
        limit: Some(amount(spec.map(|spec| spec.limit).unwrap_or_default())),
    }
}

fn larger(load: Load) -> u64 {
    load.cpu.max(load.memory).0
}

fn amount(resources: Resources) -> v1::Amount {
    v1::Amount { cpu_millis: resources.cpu.0, memory_bytes: resources.memory.0 }
}

/// What a share of a node is.
fn amount_of(load: Load, has: Resources) -> v1::Amount {
    let part = |share: Share, whole: u64| {
        let part = u128::from(share.0) * u128::from(whole) / u128::from(Share::WHOLE.0);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    v1::Amount {
        cpu_millis: part(load.cpu, has.cpu.0),
        memory_bytes: part(load.memory, has.memory.0),
    }
}
