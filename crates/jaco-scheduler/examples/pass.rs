//! How long a pass takes, from scratch and after a change, and what memory the planner takes.
//!
//! Every node declares a capacity; every service reserves some of it, is spread over data centres and
//! the racks in them, and is constrained to one operating system.
//!
//! `cargo run --release -p jaco-scheduler --example pass -- [NODES REPLICAS]`

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "the planner has no clock and prints nothing; its stopwatch does both"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_scheduler::input::EngineSignal;
use jaco_scheduler::rebalance::{
    CycleInput, Goal, Load, Pressure, RebalanceConfig, Rebalancer, Sample, Share, arrange,
};
use jaco_scheduler::{NodeSignal, Plan, PlanInput, Planner, PlannerConfig, Signals};
use jaco_state::command::{Batch, DeploymentApply};
use jaco_state::{ClusterState, Command, Entry, Outcome, apply};
use jaco_types::spec::{
    Constraint, DeploymentSpec, Healthcheck, Operator, Placement, RestartPolicy, SchedulingPolicy,
    ServiceMode, ServiceSpec, SpreadCriterion, Storage, UpdatePolicy,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    Availability, DeploymentName, Identity, InstanceObserved, Node, NodeFacts, NodeId, NodeStatus,
    ReplicaState, ServiceName, SpecHash, StateIndex, Timestamp,
};

/// Replicas of each service, and services of each deployment.
const REPLICAS: usize = 20;
const SERVICES: usize = 5;

/// The moves that people can ask for at once.
const MOVES: usize = 1_000;

/// How often each pass is timed; the shortest time counts.
const RUNS: usize = 5;

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let (nodes, replicas) = match sizes[..] {
        [nodes, replicas] => (nodes, replicas),
        _ => (1_000, 20_000),
    };
    println!("{nodes} nodes, {replicas} replicas");
    let mut world = World::new(nodes, replicas);
    let mut planner = Planner::default();
    let before = resident_bytes();
    let mut plan = Plan::default();
    let took = (0..RUNS).map(|_| {
        (planner, plan) = (Planner::default(), Plan::default());
        let took;
        (plan, took) = world.plan(&mut planner);
        took
    });
    show("from scratch", took.min(), replicas, &plan);
    let bytes = peak_bytes().saturating_sub(before) / replicas;
    println!("{:>22}: {bytes} bytes/replica at the peak", "memory");
    world.carry_out(plan);
    world.obey();
    world.let_watches_end();
    plan = world.plan(&mut planner).0;
    world.carry_out(plan);
    plan = world.plan(&mut planner).0;
    assert!(plan.changes.is_empty(), "all is as it should be");
    let took = (0..RUNS).map(|_| world.plan(&mut planner).1);
    show("nothing to do", took.min(), replicas, &plan);
    let took = (0..RUNS).map(|_| world.rebalance());
    show("move off a hot node", took.min(), replicas, &plan);
    for goal in [Goal::Spread, Goal::Pack] {
        let took = world.order(goal);
        show(&format!("{MOVES} moves to {}", goal.as_str()), Some(took), replicas, &plan);
    }
    let took = (0..RUNS).map(|run| {
        world.see_again(run);
        world.plan(&mut planner).1
    });
    show("one replica seen", took.min(), replicas, &plan);
    let took = (0..RUNS).map(|run| {
        world.apply(run, 2);
        let took;
        (plan, took) = world.plan(&mut planner);
        world.carry_out(plan.clone());
        took
    });
    let took = took.min();
    show("one deployment changed", took, replicas, &plan);
    let took = (0..RUNS).map(|run| {
        world.lose(run);
        let took;
        (plan, took) = world.plan(&mut planner);
        world.carry_out(plan.clone());
        took
    });
    let took = took.min();
    show("one node lost", took, replicas, &plan);
    println!("  moves {} replicas", plan.report.placed.len());
}

fn show(what: &str, took: Option<Duration>, replicas: usize, plan: &Plan) {
    let took = took.expect("measured").as_secs_f64();
    let per_replica = took * 1e9 / f64::from(u32::try_from(replicas).expect("fits"));
    let (millis, changes) = (took * 1e3, plan.changes.len());
    println!("{what:>22}: {millis:9.2} ms  {per_replica:7.0} ns/replica  {changes} changes");
}

