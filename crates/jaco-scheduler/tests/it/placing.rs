//! Where replicas go, and what is said of those that go nowhere.

use expect_test::{Expect, expect};
use jaco_types::spec::Placement;
use jaco_types::{Availability, Millis, ReplicaState};

use crate::cluster::{Cluster, Service, resources, service};

fn check(cluster: &Cluster, expected: Expect) {
    expected.assert_eq(&cluster.show());
}

fn deployed(hosts: &[&str], service: Service) -> Cluster {
    let mut cluster = Cluster::of(hosts);
    cluster.apply("shop", &[service]);
    cluster.settle();
    cluster
}

/// R-PLACE-1, R-PLACE-5: one on each of three nodes, named from a counter.
#[test]
fn spread_spreads() {
    let cluster = deployed(&["n1", "n2", "n3"], service("web", "web:1").replicas(3));
    check(&cluster, expect!["shop-web-0@n2 shop-web-1@n3 shop-web-2@n1"]);
}

/// R-PLACE-2: the emptiest node is filled to its capacity before the next is opened.
#[test]
fn pack_fills_one_node_after_another() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2", "n3"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    let packed = service("web", "web:1").replicas(5).placement(Placement::Pack).reserves(400, 0);
    cluster.apply("shop", &[packed]);
    cluster.settle();
    check(
        &cluster,
        expect!["shop-web-0@n1 shop-web-1@n1 shop-web-2@n2 shop-web-3@n2 shop-web-4@n3"],
    );
}

/// R-PLACE-3: nothing at all where the pinned hosts are too few, and all of it once they are not.
#[test]
fn hosts_are_all_or_nothing() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.set_availability("n2", Availability::Cordoned);
    cluster.apply("shop", &[service("web", "web:1").replicas(2).hosts(&["n1", "n2"])]);
    cluster.settle();
    check(&cluster, expect![[""]]);
    expect!["2 cannot_satisfy_host_placement cordoned=1 missing=n2 not_pinned=1"]
        .assert_eq(&cluster.reasons("shop", "web"));
    cluster.set_availability("n2", Availability::Active);
    cluster.settle();
    check(&cluster, expect!["shop-web-0@n1 shop-web-1@n2"]);
    expect![[""]].assert_eq(&cluster.reasons("shop", "web"));
}

/// R-PLACE-4: one on each ready node; the count follows the nodes and survivors stay.
#[test]
fn global_follows_the_nodes() {
    let agent = service("agent", "agent:1").placement(Placement::Global);
    let mut cluster = deployed(&["n1", "n2"], agent);
    check(&cluster, expect!["shop-agent-n1@n1 shop-agent-n2@n2"]);
    cluster.join("n3");
    cluster.settle();
    check(&cluster, expect!["shop-agent-n1@n1 shop-agent-n2@n2 shop-agent-n3@n3"]);
    cluster.set_availability("n1", Availability::Draining);
    cluster.settle();
    check(&cluster, expect!["shop-agent-n2@n2 shop-agent-n3@n3"]);
}

/// R-NODE-1: the replicas of a silent node go elsewhere; those with data wait for it and say so.
#[test]
fn a_silent_node_loses_what_can_move() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply(
        "shop",
        &[service("db", "db:1").replicas(3).stateful(), service("web", "w").replicas(3)],
    );
    cluster.settle();
    check(
        &cluster,
        expect!["shop-db-0@n3 shop-db-1@n1 shop-db-2@n2 shop-web-0@n2 shop-web-1@n3 shop-web-2@n1"],
    );
    cluster.advance(Millis::from_secs(15), &["n2"]);
    cluster.settle();
    check(
        &cluster,
        expect!["shop-db-0@n3 shop-db-1@n1 shop-db-2@n2 shop-web-0@n1 shop-web-1@n3 shop-web-2@n1"],
    );
    expect!["1 waiting_for_node data_elsewhere=2 node=n2 not_ready=1 replica=shop-db-2"]
        .assert_eq(&cluster.reasons("shop", "db"));
    cluster.advance(Millis(1), &[]);
    cluster.settle();
    check(
        &cluster,
        expect!["shop-db-0@n3 shop-db-1@n1 shop-db-2@n2 shop-web-0@n1 shop-web-1@n3 shop-web-2@n1"],
    );
    expect![[""]].assert_eq(&cluster.reasons("shop", "db"));
}

/// R-NODE-2: draining moves start-first; the old instance serves until the new one runs.
#[test]
fn draining_overlaps() {
    let mut cluster = deployed(&["n1", "n2", "n3"], service("web", "web:1").replicas(3));
    cluster.set_availability("n1", Availability::Draining);
    cluster.pass();
    check(&cluster, expect!["shop-web-0@n2 shop-web-1@n3 shop-web-2@n3<n1"]);
    cluster.settle();
    check(&cluster, expect!["shop-web-0@n2 shop-web-1@n3 shop-web-2@n3"]);
}

/// R-HEAL-1, R-HEAL-2: each failed instance counts once; the third in a row is the last.
#[test]
fn the_third_failure_in_a_row_is_the_last() {
    let mut cluster = deployed(&["n1"], service("web", "web:1"));
    for _ in 0..5 {
        cluster.see("shop-web-0", ReplicaState::Failed);
        cluster.pass();
    }
    expect!["RestartCount { consecutive: 3, exhausted: Yes }"]
        .assert_eq(&format!("{:?}", cluster.slot("shop-web-0").restarts));
}
