//! Rebalancing of hot nodes: each gate just below and just above its threshold, and what a leader
//! remembers.

use std::collections::BTreeMap;

use jaco_scheduler::rebalance::{
    Cycle, CycleInput, Load, Overdue, Pressure, RebalanceConfig, Rebalancer, Sample, Share, Weighed,
};
use jaco_state::Outcome;
use jaco_state::audit::AuditKind;
use jaco_state::command::Disabling;
use jaco_types::spec::{Affinity, Operator, Placement, UpdateOrder};
use jaco_types::unit::Resources;
use jaco_types::{AllocationScope, Availability, Millis, Timestamp};

use crate::cluster::{Cluster, Service, constraint, key, resources, service};

/// A cluster, its leader's memory, and the time.
struct Scene {
    cluster: Cluster,
    rebalancer: Rebalancer,
    pressure: Pressure,
    config: RebalanceConfig,
    now: Timestamp,
}

/// What three nodes measure, in hundredths: cpu and memory of each.
type Measured = [(u64, u64); 3];
const HOT: Measured = [(90, 20), (30, 20), (40, 20)];

fn packed(name: &str) -> Service {
    service(name, name).placement(Placement::Pack)
}

impl Scene {
    /// Three nodes; the services run on the first, for an hour.
    fn of(services: &[Service]) -> Self {
        Self::on(Resources::default(), services)
    }

    /// The same on nodes of this capacity.
    fn on(capacity: Resources, services: &[Service]) -> Self {
        let mut cluster = Cluster::empty();
        for host in ["n1", "n2", "n3"] {
            cluster.join_with(host, capacity);
        }
        cluster.pass();
        for host in ["n2", "n3"] {
            cluster.set_availability(host, Availability::Cordoned);
        }
        cluster.apply("shop", services);
        cluster.settle();
        for host in ["n2", "n3"] {
            cluster.set_availability(host, Availability::Active);
        }
        let now = cluster.now.after(Millis::from_secs(3600));
        let (rebalancer, pressure) = (Rebalancer::default(), Pressure::default());
        Self { cluster, rebalancer, pressure, config: RebalanceConfig::default(), now }
    }

    fn measure(&mut self, measured: &[(u64, u64)]) {
        for (host, (cpu, memory)) in ["n1", "n2", "n3"].iter().zip(measured) {
            let load = Load { cpu: Share(cpu * 10_000), memory: Share(memory * 10_000) };
            let sample = Sample { at: self.now, load };
            self.pressure.nodes.insert(self.cluster.node(host), sample);
        }
    }

    fn decision(&mut self) -> Cycle {
        let (state, pressure, config) = (&self.cluster.state, &self.pressure, &self.config);
        self.rebalancer.cycle(CycleInput { state, pressure, config, now: self.now })
    }

    fn decide(&mut self) -> String {
        let Cycle { moved, skipped } = self.decision();
        let state = &self.cluster.state;
        let name = |id| state.nodes.get(&id).unwrap().hostname.to_string();
        let moved = moved.iter().map(|weighed| (weighed, "moved"));
        let skipped = skipped.iter().map(|(weighed, reason)| (weighed, reason.as_str()));
        let show = |(weighed, what): (&Weighed, &str)| {
            let replica = weighed.replica.as_ref().map_or("-", |(id, _)| id.as_str());
            let dst = weighed.dst.map_or("-".to_owned(), name);
            format!("{what} {replica} {dst}")
        };
        moved.chain(skipped).map(show).collect::<Vec<_>>().join("; ")
    }

    /// Half a minute later, with new samples.
    fn cycle(&mut self, measured: &[(u64, u64)]) -> String {
        self.now = self.now.after(Millis::from_secs(30));
        self.measure(measured);
        self.decide()
    }

    /// The second cycle with the same samples: averages are what was measured.
    fn sustained(&mut self, measured: &[(u64, u64)]) -> String {
        assert_eq!(self.cycle(measured), "", "one cycle decides nothing");
        self.cycle(measured)
    }

