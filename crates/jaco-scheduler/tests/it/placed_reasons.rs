//! What the report of a pass says of each replica that got a node: why there (R-LOOP-6).

use jaco_scheduler::Plan;
use jaco_state::command::Change;
use jaco_types::spec::Placement;
use jaco_types::{Availability, DesiredState, Millis, ReplicaState};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, service};
use crate::events::{events, happen};

fn web(replicas: u32) -> Service {
    service("web", "w").replicas(replicas)
}

/// `shop-web-0@n1 spread`, one for each replica that a plan places.
fn placed(cluster: &Cluster, plan: &Plan) -> Vec<String> {
    let host = |id| cluster.state.nodes.get(&id).unwrap().hostname.to_string();
    let shown = plan
        .report
        .placed
        .iter()
        .map(|placed| format!("{}@{} {}", placed.replica, host(placed.node), placed.why));
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    shown
}

/// A new replica is where its placement puts it.
#[test]
fn new_replicas_say_their_placement() {
    for (service, why) in [
        (web(1), "spread"),
        (web(1).placement(Placement::Pack), "pack"),
        (web(1).hosts(&["n1"]), "hosts"),
    ] {
        let mut cluster = Cluster::of(&["n1"]);
        cluster.apply("shop", &[service]);
        let plan = cluster.pass();
        assert_eq!(placed(&cluster, &plan), [format!("shop-web-0@n1 {why}")]);
        assert_eq!(cluster.pass().report.placed, [], "it is said once");
    }
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[web(0).placement(Placement::Global)]);
    let plan = cluster.pass();
    assert_eq!(placed(&cluster, &plan), ["shop-web-n1@n1 global", "shop-web-n2@n2 global"]);
}

/// A replica that gets another node says what for, and one that restarts in its place says nothing.
#[test]
fn replaced_replicas_say_the_cause() {
    let settled = || {
        let mut cluster = Cluster::of(&["n1", "n2"]);
        cluster.apply("shop", &[web(1)]);
        cluster.settle();
        let home = cluster.slot("shop-web-0").current.node;
        let (home, other) = if home == cluster.node("n1") { ("n1", "n2") } else { ("n2", "n1") };
        (cluster, home, other)
    };
    let (mut cluster, home, _) = settled();
    cluster.see("shop-web-0", ReplicaState::Failed);
    let plan = cluster.pass();
    assert_eq!(Cluster::causes(&plan), ["shop-web-0:failed"]);
    assert_eq!(placed(&cluster, &plan), [""; 0], "it gets no other node than {home}");
    let (mut cluster, home, other) = settled();
    cluster.advance(Millis::from_secs(16), &[home]);
    let plan = cluster.pass();
    assert_eq!(placed(&cluster, &plan), [format!("shop-web-0@{other} node_lost")]);
    let (mut cluster, home, other) = settled();
    cluster.set_availability(home, Availability::Draining);
    let plan = cluster.pass();
    assert_eq!(placed(&cluster, &plan), [format!("shop-web-0@{other} moved")]);
}

/// R-LOOP-6: a step of a rollout that gives a replica another node says so.
#[test]
fn t90_steps_to_another_node_are_reported() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[web(1).hosts(&["n1"])]);
    cluster.settle();
    cluster.apply("shop", &[web(1).hosts(&["n2"])]);
    let mut reported = Vec::new();
    for _ in 0..20 {
        let plan = cluster.pass();
        reported.extend(placed(&cluster, &plan));
        cluster.run_all();
    }
    assert_eq!(reported, ["shop-web-0@n2 moved"]);
}

/// What has no node is counted apart, with the answer of every node.
#[test]
fn unplaced_replicas_have_all_answers() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.set_availability("n2", Availability::Cordoned);
    cluster.apply("shop", &[web(2).host_port(80)]);
    let plan = cluster.pass();
    assert_eq!(placed(&cluster, &plan), ["shop-web-0@n1 spread"]);
    let [unplaced] = &plan.report.unplaced[..] else { panic!("{:?}", plan.report.unplaced) };
    assert_eq!((unplaced.count, unplaced.reason), (1, "no_eligible_node"));
    let answers = unplaced.nodes.iter().map(|node| {
        let failed: Vec<_> = node.failed.iter().map(ToString::to_string).collect();
        format!("{}: {}", node.hostname, failed.join("; "))
    });
    assert_eq!(answers.collect::<Vec<_>>(), ["n1: host port 80/tcp is taken", "n2: cordoned"]);
}

proptest! {
    /// R-LOOP-6: whatever happens, each replica that gets a node, or another one, is in the report with it.
    #[test]
    fn every_new_instance_is_reported(events in events(1..20)) {
        let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
        for event in &events {
            happen(&mut cluster, event);
            let plan = cluster.plan();
            let reported: Vec<_> =
                plan.report.placed.iter().map(|it| (it.replica.clone(), it.node)).collect();
            for change in &plan.changes {
                let made = if let Change::SlotCreate { id, instance, desired_state, .. } = change {
                    let is_active = *desired_state == DesiredState::Active;
                    is_active.then_some((id, instance))
                } else if let Change::SlotReplace { id, instance, .. } = change {
                    let before = cluster.state.slots.get(id).map(|slot| slot.current.node);
                    (before != Some(instance.node)).then_some((id, instance))
                } else {
                    None
                };
                if let Some((id, instance)) = made {
                    let one = (id.clone(), instance.node);
                    prop_assert!(reported.contains(&one), "{one:?} of {reported:?}");
                }
            }
            cluster.carry_out(&plan);
        }
    }
}
