//! Commands in containers of their own beside replicas.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jaco_testkit::docker::{docker, running};
use jaco_testkit::{Cluster, Engine, binary, eventually, fresh_request_id, v1};

use crate::scenario::IMAGE;

/// A running service with a volume, on one of three nodes; returns its replica.
async fn deployed(cluster: &Cluster) -> v1::ReplicaInfo {
    let mounts = r#"[{"type":"volume","source":"data","target":"/data"}]"#;
    let service = format!(r#"{{"web":{{"image":"{IMAGE}","volumes":{mounts}}}}}"#);
    let request = v1::ApplyRequest {
        compose_json: format!(
            r#"{{"name":"shop","services":{service},"volumes":{{"data":{{}}}}}}"#
        ),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
    let status = cluster.converged(0, "shop").await;
    status.replicas.into_iter().next().expect("there is one")
}

/// `jaco run`, by the daemon of a node.
fn command(cluster: &Cluster, node: usize, args: &[&str]) -> Command {
    let mut command = Command::new(binary("jaco"));
    command.arg("run").args(args).env("JACO_SOCKET", cluster.nodes[node].socket());
    command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ran(cluster: &Cluster, node: usize, args: &[&str]) -> Output {
    command(cluster, node, args).output().expect("jaco can be started")
}

fn said(out: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&out.stdout), text(&out.stderr))
}

/// The containers of commands of this cluster.
fn own_containers(cluster: &Cluster) -> Vec<String> {
    let format = "{{.ID}} {{.State}} {{.Label \"jaco.beside\"}}";
    let all = docker(&["ps", "--all", "--filter", "label=jaco.beside", "--format", format]);
    let scope = format!(" jaco-{}-", &cluster.id[..8]);
    all.lines().filter(|line| line.contains(&scope)).map(str::to_owned).collect()
}

async fn none_left(cluster: &Cluster) {
    eventually("no container of a command is left", || async {
        let left = own_containers(cluster);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

/// Starts a command that runs for long, and waits until it does.
async fn long_one(cluster: &Cluster) -> Child {
    let started = command(cluster, 0, &["-n", "shop/web", "--", "sleep", "600"]).spawn();
    eventually("the command runs", || async {
        let all = own_containers(cluster);
        if all.iter().any(|one| one.contains(" running ")) { Ok(()) } else { Err(all) }
    })
    .await;
    started.expect("jaco can be started")
}

/// Starts a command whose output nobody reads, and waits until it is held up by that.
async fn stalled_one(cluster: &Cluster) -> Child {
    let mut echo = command(cluster, 0, &["shop/web", "--", "cat"]);
    let mut echo = echo.stdin(Stdio::piped()).spawn().expect("jaco can be started");
    let mut input = echo.stdin.take().expect("it is piped");
    let written = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&written);
    std::thread::spawn(move || {
        while input.write_all(&[0; 32 << 10]).is_ok() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut last = 0;
    let mut is_held_up = || {
        let now = written.load(Ordering::Relaxed);
        let same = now > 0 && now == last;
        last = now;
        same
    };
    while !is_held_up() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    echo
}

/// R-JOB-2: a command has the volumes, the network and the entry point of the replica, in a container that is removed at its end,
/// whichever node is asked; its input, output and exit code are the user's, and the replica does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn commands_run_in_containers_of_their_own() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    let replica = deployed(&cluster).await;
    let before = running(&cluster.id);
    let format = "{{range .Mounts}}{{.Source}}{{end}}";
    let data = docker(&["inspect", "--format", format, &replica.container_id]);
    fs::write(format!("{}/word", data.trim()), "migrated").expect("it can be written");
    for node in 0..3 {
        let exits = |args: &[&str], code: i32| {
            let out = ran(&cluster, node, args);
            assert_eq!(out.status.code(), Some(code), "{args:?}: {}", said(&out));
            out
        };
        exits(&["shop/web", "--", "expect", "/data/word", "migrated"], 0);
        exits(&["shop/web", "--", "expect", "/data/word", "absent"], 1);
        // Where the replica listens.
        exits(&["shop/web", "--", "check", "http://127.0.0.1:8080/"], 0);
        exits(&["shop/web", "--", "check", "http://127.0.0.1:8081/"], 1);
        exits(&["shop-web-0", "--", "exit", "7"], 7);
        let echo = exits(&["shop/web", "--entrypoint", "/hello", "--", "echo", "a", "b"], 0);
        assert_eq!(echo.stdout, b"a b\n");
    }
    let many: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
    let mut cat = command(&cluster, 1, &["shop/web", "--", "cat"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("jaco starts");
    let mut input = cat.stdin.take().expect("it is piped");
    let sent = many.clone();
    let writing = std::thread::spawn(move || input.write_all(&sent));
    let mut back = Vec::new();
    cat.stdout.take().expect("it is piped").read_to_end(&mut back).expect("it can be read");
    writing.join().expect("no panic").expect("all is taken");
    assert!(cat.wait().expect("it ends").success() && back == many, "{} bytes", back.len());

    let out = ran(&cluster, 2, &["shop/web", "--entrypoint", "/absent", "--", "x"]);
    assert!(
        out.status.code() != Some(0) && said(&out).contains("error[engine_error]"),
        "{}",
        said(&out)
    );
    none_left(&cluster).await;
    assert_eq!(running(&cluster.id), before, "the replica goes on");
    let status = cluster.overview(0).await.expect("a status");
    assert_eq!(status.replicas.len(), 1, "a command is no replica");
}

/// R-JOB-2: a command ends with whoever started it, with its replica, also if nobody reads its output, and with the daemon that ran it.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_commands_leave_no_container() {
    let mut cluster = Cluster::start(1, Engine::Docker).await;
    deployed(&cluster).await;
    let mut client = long_one(&cluster).await;
    client.kill().expect("it is ours");
    client.wait().expect("it ends");
    none_left(&cluster).await;

    let client = long_one(&cluster).await;
    let restarted = cluster.cli(0, &["restart", "shop/web"]);
    assert!(restarted.status.success(), "{}", said(&restarted));
    let ended = client.wait_with_output().expect("it ends");
    assert!(
        !ended.status.success() && said(&ended).contains("the replica has ended"),
        "{}",
        said(&ended)
    );
    none_left(&cluster).await;
    cluster.converged(0, "shop").await;

    let mut stalled = stalled_one(&cluster).await;
    let restarted = cluster.cli(0, &["restart", "shop/web"]);
    assert!(restarted.status.success(), "{}", said(&restarted));
    none_left(&cluster).await;
    stalled.kill().expect("it is ours");
    stalled.wait().expect("it ends");
    cluster.converged(0, "shop").await;
    let before = running(&cluster.id);

    let mut client = long_one(&cluster).await;
    cluster.nodes[0].kill();
    let ended = client.wait().expect("it ends");
    assert!(!ended.success(), "a connection that is lost is no success");
    assert_eq!(own_containers(&cluster).len(), 1, "the container outlives the daemon");
    cluster.nodes[0].start();
    none_left(&cluster).await;
    cluster.converged(0, "shop").await;
    assert_eq!(running(&cluster.id), before, "the replica goes on");
}
