//! Hot nodes with real containers: what they use is what the kernel says of them.

use std::net::SocketAddr;
use std::time::Duration;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, eventually_within, fresh_request_id, v1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::routing::{CHECK, Load, Proxy};
use crate::scenario::{IMAGE, apply, replicas};

/// 200 MiB a node, of which only its own replicas count: the three share a machine. Short intervals.
const SETTINGS: &str = "capacity: {cpu_millis: 1000000, memory_bytes: 209715200}\n\
    rebalance: {measure: replicas, sample_interval_millis: 1000, cycle_interval_millis: 1000, \
    window_millis: 1000, replica_cooldown_millis: 1000, node_cooldown_millis: 1000}\n";

const PATIENCE: Duration = Duration::from_secs(90);

/// R-REB-1, R-REB-5, R-REB-7: two replicas heat a node with their memory. The one with a volume uses
/// more and stays; the other one moves, start-first, and no request to it fails; the audit has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_hot_node_is_relieved_and_no_request_fails() {
    let cluster = Cluster::start_with(3, Engine::Docker, SETTINGS).await;
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
    let load = Load::start(proxy.address);
    hold(&cluster, "base", 100).await;
    hold(&cluster, "shop", 80).await;
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
    // What was measured, and not what is taken for granted: 80 of 200 MiB and the program itself.
    let relief: f64 = facts["relief"].as_str().expect("a share").parse().expect("a number");
    assert!((0.38..0.60).contains(&relief), "{facts}");
    // n1 is cool now, and nothing follows.
    let top = cluster.cli(0, &["top", "-o", "json"]);
    let top: serde_json::Value = serde_json::from_slice(&top.stdout).expect("JSON");
    let data =
        top["replicas"].as_array().expect("a list").iter().find(|it| it["service"] == "data");
    let bytes = data.and_then(|it| it["measured"]["memory_bytes"].as_u64()).expect("measured");
    assert!(bytes >= 100 << 20, "{top}");
}

async fn set_availability(cluster: &Cluster, hostname: &str, availability: &str) {
    let request = v1::SetAvailabilityRequest {
        hostname: hostname.to_owned(),
        availability: availability.to_owned(),
        ..v1::SetAvailabilityRequest::default()
    };
    cluster.client().set_availability(request).await.expect("set");
}

/// Makes the one replica of a deployment hold so much memory.
async fn hold(cluster: &Cluster, deployment: &str, mib: u32) {
    let replica = replicas(cluster, 0, deployment).await.remove(0);
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let ip = docker(&["inspect", "--format", format, &replica.container_id]);
    let address = SocketAddr::new(ip.parse().expect("an address"), 8080);
    let mut stream = TcpStream::connect(address).await.expect("it serves");
    let request = format!("GET /memory?mib={mib} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
