//! What a node shows when it has no contact with a quorum, and of nodes that are down.

use std::process::Output;
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, eventually};
use serde_json::Value;

use crate::scenario::{apply_request, deploy};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs commands at once: each of them waits for a leader that does not come.
fn all(cluster: &Cluster, node: usize, commands: &[&str]) -> Vec<(String, Output)> {
    std::thread::scope(|scope| {
        let run = |command: &str| {
            let args: Vec<&str> = command.split(' ').collect();
            (command.to_owned(), cluster.cli(node, &args))
        };
        let running: Vec<_> =
            commands.iter().map(|command| scope.spawn(move || run(command))).collect();
        running.into_iter().map(|one| one.join().expect("the command ends")).collect()
    })
}

/// The result of a command as JSON.
fn json(cluster: &Cluster, node: usize, command: &str) -> Value {
    let args: Vec<&str> = command.split(' ').chain(["-o", "json"]).collect();
    let out = cluster.cli(node, &args);
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|error| panic!("{command}: {error}: {}", text(&out.stderr)))
}

/// The status of each node that `jaco cluster status` or `jaco status` shows.
fn node_states(shown: &Value) -> Vec<String> {
    let nodes = shown["nodes"].as_array().expect("a list");
    nodes.iter().map(|node| node["status"].as_str().expect("a text").to_owned()).collect()
}

/// R-CLI-10: a node that is started without a quorum shows no empty cluster: reads are refused with 9, `doctor`
/// and `cluster status` say that there is no quorum and which nodes there are. Once the others are back it
/// answers.
#[tokio::test(flavor = "multi_thread")]
async fn node_without_quorum_after_a_start_answers_nothing() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    for node in &mut cluster.nodes {
        node.kill();
    }
    cluster.nodes[1].start();
    eventually("it answers", || async {
        let out = cluster.cli(1, &["cluster", "status"]);
        if out.status.success() { Ok(()) } else { Err(text(&out.stderr)) }
    })
    .await;
    let reads = [
        "status",
        "status -o json",
        "history shop",
        "get deployments",
        "logs shop/web",
        "scale shop/web 2",
        "audit",
        "node ls",
        "token ls",
    ];
    for (command, out) in all(&cluster, 1, &reads) {
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(9), "{command}: {said}{}", text(&out.stdout));
        assert!(said.contains("error[not_caught_up]: n2 has not caught up"), "{command}: {said}");
    }
    let shown = json(&cluster, 1, "cluster status");
    assert_eq!(node_states(&shown), ["unknown", "unknown", "unknown"], "{shown:#}");
    assert_eq!(shown.get("leader"), None, "{shown:#}");
    assert!(shown["stale"]["age_ms"].as_u64().expect("a number") > 0, "{shown:#}");
    let out = cluster.cli(1, &["doctor"]);
    let found = text(&out.stdout);
    assert_eq!(out.status.code(), Some(1), "{found}");
    assert!(found.contains("[quorum] cluster: no quorum"), "{found}");
    assert!(found.contains("has not caught up since its start"), "{found}");

    cluster.nodes[0].start();
    cluster.nodes[2].start();
    cluster.settled().await;
    let shown = json(&cluster, 1, "status");
    assert_eq!(shown["deployments"][0]["name"], "shop", "{shown:#}");
    assert_eq!(shown.get("stale"), None, "{shown:#}");
}

/// Waits until a node says that its status is not current.
async fn says_so(cluster: &Cluster, node: usize) -> Value {
    eventually("the node says that it is cut off", || async {
        let shown = json(cluster, node, "status");
        if shown.get("stale").is_some() { Ok(shown) } else { Err(format!("{shown:#}")) }
    })
    .await
}

fn freeze_all_but(cluster: &Cluster, alone: usize) {
    for (number, node) in cluster.nodes.iter().enumerate() {
        if number != alone {
            node.pause();
        }
    }
}

