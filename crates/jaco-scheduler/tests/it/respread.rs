//! R-SPREAD-7: a rollout starts replicas where the spread lacks one, and moves nothing else.

use expect_test::expect;
use jaco_types::spec::{Placement, UpdateOrder};
use jaco_types::{Availability, Millis};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, resources, service};

const HOSTS: [&str; 6] = ["a-r1-0", "a-r1-1", "a-r2-0", "b-r1-0", "b-r1-1", "b-r2-0"];

/// Two data centres with two racks each, of one or two nodes.
fn grid() -> Cluster {
    let mut cluster = Cluster::empty();
    for host in HOSTS {
        let (centre, rest) = host.split_once('-').unwrap();
        let (rack, _) = rest.split_once('-').unwrap();
        cluster.join_as(host, resources(0, 0), &[("datacenter", centre), ("rack", rack)]);
    }
    cluster.pass();
    cluster
}

fn web(version: u32, replicas: u32) -> Service {
    service("web", &format!("web:{version}")).replicas(replicas)
}

/// A node says nothing until its replicas are elsewhere, and is back then.
fn lose(cluster: &mut Cluster, host: &str) {
    for _ in 0..4 {
        cluster.advance(Millis::from_secs(15), &[host]);
        cluster.pass();
        cluster.obey();
    }
    cluster.advance(Millis(1), &[]);
    cluster.settle();
}

/// Three replicas on two of three nodes, because the third was down for a while.
fn skewed() -> Cluster {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let db = service("db", "db:1").replicas(2);
    cluster.apply("shop", &[web(1, 3), db]);
    cluster.settle();
    lose(&mut cluster, "n3");
    cluster
}

/// R-SPREAD-7: after the loss and return of a node the next rollout brings one replica back to it, the
/// others keep their nodes, and a service that did not change stays where it is.
#[test]
fn rollout_returns_to_a_node_that_came_back() {
    let mut cluster = skewed();
    let db = service("db", "db:1").replicas(2);
    expect!["shop-db-0@n2 shop-db-1@n1 shop-web-0@n2 shop-web-1@n1 shop-web-2@n1"]
        .assert_eq(&cluster.show());
    cluster.apply("shop", &[web(2, 3), db.clone()]);
    cluster.settle();
    expect!["shop-db-0@n2 shop-db-1@n1 shop-web-0@n2 shop-web-1@n3 shop-web-2@n1"]
        .assert_eq(&cluster.show());
    // There is nothing to be gained: all keep their nodes.
    let before = cluster.show();
    cluster.apply("shop", &[web(3, 3), db]);
    cluster.settle();
    assert_eq!(cluster.show(), before);
}

/// R-ROLL-4: the old instance serves until the one on the other node does; with `order: stop-first` it
/// ends first, there as anywhere.
#[test]
fn order_is_kept_across_nodes() {
    let second_step = |order| {
        let mut cluster = skewed();
        let change = web(2, 3).with(|spec| spec.update.order = order);
        cluster.apply("shop", &[change]);
        for _ in 0..4 {
            cluster.pass();
            if cluster.slot("shop-web-1").current.revision.0 == 2 {
                return cluster.show();
            }
            cluster.obey();
            cluster.advance(Millis::from_secs(6), &[]);
        }
        panic!("no second step: {}", cluster.show());
    };
    expect!["shop-web-0@n2 shop-web-1@n3<n1 shop-web-2@n1"]
        .assert_eq(&second_step(UpdateOrder::StartFirst));
    expect!["shop-web-0@n2 shop-web-1@n3 shop-web-2@n1"]
        .assert_eq(&second_step(UpdateOrder::StopFirst));
}

/// PL-8, R-PLACE-2, R-CONS-6: what has data, is packed or stands with others keeps its node.
#[test]
fn what_is_not_free_keeps_its_node() {
    let moved = |make: &dyn Fn(u32) -> Vec<Service>| {
        let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
        cluster.set_availability("n3", Availability::Draining);
        cluster.apply("shop", &make(1));
        cluster.settle();
        cluster.set_availability("n3", Availability::Active);
        let before = cluster.show();
        cluster.apply("shop", &make(2));
        cluster.settle();
        before != cluster.show()
    };
    assert!(moved(&|version| vec![web(version, 3)]), "without any of that one moves");
    assert!(!moved(&|version| vec![web(version, 3).stateful()]));
    assert!(!moved(&|version| vec![web(version, 3).placement(Placement::Pack)]));
    let beside = |spec: &mut jaco_types::ServiceSpec| {
        spec.scheduling.shares_namespaces_with.insert("web".parse().unwrap());
    };
    assert!(!moved(&|version| vec![
        web(version, 3),
        service("side", "side:1").replicas(3).with(beside)
    ]));
}

