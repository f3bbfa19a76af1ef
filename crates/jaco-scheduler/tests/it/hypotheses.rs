//! `whatif`: what is supposed changes the copy and nothing else, and what the planner says of it is what
//! it would do (R-CLI-2, R-CLI-3).

use std::collections::BTreeMap;

use jaco_scheduler::hypothetical::{Hypothesis, suppose};
use jaco_scheduler::whatif::{lose, survival};
use jaco_scheduler::{PlanInput, plan};
use jaco_types::{Availability, Millis, NodeFacts, NodeStatus, ReplicaState, Revision};

use crate::cluster::{Cluster, Service, hostname, key, resources, service};

fn web(replicas: u32) -> Service {
    service("web", "w").replicas(replicas).reserves(500, 0)
}

/// Three nodes with room for two replicas each, and four of them.
fn cluster() -> Cluster {
    let mut cluster = Cluster::empty();
    for (host, zone) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
        cluster.join_as(host, resources(1000, 0), &[("zone", zone)]);
    }
    cluster.pass();
    cluster.apply("shop", &[web(4)]);
    cluster.settle();
    cluster
}

/// How many replicas of `shop/web` have no place under a hypothesis.
fn unplaced(cluster: &Cluster, hypothesis: &Hypothesis) -> u32 {
    let input = cluster.input();
    let (state, signals) = suppose(&input, hypothesis).expect("it can be supposed");
    let plan = plan(&PlanInput { state: &state, signals: &signals, ..input });
    plan.report.unplaced.iter().map(|entry| entry.count).sum()
}

fn capacity(cpu: u64) -> NodeFacts {
    NodeFacts { capacity: resources(cpu, 0), ..NodeFacts::default() }
}

#[test]
fn the_present_is_left_alone() {
    let cluster = cluster();
    let before = cluster.clone();
    let all = Hypothesis {
        lost: [cluster.node("n1")].into(),
        added: [(hostname("n9"), capacity(1000))].into(),
        drained: [cluster.node("n2")].into(),
        scaled: [(key("shop", "web"), 9)].into(),
    };
    suppose(&cluster.input(), &all).expect("it can be supposed");
    assert!(!lose(&cluster.input(), &all.lost).changes.is_empty());
    assert_eq!(survival(&cluster.input(), "node.zone").len(), 2);
    assert_eq!((&cluster.state, &cluster.signals), (&before.state, &before.signals));
}

#[test]
fn lost_nodes_are_down_at_once() {
    let cluster = cluster();
    let lost = |hosts: &[&str]| {
        let lost = hosts.iter().map(|host| cluster.node(host)).collect();
        Hypothesis { lost, ..Hypothesis::default() }
    };
    let (state, signals) = suppose(&cluster.input(), &lost(&["n1"])).unwrap();
    let node = state.nodes.get(&cluster.node("n1")).unwrap();
    assert_eq!(node.status, NodeStatus::Down);
    assert!(!signals.nodes.contains_key(&node.id));
    assert_eq!(state.nodes.len(), 3, "it is still a member");
    assert_eq!([lost(&[]), lost(&["n1"])].map(|it| unplaced(&cluster, &it)), [0, 0]);
    assert_eq!(unplaced(&cluster, &lost(&["n1", "n2"])), 2);
    assert_eq!(unplaced(&cluster, &lost(&["n1", "n2", "n3"])), 4);
}

/// R-CLI-2: one replica that is lost with its host is one that waits, and is told once.
#[test]
fn a_pinned_replica_with_data_is_counted_once() {
    let mut cluster = cluster();
    cluster.apply("data", &[service("db", "d").hosts(&["n1"]).stateful()]);
    cluster.settle();
    let lost = &survival(&cluster.input(), "node.hostname")[0];
    assert_eq!(lost.waiting.get(&key("data", "db")), Some(&1));
    let lost = [cluster.node("n1")].into();
    let report = lose(&cluster.input(), &lost).report;
    let told = report.unplaced.iter().filter(|entry| entry.service == key("data", "db"));
    assert_eq!(told.map(|entry| entry.reason).collect::<Vec<_>>(), ["waiting_for_node"]);
    // A pinned host without the data is still one that is missing.
    cluster.apply("data", &[service("db", "d").hosts(&["n1", "n2"]).stateful().replicas(2)]);
    let lost = [cluster.node("n1"), cluster.node("n2")].into();
    let report = lose(&cluster.input(), &lost).report;
    let told = report.unplaced.iter().filter(|entry| entry.service == key("data", "db"));
    let told: Vec<_> = told.map(|entry| (entry.reason, entry.count)).collect();
    assert_eq!(told, [("cannot_satisfy_host_placement", 1), ("waiting_for_node", 1)]);
}

#[test]
fn added_nodes_take_replicas() {
    let cluster = cluster();
    let with = |cpu: u64, scaled: u32| Hypothesis {
        added: [(hostname("n9"), capacity(cpu))].into(),
        scaled: [(key("shop", "web"), scaled)].into(),
        ..Hypothesis::default()
    };
    let (state, _) = suppose(&cluster.input(), &with(1000, 4)).unwrap();
    let node = state.node_by_hostname(&hostname("n9")).unwrap();
    assert_eq!((node.status, node.availability), (NodeStatus::Ready, Availability::Active));
    assert_eq!(node.facts.capacity, resources(1000, 0));
    assert!(cluster.state.nodes.keys().all(|id| *id < node.id), "it joined after all others");
    let counts =
        [(1000, 8), (500, 8), (499, 8), (0, 99)].map(|(cpu, n)| unplaced(&cluster, &with(cpu, n)));
    assert_eq!(counts, [0, 1, 2, 0], "without a declared capacity there is room for all");
}

