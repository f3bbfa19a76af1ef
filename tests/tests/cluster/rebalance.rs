//! Hot nodes whose kernel files belong to the test.

use std::fs;
use std::path::PathBuf;

use jaco_testkit::{Cluster, Engine, eventually, v1};

use crate::scenario::deploy;

/// 1000 bytes of memory, so that usage is written in thousandths.
const SETTINGS: &str = "capacity: {cpu_millis: 1000, memory_bytes: 1000}\n";

/// Shortened intervals, without averaging.
fn settings(more: &str) -> String {
    format!(
        "{SETTINGS}rebalance: {{sample_interval_millis: 1000, cycle_interval_millis: 1000, \
         window_millis: 0, replica_cooldown_millis: 0, node_cooldown_millis: 1000, \
         default_memory_percent: 20{more}}}\n"
    )
}

/// A cluster whose nodes have machine files of their own, all cool.
async fn cluster(more: &str) -> (Cluster, tempfile::TempDir) {
    let machines = tempfile::tempdir().expect("a folder");
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    for node in 0..3 {
        say(&machines, node, 200);
        let root = machine(&machines, node);
        let more = format!("{more}, system_root: {}", root.display());
        let node = &mut cluster.nodes[node];
        node.stop();
        let file = node.folder().join("jacod.yaml");
        let known = fs::read_to_string(&file).expect("it was written before");
        let others = known.replace("rebalance: {enabled: false}\n", "");
        fs::write(&file, format!("{others}{}", settings(&more))).expect("it can be written");
        node.start();
    }
    cluster.settled().await;
    (cluster, machines)
}

fn machine(machines: &tempfile::TempDir, node: usize) -> PathBuf {
    machines.path().join(format!("n{}", node + 1))
}

/// Sets a node's memory usage in thousandths; its processors are idle.
fn say(machines: &tempfile::TempDir, node: usize, memory: u64) {
    let groups = machine(machines, node).join("sys/fs/cgroup");
    fs::create_dir_all(&groups).expect("a folder");
    let write = |name: &str, text: &str| {
        // Atomically: a daemon may be reading.
        let fresh = groups.join(format!("{name}.new"));
        fs::write(&fresh, text).expect("written");
        fs::rename(fresh, groups.join(name)).expect("renamed");
    };
    if !groups.join("cgroup.controllers").exists() {
        write("cpu.stat", "usage_usec 1\n");
        write("memory.max", "1000\n");
        write("cgroup.controllers", "cpu memory\n");
    }
    // Daemons keep the files open, so the same file is rewritten.
    fs::write(groups.join("memory.current"), format!("{memory:>4}\n")).expect("written");
}

async fn homes(cluster: &Cluster) -> Vec<String> {
    let status = cluster.overview(0).await.expect("n1 answers");
    let mut homes: Vec<_> = status.replicas.into_iter().map(|one| one.node).collect();
    homes.sort();
    homes
}

/// Everything runs on n1.
async fn on_first(cluster: &Cluster, replicas: u32) {
    let set = |hostname: &str, availability: &str| v1::SetAvailabilityRequest {
        hostname: hostname.to_owned(),
        availability: availability.to_owned(),
        ..Default::default()
    };
    for host in ["n2", "n3"] {
        let done = cluster.client().set_availability(set(host, "cordoned")).await;
        done.expect("cordoned");
    }
    deploy(cluster, "shop", "web:1", replicas).await;
    for host in ["n2", "n3"] {
        cluster.client().set_availability(set(host, "active")).await.expect("active");
    }
}