    fn uses(&mut self, replica: &str, cpu: u64, memory: u64) {
        let load = Load { cpu: Share(cpu), memory: Share(memory) };
        self.pressure.instances.insert(self.cluster.slot(replica).current_id(), load);
    }
}

/// R-REB-1, R-REB-3, R-REB-6: Sustained heat moves one replica after two cycles, to the coolest node.
#[test]
fn sustained_pressure_moves_one_replica() {
    let mut scene = Scene::of(&[packed("api"), packed("web")]);
    assert_eq!(scene.sustained(&HOT), "moved shop-api-0 n2");
}

/// R-REB-6, R-CONS-7, PL-21: of two nodes that are equally cool, the one that the service likes.
#[test]
fn preferred_of_equally_cool_nodes_is_taken() {
    let constraint = constraint("node.hostname", Operator::Equal, "n3");
    let likes = Affinity { constraint, weight: 50 };
    let api = packed("api").with(|spec| spec.scheduling.affinities.push(likes));
    let cool = [(90, 20), (30, 20), (30, 20)];
    assert_eq!(Scene::of(std::slice::from_ref(&api)).sustained(&cool), "moved shop-api-0 n3");
    assert_eq!(Scene::of(&[packed("api")]).sustained(&cool), "moved shop-api-0 n2");
    assert_eq!(Scene::of(&[api]).sustained(&HOT), "moved shop-api-0 n2", "the coolest comes first");
}

/// R-REB-3: the average is what decides.
#[test]
fn a_single_spike_moves_nothing() {
    let mut scene = Scene::of(&[packed("api")]);
    assert_eq!(scene.cycle(&[(30, 20), (30, 20), (30, 20)]), "");
    for measured in [(100, 20), (100, 20), (30, 20), (100, 20), (30, 20)] {
        assert_eq!(scene.cycle(&[measured, (30, 20), (30, 20)]), "");
    }
}

/// R-REB-3: One sample counts once, however many cycles look at it.
#[test]
fn a_sample_counts_once() {
    let mut scene = Scene::of(&[packed("api")]);
    scene.measure(&HOT);
    assert_eq!([scene.decide(), scene.decide(), scene.decide()].concat(), "");
    assert_eq!(scene.cycle(&HOT), "moved shop-api-0 n2");
}

/// R-REB-4: The trigger, the gap and the number of nodes with data: below it nothing is even reported.
#[test]
fn cool_nodes_are_not_rebalanced() {
    let cases: [(&[(u64, u64)], &str); 10] = [
        (&[(84, 0), (30, 0), (30, 0)], ""),
        (&[(85, 0), (30, 0), (30, 0)], "moved shop-api-0 n2"),
        (&[(0, 84), (30, 0), (30, 0)], ""),
        (&[(90, 0), (66, 0), (66, 0)], ""),
        (&[(90, 0), (65, 0), (66, 0)], "dst_cap shop-api-0 n2"),
        (&[(90, 0), (62, 0), (66, 0)], "moved shop-api-0 n2"),
        (&[(90, 0), (62, 0), (60, 0)], "moved shop-api-0 n3"),
        (&[(95, 95), (95, 95), (95, 95)], ""),
        (&[(90, 0)], ""),
        (&[], ""),
    ];
    for (measured, expected) in cases {
        let mut scene = Scene::of(&[packed("api")]);
        assert_eq!(scene.sustained(measured), expected, "{measured:?}");
    }
}

/// R-REB-6: hot memory is rebalanced like cpu, by what was measured, else limited, else assumed.
#[test]
fn memory_pressure_is_rebalanced_too() {
    let hot = [(20, 90), (30, 20), (30, 20)];
    let mut scene = Scene::of(&[packed("api")]);
    assert_eq!(scene.sustained(&hot), "relief_floor shop-api-0 n2");
    let mut scene = Scene::of(&[packed("api"), packed("web")]);
    scene.uses("shop-web-0", 0, 300_000);
    assert_eq!(scene.sustained(&hot), "moved shop-web-0 n2; relief_floor shop-api-0 n2");
}

