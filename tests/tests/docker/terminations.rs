//! Terminations: why a container stopped, reported after it is gone; and crash loops.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use jaco_testkit::docker::{containers, docker};
use jaco_testkit::{Cluster, Engine, eventually_within, stays};
use serde_json::Value;

use crate::scenario::{IMAGE, apply, replicas};

const PATIENCE: Duration = Duration::from_secs(180);

/// `jaco get replica -o json`; null while there is no such replica.
fn replica(cluster: &Cluster, node: usize, id: &str) -> Value {
    let out = cluster.cli(node, &["get", "replica", id, "-o", "json"]);
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("replica_not_found"), "{said}");
        return Value::Null;
    }
    serde_json::from_slice(&out.stdout).expect("json")
}

/// Waits until the last termination of shop's only replica has this code and its successor runs.
async fn last_termination(cluster: &Cluster, code: &str) -> Value {
    eventually_within(PATIENCE, &format!("it ended: {code}"), || async {
        let now = replica(cluster, 0, "shop-web-0");
        let last = &now["terminations"][0];
        let told = last["code"] == code && now["state"] == "running";
        if told { Ok(last.clone()) } else { Err(now) }
    })
    .await
}

/// Sends a request to a container's server; the answer does not matter.
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

/// R-HEAL-4: `jaco get replica` shows an exit, an out-of-memory kill, a failing healthcheck and a
/// removal by hand after the container is gone, with exit code, signal and output.
#[tokio::test(flavor = "multi_thread")]
async fn termination_is_reported_after_the_container_is_gone() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let members = r#","mem_limit":"67108864","healthcheck":{"test":["CMD","/hello","check","http://127.0.0.1:8080/healthz"],"interval":"500ms","timeout":"2s","retries":1,"start_period":"2s"}"#;
    apply(&cluster, "shop", IMAGE, 1, members).await;
    cluster.converged(0, "shop").await;

    ask(&container(&cluster).await, "POST", "/control/exit?code=7");
    let termination = last_termination(&cluster, "container_exited").await;
    assert_eq!(
        (&termination["exit_code"], &termination["outcome"]),
        (&7.into(), &"restarted".into())
    );

    docker(&["rm", "--force", &container(&cluster).await]);
    last_termination(&cluster, "container_missing").await;
    // Applying the same files resets the restart budget.
    apply(&cluster, "shop", IMAGE, 1, members).await;

    ask(&container(&cluster).await, "POST", "/control/unhealthy");
    let termination = last_termination(&cluster, "unhealthy").await;
    let output = termination["details"]["reason"].as_str().unwrap_or_default();
    assert!(output.contains("503"), "what the check wrote last: {termination}");

    ask(&container(&cluster).await, "GET", "/memory?mib=256");
    let termination = last_termination(&cluster, "container_exited").await;
    assert_eq!(
        (&termination["exit_code"], &termination["signal"]),
        (&137.into(), &"SIGKILL".into())
    );
    assert_eq!(termination["out_of_memory"], true, "{termination}");

    let wide = cluster.cli(0, &["get", "replicas", "-o", "wide"]);
    let wide = String::from_utf8_lossy(&wide.stdout).into_owned();
    assert!(wide.contains("container_exited, exit code 137 (SIGKILL), out of memory"), "{wide}");
    assert_eq!(containers(&cluster.id).len(), 1, "the old ones are gone");
}

/// R-HEAL-1, R-HEAL-2: three failures, the last after a back-off, exhaust the restart budget of a
/// crashing container. Then nothing is started and nothing committed. An apply resets the budget.
#[tokio::test(flavor = "multi_thread")]
async fn crash_loop_exhausts_the_restart_budget() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    // A usage error: it prints its usage and exits with 2.
    let crash = r#","command":["exit","soon"]"#;
    for round in 1..=2 {
        apply(&cluster, "shop", IMAGE, 1, crash).await;
        eventually_within(PATIENCE, "the restart budget is exhausted", || async {
            let now = replica(&cluster, 1, "shop-web-0");
            let events = cluster.cli(0, &["audit", "--type", "replica_exhausted", "-o", "json"]);
            let told = String::from_utf8_lossy(&events.stdout).matches("shop-web-0").count();
            let spent = now["code"] == "restart_exhausted" && told == round;
            if spent { Ok(()) } else { Err(now) }
        })
        .await;
        let now = replica(&cluster, 2, "shop-web-0");
        assert_eq!(now["exit_code"], 2, "{now}");
        let terminations = now["terminations"].as_array().expect("a list");
        assert!(terminations.len() >= 2 && terminations.len() <= 5, "{now}");
        for termination in terminations {
            let said = termination["details"]["output"].as_str().unwrap_or_default();
            let last = "HELLO_DRAIN_MS, HELLO_LEDGER.";
            assert!(said.trim_end().ends_with(last), "its output: {termination}");
        }
        // The first failure is restarted immediately, the second after a second.
        let started = |termination: &Value| termination["raft_index"].as_u64().expect("a number");
        assert!(started(&terminations[0]) > started(&terminations[1]));
        assert!(now["raft_index"].as_u64().expect("a number") > started(&terminations[0]));
        let left = containers(&cluster.id);
        assert_eq!(left.len(), 1, "the last container is kept: {left:?}");
        // Longer than the longest back-off of a restart.
        let idle = cluster.idle_index(0).await;
        let look =
            || async { Ok((cluster.overview(0).await?.raft_index, containers(&cluster.id))) };
        stays(Duration::from_secs(10), "nothing is restarted", &(idle, left), look).await;
    }
}
