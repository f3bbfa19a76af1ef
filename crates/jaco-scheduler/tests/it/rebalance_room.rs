//! Moves off hot nodes and the room that they need: reservations, limits, the most per node, and nodes
//! that have just received something (R-REB-4, R-REB-6, R-CONS-6).

use std::num::NonZeroU32;

use jaco_scheduler::rebalance::{
    Cycle, CycleInput, Load, Pressure, RebalanceConfig, Rebalancer, Sample, Share,
};
use jaco_state::Outcome;
use jaco_state::command::{Rebalance, RebalanceMove};
use jaco_types::spec::Placement;
use jaco_types::{Availability, Millis, Timestamp};

use crate::cluster::{Cluster, Service, resources, service};

const HOSTS: [&str; 3] = ["n1", "n2", "n3"];

/// Three nodes of these capacities, the first of which is hot.
struct Scene {
    cluster: Cluster,
    rebalancer: Rebalancer,
    pressure: Pressure,
    config: RebalanceConfig,
    now: Timestamp,
}

fn api() -> Service {
    service("api", "api").placement(Placement::Pack)
}

impl Scene {
    /// The services of `shop` are on `n1`, those of `blog` where they are put.
    fn of(capacity: [(u64, u64); 3], shop: &[Service], blog: &[Service]) -> Self {
        let mut cluster = Cluster::empty();
        for (host, (cpu, memory)) in HOSTS.iter().zip(capacity) {
            cluster.join_with(host, resources(cpu, memory));
        }
        cluster.pass();
        for host in &HOSTS[1..] {
            cluster.set_availability(host, Availability::Cordoned);
        }
        cluster.apply("shop", shop);
        cluster.settle();
        for host in &HOSTS[1..] {
            cluster.set_availability(host, Availability::Active);
        }
        cluster.apply("blog", blog);
        cluster.settle();
        let now = cluster.now.after(Millis::from_secs(3600));
        let (rebalancer, pressure) = (Rebalancer::default(), Pressure::default());
        Self { cluster, rebalancer, pressure, config: RebalanceConfig::default(), now }
    }

    fn cycle(&mut self, cpu: [u64; 3]) -> Cycle {
        self.now = self.now.after(Millis::from_secs(30));
        for (host, cpu) in HOSTS.iter().zip(cpu) {
            let load = Load { cpu: Share(cpu * 10_000), memory: Share(100_000) };
            let node = self.cluster.node(host);
            self.pressure.nodes.insert(node, Sample { at: self.now, load });
        }
        let (state, pressure, config) = (&self.cluster.state, &self.pressure, &self.config);
        self.rebalancer.cycle(CycleInput { state, pressure, config, now: self.now })
    }

    /// What the second hot cycle does: `moved api n2`, or the reasons of what stays.
    fn decide(&mut self, cpu: [u64; 3]) -> String {
        let Cycle { moved, .. } = self.cycle(cpu);
        assert!(moved.is_none(), "one cycle decides nothing");
        let cycle = self.cycle(cpu);
        self.show(&cycle)
    }

    fn show(&self, cycle: &Cycle) -> String {
        let host = |id| self.cluster.state.nodes.get(&id).unwrap().hostname.to_string();
        let moved = cycle.moved.iter().map(|one| {
            let (replica, _) = one.replica.as_ref().expect("a replica moves");
            format!("moved {replica} {}", host(one.dst.expect("to a node")))
        });
        let kept = cycle.skipped.iter().map(|(one, reason)| {
            let replica = one.replica.as_ref().map_or("-", |(id, _)| id.as_str());
            format!("{} {replica}", reason.as_str())
        });
        moved.chain(kept).collect::<Vec<_>>().join("; ")
    }
}

const HOT: [u64; 3] = [90, 30, 40];

/// R-REB-4: a move goes only where the reservation fits beside what is reserved there; the next cooler
/// node takes it, or it stays.
#[test]
fn destinations_need_room_for_reservations() {
    let (wide, narrow) = ((4000, 8 << 30), (1000, 1 << 30));
    let asks = || api().reserves(1500, 1 << 30);
    for (capacity, expected) in [
        ([wide, wide, wide], "moved shop-api-0 n2"),
        ([wide, narrow, wide], "moved shop-api-0 n3"),
        ([wide, wide, narrow], "moved shop-api-0 n2"),
        ([wide, narrow, narrow], "resource_limits shop-api-0"),
        ([wide, (1500, 1 << 30), narrow], "moved shop-api-0 n2"),
        ([wide, (1499, 1 << 30), narrow], "resource_limits shop-api-0"),
        ([wide, (1500, (1 << 30) - 1), narrow], "resource_limits shop-api-0"),
        ([wide, (0, 0), narrow], "moved shop-api-0 n2"),
    ] {
        let mut scene = Scene::of(capacity, &[asks()], &[]);
        assert_eq!(scene.decide(HOT), expected, "{capacity:?}");
    }
}

/// R-REB-4: what others have reserved there counts.
#[test]
fn reservations_of_others_take_room() {
    let all = [(4000, 0); 3];
    let there = |cpu| {
        let there = service("db", "db").hosts(&["n2"]).reserves(cpu, 0);
        [there]
    };
    for (reserved, expected) in [(2500, "moved shop-api-0 n2"), (2501, "moved shop-api-0 n3")] {
        let mut scene = Scene::of(all, &[api().reserves(1500, 0)], &there(reserved));
        assert_eq!(scene.decide(HOT), expected, "{reserved} are reserved");
    }
    let port = service("db", "db").hosts(&["n2"]).host_port(80);
    let mut scene = Scene::of(all, &[api().host_port(80)], &[port]);
    assert_eq!(scene.decide(HOT), "moved shop-api-0 n3", "the port is taken");
}