/// R-REB-4, R-REB-7: The gates of a move, at their thresholds.
#[test]
fn each_gate_has_its_threshold() {
    let cases: [(u64, u64, Measured, &str); 7] = [
        (99_999, 0, HOT, "relief_floor shop-api-0 n2"),
        (100_000, 0, HOT, "moved shop-api-0 n2"),
        (449_999, 0, HOT, "moved shop-api-0 n2"),
        (450_000, 0, HOT, "dst_cap shop-api-0 n2"),
        (700_000, 0, HOT, "dst_cap shop-api-0 n2"),
        (700_001, 0, [(90, 0), (30, 0), (30, 0)], "resource_limits"),
        (200_000, 800_001, HOT, "resource_limits"),
    ];
    for (cpu, memory, measured, expected) in cases {
        let mut scene = Scene::of(&[packed("api")]);
        scene.uses("shop-api-0", cpu, memory);
        let reported = scene.sustained(&measured);
        assert!(reported.starts_with(expected), "{cpu} {memory}: {reported}");
    }
}

/// R-REB-6: where nothing is measured, a replica uses what it is limited to, as a share of its node; what is
/// measured says more than a limit.
#[test]
fn declared_limits_are_the_footprint() {
    let limited = |cpu, memory| {
        let limits = resources(cpu, memory);
        Scene::on(resources(4000, 8000), &[packed("api").with(|spec| spec.limit = limits)])
    };
    for (cpu, expected) in [
        (399, "relief_floor shop-api-0 n2"),
        (400, "moved shop-api-0 n2"),
        (1799, "moved shop-api-0 n2"),
        (1800, "dst_cap shop-api-0 n2"),
    ] {
        assert_eq!(limited(cpu, 0).sustained(&HOT), expected, "{cpu} of 4000");
    }
    let hot = [(20, 90), (30, 20), (40, 20)];
    for (memory, expected) in [(799, "relief_floor shop-api-0 n2"), (800, "moved shop-api-0 n2")] {
        assert_eq!(limited(0, memory).sustained(&hot), expected, "{memory} of 8000");
    }
    let mut scene = limited(399, 0);
    scene.uses("shop-api-0", 100_000, 0);
    assert_eq!(scene.sustained(&HOT), "moved shop-api-0 n2");
}

/// R-REB-4, R-RES-3: a node without room for its reservation is no destination, however cool it is.
#[test]
fn destination_has_room_for_the_reservation() {
    let on = |host: &'static str, name| packed(name).hosts(&[host]).reserves(600, 0);
    let scene = |others: &[Service]| {
        let mut scene = Scene::on(resources(1000, 1000), &[packed("api").reserves(500, 100)]);
        scene.cluster.apply("other", others);
        scene.cluster.settle();
        scene
    };
    assert_eq!(scene(&[]).sustained(&HOT), "moved shop-api-0 n2");
    assert_eq!(scene(&[on("n2", "db")]).sustained(&HOT), "moved shop-api-0 n3");
    let both = [on("n2", "db"), on("n3", "cache")];
    assert_eq!(scene(&both).sustained(&HOT), "resource_limits shop-api-0 n2");
}

/// R-REB-5, R-REB-7: Data, global replicas and what cannot run beside its successor stay, and this is reported once.
#[test]
fn immovable_replicas_stay() {
    let stop_first = packed("api").with(|spec| spec.update.order = UpdateOrder::StopFirst);
    for stays in [packed("api").stateful(), packed("api").placement(Placement::Global), stop_first]
    {
        let mut scene = Scene::of(&[stays]);
        assert_eq!(scene.sustained(&HOT), "no_candidate - -");
        for _ in 0..100 {
            assert_eq!(scene.cycle(&HOT), "");
        }
    }
}

