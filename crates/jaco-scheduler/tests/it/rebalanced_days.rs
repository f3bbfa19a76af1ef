//! Whole days of clusters under changing load: real state, real planner, a cooperative runtime, and the
//! same load once with rebalancing of hot nodes and once without. Leaders change, rather often while a node is
//! hot, and no two have the same time; some have their clocks set. `JACO_DAYS=1000` lives so many days.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "how many days there are is asked for, and what they came to is printed"
)]

use std::collections::BTreeMap;

use jaco_scheduler::rebalance::{
    CycleInput, Load, Pressure, RebalanceConfig, Rebalancer, Sample, Share,
};
use jaco_types::spec::Placement;
use jaco_types::{Millis, NodeId, ReplicaId, Timestamp};

use crate::cluster::{Cluster, service};

const CYCLES: u64 = 24 * 3600 / 30;
const CYCLE: Millis = Millis::from_secs(30);
const WHOLE: u64 = 1_000_000;

/// Numbers that follow from a seed: SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }
}

/// What a replica uses over a day, in millionths of a node.
struct Habit {
    /// At the quietest hour.
    night: u64,
    /// What the busiest hour adds.
    day: u64,
    /// When that is, in cycles.
    noon: u64,
    /// When it bursts, for how long, and by how much.
    bursts: Vec<(u64, u64, u64)>,
    memory: u64,
}

impl Habit {
    fn random(rng: &mut Rng) -> Self {
        let bursts = rng.below(4);
        let burst =
            |rng: &mut Rng| (rng.below(CYCLES), rng.between(4, 120), rng.between(50_000, 400_000));
        Self {
            night: rng.between(5_000, 60_000),
            day: rng.between(0, 160_000),
            noon: rng.below(CYCLES),
            bursts: (0..bursts).map(|_| burst(rng)).collect(),
            memory: rng.between(10_000, 130_000),
        }
    }

    fn at(&self, cycle: u64) -> Load {
        let half = CYCLES / 2;
        let off = cycle.abs_diff(self.noon);
        let off = off.min(CYCLES - off);
        let wave = self.day * (half - off.min(half)) / half;
        let is_on = |(from, length, _): &&(u64, u64, u64)| (*from..from + length).contains(&cycle);
        let burst: u64 = self.bursts.iter().filter(is_on).map(|(_, _, more)| more).sum();
        Load { cpu: Share(self.night + wave + burst), memory: Share(self.memory) }
    }
}

/// What a day came to.
#[derive(Debug, Default)]
struct Day {
    replicas: usize,
    moves: usize,
    /// The sum of the variances of pressure between the nodes, in millionths.
    variance: u64,
    /// Looks at which a node was hot.
    hot: u64,
    /// New leaders, who remember nothing.
    leaders: usize,
    /// Steps of a leader's clock.
    steps: usize,
}

/// How far the clock of a leader is from those of the nodes at most, either way.
const SKEW_MAX: Millis = Millis::from_secs(60);

/// The leader of the moment: what it remembers, and its clock.
struct Leader {
    rebalancer: Rebalancer,
    /// Its time when the nodes' is [`SKEW_MAX`].
    clock: u64,
}

impl Leader {
    fn elect(rng: &mut Rng) -> Self {
        Self { rebalancer: Rebalancer::default(), clock: rng.below(2 * SKEW_MAX.0) }
    }

    fn now(&self, nodes: Timestamp) -> Timestamp {
        Timestamp(nodes.0 + self.clock - SKEW_MAX.0)
    }

