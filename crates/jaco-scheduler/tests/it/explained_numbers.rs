//! The numbers that `explain` shows of each node, against the state that they are about (R-CLI-3, R-LOOP-6).

use jaco_scheduler::explain::{NodeAnswer, NodeScore, explain, spread_shares};
use jaco_types::spec::{Affinity, Operator, Placement, Scoring};
use jaco_types::unit::{Bytes, MilliCores};
use jaco_types::{Availability, Slot};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, constraint, key, resources, service};
use crate::events::{events, happen};

fn answers(cluster: &Cluster, name: &str) -> Vec<NodeAnswer> {
    explain(&cluster.input(), &key("shop", name)).expect("it is desired")
}

fn of<'a>(answers: &'a [NodeAnswer], host: &str) -> &'a NodeAnswer {
    answers.iter().find(|answer| answer.hostname.as_str() == host).expect("every node answers")
}

fn web() -> Service {
    service("web", "w")
}

/// Replicas of the service and of all services, each by itself.
#[test]
fn replicas_are_counted_by_service_and_in_all() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("blog", &[service("api", "a").replicas(2).hosts(&["n1", "n2"])]);
    cluster.apply("shop", &[web().replicas(2).placement(Placement::Pack)]);
    cluster.settle();
    let counts = |cluster: &Cluster| {
        let answers = answers(cluster, "web");
        answers.iter().map(|it| (it.facts.of_service, it.facts.of_all)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&cluster), [(0, 1), (0, 1), (2, 2)]);
    // During a handover a replica counts where it goes to.
    cluster.set_availability("n3", Availability::Draining);
    cluster.pass();
    assert!(cluster.show().contains("<n3"), "{}", cluster.show());
    let (of_service, of_all): (Vec<_>, Vec<_>) = counts(&cluster).into_iter().unzip();
    assert_eq!((of_service.iter().sum::<u32>(), of_all.iter().sum::<u32>()), (2, 4));
    assert_eq!((of_service[2], of_all[2]), (0, 0));
}

/// What is left is the capacity without all reservations, also of an instance that retires; nothing is
/// said where nothing is declared.
#[test]
fn room_is_what_no_instance_reserves() {
    let mut cluster = Cluster::empty();
    for (host, cpu, memory) in [("n1", 2000, 4096), ("n2", 1000, 0), ("n3", 0, 1024)] {
        cluster.join_with(host, resources(cpu, memory));
    }
    cluster.pass();
    cluster.apply("shop", &[web().replicas(1).hosts(&["n1"]).reserves(300, 1000)]);
    cluster.settle();
    let left = |cluster: &Cluster, host: &str| {
        let facts = of(&answers(cluster, "web"), host).facts;
        (facts.cpu_left.map(|cpu| cpu.0), facts.memory_left.map(|memory| memory.0))
    };
    assert_eq!(left(&cluster, "n1"), (Some(1700), Some(3096)));
    assert_eq!(left(&cluster, "n2"), (Some(1000), None));
    assert_eq!(left(&cluster, "n3"), (None, Some(1024)));
    cluster.apply(
        "shop",
        &[web().replicas(1).hosts(&["n1"]).reserves(300, 1000).with(|spec| {
            spec.image = "w:2".into();
            spec.hash = jaco_types::SpecHash([7; 32]);
        })],
    );
    cluster.pass();
    assert_eq!(cluster.show(), "shop-web-0@n1<n1");
    assert_eq!(left(&cluster, "n1"), (Some(1400), Some(2096)), "both have their reservation");
}

/// The weights of the affinities that hold are summed up, negative ones included.
#[test]
fn affinities_are_summed() {
    let mut cluster = Cluster::empty();
    cluster.join_as("n1", resources(0, 0), &[("ssd", "yes"), ("zone", "a")]);
    cluster.join_as("n2", resources(0, 0), &[("zone", "a")]);
    cluster.join_as("n3", resources(0, 0), &[]);
    cluster.pass();
    let affinity = |attribute: &str, operator, value: &str, weight| Affinity {
        constraint: constraint(attribute, operator, value),
        weight,
    };
    let likes = web().replicas(1).with(|spec| {
        spec.scheduling.affinities = vec![
            affinity("ssd", Operator::IsSet, "", 30),
            affinity("zone", Operator::Equal, "a", -100),
            affinity("zone", Operator::NotEqual, "a", 5),
            affinity("node.hostname", Operator::Regexp, "n[12]", 7),
        ];
    });
    cluster.apply("shop", &[likes]);
    cluster.settle();
    let sums: Vec<_> = answers(&cluster, "web").iter().map(|it| it.facts.affinity).collect();
    assert_eq!(sums, [-63, -93, 5]);
    assert_eq!(cluster.show(), "shop-web-0@n3", "the greatest sum is taken");
}

