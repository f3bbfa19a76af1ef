//! Why a container stopped, told after it is gone, and one that keeps crashing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, eventually_within};
use serde_json::Value;

use crate::scenario::{IMAGE, apply, replicas};

const PATIENCE: Duration = Duration::from_secs(60);

/// `jaco get replica`, as a program reads it; null where there is none yet.
fn replica(cluster: &Cluster, node: usize, id: &str) -> Value {
    let out = cluster.cli(node, &["get", "replica", id, "-o", "json"]);
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("replica_not_found"), "{said}");
        return Value::Null;
    }
    serde_json::from_slice(&out.stdout).expect("json")
}

/// Waits for the newest ending of shop's only replica, and for its successor to run.
async fn last_ending(cluster: &Cluster, code: &str) -> Value {
    eventually_within(PATIENCE, &format!("it ended: {code}"), || async {
        let now = replica(cluster, 0, "shop-web-0");
        let last = &now["endings"][0];
        let told = last["code"] == code && now["state"] == "running";
        if told { Ok(last.clone()) } else { Err(now) }
    })
    .await
}

/// Asks a container's server for a path; whether it answers does not matter.
fn ask(container: &str, method: &str, path: &str) {
    let ip = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let address = format!("{}:8080", docker(&["inspect", "--format", ip, container]));
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let _answer_or_end = stream.read_to_end(&mut Vec::new()).is_err();
}

async fn container(cluster: &Cluster) -> String {
    replicas(cluster, 0, "shop").await[0].container_id.clone()
}

/// R-HEAL-4: an exit, a lack of memory, a failing healthcheck and a removal by hand are told by
/// `jaco get replica` once the container is gone, with exit code, signal and the words of whoever
/// failed.
#[tokio::test(flavor = "multi_thread")]
async fn why_it_stopped_is_told_once_it_is_gone() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let members = r#","mem_limit":"67108864","healthcheck":{"test":["CMD","/hello","check","http://127.0.0.1:8080/healthz"],"interval":"500ms","timeout":"2s","retries":1,"start_period":"2s"}"#;
    apply(&cluster, "shop", IMAGE, 1, members).await;
    cluster.converged(0, "shop").await;

    ask(&container(&cluster).await, "POST", "/control/exit?code=7");
    let ending = last_ending(&cluster, "container_exited").await;
    assert_eq!((&ending["exit_code"], &ending["aftermath"]), (&7.into(), &"restarted".into()));

    docker(&["rm", "--force", &container(&cluster).await]);
    last_ending(&cluster, "container_missing").await;
    // The same files again give a new budget.
    apply(&cluster, "shop", IMAGE, 1, members).await;

    ask(&container(&cluster).await, "POST", "/control/unhealthy");
    let ending = last_ending(&cluster, "unhealthy").await;
    let output = ending["details"]["reason"].as_str().unwrap_or_default();
    assert!(output.contains("503"), "what the check wrote last: {ending}");

    ask(&container(&cluster).await, "GET", "/memory?mib=256");
    let ending = last_ending(&cluster, "container_exited").await;
    assert_eq!((&ending["exit_code"], &ending["signal"]), (&137.into(), &"SIGKILL".into()));
    assert_eq!(ending["out_of_memory"], true, "{ending}");

    let wide = cluster.cli(0, &["get", "replicas", "-o", "wide"]);
    let wide = String::from_utf8_lossy(&wide.stdout).into_owned();
    assert!(wide.contains("container_exited, exit code 137 (SIGKILL), out of memory"), "{wide}");
    assert_eq!(jaco_testkit::docker::containers(&cluster.id).len(), 1, "the old ones are gone");
}

/// R-HEAL-1, R-HEAL-2: a container that crashes has three strikes, the last of
/// them after a pause, and then there is quiet: nothing is started and nothing committed. An apply
/// gives it a new budget.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_has_three_strikes_and_then_quiet() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    // A usage error: it writes how it is used, and exits with 2.
    let crash = r#","command":["exit","soon"]"#;
    for round in 1..=2 {
        apply(&cluster, "shop", IMAGE, 1, crash).await;
        eventually_within(PATIENCE, "the budget is spent", || async {
            let now = replica(&cluster, 1, "shop-web-0");
            let events = cluster.cli(0, &["audit", "--type", "replica_exhausted", "-o", "json"]);
            let told = String::from_utf8_lossy(&events.stdout).matches("shop-web-0").count();
            let spent = now["code"] == "restart_exhausted" && told == round;
            if spent { Ok(()) } else { Err(now) }
        })
        .await;
        let now = replica(&cluster, 2, "shop-web-0");
        assert_eq!(now["exit_code"], 2, "{now}");
        let endings = now["endings"].as_array().expect("a list");
        assert!(endings.len() >= 2 && endings.len() <= 5, "{now}");
        for ending in endings {
            let said = ending["details"]["output"].as_str().unwrap_or_default();
            assert!(said.contains("GET / /healthz"), "its last words: {ending}");
        }
        // Strike one is answered at once, strike two after a second.
        let started = |ending: &Value| ending["raft_index"].as_u64().expect("a number");
        assert!(started(&endings[0]) > started(&endings[1]));
        assert!(now["raft_index"].as_u64().expect("a number") > started(&endings[0]));
        let left = jaco_testkit::docker::containers(&cluster.id);
        assert_eq!(left.len(), 1, "the last one stays, to be looked at: {left:?}");
        let quiet = eventually_within(PATIENCE, "the index stands still for 2 s", || async {
            let before = cluster.overview(0).await?.raft_index;
            tokio::time::sleep(Duration::from_secs(2)).await;
            let after = cluster.overview(0).await?.raft_index;
            if before == after { Ok(after) } else { Err(format!("{before} -> {after}")) }
        })
        .await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(cluster.overview(0).await.expect("it answers").raft_index, quiet);
        assert_eq!(jaco_testkit::docker::containers(&cluster.id), left);
    }
}
