//! Which replica is removed and where it moves, by the order in which replicas are placed (PL-21).

use expect_test::expect;
use jaco_scheduler::rebalance::{Goal, arrange};
use jaco_types::spec::{Affinity, Operator, Placement};
use jaco_types::{Availability, ReplicaState};

use crate::cluster::{Cluster, Service, constraint, resources, service};

fn web(replicas: u32) -> Service {
    service("web", "web:1").replicas(replicas)
}

fn liking(service: Service, rack: &str) -> Service {
    let constraint = constraint("rack", Operator::Equal, rack);
    service.with(|spec| spec.scheduling.affinities.push(Affinity { constraint, weight: 50 }))
}

/// Two racks with two nodes each, for two replicas of `web` on each node.
fn racks() -> Cluster {
    let mut cluster = Cluster::empty();
    for (host, rack) in [("n1", "r1"), ("n2", "r1"), ("n3", "r2"), ("n4", "r2")] {
        cluster.join_as(host, resources(1000, 0), &[("rack", rack)]);
    }
    cluster.pass();
    cluster
}

fn applied(cluster: &mut Cluster, service: Service) -> String {
    cluster.apply("shop", &[service]);
    cluster.settle();
    let counts = cluster.counts("shop", "web");
    let counts = counts.into_iter().map(|(host, count)| format!("{host}={count}"));
    counts.collect::<Vec<_>>().join(" ")
}

/// R-PLACE-7, R-CONS-7: who is where the service likes to be stays, even on the fuller node.
#[test]
fn surplus_with_least_affinity_goes_first() {
    let mut cluster = racks();
    let sized = |replicas| liking(web(replicas).reserves(500, 0), "r2");
    expect!["n1=0 n2=1 n3=2 n4=2"].assert_eq(&applied(&mut cluster, sized(5)));
    expect!["n1=0 n2=0 n3=2 n4=2"].assert_eq(&applied(&mut cluster, sized(4)));
    expect!["n1=0 n2=0 n3=1 n4=1"].assert_eq(&applied(&mut cluster, sized(2)));
}

/// R-PLACE-2, R-PLACE-7: packed replicas leave the nodes that have the fewest, and come back to those that
/// have the most: down and up again ends where it began.
#[test]
fn scaling_down_keeps_replicas_packed() {
    let mut cluster = racks();
    let sized = |replicas| web(replicas).placement(Placement::Pack).reserves(250, 0);
    expect!["n1=4 n2=2 n3=0 n4=0"].assert_eq(&applied(&mut cluster, sized(6)));
    expect!["n1=4 n2=1 n3=0 n4=0"].assert_eq(&applied(&mut cluster, sized(5)));
    expect!["n1=3 n2=0 n3=0 n4=0"].assert_eq(&applied(&mut cluster, sized(3)));
    expect!["n1=4 n2=2 n3=0 n4=0"].assert_eq(&applied(&mut cluster, sized(6)));
}

/// R-CONS-3, R-PLACE-7: packed by what is left, the node becomes free that has the most to waste.
#[test]
fn scaling_down_frees_the_largest_node() {
    let mut cluster = Cluster::empty();
    for (host, memory) in [("n1", 600), ("n2", 400), ("n3", 900)] {
        cluster.join_with(host, resources(0, memory));
    }
    cluster.pass();
    let sized = |replicas| {
        let packed = web(replicas).placement(Placement::Pack).reserves(0, 300);
        packed.with(|spec| spec.scheduling.minimum = resources(0, 300))
    };
    expect!["n1=2 n2=1 n3=1"].assert_eq(&applied(&mut cluster, sized(4)));
    expect!["n1=2 n2=1 n3=0"].assert_eq(&applied(&mut cluster, sized(3)));
    expect!["n1=2 n2=0 n3=0"].assert_eq(&applied(&mut cluster, sized(2)));
}

/// R-PLACE-7, R-SPREAD-7: where more are idle than have to go, each domain gives what it has more than
/// its share, however full its nodes are.
#[test]
fn idle_surplus_goes_by_shares() {
    let mut cluster = Cluster::empty();
    for (host, rack) in [("n1", "r1"), ("n2", "r1"), ("n3", "r1"), ("n4", "r2")] {
        cluster.join_as(host, resources(0, 0), &[("rack", rack)]);
    }
    cluster.pass();
    let sized = |replicas| web(replicas).spread("rack", 50, &[]);
    expect!["n1=1 n2=1 n3=1 n4=3"].assert_eq(&applied(&mut cluster, sized(6)));
    let on = |host| {
        let node = cluster.node(host);
        let slots = cluster.state.slots.values().filter(|slot| slot.current.node == node);
        slots.map(|slot| slot.id.to_string()).collect::<Vec<_>>()
    };
    let idle = [on("n1"), on("n4")[..2].to_vec()].concat();
    for replica in idle {
        cluster.see(&replica, ReplicaState::Failed);
    }
    cluster.apply("shop", &[sized(4)]);
    cluster.pass();
    let counts = cluster.counts("shop", "web");
    assert_eq!((counts["n1"], counts["n2"], counts["n3"], counts["n4"]), (0, 1, 1, 2));
}

/// R-REB-9, R-CONS-7: order is not bought with affinity, and of nodes that bring the same the one is taken
/// that the service likes.
#[test]
fn rebalance_respects_affinities() {
    let mut cluster = racks();
    for host in ["n1", "n2", "n4"] {
        cluster.set_availability(host, Availability::Cordoned);
    }
    let liking = |rack| liking(web(2), rack);
    expect!["n1=0 n2=0 n3=2 n4=0"].assert_eq(&applied(&mut cluster, liking("r2")));
    for host in ["n1", "n2"] {
        cluster.set_availability(host, Availability::Active);
    }
    assert_eq!(arrange(&cluster.state, Goal::Spread, 10), vec![], "both are where it likes to be");
    cluster.set_availability("n4", Availability::Active);
    let moves = arrange(&cluster.state, Goal::Spread, 10);
    assert_eq!(moves.iter().map(|one| one.dst).collect::<Vec<_>>(), [cluster.node("n4")]);
}