/// Nodes answer in the order of their names, and nobody answers about what is not desired.
#[test]
fn nodes_answer_by_name() {
    let mut cluster = Cluster::of(&["n2", "n10", "n1"]);
    cluster.apply("shop", &[web().replicas(1)]);
    let names: Vec<_> = answers(&cluster, "web").iter().map(|it| it.hostname.to_string()).collect();
    assert_eq!(names, ["n1", "n10", "n2"]);
    assert_eq!(explain(&cluster.input(), &key("shop", "db")), None);
    assert_eq!(explain(&cluster.input(), &key("blog", "web")), None);
    let before = cluster.clone();
    let _answers = answers(&cluster, "web");
    assert_eq!(cluster.state, before.state, "who asks changes nothing");
}

proptest! {
    /// R-CLI-3: whatever happened, the numbers are those of the state once nothing is left to do.
    #[test]
    fn numbers_are_those_of_the_state(events in events(1..20)) {
        let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
        for event in &events {
            happen(&mut cluster, event);
        }
        cluster.apply("shop", &[service("web", "w").replicas(1)]);
        cluster.settle();
        for answer in answers(&cluster, "web") {
            let node = cluster.state.nodes.get(&answer.node).unwrap();
            let slots = || cluster.state.slots.values();
            let active = |slot: &&Slot| {
                slot.current.node == node.id
                    && slot.desired_state == jaco_types::DesiredState::Active
            };
            let all = slots().filter(active).count();
            let own = slots().filter(active).filter(|slot| slot.service == key("shop", "web"));
            prop_assert_eq!(answer.facts.of_all as usize, all, "{}", answer.hostname);
            prop_assert!(own.count() <= answer.facts.of_service as usize);
            let reserved = slots().flat_map(|slot| {
                let here = slot.instances().filter(|(_, instance)| instance.node == node.id);
                let specs = here.filter_map(|(_, instance)| {
                    cluster.state.service_spec(&slot.service, instance.revision)
                });
                specs.map(|spec| spec.reservation).collect::<Vec<_>>()
            });
            let reserved = reserved.fold(resources(0, 0), |sum, one| sum.plus(one));
            let capacity = node.facts.capacity;
            let left = capacity.minus(reserved);
            let (cpu, memory) = (capacity.cpu.0 > 0, capacity.memory.0 > 0);
            prop_assert_eq!(answer.facts.cpu_left, cpu.then_some(MilliCores(left.cpu.0)));
            prop_assert_eq!(answer.facts.memory_left, memory.then_some(Bytes(left.memory.0)));
        }
    }
}

