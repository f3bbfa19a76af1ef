//! Colocated services, and how many replicas of one a node may have.

use std::num::NonZeroU32;

use expect_test::{Expect, expect};
use jaco_state::command::{Change, DeploymentDelete, Disabling};
use jaco_types::spec::Placement;
use jaco_types::{AllocationScope, Availability, Millis, ReplicaState};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, key, resources, service};
use crate::events::{Event, events, happen};

fn check(cluster: &Cluster, expected: Expect) {
    expected.assert_eq(&cluster.show());
}

/// A service that shares a namespace with `web`; its name comes before.
fn beside(replicas: u32) -> Service {
    service("agent", "a").replicas(replicas).with(|spec| {
        spec.scheduling.shares_namespaces_with.insert("web".parse().unwrap());
    })
}

fn placed_with(replicas: u32) -> Service {
    service("agent", "a").replicas(replicas).with(|spec| {
        spec.scheduling.place_with.insert("web".parse().unwrap());
    })
}

fn at_most(max: u32) -> impl FnOnce(&mut jaco_types::ServiceSpec) {
    move |spec| spec.scheduling.max_per_node = NonZeroU32::new(max)
}

/// How many replicas of each of the two every node has.
fn pairs(cluster: &Cluster) -> Vec<(usize, usize)> {
    let (web, agent) = (cluster.counts("shop", "web"), cluster.counts("shop", "agent"));
    web.values().copied().zip(agent.values().copied()).collect()
}

/// R-CONS-6: a node gets no more of a service than `max`, and what is more than that waits and says why.
#[test]
fn max_bounds_the_replicas_on_a_node() {
    for placement in [Placement::Spread, Placement::Pack] {
        let mut cluster = Cluster::of(&["n1", "n2"]);
        let web = service("web", "w").replicas(5).placement(placement).with(at_most(2));
        cluster.apply("shop", &[web]);
        cluster.settle();
        assert_eq!(cluster.counts("shop", "web").into_values().collect::<Vec<_>>(), [2, 2]);
        expect!["1 no_eligible_node max_per_node=2"].assert_eq(&cluster.reasons("shop", "web"));
        cluster.join("n3");
        cluster.settle();
        assert_eq!(cluster.counts("shop", "web").into_values().collect::<Vec<_>>(), [2, 2, 1]);
    }
}

/// R-CONS-1, R-CONS-6: the cluster's `max` holds of those who say nothing about it. R-CONS-4: it moves
/// nobody.
#[test]
fn max_of_the_cluster_is_the_default() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.constrain("max", "1");
    let own = service("own", "o").replicas(2).with(|spec| {
        spec.scheduling.own_keys.insert("max".to_owned());
    });
    cluster.apply("shop", &[service("web", "w").replicas(2), own]);
    cluster.settle();
    check(&cluster, expect!["shop-own-0@n1 shop-own-1@n1 shop-web-0@n1"]);
}

/// R-CONS-6: with a minimum and a share of each domain, `max` holds as well.
#[test]
fn max_holds_together_with_every_other_rule() {
    let mut cluster = Cluster::empty();
    for (host, zone) in [("n1", "a"), ("n2", "b"), ("n3", "b")] {
        cluster.join_as(host, resources(4000, 0), &[("zone", zone)]);
    }
    let web = service("web", "w").replicas(6).spread("zone", 50, &[("a", 80)]);
    let web = web.with(at_most(1)).with(|spec| spec.scheduling.minimum = resources(100, 0));
    cluster.apply("shop", &[web]);
    cluster.settle();
    assert_eq!(cluster.counts("shop", "web").into_values().collect::<Vec<_>>(), [1, 1, 1]);
}

/// R-CONS-6: `place-with` takes any node that has one of the other service, and only those.
#[test]
fn place_with_follows_the_other_service() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3", "n4"]);
    cluster.apply("shop", &[placed_with(4), service("web", "w").replicas(2)]);
    cluster.settle();
    check(
        &cluster,
        expect![
            "shop-agent-0@n1 shop-agent-1@n3 shop-agent-2@n1 shop-agent-3@n3 shop-web-0@n1 shop-web-1@n3"
        ],
    );
}