/// R-REB-6: what a replica uses is measured, else its limit, else assumed; a limit is carried to the
/// capacity of the destination.
#[test]
fn footprints_come_from_measurement_then_limit() {
    let limited = |cpu, memory| api().with(|spec| spec.limit = resources(cpu, memory));
    let all = [(4000, 8 << 30); 3];
    let footprint = |service: Service, measured: Option<Load>| {
        let mut scene = Scene::of(all, &[service], &[]);
        if let Some(load) = measured {
            let id = scene.cluster.slot("shop-api-0").current_id();
            scene.pressure.instances.insert(id, load);
        }
        scene.cycle(HOT);
        let cycle = scene.cycle(HOT);
        let weighed = cycle.moved.or(cycle.skipped.into_iter().next().map(|(one, _)| one));
        let load = weighed.expect("it is looked at").footprint;
        (load.cpu.0, load.memory.0)
    };
    let config = RebalanceConfig::default();
    let assumed = (config.default_cpu.0, config.default_memory.0);
    assert_eq!(footprint(api(), None), assumed);
    assert_eq!(footprint(limited(1000, 2 << 30), None), (250_000, 250_000));
    assert_eq!(footprint(limited(1000, 0), None), (250_000, assumed.1));
    assert_eq!(footprint(limited(0, 2 << 30), None), (assumed.0, 250_000));
    let measured = Load { cpu: Share(123_000), memory: Share(7) };
    assert_eq!(footprint(limited(1000, 2 << 30), Some(measured)), (123_000, 7));
}

/// R-REB-4: a limit of half of a large node is more than a small one has.
#[test]
fn limits_are_carried_to_the_destination() {
    let limited = || api().with(|spec| spec.limit = resources(2000, 0));
    for (small, expected) in [
        (4000, "dst_cap shop-api-0"),
        (8000, "moved shop-api-0 n2"),
        (2000, "resource_limits shop-api-0"),
    ] {
        let mut scene = Scene::of([(4000, 0), (small, 0), (1000, 0)], &[limited()], &[]);
        assert_eq!(scene.decide([90, 30, 60]), expected, "n2 has {small}");
    }
}

/// R-CONS-6: a move gives no node more of a service than `max-per-node`, of its own or by default.
#[test]
fn moves_keep_the_most_per_node() {
    let limited = |max| {
        let limit = move |spec: &mut jaco_types::ServiceSpec| {
            spec.scheduling.max_per_node = NonZeroU32::new(max);
        };
        [api().replicas(2).with(limit)]
    };
    let mut scene = Scene::of([(0, 0); 3], &limited(1), &[]);
    assert_eq!(scene.cluster.show(), "shop-api-0@n1 shop-api-1@n2");
    assert_eq!(scene.decide(HOT), "moved shop-api-0 n3", "n2 is cooler, and has one");
    let mut scene = Scene::of([(0, 0); 3], &limited(1), &[]);
    scene.cluster.set_availability("n3", Availability::Cordoned);
    assert_eq!(scene.decide(HOT), "anti_affinity shop-api-0");
    let mut scene = Scene::of([(0, 0); 3], &limited(1), &[]);
    scene.cluster.apply("shop", &limited(1).map(|api| api.replicas(1)));
    scene.cluster.settle();
    assert_eq!(scene.decide(HOT), "moved shop-api-0 n2", "it has none any more");
}

/// R-REB-4: a node that has just received a replica takes no other until its cooldown is over.
#[test]
fn receivers_cool_down() {
    let all = [(0, 0); 3];
    let services = [api(), service("web", "web").placement(Placement::Pack)];
    let mut scene = Scene::of(all, &services, &[]);
    scene.cluster.set_availability("n3", Availability::Cordoned);
    assert_eq!(scene.decide(HOT), "moved shop-api-0 n2");
    let cycle = scene.cycle(HOT);
    let reasons = scene.show(&cycle);
    assert!(reasons.contains("cooldown_node shop-web-0"), "{reasons}");
    assert!(reasons.contains("cooldown_replica shop-api-0"), "{reasons}");
    // 120 s after the move; the cycles in between are silent.
    for _ in 0..2 {
        let cycle = scene.cycle(HOT);
        assert_eq!(scene.show(&cycle), "");
    }
    let cycle = scene.cycle(HOT);
    assert!(scene.show(&cycle).starts_with("moved shop-web-0 n2"), "{}", scene.show(&cycle));
}

/// R-REB-1: a decision is carried out as any other change: start-first, with its facts.
#[test]
fn moves_are_ordinary_replacements() {
    let mut scene = Scene::of([(0, 0); 3], &[api()], &[]);
    scene.cycle(HOT);
    let moved = scene.cycle(HOT).moved.expect("it moves");
    let (id, _) = moved.replica.clone().unwrap();
    let slot = scene.cluster.slot(id.as_str());
    let instance = jaco_state::NewInstance {
        node: moved.dst.unwrap(),
        revision: slot.current.revision,
        spec_hash: slot.current.spec_hash,
        gpus: Vec::new(),
    };
    let facts = moved.payload(&scene.cluster.state, None);
    let one = RebalanceMove { id, instance, facts };
    let based_on = scene.cluster.state.index;
    assert_eq!(scene.cluster.commit(Rebalance::new(based_on, vec![one]).into()), Outcome::Done);
    assert_eq!(scene.cluster.show(), "shop-api-0@n2<n1", "both run until the new one serves");
    scene.cluster.settle();
    assert_eq!(scene.cluster.show(), "shop-api-0@n2");
}
