//! What the planner says when it is asked, and whether it does what it says.

use expect_test::expect;
use jaco_scheduler::explain;
use jaco_scheduler::whatif::{lose, survival};
use jaco_state::command::Change;
use jaco_types::Millis;
use proptest::prelude::*;

use crate::cluster::{Cluster, key, resources, service};
use crate::events::{HOSTS, any_service};

/// R-CLI-3: every node, every rule, and what the choice goes by.
#[test]
fn every_node_answers() {
    let mut cluster = Cluster::empty();
    for (host, cpu) in [("n1", 1000), ("n2", 500), ("n3", 4000)] {
        cluster.join_with(host, resources(cpu, 0));
    }
    cluster.pass();
    cluster.apply("shop", &[service("web", "w").replicas(3).reserves(500, 0)]);
    cluster.settle();
    let answers = explain(&cluster.input(), &key("shop", "web")).expect("wanted");
    let show = |answer: &jaco_scheduler::explain::NodeAnswer| {
        let rules: Vec<_> = answer.failed.iter().map(ToString::to_string).collect();
        let left = answer.facts.cpu_left.map(|left| left.to_string()).unwrap_or_default();
        let rules = if rules.is_empty() { "would take it".to_owned() } else { rules.join("; ") };
        format!("{} has {}, {left} left: {rules}", answer.hostname, answer.facts.of_service)
    };
    expect![[r#"
        n1 has 1, 500m left: would take it
        n2 has 1, 0m left: 0m of cpu left, 500m needed
        n3 has 1, 3500m left: would take it"#]]
    .assert_eq(&answers.iter().map(show).collect::<Vec<_>>().join("\n"));
    assert_eq!(explain(&cluster.input(), &key("shop", "nobody")), None);
}

/// R-CLI-2: which node or zone cannot be lost without leaving replicas without a place.
#[test]
fn survival_names_what_a_loss_leaves_waiting() {
    let mut cluster = Cluster::empty();
    for (host, zone) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
        cluster.join_as(host, resources(1000, 0), &[("zone", zone)]);
    }
    cluster.pass();
    cluster.apply("shop", &[service("web", "w").replicas(4).reserves(500, 0)]);
    cluster.settle();
    let show = |attribute| {
        let losses = survival(&cluster.input(), attribute);
        let losses = losses.iter().map(|s| format!("{}: {:?}", s.lost, s.waiting.values()));
        losses.collect::<Vec<_>>().join("; ")
    };
    expect!["n1: []; n2: []; n3: []"].assert_eq(&show("node.hostname"));
    expect!["a: [2]; b: []"].assert_eq(&show("node.zone"));
}

proptest! {
    /// R-CLI-3: what is predicted of a loss is what happens when the node becomes unreachable.
    #[test]
    fn what_if_equals_reality(
        services in prop::collection::vec(any_service(), 1..3),
        lost in 0..4usize,
    ) {
        let mut cluster = Cluster::empty();
        for (number, host) in HOSTS[..4].iter().enumerate() {
            let labels = [("datacenter", if number % 2 == 0 { "a" } else { "b" }), ("rack", "r1")];
            cluster.join_as(host, resources(2000, 600), &labels);
        }
        cluster.pass();
        cluster.apply("shop", &services);
        cluster.settle();
        let node = cluster.node(HOSTS[lost]);
        let predicted = lose(&cluster.input(), &[node].into());
        // The counter of time alone: no step, no steady run is due in between.
        cluster.advance(Millis::from_secs(15), &[HOSTS[lost]]);
        let real = cluster.plan();
        let moves = |changes: &[Change]| -> Vec<Change> {
            let is_status = |change: &&Change| matches!(change, Change::NodeStatusSet { .. });
            changes.iter().filter(|change| !is_status(change)).cloned().collect()
        };
        prop_assert_eq!(moves(&predicted.changes), moves(&real.changes));
        prop_assert_eq!(predicted.report, real.report);
    }
}