/// R-CONS-6, PL-7: without the other there is no place, and every node says so. The two come in one
/// pass once there is one.
#[test]
fn place_with_needs_the_other_service() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[placed_with(1), service("web", "w").replicas(0)]);
    cluster.settle();
    check(&cluster, expect![[""]]);
    expect!["1 no_eligible_node not_beside=2"].assert_eq(&cluster.reasons("shop", "agent"));
    cluster.apply("shop", &[placed_with(1), service("web", "w").replicas(1)]);
    cluster.pass();
    check(&cluster, expect!["shop-agent-0@n1 shop-web-0@n1"]);
}

/// R-CONS-4: `place-with` counts only when a replica gets a node, and moves none later.
#[test]
fn place_with_counts_only_at_placement() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[placed_with(2), service("web", "w").replicas(2)]);
    cluster.settle();
    let before = cluster.show();
    cluster.set_availability("n1", Availability::Draining);
    cluster.set_availability("n1", Availability::Active);
    cluster.apply("shop", &[placed_with(2), service("web", "w").replicas(0)]);
    cluster.settle();
    assert!(before.contains(&cluster.show()), "{} became {}", before, cluster.show());
}

/// R-IN-2, R-CONS-6: who shares a namespace has one of the other for itself on each node, as far as
/// there are enough, and only where it runs.
#[test]
fn paired_replicas_come_one_by_one() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[beside(3), service("web", "w").replicas(3)]);
    cluster.pass();
    assert!(!cluster.show().contains("agent"), "{}: no web runs yet", cluster.show());
    expect!["3 no_eligible_node not_beside=2"].assert_eq(&cluster.reasons("shop", "agent"));
    cluster.settle();
    let pairs = pairs(&cluster);
    assert!(pairs.iter().all(|(web, agent)| web == agent), "{pairs:?}");
    cluster.apply("shop", &[beside(5), service("web", "w").replicas(3)]);
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "agent"), "", "more than pairs share");
}

/// R-IN-2: of two partners on one node of which one runs, only one can be shared with so far.
#[test]
fn paired_replica_waits_for_its_partner() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[beside(2), service("web", "w").replicas(2)]);
    cluster.pass();
    cluster.see("shop-web-0", ReplicaState::Running);
    cluster.pass();
    assert_eq!(pairs(&cluster), [(2, 1)]);
    expect!["1 no_eligible_node partner_to_come=1"].assert_eq(&cluster.reasons("shop", "agent"));
    cluster.see("shop-web-1", ReplicaState::Running);
    cluster.pass();
    assert_eq!(pairs(&cluster), [(2, 2)]);
}

/// R-IN-2, R-NODE-2: who shares a namespace goes where the other goes, once that runs there.
#[test]
fn paired_replica_follows_its_partner() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[beside(1), service("web", "w").replicas(1)]);
    cluster.settle();
    check(&cluster, expect!["shop-agent-0@n1 shop-web-0@n1"]);
    cluster.set_availability("n1", Availability::Draining);
    cluster.pass();
    check(&cluster, expect!["shop-agent-0@n1 shop-web-0@n2<n1"]);
    cluster.settle();
    check(&cluster, expect!["shop-agent-0@n2 shop-web-0@n2"]);
}

/// R-IN-2: a namespace ends with its container, so a sharer restarts after it, and only once
/// that runs; a failure for want of it is no strike.
#[test]
fn namespace_sharer_restarts_with_its_partner() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[beside(1), service("web", "w").replicas(1)]);
    cluster.settle();
    let first = cluster.slot("shop-agent-0").current.raft_index;
    cluster.see("shop-web-0", ReplicaState::Failed);
    cluster.see("shop-agent-0", ReplicaState::Failed);
    let plan = cluster.pass();
    assert_eq!(Cluster::causes(&plan), ["shop-web-0:failed"]);
    assert_eq!(cluster.slot("shop-agent-0").current.raft_index, first, "web does not run");
    cluster.obey();
    let plan = cluster.pass();
    assert_eq!(Cluster::causes(&plan), ["shop-agent-0:colocated_replaced"]);
    assert_eq!(cluster.slot("shop-agent-0").restarts.consecutive, 0);
    cluster.settle();
    assert!(cluster.slot("shop-agent-0").current.raft_index > first);
}