/// What this process holds of the machine's memory.
fn resident_bytes() -> usize {
    status_kib("VmRSS:") * 1024
}

/// The most that it ever held.
fn peak_bytes() -> usize {
    status_kib("VmHWM:") * 1024
}

fn status_kib(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field of Linux");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}

struct World {
    state: ClusterState,
    signals: Signals,
    now: Timestamp,
    config: PlannerConfig,
}

impl World {
    fn new(nodes: usize, replicas: usize) -> Self {
        let now = Timestamp(1_000_000);
        let mut world = Self {
            state: ClusterState::default(),
            signals: Signals::default(),
            now,
            config: PlannerConfig::default(),
        };
        for number in 1..=nodes {
            let id = NodeId(u64::try_from(number).expect("fits"));
            world.state.nodes.insert(id, node(id, now));
            let signal = NodeSignal { heard_at: now, engine: EngineSignal::Up };
            world.signals.nodes.insert(id, signal);
        }
        world.state.index = StateIndex(u64::try_from(nodes).expect("fits"));
        for deployment in 0..replicas.div_ceil(REPLICAS * SERVICES) {
            world.apply(deployment, 1);
        }
        world
    }

    fn apply(&mut self, deployment: usize, version: u8) {
        let name = DeploymentName::new(&format!("d{deployment}")).expect("a name");
        let services = (0..SERVICES).map(|number| service(number, version));
        let services = services.map(|spec| (spec.name.clone(), Arc::new(spec))).collect();
        let spec = DeploymentSpec { services, ..DeploymentSpec::default() };
        self.commit(DeploymentApply::new(name, spec).into());
    }

    fn plan(&self, planner: &mut Planner) -> (Plan, Duration) {
        let input = PlanInput {
            state: &self.state,
            signals: &self.signals,
            now: self.now,
            config: &self.config,
        };
        let start = Instant::now();
        let plan = planner.plan(&input);
        (plan, start.elapsed())
    }

    /// The cycle in which a node has been hot for long enough: every replica of it is weighed against
    /// every other node.
    fn rebalance(&self) -> Duration {
        let config = RebalanceConfig::default();
        let percent = |cpu: u64| Load { cpu: Share(cpu * 10_000), memory: Share(0) };
        let mut pressure = Pressure::default();
        for slot in self.state.slots.values() {
            pressure.instances.insert(slot.current_id(), percent(12));
        }
        let hot = self.state.slots.values().next().expect("a replica").current.node;
        let mut rebalancer = Rebalancer::default();
        let mut took = Duration::ZERO;
        for cycle in 0..2 {
            let now = Timestamp(self.now.0 + 3_600_000 + cycle * 30_000);
            for node in self.state.nodes.keys() {
                let load = percent(if *node == hot { 95 } else { 30 });
                pressure.nodes.insert(*node, Sample { at: now, load });
            }
            let (state, pressure, config) = (&self.state, &pressure, &config);
            let start = Instant::now();
            let done = rebalancer.cycle(CycleInput { state, pressure, config, now });
            took = start.elapsed();
            let decided = done.moved.is_some() || !done.skipped.is_empty();
            assert_eq!(decided, cycle == 1, "the second cycle decides");
        }
        took
    }

    /// The moves to better order, in a world where replicas share nodes with others of their service: as
    /// many as people can ask for at once.
    fn order(&self, goal: Goal) -> Duration {
        let mut state = self.state.clone();
        let ids: Vec<_> = state.slots.keys().take(3 * MOVES).cloned().collect();
        for pair in ids.chunks(2) {
            let [one, other] = pair else { continue };
            let one = state.slots.get(one).expect("a replica");
            let (service, node) = (one.service.clone(), one.current.node);
            let other = state.slots.get_mut(other).expect("another");
            if other.service == service {
                other.current.node = node;
            }
        }
        let start = Instant::now();
        let moves = arrange(&state, goal, MOVES);
        let took = start.elapsed();
        assert_eq!(moves.len(), MOVES, "there was enough to order");
        took
    }

    /// The first replicas have run for their watch time.
    fn let_watches_end(&mut self) {
        self.now = self.now.after(UpdatePolicy::DEFAULT_MONITOR);
        for signal in self.signals.nodes.values_mut() {
            signal.heard_at = self.now;
        }
    }

    /// A node says something of one of its replicas.
    fn see_again(&mut self, number: usize) {
        let seen = self.state.observed.values().nth(number * 1_000).expect("enough replicas");
        let seen = InstanceObserved { since: self.now, ..seen.clone() };
        self.state.observed.insert(seen.id.clone(), seen);
    }

    /// A node becomes unreachable for a minute; the others do not.
    fn lose(&mut self, number: usize) {
        let id = NodeId(u64::try_from(number).expect("fits") + 1);
        self.signals.nodes.remove(&id);
        self.now = Timestamp(self.now.0 + 60_000);
        for signal in self.signals.nodes.values_mut() {
            signal.heard_at = self.now;
        }
    }

    fn carry_out(&mut self, plan: Plan) {
        let outcome = self.commit(Batch::new(plan.based_on, plan.changes).into());
        assert_eq!(outcome, Outcome::Done);
    }

    fn obey(&mut self) {
        let instances: Vec<_> =
            self.state.slots.values().map(|slot| (slot.current_id(), slot.clone())).collect();
        for (id, slot) in instances {
            let node = slot.current.node;
            let seen = InstanceObserved {
                id: id.clone(),
                service: slot.service,
                node,
                state: ReplicaState::Running,
                code: None,
                details: BTreeMap::new(),
                container_id: String::new(),
                ports: BTreeMap::new(),
                started_at: None,
                since: self.now,
                exit: None,
            };
            self.state.observed.insert(id, seen);
        }
    }

    fn commit(&mut self, command: Command) -> Outcome {
        let index = StateIndex(self.state.index.0 + 1);
        let (at, by) = (self.now, Identity::Scheduler);
        apply(&mut self.state, &Entry { index, at, by, origin: None, request: None, command })
    }
}

fn node(id: NodeId, now: Timestamp) -> Node {
    let label = |key: &str, value: u64| (key.to_owned(), format!("{key}{value}"));
    let labels = [label("datacenter", id.0 % 5), label("rack", id.0 / 5 % 20)];
    let labels = labels.into_iter().chain([("os".to_owned(), "linux".to_owned())]).collect();
    let capacity = Resources { cpu: MilliCores(64_000), memory: Bytes(256 << 30) };
    Node {
        id,
        hostname: format!("n{id}").parse().expect("a name"),
        address: String::new(),
        mesh_address: None,
        key_fingerprint: [0; 32],
        status: NodeStatus::Ready,
        status_reason: String::new(),
        availability: Availability::Active,
        availability_reason: String::new(),
        drain: None,
        facts: NodeFacts { capacity, labels, ..NodeFacts::default() },
        labels: BTreeMap::new(),
        joined_at: now,
        modified: StateIndex(id.0),
    }
}

fn service(number: usize, version: u8) -> ServiceSpec {
    ServiceSpec {
        name: ServiceName::new(&format!("s{number}")).expect("a name"),
        image: "image".into(),
        pull: jaco_types::spec::PullPolicy::Missing,
        placement: if number == 0 { Placement::Pack } else { Placement::Spread },
        replicas: u32::try_from(REPLICAS).expect("fits"),
        host_ports: Vec::new(),
        ingress_ports: std::collections::BTreeSet::new(),
        resolvers: Vec::new(),
        restart: RestartPolicy::Always,
        mode: ServiceMode::Service,
        schedule: None,
        depends_on: Vec::new(),
        reservation: Resources { cpu: MilliCores(250), memory: Bytes(1 << 28) },
        limit: Resources::default(),
        gpus: None,
        volumes: Vec::new(),
        storage: Storage::Stateless,
        healthcheck: Healthcheck::None,
        update: UpdatePolicy::default(),
        scheduling: policy(),
        on_node_loss: jaco_types::spec::OnNodeLoss::default(),
        networks: Vec::new(),
        drain: None,
        container: "".into(),
        hash: SpecHash([version; 32]),
    }
}

fn policy() -> SchedulingPolicy {
    let over = |attribute: &str, weight| SpreadCriterion {
        attribute: attribute.to_owned(),
        weight,
        targets: Vec::new(),
    };
    let constraint = Constraint {
        attribute: "meta.os".to_owned(),
        operator: Operator::Equal,
        value: "linux".to_owned(),
    };
    SchedulingPolicy {
        constraints: vec![constraint],
        spread: vec![over("node.datacenter", 60), over("meta.rack", 40)],
        ..SchedulingPolicy::default()
    }
}