/// R-REB-4, R-REB-5: Pinned replicas stay among their hosts, and spread ones apart.
#[test]
fn placement_is_kept() {
    let mut scene = Scene::of(&[packed("api").hosts(&["n1"])]);
    assert_eq!(scene.sustained(&HOT), "anti_affinity shop-api-0 n2");
    let mut scene = Scene::of(&[packed("api").hosts(&["n1", "n3"])]);
    assert_eq!(scene.sustained(&HOT), "moved shop-api-0 n3");
    let mut cluster = Scene::of(&[service("api", "api")]);
    assert_eq!(cluster.sustained(&HOT), "moved shop-api-0 n2");
    let mut cluster = Scene::of(&[]);
    cluster.cluster.apply("shop", &[service("api", "api").replicas(3)]);
    cluster.cluster.settle();
    let reported = cluster.sustained(&HOT);
    assert!(
        reported.starts_with("anti_affinity shop-api-") && !reported.contains("moved"),
        "{reported}"
    );
}

/// A node that takes nothing new is no destination.
#[test]
fn destination_must_take_replicas() {
    let mut scene = Scene::of(&[packed("api")]);
    scene.cluster.set_availability("n2", Availability::Cordoned);
    assert_eq!(scene.sustained(&HOT), "moved shop-api-0 n3");
    let mut scene = Scene::of(&[packed("api")]);
    for host in ["n2", "n3"] {
        scene.cluster.set_availability(host, Availability::Draining);
    }
    assert_eq!(scene.sustained(&HOT), "no_eligible_dst shop-api-0 -");
}

/// R-REB-5: what is disabled never moves, and nothing moves to a node where its service is.
#[test]
fn disabled_allocations_are_neither_moved_nor_destinations() {
    let api = AllocationScope::Service(key("shop", "api"));
    let mut scene = Scene::of(&[packed("api")]);
    scene.cluster.set_disabled(Disabling::Disable, &[api]);
    scene.cluster.settle();
    assert_eq!(scene.sustained(&HOT), "no_candidate - -");
    let mut scene = Scene::of(&[packed("api")]);
    let n2 = AllocationScope::Node(scene.cluster.node("n2"));
    scene.cluster.set_disabled(Disabling::Disable, &[n2]);
    assert_eq!(scene.sustained(&HOT), "moved shop-api-0 n3");
}

/// R-REB-4: What was moved stays for ten minutes, and a node that received waits for two.
#[test]
fn both_cooldowns_hold() {
    let mut scene = Scene::of(&[packed("api"), packed("web")]);
    let one_way = [(100, 20), (30, 20), (72, 20)];
    assert_eq!(scene.sustained(&one_way), "moved shop-api-0 n2");
    assert_eq!(scene.cycle(&one_way), "cooldown_replica shop-api-0 -; dst_cap shop-web-0 n3");
    for _ in 0..2 {
        assert_eq!(scene.cycle(&one_way), "");
    }
    assert_eq!(scene.cycle(&one_way), "moved shop-web-0 n2");
}

/// R-REB-4: a node that received a replica less than two minutes ago gets no other, and that is the reason
/// that is given.
#[test]
fn receiving_node_cools_down() {
    let mut scene = Scene::of(&[packed("api"), packed("web")]);
    scene.cluster.set_availability("n3", Availability::Cordoned);
    assert_eq!(scene.sustained(&HOT), "moved shop-api-0 n2");
    let reported = scene.cycle(&HOT);
    assert_eq!(reported, "cooldown_replica shop-api-0 -; cooldown_node shop-web-0 n2");
    for _ in 0..2 {
        assert_eq!(scene.cycle(&HOT), "");
    }
    assert_eq!(scene.cycle(&HOT), "moved shop-web-0 n2", "two minutes are over");
}

/// A replica that began to run less than ten minutes ago stays, whoever put it there.
#[test]
fn new_leader_respects_the_cooldown_of_young_replicas() {
    for (secs, expected) in [(538, "cooldown_replica shop-api-0 -"), (540, "moved shop-api-0 n2")] {
        let mut scene = Scene::of(&[packed("api")]);
        let runs_since = scene.cluster.state.observed.values().next().unwrap().since;
        scene.now = runs_since.after(Millis::from_secs(secs));
        assert_eq!(scene.sustained(&HOT), expected);
    }
}

