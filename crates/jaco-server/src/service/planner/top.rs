//! Resource usage of nodes and replicas, and the requests of routes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_scheduler::rebalance::{Load, Pressure, Share};
use jaco_state::ClusterState;
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{Millis, Node, NodeId, Rejection, Slot, Timestamp};

use crate::forward::LeaderRead;
use crate::member::Member;
use crate::service::peer::edge::traffic_of;
use crate::view;
use crate::view::traffic::{Traffic, traffic};
use crate::view::ways::with_routers;

#[async_trait]
impl LeaderRead for v1::TopRequest {
    async fn answer(self, member: &Member) -> Result<v1::TopResponse, Rejection> {
        let state = member.store.read(ClusterState::for_decisions);
        let pressure = recent_samples(member, member.clock.now());
        let reports = traffic_of(member, &with_edges(&state)).await;
        let done = move || answer(top(&state, &pressure), traffic(&state, reports));
        // Not held while other nodes are asked.
        member.gate.turn().await?.run(done).await
    }
}

/// The nodes whose edges are asked: none where there are no routes.
fn with_edges(state: &ClusterState) -> Vec<NodeId> {
    if state.edges.claims.is_empty() { Vec::new() } else { with_routers(state) }
}

fn answer(top: v1::TopResponse, traffic: Traffic) -> v1::TopResponse {
    let Traffic { routes, idle, left_out, unknown } = traffic;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    v1::TopResponse {
        routes,
        idle_routes: count(idle),
        routes_left_out: count(left_out),
        unknown_edges: unknown.into_iter().collect(),
        ..top
    }
}

/// Samples of the last three intervals.
pub(super) fn recent_samples(member: &Member, now: Timestamp) -> Pressure {
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
    v1::TopResponse { nodes, replicas, ..v1::TopResponse::default() }
}

/// Sums over the replicas of a node.
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

pub(super) fn larger(load: Load) -> u64 {
    load.cpu.max(load.memory).0
}

fn amount(resources: Resources) -> v1::Amount {
    v1::Amount { cpu_millis: resources.cpu.0, memory_bytes: resources.memory.0 }
}

/// A share of a node in absolute units.
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