fn shares(cluster: &Cluster) -> String {
    let shares = spread_shares(&cluster.input(), &key("shop", "web")).expect("it is desired");
    let show = |share: &jaco_scheduler::explain::SpreadShare| {
        let value = share.value.as_deref().unwrap_or("-");
        format!("{}={value} {}/{}", share.attribute, share.actual, share.desired)
    };
    shares.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// Each value's share as if all replicas were placed anew, beside what is there (R-CLI-3, R-SPREAD-2).
#[test]
fn shares_are_what_a_new_placement_would_have() {
    let mut cluster = Cluster::empty();
    for (host, zone, rack) in [("n1", "a", "r1"), ("n2", "a", "r2"), ("n3", "b", "r1")] {
        cluster.join_as(host, resources(0, 0), &[("zone", zone), ("rack", rack)]);
    }
    cluster.pass();
    let web = |replicas| {
        web().replicas(replicas).spread("zone", 100, &[("a", 75)]).spread("rack", 50, &[])
    };
    cluster.apply("shop", &[web(4)]);
    cluster.settle();
    assert_eq!(shares(&cluster), "zone=a 3/3, zone=b 1/1, rack=r1 3/3, rack=r2 1/1");
    // A new zone moves nobody, but it has a share.
    cluster.join_as("n4", resources(0, 0), &[("zone", "c"), ("rack", "r2")]);
    cluster.pass();
    let shown = shares(&cluster);
    assert!(shown.contains("zone=a 3/3"), "{shown}");
    assert!(shown.contains("zone=c 0/") || shown.contains("zone=b 1/"), "{shown}");
    // Nobody spreads, and nobody is desired.
    cluster.apply("shop", &[super::explained_numbers::web()]);
    assert_eq!(shares(&cluster), "");
    assert_eq!(spread_shares(&cluster.input(), &key("shop", "db")), None);
}

proptest! {
    /// Shares of every criterion add up to the desired replicas, what is there to the replicas; and a fresh
    /// placement on nodes with room has exactly its shares (R-SPREAD-2).
    #[test]
    fn a_fresh_placement_has_its_shares(
        zones in prop::collection::vec(0..3usize, 1..7),
        replicas in 0..12u32,
        percents in prop::option::of((0..60u8, 0..40u8)),
        nested in any::<bool>(),
    ) {
        let mut cluster = Cluster::empty();
        for (number, zone) in zones.iter().enumerate() {
            let labels = [("zone", ["a", "b", "c"][*zone]), ("rack", ["r", "s"][number % 2])];
            cluster.join_as(&format!("n{number}"), resources(0, 0), &labels);
        }
        cluster.pass();
        let targets: Vec<(&str, u8)> =
            percents.map(|(a, b)| vec![("a", a), ("b", b)]).unwrap_or_default();
        let mut web = web().replicas(replicas).spread("zone", 100, &targets);
        if nested {
            web = web.spread("rack", 50, &[]);
        }
        cluster.apply("shop", &[web]);
        cluster.settle();
        let shares = spread_shares(&cluster.input(), &key("shop", "web")).expect("it is desired");
        for attribute in ["zone", "rack"].iter().take(if nested { 2 } else { 1 }) {
            let of = shares.iter().filter(|share| share.attribute == **attribute);
            let (desired, actual): (Vec<u32>, Vec<u32>) =
                of.map(|share| (share.desired, share.actual)).unzip();
            prop_assert_eq!(desired.iter().sum::<u32>(), replicas, "{:?}", &shares);
            prop_assert_eq!(&desired, &actual, "{:?}", &shares);
        }
    }
}

/// R-SPREAD-6, R-CLI-3: the scores are those of Nomad's formulas, and the node with the highest is chosen
/// next.
#[test]
fn scores_are_nomads_and_the_highest_is_chosen() {
    let mut cluster = Cluster::empty();
    for (host, ssd) in [("n1", "yes"), ("n2", "yes"), ("n3", "no")] {
        cluster.join_as(host, resources(4000, 8 << 30), &[("ssd", ssd)]);
    }
    cluster.pass();
    let web = |replicas| {
        web().replicas(replicas).placement(Placement::Pack).reserves(2000, 4 << 30).with(|spec| {
            spec.scheduling.scoring = Scoring::Nomad;
            let constraint = constraint("ssd", Operator::Equal, "yes");
            spec.scheduling.affinities.push(Affinity { constraint, weight: 50 });
        })
    };
    cluster.apply("shop", &[web(2)]);
    cluster.settle();
    let scores = answers(&cluster, "web");
    let score = |host| of(&scores, host).score.expect("the constraints allow it");
    // n1 has one: full with another. Two are desired: -(1 + 1) / 2 speaks against it.
    let full = NodeScore {
        fit: 1_000_000,
        anti_affinity: Some(-1_000_000),
        affinity: Some(1_000_000),
        spread: None,
        total: 333_333,
    };
    assert_eq!(cluster.counts("shop", "web")["n1"], 1);
    assert_eq!((score("n1"), score("n2")), (full, full));
    // Half free, as in Nomad's own test: 13.675 of 18.
    let half = NodeScore {
        fit: 759_747,
        anti_affinity: None,
        affinity: Some(0),
        spread: None,
        total: 379_873,
    };
    assert_eq!(score("n3"), half);
    // Of four, a second replica on a node counts less against it than of two: n1 and n2 come before n3.
    for (replicas, chosen) in [(3, "n1"), (4, "n2"), (5, "n3")] {
        cluster.apply("shop", &[web(replicas)]);
        let next = answers(&cluster, "web");
        let eligible = next.iter().filter(|answer| answer.failed.is_empty());
        let best = eligible
            .max_by_key(|it| (it.score.map(|score| score.total), std::cmp::Reverse(it.node)));
        assert_eq!(best.map(|it| it.hostname.as_str()), Some(chosen));
        let before = cluster.counts("shop", "web")[chosen];
        cluster.settle();
        assert_eq!(cluster.counts("shop", "web")[chosen], before + 1);
    }
}

/// Without `scoring: nomad`, and on nodes that the constraints exclude, there is no score.
#[test]
fn scores_are_only_where_they_count() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[web()]);
    assert!(answers(&cluster, "web").iter().all(|answer| answer.score.is_none()));
    cluster.apply(
        "shop",
        &[web().hosts(&["n1"]).with(|spec| spec.scheduling.scoring = Scoring::Nomad)],
    );
    let answers = answers(&cluster, "web");
    let has_score = |host| of(&answers, host).score.is_some();
    assert_eq!((has_score("n1"), has_score("n2")), (true, false));
}