/// R-REB-8: A new leader counts from zero, and is ready within two cycles.
#[test]
fn new_leader_needs_two_cycles() {
    let mut scene = Scene::of(&[packed("api")]);
    assert_eq!(scene.cycle(&HOT), "");
    scene.rebalancer = Rebalancer::default();
    assert_eq!(scene.sustained(&HOT), "moved shop-api-0 n2");
}

/// Samples older than three intervals are none; at three intervals they still count.
#[test]
fn stale_samples_are_ignored() {
    for (secs, expected) in [(90, "moved shop-api-0 n2"), (91, "")] {
        let mut scene = Scene::of(&[packed("api")]);
        assert_eq!(scene.cycle(&HOT), "");
        scene.now = scene.now.after(Millis::from_secs(secs));
        scene.measure(&[(90, 20)]);
        assert_eq!(scene.decide(), expected, "the others' samples are {secs} s old");
    }
}

/// A clock that goes back makes no time pass, and no cooldown longer.
#[test]
fn clock_set_back_prolongs_no_cooldown() {
    let mut scene = Scene::of(&[packed("api"), packed("web")]);
    assert_eq!(scene.sustained(&HOT), "moved shop-api-0 n2");
    scene.now = Timestamp(scene.now.0 - 1_800_000);
    assert_eq!(scene.cycle(&HOT), "moved shop-web-0 n3; cooldown_replica shop-api-0 -");
    for _ in 0..19 {
        assert!(!scene.cycle(&HOT).contains("moved"));
    }
    assert_eq!(scene.cycle(&HOT), "moved shop-api-0 n2");
}

/// Whatever the samples say around the thresholds, a hot node that nothing can move off costs a bounded
/// number of events.
#[test]
fn hot_node_without_a_move_is_reported_once() {
    let mut scene = Scene::of(&[packed("api"), packed("web").stateful()]);
    let mut reported = Vec::new();
    for round in 0..1000 {
        scene.uses("shop-api-0", if round % 2 == 0 { 50_000 } else { 600_000 }, 0);
        reported.extend(Some(scene.cycle(&HOT)).filter(|one| !one.is_empty()));
    }
    assert_eq!(reported, ["dst_cap shop-api-0 n2", "relief_floor shop-api-0 n2"]);
}

