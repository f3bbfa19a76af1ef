//! `pack`: which node is opened, by what is there of any service, and how long it is filled (R-PLACE-2).

use std::num::NonZeroU32;

use jaco_types::spec::Placement;
use jaco_types::{Availability, ReplicaState};

use crate::cluster::{Cluster, Service, resources, service};

fn packed(name: &str, replicas: u32) -> Service {
    service(name, name).replicas(replicas).placement(Placement::Pack)
}

/// Puts replicas of services of other deployments on hosts: `[("n1", 2), ("n2", 1)]`.
fn occupied(capacity: u64, replicas: &[(&str, u32)]) -> Cluster {
    let mut cluster = Cluster::empty();
    for (host, _) in replicas {
        cluster.join_with(host, resources(capacity, 0));
    }
    for (host, count) in replicas.iter().filter(|(_, count)| *count > 0) {
        let here = packed("other", *count).with(|spec| {
            let constraint = crate::cluster::constraint(
                "node.hostname",
                jaco_types::spec::Operator::Equal,
                host,
            );
            spec.scheduling.constraints.push(constraint);
        });
        cluster.apply(&format!("on-{host}"), &[here]);
    }
    cluster.settle();
    cluster
}

fn counts(cluster: &Cluster) -> Vec<usize> {
    cluster.counts("shop", "web").into_values().collect()
}

/// The node with the fewest replicas of any service is opened first; of equal ones the first by name.
#[test]
fn emptiest_node_is_opened_first() {
    for (others, expected) in [
        ([2, 1, 0], [0, 0, 4]),
        ([2, 0, 1], [0, 4, 0]),
        ([0, 0, 0], [4, 0, 0]),
        ([1, 1, 1], [4, 0, 0]),
        ([3, 1, 1], [0, 4, 0]),
    ] {
        let hosts = [("n1", others[0]), ("n2", others[1]), ("n3", others[2])];
        let mut cluster = occupied(0, &hosts);
        cluster.apply("shop", &[packed("web", 4)]);
        cluster.settle();
        assert_eq!(counts(&cluster), expected, "beside {others:?}");
    }
}

/// A node is filled up to its capacity; the next one is again the emptiest of the others, and what has
/// room nowhere waits.
#[test]
fn nodes_are_filled_one_by_one() {
    let hosts = [("n1", 2), ("n2", 0), ("n3", 1)];
    for (replicas, expected) in
        [(2, [0, 2, 0]), (3, [0, 2, 1]), (4, [0, 2, 2]), (5, [1, 2, 2]), (6, [2, 2, 2])]
    {
        let mut cluster = occupied(1000, &hosts);
        cluster.apply("shop", &[packed("web", replicas).reserves(400, 0)]);
        cluster.settle();
        assert_eq!(counts(&cluster), expected, "{replicas} replicas");
    }
    let mut cluster = occupied(1000, &hosts);
    cluster.apply("shop", &[packed("web", 9).reserves(400, 0)]);
    cluster.settle();
    assert_eq!(counts(&cluster), [2, 2, 2]);
    assert_eq!(cluster.reasons("shop", "web"), "3 no_eligible_node insufficient_cpu=3");
}

/// Counts are updated inside a pass: two services that come together open different nodes.
#[test]
fn services_of_one_apply_see_each_other() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[packed("db", 3), packed("web", 2)]);
    cluster.pass();
    let all = |name| cluster.counts("shop", name).into_values().collect::<Vec<_>>();
    assert_eq!((all("db"), all("web")), (vec![3, 0, 0], vec![0, 2, 0]));
}

/// A node that has some of the service is filled further, however many others are there.
#[test]
fn opened_node_is_filled_before_others() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[packed("web", 1)]);
    cluster.settle();
    cluster.apply(
        "blog",
        &[service("db", "db").replicas(4).hosts(&["n1"]).with(|spec| {
            spec.placement = Placement::Pack;
            spec.scheduling.constraints.push(crate::cluster::constraint(
                "node.hostname",
                jaco_types::spec::Operator::Equal,
                "n1",
            ));
        })],
    );
    cluster.settle();
    cluster.apply("shop", &[packed("web", 3)]);
    cluster.settle();
    assert_eq!(counts(&cluster), [3, 0]);
}

/// The most per node, a cordon and a taken port close a node that is being filled.
#[test]
fn closed_nodes_are_passed_over() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let web = packed("web", 3).with(|spec| spec.scheduling.max_per_node = NonZeroU32::new(2));
    cluster.apply("shop", &[web]);
    cluster.settle();
    assert_eq!(counts(&cluster), [2, 1]);
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[packed("web", 1)]);
    cluster.settle();
    cluster.set_availability("n1", Availability::Cordoned);
    cluster.apply("shop", &[packed("web", 3)]);
    cluster.settle();
    assert_eq!(counts(&cluster), [1, 2], "what is there stays");
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[packed("web", 3).host_port(80)]);
    cluster.settle();
    assert_eq!(counts(&cluster), [1, 1, 1]);
}

/// R-PLACE-7: packed replicas that are too many leave the nodes that have the fewest, so that these
/// become free; those that do not run go first.
#[test]
fn surplus_leaves_the_least_filled_node() {
    let spread_out = || {
        let mut cluster = Cluster::empty();
        for host in ["n1", "n2", "n3"] {
            cluster.join_with(host, resources(1200, 0));
        }
        cluster.apply("shop", &[packed("web", 7).reserves(400, 0)]);
        cluster.settle();
        assert_eq!(counts(&cluster), [3, 3, 1]);
        cluster
    };
    for (replicas, expected) in [(6, [3, 3, 0]), (5, [3, 2, 0]), (3, [3, 0, 0]), (1, [1, 0, 0])] {
        let mut cluster = spread_out();
        cluster.apply("shop", &[packed("web", replicas).reserves(400, 0)]);
        cluster.settle();
        assert_eq!(counts(&cluster), expected, "down to {replicas}");
    }
    let mut cluster = spread_out();
    cluster.see("shop-web-1", ReplicaState::Degraded);
    cluster.apply("shop", &[packed("web", 6).reserves(400, 0)]);
    cluster.pass();
    assert!(!cluster.show().contains("shop-web-1@"), "{}", cluster.show());
    assert_eq!(counts(&cluster), [2, 3, 1]);
}

/// R-CONS-3: with a minimum, packing goes by what is left: the tightest node that satisfies it.
#[test]
fn minimum_takes_the_tightest_node() {
    let mut cluster = Cluster::empty();
    for (host, memory) in [("n1", 6), ("n2", 4), ("n3", 2)] {
        cluster.join_with(host, resources(0, memory << 30));
    }
    let web = packed("web", 1).with(|spec| spec.scheduling.minimum = resources(0, 3 << 30));
    cluster.apply("shop", std::slice::from_ref(&web));
    cluster.settle();
    assert_eq!(counts(&cluster), [0, 1, 0]);
    let reserving = web.replicas(3).reserves(0, 2 << 30);
    cluster.apply("blog", &[reserving]);
    cluster.settle();
    let blog: Vec<_> = cluster.counts("blog", "web").into_values().collect();
    assert_eq!(blog, [2, 1, 0], "each is placed where the least is left that is enough");
}