/// R-IN-2, R-ROLL-1: a rollout of both takes the shared one first.
#[test]
fn namespace_sharer_is_rolled_after_its_partner() {
    let mut cluster = Cluster::of(&["n1"]);
    let agent = |image: &str| {
        service("agent", image).replicas(1).with(|spec| {
            spec.scheduling.shares_namespaces_with.insert("web".parse().unwrap());
        })
    };
    cluster.apply("shop", &[agent("a1"), service("web", "w1").replicas(1)]);
    cluster.settle();
    cluster.apply("shop", &[agent("a2"), service("web", "w2").replicas(1)]);
    let plan = cluster.pass();
    assert_eq!(Cluster::causes(&plan), ["shop-web-0:spec_changed"]);
    assert!(cluster.reasons("shop", "agent").contains("waiting_for_neighbour beside=web"));
    cluster.settle();
    let (web, agent) = (cluster.slot("shop-web-0"), cluster.slot("shop-agent-0"));
    assert!(agent.current.raft_index > web.current.raft_index);
    assert_eq!(cluster.reasons("shop", "agent"), "");
}

/// R-CONS-6: `scale-with` is one on every node that has one of the other, and follows it.
#[test]
fn scale_with_follows_the_count_of_the_partner() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let agent = || beside(0).placement(Placement::Global);
    cluster.apply("shop", &[agent(), service("web", "w").replicas(2)]);
    cluster.settle();
    check(&cluster, expect!["shop-agent-n2@n2 shop-agent-n3@n3 shop-web-0@n2 shop-web-1@n3"]);
    cluster.apply("shop", &[agent(), service("web", "w").replicas(3)]);
    cluster.settle();
    assert_eq!(pairs(&cluster), [(1, 1), (1, 1), (1, 1)]);
    cluster.apply("shop", &[agent(), service("web", "w").replicas(1)]);
    cluster.settle();
    let pairs = pairs(&cluster);
    assert!(pairs.iter().all(|(web, agent)| web == agent), "{pairs:?}");
}

/// R-NODE-1: on a lost node both are lost, and both come back together.
#[test]
fn colocated_replicas_both_leave_a_lost_node() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[beside(2), service("web", "w").replicas(2)]);
    cluster.settle();
    assert_eq!(pairs(&cluster), [(1, 1), (1, 1)]);
    cluster.advance(jaco_types::Millis::from_secs(20), &["n1"]);
    cluster.settle();
    assert_eq!(pairs(&cluster), [(0, 0), (2, 2)]);
}

/// R-LOOP-6: services that are colocated in a circle, which is not admitted, are planned as well.
#[test]
fn circular_colocation_is_planned() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let web = service("web", "w").replicas(2).with(|spec| {
        spec.scheduling.shares_namespaces_with.insert("agent".parse().unwrap());
    });
    cluster.apply("shop", &[beside(2), web]);
    cluster.settle();
    check(&cluster, expect![[""]]);
    expect!["2 no_eligible_node not_beside=2"].assert_eq(&cluster.reasons("shop", "web"));
}

proptest! {
    /// PL-17: once converged, who shares a namespace has its partner on its node, or waits with a reason.
    #[test]
    fn converged_replicas_are_colocated(
        events in events(1..20),
        (web, agent) in (0..5u32, 0..5u32),
        global in any::<bool>(),
    ) {
        let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
        let agent = match global {
            true => beside(0).placement(Placement::Global),
            false => beside(agent),
        };
        let services = [agent, service("web", "w").replicas(web)];
        cluster.apply("shop", &services);
        for event in events.iter().filter(|event| !matches!(event, Event::Apply { deployment: 1, .. })) {
            happen(&mut cluster, event);
            cluster.pass();
        }
        cluster.apply("shop", &services);
        cluster.settle();
        let waits = cluster.state.scheduling.get(&key("shop", "agent"));
        let waits = waits.is_some_and(|record| !record.unplaced.is_empty());
        let web = key("shop", "web");
        for slot in cluster.state.slots.values().filter(|slot| slot.service == key("shop", "agent")) {
            let mut others = cluster.state.slots.values().filter(|other| other.service == web);
            let together = others.any(|other| other.current.node == slot.current.node);
            let is_spent = slot.restarts.exhausted == jaco_types::slot::Exhausted::Yes;
            // A disabled replica needs no partner.
            let is_disabled = slot.desired_state == jaco_types::DesiredState::Disabled;
            let is_fine = together || waits || is_spent || is_disabled;
            prop_assert!(is_fine, "PL-17: {} in {}", slot.id, cluster.show());
        }
    }
}

