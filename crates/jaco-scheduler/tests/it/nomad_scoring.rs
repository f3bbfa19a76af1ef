//! `scoring: nomad`: whole placements by Nomad's formulas.

use expect_test::expect;
use jaco_types::spec::{Affinity, Operator, Placement, Scoring};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, constraint, resources, service};

fn web(replicas: u32) -> Service {
    service("web", "web:1").replicas(replicas).with(|spec| spec.scheduling.scoring = Scoring::Nomad)
}

/// Nodes of 4 cores and 8 GiB, each in a data centre and a rack.
fn grid(nodes: &[(&str, &str, &str)]) -> Cluster {
    let mut cluster = Cluster::empty();
    for (host, centre, rack) in nodes {
        let labels = [("datacenter", *centre), ("rack", *rack)];
        cluster.join_as(host, resources(4000, 8 << 30), &labels);
    }
    cluster.pass();
    cluster
}

fn placed(cluster: &mut Cluster, services: &[Service]) -> String {
    cluster.apply("shop", services);
    cluster.settle();
    let counts = cluster.counts("shop", "web");
    let counts = counts.into_iter().map(|(host, count)| format!("{host}={count}"));
    counts.collect::<Vec<_>>().join(" ")
}

/// R-SPREAD-6: `pack` is Nomad's `binpack`, `spread` its `spread`; what else runs on the nodes counts.
#[test]
fn fit_is_by_what_is_free() {
    let nodes = [("n1", "a", "r1"), ("n2", "a", "r1"), ("n3", "a", "r1")];
    let other = service("db", "db:1").hosts(&["n2"]).reserves(1000, 2 << 30);
    let check = |placement| {
        let mut cluster = grid(&nodes);
        cluster.apply("other", std::slice::from_ref(&other));
        cluster.settle();
        let web = web(1).placement(placement).reserves(1000, 1 << 30);
        placed(&mut cluster, &[web])
    };
    expect!["n1=0 n2=1 n3=0"].assert_eq(&check(Placement::Pack));
    expect!["n1=1 n2=0 n3=0"].assert_eq(&check(Placement::Spread));
}

/// R-SPREAD-6: replicas of the service lower the score of a node, so even packing does not put all on one.
#[test]
fn nodes_with_more_replicas_score_lower() {
    let mut cluster = grid(&[("n1", "a", "r1"), ("n2", "a", "r1"), ("n3", "a", "r1")]);
    let packed = web(3).placement(Placement::Pack).reserves(100, 100 << 20);
    expect!["n1=1 n2=1 n3=1"].assert_eq(&placed(&mut cluster, &[packed]));
}

/// R-SPREAD-6: shares and affinities, as a job's.
#[test]
fn targets_and_affinities_are_met() {
    let nodes = [
        ("n1", "a", "r1"),
        ("n2", "a", "r2"),
        ("n3", "b", "r1"),
        ("n4", "b", "r2"),
        ("n5", "c", "r1"),
    ];
    let shares = web(10).reserves(100, 1 << 20).spread("${node.datacenter}", 100, &[("a", 60)]);
    expect!["n1=3 n2=3 n3=2 n4=1 n5=1"].assert_eq(&placed(&mut grid(&nodes), &[shares]));
    let likes_racks = web(2).reserves(100, 1 << 20).with(|spec| {
        let constraint = constraint("rack", Operator::Equal, "r2");
        spec.scheduling.affinities.push(Affinity { constraint, weight: 100 });
    });
    expect!["n1=0 n2=1 n3=0 n4=1 n5=0"].assert_eq(&placed(&mut grid(&nodes), &[likes_racks]));
}

/// R-SPREAD-6: without targets every value gets its part, one that is new as well.
#[test]
fn even_spreads_reach_every_value() {
    let mut cluster = grid(&[("n1", "a", "r1"), ("n2", "b", "r1"), ("n3", "c", "r1")]);
    let even = |replicas| web(replicas).spread("datacenter", 50, &[]);
    let pinned = |replicas, hosts: &[&str]| even(replicas).hosts(hosts);
    placed(&mut cluster, &[pinned(2, &["n1", "n2"])]);
    cluster.join_as("n4", resources(4000, 8 << 30), &[("datacenter", "d"), ("rack", "r1")]);
    cluster.pass();
    expect!["n1=1 n2=1 n3=1 n4=0"].assert_eq(&placed(&mut cluster, &[even(3)]));
    expect!["n1=3 n2=2 n3=2 n4=2"].assert_eq(&placed(&mut cluster, &[even(9)]));
}

proptest! {
    /// R-SPREAD-6, R-RES-3, PL-9: no score puts more on a node than fits, and whatever fits is placed.
    #[test]
    fn capacity_is_checked_before_any_score(
        capacities in prop::collection::vec(0..4u64, 1..5),
        replicas in 0..12u32,
        spread in prop::option::of(prop::collection::vec(0..60u8, 0..2)),
        packed in any::<bool>(),
    ) {
        let mut cluster = Cluster::empty();
        for (number, capacity) in capacities.iter().enumerate() {
            let labels = [("datacenter", ["a", "b"][number % 2])];
            // A hundredth of a core is too little for anything; zero would declare nothing.
            let cpu = if *capacity == 0 { 10 } else { capacity * 1000 };
            cluster.join_as(&format!("n{number}"), resources(cpu, 0), &labels);
        }
        cluster.pass();
        let placement = if packed { Placement::Pack } else { Placement::Spread };
        let mut web = web(replicas).placement(placement).reserves(1000, 0);
        if let Some(percents) = spread {
            let targets: Vec<_> = ["a", "b"].into_iter().zip(percents).collect();
            web = web.spread("datacenter", 50, &targets);
        }
        cluster.apply("shop", &[web]);
        cluster.settle();
        let room: u64 = capacities.iter().sum();
        let counts = cluster.counts("shop", "web");
        let total: usize = counts.values().sum();
        prop_assert_eq!(total as u64, room.min(u64::from(replicas)));
        for (number, capacity) in capacities.iter().enumerate() {
            let here = counts[&format!("n{number}")] as u64;
            prop_assert!(here <= *capacity, "{} on n{}", here, number);
        }
    }
}