/// R-CLI-10: a node that loses the quorum while it runs says how old its answers are and names no leader, whether
/// it led or followed; what only a leader can answer is refused with 9, within the time limit of the command.
#[tokio::test(flavor = "multi_thread")]
async fn lost_quorum_is_said_with_the_age_of_the_answer() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let file = cluster.nodes[0].folder().join("compose.yaml");
    std::fs::write(&file, "services:\n  web:\n    image: web:2\n").expect("it can be written");
    let file = file.to_str().expect("the path is text").to_owned();
    let leader = cluster.leader().await;
    for alone in [leader, (leader + 1) % 3] {
        freeze_all_but(&cluster, alone);
        let shown = says_so(&cluster, alone).await;
        assert_eq!(shown.get("leader"), None, "{shown:#}");
        assert_eq!(node_states(&shown), ["unknown"; 3], "{shown:#}");
        assert_eq!(shown["deployments"][0]["name"], "shop", "{shown:#}");
        let name = &cluster.nodes[alone].name;
        let out = cluster.cli(alone, &["status"]);
        let said = text(&out.stdout);
        let first = said.lines().next().unwrap_or_default();
        let reason = format!("s: {name} has no contact with a quorum");
        assert!(first.starts_with("not current for ") && first.ends_with(&reason), "{said}");
        let out = cluster.cli(alone, &["history", "shop"]);
        let said = format!("warning: {name} has no contact with a quorum: this is as of ");
        assert!(out.status.success() && text(&out.stderr).contains(&said), "{out:?}");
        let shown = json(&cluster, alone, "cluster status");
        assert_eq!(node_states(&shown), ["unknown"; 3], "{shown:#}");
        assert_eq!(shown.get("leader"), None, "{shown:#}");

        let begun = Instant::now();
        let apply = format!("apply -f {file} --name shop --timeout 3s");
        let plan = format!("plan -f {file} --name shop");
        for (command, out) in all(&cluster, alone, &[&apply, &plan, "explain shop/web", "top"]) {
            let said = text(&out.stderr);
            assert_eq!(out.status.code(), Some(9), "{command}: {said}");
            let is_named = said.contains("[quorum_lost]") || said.contains("[no_leader]");
            assert!(is_named && out.stdout.is_empty(), "{command}: {said}{}", text(&out.stdout));
            assert!(!said.contains("web:2"), "it shows a plan: {said}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let begun = Instant::now();
        let args: Vec<&str> = apply.split(' ').collect();
        assert_eq!(cluster.cli(alone, &args).status.code(), Some(9));
        assert!(begun.elapsed() < Duration::from_secs(5), "a limit of 3 s: {:?}", begun.elapsed());
        for (number, node) in cluster.nodes.iter().enumerate() {
            if number != alone {
                node.resume();
            }
        }
        cluster.settled().await;
        eventually("the node is current again", || async {
            let shown = json(&cluster, alone, "status");
            if shown.get("stale").is_none() { Ok(()) } else { Err(format!("{shown:#}")) }
        })
        .await;
    }
}

/// R-CLI-10: replicas of a node that is down do not count as running and are not in the endpoints; their state is
/// unknown, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_node_that_is_down_do_not_count_as_running() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let mut request = apply_request("shop", "web:1", 3);
    let hosts = "services:\n  - {name: web, placement: hosts, hosts: [n1, n2, n3]}\n";
    request.overlay_yaml = format!("deployment: shop\n{hosts}");
    cluster.client().apply(request).await.expect("admitted");
    cluster.converged(0, "shop").await;
    let leader = cluster.leader().await;
    let dead = (leader + 1) % 3;
    let dead_name = cluster.nodes[dead].name.clone();
    let routed = cluster.nodes[leader].client();
    let attach = jaco_testkit::v1::RoutingAttach::default();
    let mut routes = routed.routes(attach).await.expect("the endpoints can be watched");
    cluster.nodes[dead].kill();
    let shown = eventually("the node counts as down", || async {
        let shown = json(&cluster, leader, "status");
        if node_states(&shown).contains(&"down".to_owned()) {
            Ok(shown)
        } else {
            Err(shown.to_string())
        }
    })
    .await;
    let replicas = shown["replicas"].as_array().expect("a list");
    let lost: Vec<_> = replicas.iter().filter(|replica| replica["node"] == *dead_name).collect();
    assert_eq!(lost.len(), 1, "{shown:#}");
    assert_eq!((&lost[0]["state"], &lost[0]["code"]), (&"unknown".into(), &"node_down".into()));
    assert_eq!(lost[0]["in_routing"], false, "{shown:#}");
    assert_eq!(shown["deployments"][0]["services"][0]["running"], 2, "{shown:#}");
    let out = cluster.cli(leader, &["status"]);
    let line = format!("node {dead_name} is down");
    assert!(text(&out.stdout).contains(&line), "{}", text(&out.stdout));
    let mut endpoints = Vec::new();
    while endpoints.len() != 2 {
        let version = routes.next().await.expect("the stream goes on").expect("a version");
        endpoints = version.services[0].endpoints.clone();
    }
    assert!(endpoints.iter().all(|endpoint| endpoint.node != dead_name), "{endpoints:?}");
}