/// What happens before the last rollout.
#[derive(Debug, Clone)]
enum Step {
    Roll,
    Scale(u32),
    Drain(usize),
    Return(usize),
    Lose(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Roll),
        3 => (0..14u32).prop_map(Step::Scale),
        2 => (0..HOSTS.len()).prop_map(Step::Drain),
        2 => (0..HOSTS.len()).prop_map(Step::Return),
        2 => (0..HOSTS.len()).prop_map(Step::Lose),
    ]
}

/// How many replicas the values of a level have, from the fewest to the most.
fn level(cluster: &Cluster, labels: &[&str]) -> Vec<usize> {
    let mut counts: Vec<_> = cluster.domains("shop", "web", labels).into_values().collect();
    counts.sort_unstable();
    counts
}

/// By how many replicas the nodes of a domain differ at most.
fn node_skew(cluster: &Cluster, within: &str) -> usize {
    let counts = cluster.counts("shop", "web");
    let length = match within {
        "rack" => "a-r1".len(),
        "datacenter" => "a".len(),
        _ => 0,
    };
    let domains = HOSTS.map(|host| &host[..length]);
    let skew = |domain: &&str| {
        let here = counts.iter().filter(|(host, _)| host.starts_with(domain));
        let here: Vec<usize> = here.map(|(_, count)| *count).collect();
        here.iter().max().unwrap() - here.iter().min().unwrap()
    };
    domains.iter().map(skew).max().unwrap()
}

proptest! {
    /// R-SPREAD-7: any history of rolls, scalings, drains, losses and returns that ends with a rollout
    /// ends with the skew that a fresh deployment of that size has, on each level of the spread; and a
    /// second rollout moves nothing.
    #[test]
    fn any_history_that_ends_with_a_rollout_is_spread_like_a_fresh_deployment(
        steps in prop::collection::vec(step(), 0..12),
        last in prop::option::of(0..14u32),
        criteria in 0..3usize,
        parallelism in 1..4u32,
        order in prop_oneof![Just(UpdateOrder::StartFirst), Just(UpdateOrder::StopFirst)],
    ) {
        let sized = |version, count| {
            let made = web(version, count).with(|spec| {
                spec.update.parallelism = parallelism;
                spec.update.order = order;
            });
            let made = if criteria > 0 { made.spread("datacenter", 60, &[]) } else { made };
            if criteria > 1 { made.spread("rack", 40, &[]) } else { made }
        };
        let (mut version, mut count) = (1, 4);
        let mut cluster = grid();
        cluster.apply("shop", &[sized(version, count)]);
        cluster.settle();
        for step in &steps {
            match step {
                Step::Roll => version += 1,
                Step::Scale(to) => count = *to,
                Step::Drain(at) => cluster.set_availability(HOSTS[*at], Availability::Draining),
                Step::Return(at) => cluster.set_availability(HOSTS[*at], Availability::Active),
                Step::Lose(at) => lose(&mut cluster, HOSTS[*at]),
            }
            if matches!(step, Step::Roll | Step::Scale(_)) {
                cluster.apply("shop", &[sized(version, count)]);
            }
            cluster.settle();
        }
        for host in HOSTS {
            cluster.set_availability(host, Availability::Active);
        }
        cluster.settle();
        count = last.unwrap_or(count);
        cluster.apply("shop", &[sized(version + 1, count)]);
        cluster.settle();
        let mut fresh = grid();
        fresh.apply("shop", &[sized(1, count)]);
        fresh.settle();
        let levels: [&[&str]; 2] = [&["datacenter"], &["datacenter", "rack"]];
        for labels in &levels[..criteria] {
            prop_assert_eq!(level(&cluster, labels), level(&fresh, labels), "{:?}", labels);
        }
        let within = ["", "datacenter", "rack"][criteria];
        prop_assert!(node_skew(&cluster, within) <= 1, "{}", cluster.show());
        let before = cluster.show();
        cluster.apply("shop", &[sized(version + 2, count)]);
        cluster.settle();
        prop_assert_eq!(cluster.show(), before);
    }
}

/// R-SPREAD-7: a rollout of one service moves no replica of another, skewed as that is; and one that has
/// nothing to gain keeps its nodes.
#[test]
fn nothing_else_moves() {
    let mut cluster = skewed();
    let before = cluster.show();
    cluster.apply("shop", &[web(1, 3), service("db", "db:2").replicas(2)]);
    let mut replaced = Vec::new();
    for _ in 0..8 {
        let plan = cluster.pass();
        replaced.extend(Cluster::causes(&plan));
        cluster.obey();
        cluster.advance(Millis::from_secs(6), &[]);
    }
    expect!["shop-db-0:spec_changed shop-db-1:spec_changed"].assert_eq(&replaced.join(" "));
    assert_eq!(cluster.show(), before, "and one each is as good as any other");
}