fn cli(cluster: &Cluster, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let out = cluster.cli(1, &words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{words:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

fn events(cluster: &Cluster, kind: &str) -> Vec<serde_json::Value> {
    let said = cli(cluster, &format!("audit --type {kind} -o json"));
    serde_json::from_str(&said).expect("a list of events")
}

async fn pressure_is(cluster: &Cluster, wanted: &str) {
    eventually("the leader has heard", || async {
        let top = cli(cluster, "top -o json");
        let top: serde_json::Value = serde_json::from_str(&top).map_err(|it| it.to_string())?;
        let heard: Vec<_> = (0..3).map(|node| top["nodes"][node]["pressure"].as_str()).collect();
        let others = heard[1] == Some("0.2000") && heard[2] == Some("0.2000");
        if heard[0] == Some(wanted) && others { Ok(()) } else { Err(top.to_string()) }
    })
    .await;
}

/// R-REB-1, R-REB-7, R-REB-8: a node that stays hot loses one replica, start-first, with the reason
/// in the audit log. If nothing else can move, each reason is audited once, whoever leads.
#[tokio::test(flavor = "multi_thread")]
async fn hot_node_is_rebalanced_and_audited_once() {
    let (mut cluster, machines) = cluster("").await;
    on_first(&cluster, 1).await;
    pressure_is(&cluster, "0.2000").await;
    assert!(events(&cluster, "rebalance_moved").is_empty(), "a cool node keeps what it has");
    say(&machines, 0, 900);
    eventually("the replica has left n1", || async {
        let homes = homes(&cluster).await;
        if homes != ["n1"] { Ok(()) } else { Err(homes) }
    })
    .await;
    cluster.converged(0, "shop").await;
    let moved = events(&cluster, "rebalance_moved");
    assert_eq!(moved.len(), 1, "{moved:?}");
    let facts = &moved[0]["payload"];
    assert_eq!((&facts["src"], &facts["dominant"]), (&"n1".into(), &"memory".into()));
    assert_eq!((&facts["relief"], &facts["src_pressure_before"]), (&0.2.into(), &0.9.into()));
    // Nothing else can move: audited once per leader.
    eventually("it is told", || async {
        let told = events(&cluster, "rebalance_skipped");
        if told.len() == 1 { Ok(()) } else { Err(told) }
    })
    .await;
    let leader = cluster.leader().await;
    cluster.nodes[leader].stop();
    cluster.nodes[leader].start();
    cluster.settled().await;
    eventually("the next leader has told it as well", || async {
        let told = events(&cluster, "rebalance_skipped");
        if told.len() == 2 { Ok(()) } else { Err(told) }
    })
    .await;
    assert!(
        events(&cluster, "rebalance_skipped")
            .iter()
            .all(|it| it["payload"]["reason"] == "no_candidate")
    );
    assert_eq!(events(&cluster, "rebalance_moved").len(), 1);
}

/// R-REB-9: with rebalancing off nothing moves automatically; an operator sees hot nodes and
/// possible moves, makes them, and finds nothing left to do.
#[tokio::test(flavor = "multi_thread")]
async fn operator_can_rebalance_manually() {
    let (cluster, machines) = cluster(", enabled: false").await;
    on_first(&cluster, 3).await;
    say(&machines, 0, 990);
    pressure_is(&cluster, "0.9900").await;
    let planned = cli(&cluster, "rebalance --plan");
    assert!(planned.contains("99% -> 79%") && planned.contains("1 move planned"), "{planned}");
    assert_eq!(homes(&cluster).await, ["n1", "n1", "n1"], "a plan changes nothing");
    let done = cli(&cluster, "rebalance --apply");
    assert!(done.contains("1 move started"), "{done}");
    cluster.converged(0, "shop").await;
    assert_eq!(homes(&cluster).await.iter().filter(|home| *home == "n1").count(), 2);
    // The machine's files say what the move has freed: until then n1 would be hot again.
    say(&machines, 0, 790);
    pressure_is(&cluster, "0.7900").await;
    let again = cli(&cluster, "rebalance --plan -o json");
    let again: serde_json::Value = serde_json::from_str(&again).expect("JSON");
    assert_eq!(again["moves"], serde_json::json!([]));
    let moved = events(&cluster, "rebalance_moved");
    assert_eq!(moved.len(), 1);
    assert_ne!(moved[0]["by"], "scheduler", "an operator did it: {moved:?}");
}

/// R-REB-9: `rebalance --goal spread` spreads replicas that share a node, whatever is measured; a
/// second run changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn operator_can_spread_replicas() {
    let (cluster, _machines) = cluster(", enabled: false").await;
    on_first(&cluster, 3).await;
    let planned = cli(&cluster, "rebalance --goal spread --plan");
    assert!(planned.contains("9 -> 5") && planned.contains("2 moves planned"), "{planned}");
    assert_eq!(homes(&cluster).await, ["n1", "n1", "n1"], "a plan changes nothing");
    let packed = cli(&cluster, "rebalance --goal pack --plan");
    assert!(packed.contains("nothing to move"), "spread ones are not packed: {packed}");
    let done = cli(&cluster, "rebalance --goal spread --apply");
    assert!(done.contains("2 moves started"), "{done}");
    cluster.converged(0, "shop").await;
    assert_eq!(homes(&cluster).await, ["n1", "n2", "n3"]);
    let again = cli(&cluster, "rebalance --goal spread --plan");
    assert!(again.contains("nothing to move"), "{again}");
    assert_eq!(events(&cluster, "rebalance_moved").len(), 2);
}
