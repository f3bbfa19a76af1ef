//! R-FAULT-1: a node that lost its log joins again as a new one, by one command, and never votes under its old id.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, Node, binary, eventually, said, v1};

use crate::authority::{held_by, reached, rotate, trusted};
use crate::reverted::copy;
use crate::scenario::deploy;

/// From the command until the node votes again.
const BACK_WITHIN: Duration = Duration::from_secs(30);

fn command(node: &Node, args: &[&str]) -> Command {
    let mut command = Command::new(binary("jacod"));
    command.arg("rejoin").args(args).arg("--config").arg(node.folder().join("jacod.yaml"));
    command.stdin(Stdio::null());
    command
}

fn rejoin(node: &Node, args: &[&str]) -> Output {
    command(node, args).output().expect("jacod can be started")
}

async fn issue(node: &Node, name: &str) {
    let attempt = || async {
        let request = v1::IssueOperatorTokenRequest { name: name.to_owned(), ..Default::default() };
        node.client().issue_operator_token(request).await.map_err(|error| error.to_string())
    };
    eventually("a write is taken", attempt).await;
}

async fn tokens(node: &Node) -> Vec<String> {
    let listed = node.client().list_tokens(v1::ListTokensRequest {}).await;
    listed.expect("the node lists tokens").tokens.into_iter().map(|token| token.id).collect()
}

/// The members as another node than `except` knows them, by name.
async fn members(cluster: &Cluster, except: usize) -> BTreeMap<String, v1::NodeInfo> {
    let other = usize::from(except == 0);
    let status = cluster.nodes[other].client().status(v1::ClusterStatusRequest {}).await;
    let nodes = status.expect("the node answers").nodes;
    nodes.into_iter().map(|node| (node.hostname.clone(), node)).collect()
}

/// A cluster with a replica on each node, of which node `index` has a label that an operator set.
async fn with_label_on(cluster: &Cluster, index: usize) {
    deploy(cluster, "shop", "web:1", 3).await;
    let request = v1::SetLabelsRequest {
        hostname: cluster.nodes[index].name.clone(),
        set: [("zone".to_owned(), "b".to_owned())].into(),
        ..Default::default()
    };
    cluster.client().set_labels(request).await.expect("labels can be set");
}

fn raft_of(node: &Node) -> std::path::PathBuf {
    node.folder().join("data/raft")
}

fn engine_of(node: &Node) -> String {
    fs::read_to_string(node.folder().join("data/fake-engine.json")).unwrap_or_default()
}

/// Waits until a daemon has ended by itself, and says how to go on.
async fn refuses(node: &mut Node) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while node.ended().is_none() {
        assert!(Instant::now() < deadline, "{} runs on:\n{}", node.name, node.log_tail());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let said = node.log_tail();
    assert!(said.contains("jacod rejoin"), "{} says:\n{said}", node.name);
}

/// The node is a member as it was, but for its id, and votes.
async fn is_back(cluster: &Cluster, index: usize, before: &v1::NodeInfo) {
    cluster.settled().await;
    let name = &cluster.nodes[index].name;
    eventually("it votes again", || async {
        let members = members(cluster, index).await;
        let now = members.get(name).cloned().unwrap_or_default();
        let others_gone = members.values().all(|node| node.id != before.id);
        let is_same = now.labels == before.labels && now.address == before.address;
        let works = now.status == "ready" && now.suffrage == "voter" && now.id > before.id;
        if members.len() == 3 && others_gone && is_same && works { Ok(()) } else { Err(members) }
    })
    .await;
}

