//! Log lines of containers on all nodes, over restarts and rollouts.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, Node, binary, eventually, v1};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::audit::remote;
use crate::scenario::{apply_request, deploy};
use crate::schedules;

/// Longer than any step of these tests takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A `jaco logs` that follows, and what it prints.
struct Follower {
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Follower {
    fn start(node: &Node, args: &[&str]) -> Self {
        let mut command = Command::new(binary("jaco"));
        command.args(args).env("JACO_SOCKET", node.socket()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("jaco can be started");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { lines, _child: child }
    }

    /// Reads until each of these replicas has printed a line with this text.
    async fn each(&mut self, replicas: &[&str], text: &str) {
        let mut missing: BTreeSet<&str> = replicas.iter().copied().collect();
        while !missing.is_empty() {
            let next = tokio::time::timeout(LIMIT, self.lines.next_line()).await;
            let line = next.unwrap_or_else(|_| panic!("no line {text:?} of {missing:?}"));
            let line = line.expect("it can be read");
            let line = line.unwrap_or_else(|| panic!("it ended without {text:?} of {missing:?}"));
            missing.retain(|replica| {
                !(line.starts_with(&format!("[{replica}@")) && line.contains(text))
            });
        }
    }
}

fn run(cluster: &Cluster, args: &[&str]) -> String {
    let out = cluster.cli(0, args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {said}");
    String::from_utf8(out.stdout).expect("text")
}

/// R-CLI-6: whoever follows the logs of a deployment gets the lines of the containers that replace the present
/// ones, on every node: after a rollout, and of added replicas.
#[tokio::test(flavor = "multi_thread")]
async fn followed_logs_go_on_with_successors() {
    const THREE: [&str; 3] = ["shop-web-0", "shop-web-1", "shop-web-2"];
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let mut all = Follower::start(&cluster.nodes[0], &["logs", "shop", "-f"]);
    all.each(&THREE, "web:1 started").await;
    let mut one = Follower::start(&cluster.nodes[1], &["logs", "shop-web-1", "-f"]);
    one.each(&THREE[1..2], "web:1 started").await;
    let rolled = cluster.client().apply(apply_request("shop", "web:2", 4)).await;
    assert_eq!(rolled.expect("it is admitted").revision, 2);
    all.each(&["shop-web-0", "shop-web-1", "shop-web-2", "shop-web-3"], "web:2 started").await;
    one.each(&THREE[1..2], "web:2 started").await;
}

/// R-CLI-6: whoever follows goes on at another node when the one that answers is gone, and no line comes twice.
#[tokio::test(flavor = "multi_thread")]
async fn followed_logs_outlive_the_node_that_answers() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let client = remote(&cluster).await;
    let request = v1::LogsRequest {
        deployment: "shop".to_owned(),
        follow: true,
        ..v1::LogsRequest::default()
    };
    let mut lines = client.log_lines(request);
    let mut seen = Vec::new();
    let mut started = async |image: &str, replicas: usize| {
        let text = format!("{image} started");
        let mut missing = replicas;
        while missing > 0 {
            let next = tokio::time::timeout(LIMIT, lines.next()).await;
            let next = next.unwrap_or_else(|_| panic!("{text:?} is missing of {missing}"));
            let line = next.expect("a node answers").expect("it goes on");
            if line.stream == "missing" {
                continue;
            }
            missing -= usize::from(line.text.contains(&text));
            seen.push((line.replica, line.node, line.at_ms, line.text));
        }
    };
    started("web:1", 3).await;
    let answering = client.answering().expect("it has answered");
    let at = cluster.nodes.iter().position(|node| answering.contains(&node.address));
    cluster.nodes[at.expect("it is one of them")].kill();
    let rolled = cluster.client().apply(apply_request("shop", "web:2", 3)).await;
    assert_eq!(rolled.expect("it is admitted").revision, 2);
    started("web:2", 3).await;
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all, "{seen:?}");
}

/// R-CLI-6, R-JOB-1: the output of a job is there after it has ended, on whichever node that was, and whether it succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn logs_of_jobs_that_have_ended_are_shown() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    for (exit_code, ended) in [(0, "completed"), (3, "failed")] {
        schedules::apply(&cluster, exit_code, &[("job", "")]).await;
        eventually(&format!("the job has {ended}"), || async {
            let replicas = cluster.overview(0).await?.replicas;
            let [job] = replicas.as_slice() else { return Err(format!("{replicas:?}")) };
            let has_ended = job.state == ended && job.code != "container_exited";
            if has_ended { Ok(()) } else { Err(format!("{job:?}")) }
        })
        .await;
        for node in 0..3 {
            for of in ["shop", "shop/job", "shop-job-0"] {
                let out = cluster.cli(node, &["logs", of]);
                let text = String::from_utf8_lossy(&out.stdout).into_owned();
                assert!(text.contains("job:1 started"), "{of} by n{}: {out:?}", node + 1);
            }
        }
        let last = run(&cluster, &["logs", "shop/job", "--tail", "1"]);
        assert_eq!(last.lines().count(), 1, "{last}");
    }
}

/// R-CLI-6: a deployment can be named; the options select lines.
#[tokio::test(flavor = "multi_thread")]
async fn options_select_log_lines() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let lines = |args: &[&str]| run(&cluster, args).lines().count();
    assert_eq!(lines(&["logs", "shop"]), 2);
    assert_eq!(lines(&["logs", "shop", "--tail", "0"]), 0);
    assert_eq!(lines(&["logs", "shop", "--tail", "1"]), 2);
    assert_eq!(lines(&["logs", "shop", "--since", "2099-01-01T00:00:00Z"]), 0);
    assert_eq!(lines(&["logs", "shop", "--grep", "nothing like it"]), 0);
    assert_eq!(lines(&["logs", "shop", "--grep", "web:1"]), 2);
    let timed = run(&cluster, &["logs", "shop-web-0", "-t"]);
    assert!(timed.starts_with("20") && timed.contains("Z [shop-web-0@"), "{timed}");
    let out = cluster.cli(0, &["logs", "shap"]);
    assert_eq!(out.status.code(), Some(3));
}
