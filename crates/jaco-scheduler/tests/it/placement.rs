//! Where replicas go, and what is reported of those without a node.

use expect_test::{Expect, expect};
use jaco_scheduler::input::EngineSignal;
use jaco_scheduler::{Ineligible, explain};
use jaco_state::command::Disabling;
use jaco_types::spec::{OnNodeLoss, Placement};
use jaco_types::termination::{TERMINATIONS_MAX, TerminationOutcome};
use jaco_types::{
    AllocationScope, Availability, DesiredState, Millis, NodeStatus, ReplicaState, ServiceKey,
    Timestamp,
};

use crate::cluster::{Cluster, Service, key, resources, service};

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
fn spread_distributes_replicas() {
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
fn pinned_hosts_are_all_or_nothing() {
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

/// R-NODE-1: the replicas of an unreachable node are placed elsewhere; those with data wait for it and say so.
#[test]
fn movable_replicas_leave_an_unreachable_node() {
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

fn on_loss(policy: OnNodeLoss) -> Cluster {
    let mut cluster = deployed(
        &["n1", "n2"],
        service("web", "web:1").replicas(2).with(|spec| spec.on_node_loss = policy),
    );
    check(&cluster, expect!["shop-web-0@n1 shop-web-1@n2"]);
    cluster.advance(Millis::from_secs(15), &["n2"]);
    cluster.settle();
    check(&cluster, expect!["shop-web-0@n1 shop-web-1@n2"]);
    cluster
}

/// R-NODE-1: a replica whose node stops it by itself is placed elsewhere after 11/10 of the time that
/// the node may take, not a moment earlier, and says for how long it waits.
#[test]
fn replica_waits_until_its_node_has_stopped_it() {
    let (after, grace) = (Millis::from_secs(20), Millis::from_secs(10));
    let mut cluster = on_loss(OnNodeLoss::StopSelf { after, grace });
    expect![
        "1 waiting_for_node node=n2 on_node_loss=stop_self replaced_after=44s replica=shop-web-1"
    ]
    .assert_eq(&cluster.reasons("shop", "web"));
    cluster.advance(Millis(28_999), &["n2"]);
    cluster.settle();
    check(&cluster, expect!["shop-web-0@n1 shop-web-1@n2"]);
    assert_eq!(cluster.plan().wake_at, Some(cluster.now.after(Millis(1))));
    cluster.advance(Millis(1), &["n2"]);
    cluster.settle();
    check(&cluster, expect!["shop-web-0@n1 shop-web-1@n1"]);
}

/// R-NODE-1: one that waits for its node does so for good.
#[test]
fn replica_waits_for_its_node_for_ever_if_asked() {
    let mut cluster = on_loss(OnNodeLoss::Wait);
    cluster.advance(Millis::from_secs(1_000_000), &["n2"]);
    cluster.settle();
    check(&cluster, expect!["shop-web-0@n1 shop-web-1@n2"]);
    expect!["1 waiting_for_node node=n2 on_node_loss=wait replica=shop-web-1"]
        .assert_eq(&cluster.reasons("shop", "web"));
}

/// R-NODE-1: a node whose disk is full keeps what it has and takes nothing new, and says why.
#[test]
fn node_with_a_full_disk_takes_no_new_replicas() {
    let mut cluster = deployed(&["n1", "n2"], service("web", "web:1").replicas(2));
    let node = cluster.node("n2");
    let full = "the disk of / is 96% full".to_owned();
    cluster.signals.nodes.get_mut(&node).unwrap().engine = EngineSignal::DiskFull(full.clone());
    cluster.apply("shop", &[service("web", "web:1").replicas(4)]);
    cluster.settle();
    check(&cluster, expect!["shop-web-0@n1 shop-web-1@n2 shop-web-2@n1 shop-web-3@n1"]);
    let key = ServiceKey { deployment: "shop".parse().unwrap(), service: "web".parse().unwrap() };
    let answers = explain(&cluster.input(), &key).unwrap();
    let failed: Vec<_> = answers.iter().map(|answer| answer.failed.clone()).collect();
    assert_eq!(failed, [vec![], vec![Ineligible::DiskFull { reason: full }]]);
}

/// R-NODE-1, SIM-21: what is enabled again, or is another run of a job, is new to a node whose disk is full: it starts on
/// another one. What has its data there starts there all the same.
#[test]
fn nothing_starts_again_on_a_full_disk_but_what_has_its_data_there() {
    for (web, elsewhere) in [
        (service("web", "web:1").replicas(1), true),
        (service("web", "web:1").replicas(1).stateful(), false),
    ] {
        let mut cluster = deployed(&["n1", "n2"], web);
        let host = cluster.show().split('@').nth(1).expect("it is placed").trim().to_owned();
        let scope = [AllocationScope::Service(key("shop", "web"))];
        cluster.set_disabled(Disabling::Disable, &scope);
        cluster.settle();
        let node = cluster.node(&host);
        cluster.signals.nodes.get_mut(&node).unwrap().engine =
            EngineSignal::DiskFull("/ is 96% full".to_owned());
        cluster.settle();
        cluster.set_disabled(Disabling::Enable, &scope);
        cluster.settle();
        let slot = cluster.slot("shop-web-0");
        assert_eq!(slot.desired_state, DesiredState::Active);
        assert_eq!(slot.current.node != node, elsewhere, "{}", cluster.show());
    }
}

/// R-HEAL-1: a node whose daemon has just started and has no word of its engine yet is what it was before; if it was down, that
/// is not so any more, and it takes nothing until its engine has answered.
#[test]
fn node_whose_engine_is_not_known_yet_is_as_before() {
    let mut cluster = deployed(&["n1", "n2"], service("web", "web:1").replicas(2));
    let node = cluster.node("n2");
    let signal = |cluster: &mut Cluster, engine| {
        cluster.signals.nodes.get_mut(&node).unwrap().engine = engine;
        cluster.settle();
        cluster.state.nodes.get(&node).unwrap().status
    };
    assert_eq!(signal(&mut cluster, EngineSignal::Unknown), NodeStatus::Ready);
    check(&cluster, expect!["shop-web-0@n1 shop-web-1@n2"]);
    let down = EngineSignal::Down("no socket".to_owned());
    assert_eq!(signal(&mut cluster, down), NodeStatus::EngineDown);
    assert_eq!(signal(&mut cluster, EngineSignal::Unknown), NodeStatus::EngineDown);
    assert_eq!(signal(&mut cluster, EngineSignal::Up), NodeStatus::Ready);
    cluster.advance(Millis::from_secs(10), &["n2"]);
    cluster.settle();
    assert_eq!(cluster.state.nodes.get(&node).unwrap().status, NodeStatus::Down);
    cluster.advance(Millis::from_secs(1), &[]);
    assert_eq!(signal(&mut cluster, EngineSignal::Unknown), NodeStatus::EngineDown);
}

/// R-NODE-2: draining moves start-first; the old instance serves until the new one runs.
#[test]
fn drained_replica_overlaps_with_its_successor() {
    let mut cluster = deployed(&["n1", "n2", "n3"], service("web", "web:1").replicas(3));
    cluster.set_availability("n1", Availability::Draining);
    cluster.pass();
    check(&cluster, expect!["shop-web-0@n2 shop-web-1@n3 shop-web-2@n3<n1"]);
    cluster.settle();
    check(&cluster, expect!["shop-web-0@n2 shop-web-1@n3 shop-web-2@n3"]);
}

/// R-HEAL-1, R-HEAL-2: each failed instance counts once; the third in a row is the last.
#[test]
fn third_failure_in_a_row_exhausts_the_budget() {
    let mut cluster = deployed(&["n1"], service("web", "web:1"));
    for _ in 0..5 {
        cluster.see("shop-web-0", ReplicaState::Failed);
        cluster.advance(Millis(1000), &[]);
        cluster.pass();
    }
    expect!["RestartCount { consecutive: 3, exhausted: Yes }"]
        .assert_eq(&format!("{:?}", cluster.slot("shop-web-0").restarts));
}

/// R-HEAL-1: the first failure is answered at once, the second after a second; the moment of that is
/// known beforehand, and a node whose clock is ahead is not waited for.
#[test]
fn second_failure_in_a_row_is_backed_off() {
    let mut cluster = deployed(&["n1"], service("web", "web:1"));
    cluster.see("shop-web-0", ReplicaState::Failed);
    assert_eq!(Cluster::causes(&cluster.pass()), ["shop-web-0:failed"]);
    cluster.see("shop-web-0", ReplicaState::Failed);
    let plan = cluster.plan();
    assert_eq!(plan.changes, vec![]);
    assert_eq!(plan.wake_at, Some(cluster.now.after(Millis(1000))));
    cluster.advance(Millis(999), &[]);
    assert_eq!(cluster.plan().changes, vec![]);
    cluster.advance(Millis(1), &[]);
    assert_eq!(Cluster::causes(&cluster.plan()), ["shop-web-0:failed"]);
    cluster.now = Timestamp(cluster.now.0 - 5000);
    assert_eq!(
        Cluster::causes(&cluster.plan()),
        ["shop-web-0:failed"],
        "its node's clock is ahead"
    );
}

/// R-HEAL-4: the last terminations are kept with the slot, the newest last, and are removed with it.
#[test]
fn terminations_are_kept_and_bounded() {
    let mut cluster = deployed(&["n1"], service("web", "web:1"));
    for _ in 0..4 {
        // An apply between the failures gives a new budget each time.
        for _ in 0..2 {
            cluster.see("shop-web-0", ReplicaState::Failed);
            cluster.advance(Millis(1000), &[]);
            cluster.pass();
        }
        cluster.apply("shop", &[service("web", "web:1")]);
    }
    let terminations = &cluster.slot("shop-web-0").terminations;
    assert_eq!(terminations.len(), TERMINATIONS_MAX);
    assert!(
        terminations.is_sorted_by_key(|termination| termination.raft_index),
        "{terminations:?}"
    );
    assert!(
        terminations.iter().all(|termination| termination.outcome == TerminationOutcome::Restarted)
    );
    // A replica that was well has no story to tell.
    cluster.settle();
    let before = cluster.slot("shop-web-0").terminations.clone();
    cluster.apply("shop", &[service("web", "web:2")]);
    cluster.settle();
    assert_eq!(cluster.slot("shop-web-0").terminations, before);
}