#[test]
fn drained_nodes_give_their_replicas_away() {
    let mut cluster = cluster();
    let drained = |cluster: &Cluster, hosts: &[&str]| {
        let drained = hosts.iter().map(|host| cluster.node(host)).collect();
        Hypothesis { drained, ..Hypothesis::default() }
    };
    assert_eq!(unplaced(&cluster, &drained(&cluster, &["n3"])), 0);
    let both = drained(&cluster, &["n1", "n3"]);
    let (state, _) = suppose(&cluster.input(), &both).unwrap();
    for host in ["n1", "n3"] {
        let node = state.nodes.get(&cluster.node(host)).unwrap();
        assert_eq!((node.availability, node.drain), (Availability::Draining, None));
    }
    // A drain that is running has no deadline in the supposition.
    cluster.drain("n2", Millis::from_secs(1));
    let running = drained(&cluster, &["n2"]);
    let (state, _) = suppose(&cluster.input(), &running).unwrap();
    assert_eq!(state.nodes.get(&cluster.node("n2")).unwrap().drain, None);
}

/// Services are applied with another number; those that nobody asked for are passed over.
#[test]
fn scaled_services_are_applied() {
    let cluster = cluster();
    let scaled = |pairs: &[(&str, &str, u32)]| Hypothesis {
        scaled: pairs.iter().map(|(d, s, n)| (key(d, s), *n)).collect(),
        ..Hypothesis::default()
    };
    let desired = |hypothesis: &Hypothesis| {
        let (state, _) = suppose(&cluster.input(), hypothesis).unwrap();
        let deployment = state.deployments.values().next().unwrap();
        let replicas: Vec<_> =
            deployment.spec().services.values().map(|spec| spec.replicas).collect();
        (deployment.revision.0, replicas)
    };
    assert_eq!(desired(&scaled(&[("shop", "web", 6)])), (2, vec![6]));
    assert_eq!(desired(&scaled(&[("shop", "web", 4)])), (1, vec![4]), "nothing is different");
    assert_eq!(desired(&scaled(&[("blog", "web", 9), ("shop", "db", 9)])), (1, vec![4]));
    assert_eq!(unplaced(&cluster, &scaled(&[("shop", "web", 6)])), 0);
    assert_eq!(unplaced(&cluster, &scaled(&[("shop", "web", 7)])), 1);
}

/// R-CLI-2, R-ROLL-3: after a revision was given up, another number is supposed of what serves, as with `jaco scale`;
/// where no revision is what serves, it is refused likewise.
#[test]
fn what_serves_is_scaled_and_not_what_failed() {
    let fails = |services: &[Service]| {
        let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
        cluster.apply("shop", &[service("web", "w:1").replicas(2)]);
        cluster.settle();
        cluster.apply("shop", services);
        cluster.pass();
        for _ in 0..3 {
            cluster.see("shop-web-0", ReplicaState::Failed);
            cluster.advance(Millis::from_secs(1), &[]);
            cluster.pass();
        }
        cluster
    };
    let scaled = Hypothesis { scaled: [(key("shop", "web"), 3)].into(), ..Hypothesis::default() };

    let cluster = fails(&[service("web", "w:2").replicas(2)]);
    let (state, _) = suppose(&cluster.input(), &scaled).unwrap();
    let deployment = state.deployments.values().next().unwrap();
    let web = |revision: u64| {
        let spec = &deployment.revisions.get(&Revision(revision)).unwrap().spec;
        let web = spec.services.values().next().unwrap();
        (web.hash, web.replicas)
    };
    assert_eq!((deployment.revision.0, web(3)), (3, (web(1).0, 3)));
    assert_ne!(web(2).0, web(1).0);

    let cluster = fails(&[service("web", "w:2").replicas(2), service("cache", "c")]);
    let refused = suppose(&cluster.input(), &scaled).unwrap_err().to_string();
    assert!(
        refused.contains("revision 2 of shop was rolled back to 1, without cache"),
        "{refused}"
    );
}

/// For each value of an attribute, who would wait that does not wait now.
#[test]
fn survival_counts_what_a_loss_adds() {
    let mut cluster = cluster();
    cluster.apply("blog", &[service("api", "a").hosts(&["n3"]).reserves(100, 0)]);
    cluster.settle();
    let waits = |cluster: &Cluster, attribute: &str| -> BTreeMap<String, String> {
        let losses = survival(&cluster.input(), attribute).into_iter().map(|loss| {
            let waiting = loss.waiting.iter().map(|(key, count)| format!("{key}={count}"));
            (loss.lost, waiting.collect::<Vec<_>>().join(" "))
        });
        losses.collect()
    };
    let by_zone = waits(&cluster, "node.zone");
    assert_eq!(by_zone.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(by_zone["a"], "shop/web=3", "beside api there is room for one");
    assert_eq!(by_zone["b"], "blog/api=1");
    assert_eq!(waits(&cluster, "node.hostname").len(), 3);
    assert!(waits(&cluster, "nowhere").is_empty());
    // What waits already is not a consequence of the loss.
    cluster.apply("shop", &[web(9)]);
    cluster.settle();
    let before = cluster.reasons("shop", "web");
    assert!(before.starts_with("4 "), "{before}");
    assert_eq!(waits(&cluster, "node.zone")["b"], "blog/api=1 shop/web=1");
}