/// Loses the log of a node, and has it return.
async fn loses_its_log(cluster: &mut Cluster, index: usize) {
    with_label_on(cluster, index).await;
    issue(&cluster.nodes[0], "before").await;
    let before = members(cluster, index).await[&cluster.nodes[index].name].clone();
    assert!(engine_of(&cluster.nodes[index]).contains("shop-web"), "it has a container");
    cluster.nodes[index].kill();
    fs::remove_dir_all(raft_of(&cluster.nodes[index]).join("log")).expect("the log is there");
    cluster.nodes[index].start();
    refuses(&mut cluster.nodes[index]).await;
    let other = usize::from(index == 0);
    issue(&cluster.nodes[other], "meanwhile").await;

    let unasked = rejoin(&cluster.nodes[index], &[]);
    assert!(!unasked.status.success() && said(&unasked).contains("--yes"), "{}", said(&unasked));
    let shown = rejoin(&cluster.nodes[index], &["--dry-run"]);
    assert!(shown.status.success() && said(&shown).contains("label zone=b"), "{}", said(&shown));
    assert_eq!(members(cluster, index).await[&before.hostname].id, before.id, "nothing is changed");
    let began = Instant::now();
    let returned = rejoin(&cluster.nodes[index], &["--yes"]);
    assert!(returned.status.success(), "{}", said(&returned));
    assert!(!engine_of(&cluster.nodes[index]).contains("shop-web"), "its containers are gone");
    cluster.nodes[index].start();
    is_back(cluster, index, &before).await;
    assert!(began.elapsed() < BACK_WITHIN, "{:?}", began.elapsed());
    let node = &cluster.nodes[index];
    eventually("it has the acknowledged writes", || async {
        let found = tokens(node).await;
        let has = |name: &str| found.iter().any(|token| token == name);
        if has("before") && has("meanwhile") { Ok(()) } else { Err(found) }
    })
    .await;
}

/// R-FAULT-1: a follower. The command is refused while the daemon runs, and changes nothing where the log is in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_without_its_log_returns_by_one_command() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let follower = (0..3).find(|node| *node != leader).expect("two of three do not lead");
    loses_its_log(&mut cluster, follower).await;

    let before = members(&cluster, follower).await;
    let running = rejoin(&cluster.nodes[follower], &["--yes"]);
    assert!(!running.status.success() && said(&running).contains("in use"), "{}", said(&running));
    cluster.nodes[follower].stop();
    let again = rejoin(&cluster.nodes[follower], &["--yes"]);
    assert!(again.status.success() && said(&again).contains("in order"), "{}", said(&again));
    cluster.nodes[follower].start();
    cluster.settled().await;
    let ids = |members: &BTreeMap<String, v1::NodeInfo>| -> Vec<u64> {
        members.values().map(|node| node.id).collect()
    };
    assert_eq!(ids(&members(&cluster, follower).await), ids(&before));
}

/// R-FAULT-1: the leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_its_log_returns_by_one_command() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    loses_its_log(&mut cluster, leader).await;
}

/// R-FAULT-1: a command that is killed at any moment can be run again, and the node is never a member twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_return_that_is_killed_is_run_again() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let node = 2;
    with_label_on(&cluster, node).await;
    let before = members(&cluster, node).await["n3"].clone();
    cluster.nodes[node].kill();
    fs::remove_dir_all(raft_of(&cluster.nodes[node])).expect("the log is there");
    eventually("the cluster knows that it is down", || async {
        let status = members(&cluster, node).await["n3"].status.clone();
        if status == "down" { Ok(()) } else { Err(status) }
    })
    .await;
    let (mut moment, mut killed) = (Duration::from_millis(1), 0);
    loop {
        let mut running = command(&cluster.nodes[node], &["--yes"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("jacod can be started");
        // Passing time is what is tested: it is killed at one moment after the other.
        tokio::time::sleep(moment).await;
        if let Some(status) = running.try_wait().expect("an own child") {
            assert!(status.success(), "{status}");
            break;
        }
        running.kill().expect("an own child");
        running.wait().expect("an own child");
        killed += 1;
        moment = moment * 5 / 4 + Duration::from_millis(1);
    }
    println!("killed {killed} times");
    assert!(killed > 3, "it ended before it was killed");
    cluster.nodes[node].start();
    is_back(&cluster, node, &before).await;
}

/// R-FAULT-1: a command that ended once the certificate was deleted, and before it was forgotten which log was written, is run
/// again: the new member does not miss the log of the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_return_that_ended_between_two_files_is_run_again() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let node = 2;
    with_label_on(&cluster, node).await;
    let before = members(&cluster, node).await["n3"].clone();
    cluster.nodes[node].kill();
    fs::remove_dir_all(raft_of(&cluster.nodes[node])).expect("the log is there");
    let identity = cluster.nodes[node].folder().join("data/node");
    // What is no file is not deleted as one, so it ends there.
    let in_the_way = identity.join("kek.next");
    fs::create_dir_all(&in_the_way).expect("it is a folder of ours");
    let ended = rejoin(&cluster.nodes[node], &["--yes"]);
    assert!(!ended.status.success(), "{}", said(&ended));
    assert!(!identity.join("node.crt").exists(), "{}", said(&ended));
    assert!(identity.join("raft-log.id").exists(), "{}", said(&ended));
    fs::remove_dir(&in_the_way).expect("it is empty");
    let run = rejoin(&cluster.nodes[node], &["--yes"]);
    assert!(run.status.success(), "{}", said(&run));
    cluster.nodes[node].start();
    is_back(&cluster, node, &before).await;
}

