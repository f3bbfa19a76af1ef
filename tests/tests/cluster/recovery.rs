//! R-FAULT-2: a majority of the voters is lost for good, and a survivor goes on alone.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, Node, binary, eventually, said, v1};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

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
    let folder = |node: usize| cluster.nodes[node].folder().join("data").display().to_string();
    let compared = recover(&cluster.nodes[1], &["--yes", "--other", &folder(0)]);
    assert!(!compared.status.success(), "{}", said(&compared));
    let lost = said(&compared);
    assert!(lost.contains(&format!("at {ahead} has what n2 at {behind} lacks")), "{lost}");
    assert!(lost.contains("OperatorTokenIssue by local:"), "what would be lost is listed: {lost}");
    assert_eq!(position(&cluster.nodes[1]), behind, "nothing was changed");
    let fine = recover(&cluster.nodes[0], &["--dry-run", "--other", &folder(1)]);
    assert!(fine.status.success(), "{}", said(&fine));
    assert_eq!(position(&cluster.nodes[1]), behind, "reading it changes nothing");
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

/// Runs a recovery at a terminal, and types this answer at its question.
fn answered(node: &Node, answer: &str) -> (Option<i32>, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("it can be used");
    let name = ptsname(&terminal, Vec::new()).expect("it has a name");
    let name = name.into_string().expect("text");
    let side = || File::options().read(true).write(true).open(&name).expect("the other side");
    let mut command = Command::new(binary("jacod"));
    command.arg("recover").arg("--config").arg(node.folder().join("jacod.yaml"));
    let process = command.stdin(side()).stdout(side()).stderr(side()).spawn();
    let mut process = process.expect("jacod can be started");
    // Its ends of the terminal are closed with it; then reading fails, which is how a terminal ends.
    drop(command);
    let (mut seat, mut shown) = (File::from(terminal), Vec::new());
    let mut piece = [0; 4096];
    let mut is_asked = false;
    while let Ok(length @ 1..) = seat.read(&mut piece) {
        shown.extend_from_slice(&piece[..length]);
        if !is_asked && String::from_utf8_lossy(&shown).contains("Type the name of this node") {
            seat.write_all(format!("{answer}\n").as_bytes()).expect("typed");
            is_asked = true;
        }
    }
    let status = process.wait().expect("it ends");
    assert!(is_asked, "{}", String::from_utf8_lossy(&shown));
    (status.code(), String::from_utf8_lossy(&shown).into_owned())
}

/// R-FAULT-2: at a terminal a recovery asks for the name of the node. Anything else changes nothing; the name recovers it.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_asks_for_the_name_of_the_node() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    for node in &mut cluster.nodes {
        node.kill();
    }
    let before = position(&cluster.nodes[0]);
    for wrong in ["", "y", "yes", "n2", "N1", "n1 n1"] {
        let (code, shown) = answered(&cluster.nodes[0], wrong);
        assert_eq!(code, Some(1), "{wrong:?}: {shown}");
        assert!(shown.contains("not confirmed, nothing was changed"), "{wrong:?}: {shown}");
        assert_eq!(position(&cluster.nodes[0]), before, "{wrong:?}");
    }
    let (code, shown) = answered(&cluster.nodes[0], "n1");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("n1 is the only member"), "{shown}");
    goes_on(&mut cluster.nodes[0], "after").await;
    assert_eq!(members(&cluster.nodes[0]).await, ["n1 voter"]);
}