/// Both events have the same facts; only one that stays has a reason.
#[test]
fn the_payload_has_its_form() {
    let show = |facts: BTreeMap<String, String>| {
        facts.iter().map(|(name, fact)| format!("{name}={fact}\n")).collect::<String>()
    };
    let mut scene = Scene::of(&[packed("api"), packed("web")]);
    scene.uses("shop-web-0", 5_000, 0);
    assert_eq!(scene.cycle(&HOT), "");
    scene.now = scene.now.after(Millis::from_secs(30));
    scene.measure(&HOT);
    let Cycle { moved, skipped } = scene.decision();
    expect_test::expect![[r#"
        deployment=shop
        dominant=cpu
        dst=n2
        dst_pressure_after=0.4200
        dst_pressure_before=0.3000
        move_cost=0.0100
        relief=0.1200
        replica_id=shop-api-0
        score=0.1100
        service=api
        src=n1
        src_pressure_after=0.7800
        src_pressure_before=0.9000
    "#]]
    .assert_eq(&show(moved.unwrap().payload(&scene.cluster.state, None)));
    let [(weighed, reason)] = &skipped[..] else { panic!("one stays: {skipped:?}") };
    expect_test::expect![[r#"
        deployment=shop
        dominant=cpu
        dst=n2
        dst_pressure_after=0.3050
        dst_pressure_before=0.3000
        move_cost=0.0100
        reason=relief_floor
        relief=0.0050
        replica_id=shop-web-0
        score=-0.0050
        service=web
        src=n1
        src_pressure_after=0.8950
        src_pressure_before=0.9000
    "#]]
    .assert_eq(&show(weighed.payload(&scene.cluster.state, Some(*reason))));
}

/// A spread criterion holds a replica in its domain.
#[test]
fn no_replica_leaves_its_domain() {
    let mut scene = Scene::of(&[packed("api").spread("node.hostname", 100, &[("n1", 100)])]);
    assert_eq!(scene.sustained(&HOT), "anti_affinity shop-api-0 n2");
}

/// R-REB-9: on operator request several replicas move, each gate holds after each of them, and a second
/// run, before any sample shows the first, has nothing left to do.
#[test]
fn several_moves_on_operator_request() {
    let names = ["a", "b", "c", "d", "e"];
    let mut scene = Scene::of(&names.map(packed));
    for name in names {
        scene.uses(&format!("shop-{name}-0"), 150_000, 0);
    }
    scene.measure(&[(100, 20), (10, 20), (20, 20)]);
    let rebalance = |scene: &Scene, most| {
        let (state, pressure, config) = (&scene.cluster.state, &scene.pressure, &scene.config);
        let input = CycleInput { state, pressure, config, now: scene.now };
        let moves = scene.rebalancer.moves_off_hot_nodes(input, most);
        let show = |one: &Weighed| {
            let dst = state.nodes.get(&one.dst.unwrap()).unwrap().hostname.to_string();
            format!("{} {dst} {}", one.replica.as_ref().unwrap().0, one.dst_pressure.1)
        };
        (moves.iter().map(show).collect::<Vec<_>>(), moves)
    };
    assert_eq!(rebalance(&scene, 0).0, Vec::<String>::new());
    let (shown, moves) = rebalance(&scene, 100);
    assert_eq!(shown, ["shop-a-0 n2 0.2500", "shop-b-0 n3 0.3500"], "85 hundredths are still hot");
    scene.measure(&[(100, 20), (10, 20), (20, 20)]);
    scene.rebalancer.note_moves(&moves, scene.now);
    assert_eq!(rebalance(&scene, 100).0, Vec::<String>::new(), "it is in progress");
    scene.now = scene.now.after(Millis::from_secs(30));
    scene.measure(&[(115, 20), (25, 20), (20, 20)]);
    let (shown, _) = rebalance(&scene, 100);
    assert_eq!(shown, ["shop-c-0 n3 0.3500", "shop-d-0 n2 0.4000", "shop-e-0 n3 0.5000"]);
}

/// A revision that changes another service only does not hold a replica back.
#[test]
fn change_of_another_service_blocks_no_move() {
    let mut scene = Scene::of(&[packed("api"), packed("web")]);
    scene
        .cluster
        .apply("shop", &[packed("api"), service("web", "other").placement(Placement::Pack)]);
    let reported = scene.sustained(&HOT);
    assert_eq!(reported, "moved shop-api-0 n2; cooldown_replica shop-web-0 -");
}

/// An average that is still hot after its burst has ended moves nothing.
#[test]
fn ended_burst_moves_nothing() {
    for (last, expected) in [(84, ""), (85, "moved shop-api-0 n2")] {
        let mut scene = Scene::of(&[packed("api")]);
        assert_eq!(scene.cycle(&[(100, 20), (30, 20), (30, 20)]), "");
        assert_eq!(scene.cycle(&[(last, 20), (30, 20), (30, 20)]), expected, "{last}");
    }
}

/// A scene whose only replica is on its way from n1 to n2, and has a minute for it.
fn on_its_way() -> Scene {
    let minute = |spec: &mut jaco_types::ServiceSpec| {
        spec.update.step_timeout = Millis::from_secs(60);
    };
    let mut scene = Scene::of(&[packed("api").with(minute)]);
    assert_eq!(scene.cycle(&HOT), "");
    scene.now = scene.now.after(Millis::from_secs(30));
    scene.measure(&HOT);
    let cycle = scene.decision();
    let command = cycle.command(&scene.cluster.state).unwrap();
    assert_eq!(scene.cluster.commit(command), Outcome::Done);
    scene
}

impl Scene {
    /// Reverts what took too long, so many seconds later, and says what.
    fn reverted(&mut self, secs: u64) -> Vec<String> {
        self.now = self.now.after(Millis::from_secs(secs));
        let overdue = self.rebalancer.overdue(&self.cluster.state, self.now);
        if let Some(command) = Overdue::command(&overdue, &self.cluster.state) {
            assert_eq!(self.cluster.commit(command), Outcome::Done);
        }
        overdue.into_iter().map(|one| one.replica.to_string()).collect()
    }
}

/// R-REB-1, R-REB-4: a successor that does not run within the time of a step is reverted: the replica
/// stays where it serves, its failures there are forgotten, and for as long as after a move it is left
/// alone, as is the node that it did not run on.
#[test]
fn move_that_never_runs_is_reverted() {
    let mut scene = on_its_way();
    let served = scene.cluster.slot("shop-api-0").retiring.clone().unwrap();
    assert_eq!(scene.reverted(0), Vec::<String>::new());
    assert_eq!(scene.reverted(59), Vec::<String>::new());
    assert_eq!(scene.reverted(1), ["shop-api-0"]);
    let slot = scene.cluster.slot("shop-api-0");
    assert_eq!((&slot.current, &slot.retiring), (&served, &None));
    assert_eq!(slot.restarts.consecutive, 0);
    assert_eq!(scene.cluster.audited(AuditKind::RebalanceReverted), 1);
    let event = scene.cluster.state.audit.events.values().next_back().unwrap();
    let facts: Vec<_> = event.payload.iter().map(|(name, fact)| format!("{name}={fact}")).collect();
    let expected =
        "dst=n2 reason=step_timeout replica_id=shop-api-0 src=n1 state=nothing waited=60s";
    assert_eq!(facts.join(" "), expected);
    assert_eq!(scene.reverted(3600), Vec::<String>::new(), "there is nothing left to take back");
    let mut scene = on_its_way();
    scene.reverted(0);
    scene.reverted(60);
    assert_eq!(scene.cycle(&HOT), "cooldown_replica shop-api-0 -", "it cools down");
    for _ in 0..18 {
        assert_eq!(scene.cycle(&HOT), "");
    }
    assert_eq!(scene.cycle(&HOT), "moved shop-api-0 n2", "ten minutes later it is tried again");
}

/// R-REB-8: a new leader waits as long again, and not for ever; a clock that goes back makes no wait
/// longer than a step.
#[test]
fn new_leader_reverts_moves_too() {
    let mut scene = on_its_way();
    scene.reverted(0);
    scene.reverted(50);
    scene.rebalancer = Rebalancer::default();
    assert_eq!(scene.reverted(10), Vec::<String>::new());
    scene.now = Timestamp(scene.now.0 - 3_600_000);
    assert_eq!(scene.reverted(0), Vec::<String>::new());
    assert_eq!(scene.reverted(60), ["shop-api-0"]);
}

/// R-NODE-2: what must leave its node goes on trying: a drain is not taken back, nor is a successor that
/// serves, nor what no longer serves where it was.
#[test]
fn move_off_an_unusable_node_is_not_reverted() {
    let mut scene = on_its_way();
    scene.cluster.set_availability("n1", Availability::Draining);
    scene.reverted(0);
    assert_eq!(scene.reverted(3600), Vec::<String>::new());
    scene.cluster.set_availability("n1", Availability::Active);
    scene.reverted(0);
    assert_eq!(scene.reverted(60), ["shop-api-0"], "the drain was called off");
    let mut scene = on_its_way();
    scene.reverted(0);
    scene.cluster.settle();
    assert_eq!(scene.reverted(3600), Vec::<String>::new(), "it serves on n2");
    assert_eq!(scene.cluster.slot("shop-api-0").retiring, None);
}