    /// What happens to leaders: some 12 changes and 6 steps of a clock in a day, and one change in 20 looks
    /// at a hot node.
    fn suffer(&mut self, rng: &mut Rng, day: &mut Day, is_hot: bool) {
        if rng.below(CYCLES / 12) == 0 || (is_hot && rng.below(20) == 0) {
            *self = Self::elect(rng);
            day.leaders += 1;
        } else if rng.below(CYCLES / 6) == 0 {
            self.clock = rng.below(2 * SKEW_MAX.0);
            day.steps += 1;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relief {
    On,
    Off,
}

/// One day of one cluster; the same seed has the same load, with or without relief.
fn live(seed: u64, relief: Relief) -> Day {
    let mut rng = Rng(seed);
    let hosts: Vec<String> = (0..rng.between(3, 8)).map(|n| format!("n{n}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let mut cluster = Cluster::of(&hosts);
    let names: Vec<String> = (0..rng.between(3, 8)).map(|n| format!("s{n}")).collect();
    let services = names.iter().map(|name| {
        let replicas = u32::try_from(rng.between(1, 6)).unwrap();
        let one = service(name, name).replicas(replicas);
        match rng.below(4) {
            0 => one.placement(Placement::Pack).stateful(),
            1 => one,
            _ => one.placement(Placement::Pack),
        }
    });
    let services: Vec<_> = services.collect();
    cluster.apply("shop", &services);
    cluster.settle();
    let ids: Vec<ReplicaId> = cluster.state.slots.keys().cloned().collect();
    let habits: BTreeMap<_, _> = ids.into_iter().map(|id| (id, Habit::random(&mut rng))).collect();
    let config = RebalanceConfig::default();
    let mut fate = Rng(!seed);
    let mut leader = Leader::elect(&mut fate);
    let mut day = Day { replicas: habits.len(), ..Day::default() };
    let mut last: BTreeMap<ReplicaId, Past> = BTreeMap::new();
    cluster.advance(Millis::from_secs(3600), &[]);
    for cycle in 0..CYCLES {
        cluster.advance(CYCLE, &[]);
        let hot = day.hot;
        note(&mut day, &measure(&cluster, &habits, cycle, cluster.now), &config);
        if relief == Relief::Off {
            continue;
        }
        let is_hot = day.hot > hot;
        leader.suffer(&mut fate, &mut day, is_hot);
        let (state, now) = (&cluster.state, leader.now(cluster.now));
        let pressure = measure(&cluster, &habits, cycle, now);
        let input = CycleInput { state, pressure: &pressure, config: &config, now };
        let decided = leader.rebalancer.cycle(input);
        let Some(command) = decided.command(state) else { continue };
        cluster.commit(command);
        let Some(moved) = decided.moved else { continue };
        cluster.settle();
        day.moves += 1;
        let (id, _) = moved.replica.expect("a replica moves");
        let dst = moved.dst.expect("it moves somewhere");
        assert_eq!(cluster.state.slots.get(&id).unwrap().current.node, dst, "seed {seed}");
        let after = pressure_of(&measure(&cluster, &habits, cycle, now), dst);
        let here = Past { cycle, src: moved.src, dst, after };
        if let Some(past) = last.insert(id.clone(), here) {
            let waited = (cycle - past.cycle) * CYCLE.0;
            // The clock of one may be as far behind as that of the other is ahead.
            let waited = waited + 2 * SKEW_MAX.0;
            assert!(waited >= config.replica_cooldown.0, "seed {seed}: {id} moved twice");
            let rose = pressure_of(&pressure, past.dst).saturating_sub(past.after);
            let goes_back = (past.dst, past.src) == (moved.src, dst);
            let was = (past.cycle, past.after, pressure_of(&pressure, past.dst));
            assert!(
                !goes_back || rose >= 50_000,
                "seed {seed}: {id} went back in {cycle}: {was:?}"
            );
        }
    }
    day
}

/// A replica's last move, and how hot its new node was then.
struct Past {
    cycle: u64,
    src: NodeId,
    dst: NodeId,
    after: u64,
}

fn measure(
    cluster: &Cluster,
    habits: &BTreeMap<ReplicaId, Habit>,
    cycle: u64,
    at: Timestamp,
) -> Pressure {
    // The system's own share.
    let idle = Load { cpu: Share(30_000), memory: Share(100_000) };
    let mut loads: BTreeMap<NodeId, Load> =
        cluster.state.nodes.keys().map(|node| (*node, idle)).collect();
    let mut pressure = Pressure::default();
    for slot in cluster.state.slots.values() {
        let load = habits[&slot.id].at(cycle);
        pressure.instances.insert(slot.current_id(), load);
        let node = loads.get_mut(&slot.current.node).unwrap();
        node.cpu = Share((node.cpu.0 + load.cpu.0).min(WHOLE));
        node.memory = Share((node.memory.0 + load.memory.0).min(WHOLE));
    }
    pressure.nodes = loads.into_iter().map(|(node, load)| (node, Sample { at, load })).collect();
    pressure
}

fn pressure_of(pressure: &Pressure, node: NodeId) -> u64 {
    let load = pressure.nodes[&node].load;
    load.cpu.max(load.memory).0
}

fn note(day: &mut Day, pressure: &Pressure, config: &RebalanceConfig) {
    let all: Vec<u64> = pressure.nodes.keys().map(|node| pressure_of(pressure, *node)).collect();
    let count = u64::try_from(all.len()).unwrap();
    let mean = all.iter().sum::<u64>() / count;
    let square = |one: &u64| one.abs_diff(mean).pow(2) / WHOLE;
    day.variance += all.iter().map(square).sum::<u64>() / count;
    day.hot += all.iter().filter(|one| **one >= config.trigger.0).map(|_| 1).sum::<u64>();
}

/// R-REB-4, R-REB-6, R-REB-8: random clusters through a day of diurnal and bursty load. No replica moves twice
/// within its cooldown, none goes back unless the load has changed, and moves are few; nodes are hot
/// for less time, and less apart, than if nothing moved. All that with leaders that remember nothing and
/// clocks that differ.
#[test]
fn days_with_and_without_rebalancing() {
    let seeds = std::env::var("JACO_DAYS").ok().map_or(12, |text| text.parse().unwrap());
    let (mut with, mut without) = (Day::default(), Day::default());
    let mut most = 0;
    for seed in 0..seeds {
        let (on, off) = (live(seed, Relief::On), live(seed, Relief::Off));
        assert!(on.moves <= 4 * on.replicas, "seed {seed}: {on:?}");
        most = most.max(on.moves);
        for (sum, day) in [(&mut with, on), (&mut without, off)] {
            sum.replicas += day.replicas;
            sum.moves += day.moves;
            sum.variance += day.variance;
            sum.hot += day.hot;
            sum.leaders += day.leaders;
            sum.steps += day.steps;
        }
    }
    println!("{seeds} days, at most {most} moves in one: {with:?} instead of {without:?}");
    assert!(with.moves > 0, "nothing was hot");
    assert!(with.variance < without.variance && with.hot < without.hot, "{with:?} {without:?}");
}