/// R-FAULT-1: a copy that lost its log does not remove its original, which runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_does_not_take_the_place_of_its_original() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let before = members(&cluster, 2).await["n3"].clone();
    let copied = 3;
    cluster.add_daemon();
    cluster.nodes[copied].kill();
    let (from, to) =
        (cluster.nodes[2].folder().join("data"), cluster.nodes[copied].folder().join("data"));
    if to.exists() {
        fs::remove_dir_all(&to).expect("the folder can be removed");
    }
    copy(&from, &to);
    fs::remove_dir_all(to.join("raft")).expect("the log was copied");
    let refused = rejoin(&cluster.nodes[copied], &["--yes"]);
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(said(&refused).contains("a daemon runs as n3"), "{}", said(&refused));
    let after = members(&cluster, 2).await["n3"].clone();
    assert_eq!((after.id, after.status.as_str()), (before.id, "ready"));
}

/// R-FAULT-1: a node that an operator removed meanwhile clears its machine, and says who admits it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_removed_meanwhile_is_cleared() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    cluster.nodes[2].kill();
    fs::remove_dir_all(raft_of(&cluster.nodes[2])).expect("the log is there");
    let request =
        v1::RemoveNodeRequest { hostname: "n3".to_owned(), force: true, ..Default::default() };
    cluster.client().remove_node(request).await.expect("it can be removed");
    let refused = rejoin(&cluster.nodes[2], &["--yes"]);
    let text = said(&refused);
    assert!(!refused.status.success() && text.contains("jaco cluster join"), "{text}");
    assert!(!engine_of(&cluster.nodes[2]).contains("shop-web"), "its containers are gone");
    cluster.nodes[2].start();
    eventually("the daemon answers", || async {
        let status = cluster.nodes[2].client().status(v1::ClusterStatusRequest {}).await;
        status.map_err(|error| error.to_string())
    })
    .await;
    cluster.join(2).await;
    cluster.settled().await;
}

/// R-FAULT-1, R-CLI-6: while the authority is rotated, a node that lost its log holds the phase that began without it. It returns by
/// the same command, with a certificate that outlives the phase, and the rotation goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_log_returns_while_the_authority_is_rotated() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let lost = (leader + 1) % 3;
    for (phase, action) in
        [("trusting", &[][..]), ("renewing", &["--continue", "--revoke-join-tokens"])]
    {
        let before = members(&cluster, lost).await[&cluster.nodes[lost].name].clone();
        cluster.nodes[lost].kill();
        fs::remove_dir_all(raft_of(&cluster.nodes[lost]).join("log")).expect("the log is there");
        rotate(&cluster, leader, action);
        held_by(&cluster, leader, phase, &before.hostname).await;
        let returned = rejoin(&cluster.nodes[lost], &["--yes"]);
        assert!(returned.status.success(), "{phase}: {}", said(&returned));
        cluster.nodes[lost].start();
        is_back(&cluster, lost, &before).await;
        let goal = if phase == "renewing" { "settled" } else { phase };
        reached(&cluster, leader, goal).await;
    }
    issue(&cluster.nodes[lost], "after").await;
    let (new, now) = (trusted(&cluster, leader), trusted(&cluster, lost));
    assert_eq!((new.len(), &new), (1, &now), "all trust the new one alone");
}
