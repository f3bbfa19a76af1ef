//! Hot nodes with real containers, measured through the kernel.

use std::net::SocketAddr;
use std::time::Duration;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, eventually_within, fresh_request_id, v1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::routing::{CHECK, Load, Proxy};
use crate::scenario::{IMAGE, apply, replicas};

/// Only its own replicas count for a node: the three share a machine, and others use it too. Short
/// intervals.
const SETTINGS: &str = "rebalance: {measure: replicas, sample_interval_millis: 1000, cycle_interval_millis: 1000, \
    window_millis: 1000, replica_cooldown_millis: 1000, node_cooldown_millis: 1000}\n";

const PATIENCE: Duration = Duration::from_secs(240);

/// What heats the node: requested usage of the two replicas, and measured shares.
struct Heat {
    /// Capacity of a node.
    capacity: &'static str,
    dominant: &'static str,
    /// By the replica with a volume, which stays and does not heat the node alone.
    staying: &'static str,
    /// By the other replica.
    moving: &'static str,
    /// Measured share of the other one, not the assumed default.
    relief: std::ops::Range<f64>,
    /// Least share of the one that stays, by `jaco top`.
    measured: (&'static str, u64),
}

/// R-REB-1, R-REB-5, R-REB-7: two replicas heat a node by memory. The one with a volume uses more
/// and stays; the other one moves, start-first, without failed requests, and the move is audited.
#[tokio::test(flavor = "multi_thread")]
async fn memory_pressure_moves_a_replica_without_failed_requests() {
    rebalances(&Heat {
        capacity: "{cpu_millis: 1000000, memory_bytes: 209715200}",
        dominant: "memory",
        staying: "/memory?mib=100",
        moving: "/memory?mib=80",
        // 80 of 200 MiB and the program itself.
        relief: 0.38..0.60,
        measured: ("memory_bytes", 100 << 20),
    })
    .await;
}

/// R-REB-1, R-REB-5, R-REB-7: likewise with processor time.
#[tokio::test(flavor = "multi_thread")]
async fn cpu_pressure_moves_a_replica_without_failed_requests() {
    rebalances(&Heat {
        // Little, so that a machine that is busy with other things can give it to them all the same.
        capacity: "{cpu_millis: 200, memory_bytes: 10737418240}",
        dominant: "cpu",
        staying: "/cpu?millis=100",
        moving: "/cpu?millis=88",
        // 88 of 200, and what requests and checks take, which is as much again on a slow machine; assumed would be 0.12.
        relief: 0.25..1.0,
        measured: ("cpu_millis", 40),
    })
    .await;
}

async fn rebalances(heat: &Heat) {
    let settings = format!("capacity: {}\n{SETTINGS}", heat.capacity);
    let cluster = Cluster::start_with(3, Engine::Docker, &settings).await;
    for host in ["n2", "n3"] {
        set_availability(&cluster, host, "cordoned").await;
    }
    apply(&cluster, "shop", IMAGE, 1, CHECK).await;
    let model = r#"{"name":"base","services":{"data":{"image":"jaco-hello:v1","volumes":[{"type":"volume","source":"rows","target":"/rows"}]}},"volumes":{"rows":{"name":"base_rows"}}}"#;
    let request = v1::ApplyRequest {
        compose_json: model.to_owned(),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("admitted");
    for name in ["shop", "base"] {
        cluster.converged(0, name).await;
    }
    for host in ["n2", "n3"] {
        set_availability(&cluster, host, "active").await;
    }
    let proxy = Proxy::start(&cluster, 1, "shop", 1).await;
    // Few requests: constant load would heat the processor.
    let load = Load::paced(proxy.address, Duration::from_millis(100));
    ask(&cluster, "base", heat.staying).await;
    ask(&cluster, "shop", heat.moving).await;
    eventually_within(PATIENCE, "the replica without data has left n1, whole", || async {
        let now = replicas(&cluster, 0, "shop").await;
        let done = now.iter().all(|it| it.node != "n1" && it.retiring.is_none());
        if done { Ok(()) } else { Err(now) }
    })
    .await;
    let (served, failed) = load.stop().await;
    assert_eq!(failed, Vec::<String>::new(), "of {served} requests");
    assert!(served > 100, "only {served} requests were sent");
    assert_eq!(proxy.fewest(), 1);
    let base = replicas(&cluster, 0, "base").await;
    assert_eq!(base.iter().map(|it| it.node.as_str()).collect::<Vec<_>>(), ["n1"]);
    let said = cluster.cli(1, &["audit", "--type", "rebalance_moved", "-o", "json"]);
    let moved: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(moved.as_array().map(Vec::len), Some(1), "{moved}");
    let facts = &moved[0]["payload"];
    assert_eq!((&facts["replica_id"], &facts["src"]), (&"shop-web-0".into(), &"n1".into()));
    assert_eq!(facts["dominant"], heat.dominant, "{facts}");
    let relief: f64 = facts["relief"].as_f64().expect("a number");
    assert!(heat.relief.contains(&relief), "{facts}");
    // n1 is cool now, and nothing else moves.
    let top = cluster.cli(0, &["top", "-o", "json"]);
    let top: serde_json::Value = serde_json::from_slice(&top.stdout).expect("JSON");
    let data =
        top["replicas"].as_array().expect("a list").iter().find(|it| it["service"] == "data");
    let (key, least) = heat.measured;
    let used = data.and_then(|it| it["measured"][key].as_u64()).expect("measured");
    assert!(used >= least, "{top}");
}

/// R-REB-2: without the kernel's files the usage comes from the engine.
#[tokio::test(flavor = "multi_thread")]
async fn usage_comes_from_the_engine_without_cgroup_files() {
    let settings = format!(
        "capacity: {{cpu_millis: 2000, memory_bytes: 1073741824}}\n{}",
        SETTINGS.replace("rebalance: {", "rebalance: {system_root: /nowhere, ")
    );
    let cluster = Cluster::start_with(1, Engine::Docker, &settings).await;
    apply(&cluster, "shop", IMAGE, 1, CHECK).await;
    cluster.converged(0, "shop").await;
    ask(&cluster, "shop", "/memory?mib=100").await;
    ask(&cluster, "shop", "/cpu?millis=200").await;
    eventually_within(PATIENCE, "what it uses is known", || async {
        let top = cluster.cli(0, &["top", "-o", "json"]);
        let top: serde_json::Value = serde_json::from_slice(&top.stdout).expect("JSON");
        let measured = &top["replicas"][0]["measured"];
        let of = |key: &str| measured[key].as_u64().unwrap_or_default();
        let is_known = of("memory_bytes") >= 100 << 20 && of("cpu_millis") >= 50;
        if is_known { Ok(()) } else { Err(top) }
    })
    .await;
}

async fn set_availability(cluster: &Cluster, hostname: &str, availability: &str) {
    let request = v1::SetAvailabilityRequest {
        hostname: hostname.to_owned(),
        availability: availability.to_owned(),
        ..v1::SetAvailabilityRequest::default()
    };
    cluster.client().set_availability(request).await.expect("set");
}

/// Sends a request to the only replica of a deployment.
async fn ask(cluster: &Cluster, deployment: &str, path: &str) {
    let replica = replicas(cluster, 0, deployment).await.remove(0);
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let ip = docker(&["inspect", "--format", format, &replica.container_id]);
    let address = SocketAddr::new(ip.parse().expect("an address"), 8080);
    let mut stream = TcpStream::connect(address).await.expect("it serves");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
