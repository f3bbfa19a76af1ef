//! R-FAULT-2: a majority of the voters is lost for good, and a survivor goes on alone.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, Node, binary, eventually, v1};

/// From the command until the survivor takes a write.
const RECOVERED_WITHIN: Duration = Duration::from_secs(10);

async fn issue(node: &Node, name: &str) -> Result<String, String> {
    let request = v1::IssueOperatorTokenRequest { name: name.to_owned(), ..Default::default() };
    let issued = node.client().issue_operator_token(request).await;
    issued.map(|issued| issued.token).map_err(|error| error.to_string())
}

async fn tokens(node: &Node) -> Vec<String> {
    let listed = node.client().list_tokens(v1::ListTokensRequest {}).await;
    listed.expect("the node lists tokens").tokens.into_iter().map(|token| token.id).collect()
}

fn recover(node: &Node, args: &[&str]) -> Output {
    let mut command = Command::new(binary("jacod"));
    command.arg("recover").args(args).arg("--config").arg(node.folder().join("jacod.yaml"));
    command.output().expect("jacod can be started")
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// The position that `--dry-run` shows.
fn position(node: &Node) -> String {
    let shown = said(&recover(node, &["--dry-run"]));
    let line = shown.lines().find_map(|line| line.strip_prefix("Position"));
    line.unwrap_or_else(|| panic!("no position: {shown}")).trim().to_owned()
}

/// Starts the survivor and waits until it takes a write.
async fn goes_on(node: &mut Node, name: &str) {
    node.start();
    let node = &*node;
    eventually("the survivor takes a write", || async { issue(node, name).await }).await;
}

async fn members(node: &Node) -> Vec<String> {
    let status = node.client().status(v1::ClusterStatusRequest {}).await;
    let nodes = status.expect("the survivor answers").nodes;
    nodes.into_iter().map(|node| format!("{} {}", node.hostname, node.suffrage)).collect()
}

/// Waits until a member of before has learned that it was removed, and has ended.
async fn leaves(node: &mut Node) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = node.ended() {
            break status;
        }
        assert!(Instant::now() < deadline, "{} runs on:\n{}", node.name, node.log_tail());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(status.code(), Some(3), "{}:\n{}", node.name, node.log_tail());
}

/// R-FAULT-2: two of three are lost. A recovery is refused while the daemon runs, and where nobody can be asked. Then the third goes
/// on alone with every acknowledged write, audits it, and has a member of before leave, which joins again as a new one.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_three_goes_on_alone() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    issue(&cluster.nodes[0], "before").await.expect("three of three take writes");
    let running = recover(&cluster.nodes[0], &["--yes"]);
    assert!(!running.status.success() && said(&running).contains("in use"), "{}", said(&running));
    for node in &mut cluster.nodes {
        node.kill();
    }
    let unasked = recover(&cluster.nodes[0], &[]);
    assert!(!unasked.status.success() && said(&unasked).contains("--yes"), "{}", said(&unasked));
    let began = Instant::now();
    let recovered = recover(&cluster.nodes[0], &["--yes"]);
    assert!(recovered.status.success(), "{}", said(&recovered));
    assert!(said(&recovered).contains("n2 at "), "{}", said(&recovered));
    goes_on(&mut cluster.nodes[0], "after").await;
    let took = began.elapsed();
    println!("recovered in {took:?}");
    assert!(took <= RECOVERED_WITHIN, "{took:?}");
    let kept = tokens(&cluster.nodes[0]).await;
    assert!(["before", "after"].iter().all(|name| kept.contains(&(*name).to_owned())), "{kept:?}");
    assert_eq!(members(&cluster.nodes[0]).await, ["n1 voter"]);
    let events = said(&cluster.cli(0, &["audit", "-o", "json"]));
    assert!(events.contains("cluster_recovered") && events.contains("n3 at "), "{events}");

    cluster.nodes[1].start();
    leaves(&mut cluster.nodes[1]).await;
    cluster.nodes[1].start();
    cluster.join(1).await;
    cluster.settled().await;
    assert_eq!(members(&cluster.nodes[0]).await.len(), 2);
    let again = recover(&cluster.nodes[2], &["--dry-run"]);
    assert!(again.status.success(), "{}", said(&again));
}

/// R-FAULT-2: three of five are lost, and of the two survivors one lacks a write. It is refused; the other one is recovered. The
/// lost three come back and are a majority of the five: they leave instead of going on as a second cluster.
#[tokio::test(flavor = "multi_thread")]
async fn the_most_advanced_of_two_survivors_is_recovered() {
    let mut cluster = Cluster::start(5, Engine::Fake).await;
    cluster.nodes[1].kill();
    issue(&cluster.nodes[0], "late").await.expect("four of five take writes");
    for node in [0, 2, 3, 4] {
        cluster.nodes[node].kill();
    }
    let (ahead, behind) = (position(&cluster.nodes[0]), position(&cluster.nodes[1]));
    let wrong = recover(&cluster.nodes[1], &["--yes", "--other", &ahead]);
    assert!(!wrong.status.success(), "{}", said(&wrong));
    assert!(said(&wrong).contains(&format!("position {ahead} has what n2")), "{}", said(&wrong));
    assert_eq!(position(&cluster.nodes[1]), behind, "nothing was changed");
    let right = recover(&cluster.nodes[0], &["--yes", "--other", &behind]);
    assert!(right.status.success(), "{}", said(&right));
    goes_on(&mut cluster.nodes[0], "after").await;
    assert!(tokens(&cluster.nodes[0]).await.contains(&"late".to_owned()));

    for node in &mut cluster.nodes[1..] {
        node.start();
    }
    for node in &mut cluster.nodes[1..] {
        leaves(node).await;
    }
    assert_eq!(members(&cluster.nodes[0]).await, ["n1 voter"]);
}