/// A replica that is placed in the same entry as its partner is not older than that.
#[test]
fn converged_replicas_are_not_restarted() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[beside(2), service("web", "w").replicas(2)]);
    cluster.settle();
    let renewed = |change: &Change| matches!(change, Change::SlotReplace { .. });
    assert!(!cluster.plan().changes.iter().any(renewed));
    cluster.commit(DeploymentDelete::new("shop".parse().unwrap()).into());
    cluster.settle();
    check(&cluster, expect![[""]]);
}

/// PL-17, R-CONS-6: a replica whose partner is moved in the same pass goes where that is then,
/// and not where it was. Found by 10,000 random histories.
#[test]
fn t90_4_no_replica_goes_where_its_partner_is_retiring() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[service("web", "w:1").hosts(&["n3"])]);
    cluster.settle();
    // Too few hosts for its size: only a rollout leads it there.
    let web = service("web", "w:2").replicas(2).hosts(&["n1"]);
    cluster.apply("shop", &[web, placed_with(1)]);
    cluster.pass();
    check(&cluster, expect!["shop-agent-0@n1 shop-web-0@n1<n3"]);
}

/// PL-2: a global replica that is removed in this pass is not a candidate to succeed an earlier one. Found by 10,000
/// random histories.
#[test]
fn t90_4_replica_without_its_partner_supersedes_nothing() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let api = || service("api", "a:1");
    cluster.apply("shop", &[api()]);
    cluster.pass();
    cluster.apply("shop", &[api().placement(Placement::Global)]);
    cluster.pass();
    let with_nobody = api().placement(Placement::Global).with(|spec| {
        spec.scheduling.shares_namespaces_with.insert("web".parse().unwrap());
    });
    cluster.apply("shop", &[with_nobody]);
    cluster.pass();
    check(&cluster, expect![""]);
}

/// PL-7, PL-19: a rollback to what has no place, because its partner is gone, waits and reports
/// so. Found by 10,000 random histories.
#[test]
fn t90_4_rollback_without_a_node_is_reported() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[beside(1)]);
    cluster.pass();
    cluster.apply("shop", &[service("agent", "a:2")]);
    cluster.pass();
    cluster.advance(Millis::from_secs(60), &[]);
    cluster.settle();
    let record = cluster.state.scheduling.get(&key("shop", "agent")).unwrap();
    assert!(record.rollout.as_ref().unwrap().rollback_progress.is_some());
    expect!["1 no_eligible_node node=n1 not_beside=1 replica=shop-agent-0"]
        .assert_eq(&cluster.reasons("shop", "agent"));
}

/// PL-2, PL-18: disabled replicas of another kind go in the pass that creates those of the new kind, also where
/// these are colocated and so are created last. Found by random histories.
#[test]
fn t90_4_colocated_replicas_supersede_in_the_same_pass() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let api = || service("api", "a:1");
    let web = |replicas| service("web", "w:1").replicas(replicas);
    cluster.apply("shop", &[api()]);
    let whole = AllocationScope::Service(key("shop", "api"));
    cluster.set_disabled(Disabling::Disable, &[whole]);
    cluster.apply("shop", &[api(), web(2)]);
    cluster.settle();
    let with_web = api().placement(Placement::Global).with(|spec| {
        spec.scheduling.place_with.insert("web".parse().unwrap());
    });
    cluster.apply("shop", &[with_web, web(1)]);
    cluster.pass();
    check(&cluster, expect!["shop-api-n2@n2 shop-web-0@n2"]);
}
