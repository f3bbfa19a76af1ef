//! Outages: a cluster that was off for longer than its certificates live, and voters that come back
//! without the log that they voted with.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use jaco_testkit::clock::faketime_library;
use jaco_testkit::{Cluster, Engine, Node, binary, eventually, v1};

async fn issue(node: &Node, name: &str) -> String {
    let request = v1::IssueOperatorTokenRequest { name: name.to_owned(), ..Default::default() };
    node.client().issue_operator_token(request).await.expect("the node takes writes").token
}

/// The operator tokens that a node lists: each is an acknowledged write.
async fn tokens(node: &Node) -> BTreeSet<String> {
    let listed = node.client().list_tokens(v1::ListTokensRequest {}).await;
    listed.expect("the node lists tokens").tokens.into_iter().map(|token| token.id).collect()
}

/// Waits until a node lists these tokens: it answers by its own state, a moment after a majority has them.
async fn lists(node: &Node, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    eventually(&format!("{} lists {wanted:?}", node.name), || async {
        let found = tokens(node).await;
        if found.is_superset(&wanted) { Ok(()) } else { Err(found) }
    })
    .await;
}

/// Starts a daemon whose clock is ahead of ours by `ahead`, as after an outage of that length.
pub(crate) fn start_later(node: &mut Node, ahead: &str) {
    let mut command = Command::new(binary("jacod"));
    // Without the wrapper program, which would be in the way of signals to the daemon. Only the date
    // moves: a monotonic clock starts anew with the machine.
    command.env("LD_PRELOAD", faketime_library()).env("FAKETIME", ahead);
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    node.start_under(&mut command);
}

/// R-FAULT-3: certificates live for a week. A cluster whose nodes were all off for a month starts, elects,
/// renews its certificates and takes writes.
#[tokio::test(flavor = "multi_thread")]
async fn t90_cluster_that_was_off_for_a_month_starts_again() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    issue(&cluster.nodes[0], "before").await;
    for node in &mut cluster.nodes {
        node.stop();
    }
    let certificates = |cluster: &Cluster| -> Vec<String> {
        let path = |node: &Node| node.folder().join("data/node/node.crt");
        cluster.nodes.iter().map(|node| fs::read_to_string(path(node)).unwrap()).collect()
    };
    let expired = certificates(&cluster);
    for node in &mut cluster.nodes {
        start_later(node, "+30d");
    }
    cluster.settled().await;
    issue(&cluster.nodes[1], "after").await;
    lists(&cluster.nodes[2], &["before", "after"]).await;

    eventually("every certificate is renewed", || async {
        let now = certificates(&cluster);
        let renewed = expired.iter().zip(&now).filter(|(expired, now)| expired != now).count();
        if renewed == expired.len() { Ok(()) } else { Err(format!("{renewed} are")) }
    })
    .await;
    // The renewed certificates are valid at the next start.
    for node in &mut cluster.nodes {
        node.stop();
    }
    for node in &mut cluster.nodes {
        start_later(node, "+31d");
    }
    cluster.settled().await;
    let warned = |node: &Node| {
        let log = fs::read_to_string(node.log_path()).unwrap();
        log.matches("certificate is not valid now").count()
    };
    for node in &cluster.nodes {
        assert_eq!(warned(node), 1, "{}: valid again after the renewal", node.name);
    }
}

/// R-FAULT-3: one node that was off for longer than its certificate lives comes back to members that were
/// not, and renews it.
#[tokio::test(flavor = "multi_thread")]
async fn t90_node_that_was_off_for_weeks_comes_back() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    for node in &mut cluster.nodes {
        node.stop();
    }
    for node in &mut cluster.nodes[..2] {
        start_later(node, "+9d");
    }
    eventually("two of three lead", || async {
        let status = cluster.nodes[0].client().status(v1::ClusterStatusRequest {}).await;
        let status = status.map_err(|error| error.to_string())?;
        if status.leader.is_empty() { Err("no leader".to_owned()) } else { Ok(()) }
    })
    .await;
    issue(&cluster.nodes[0], "meanwhile").await;
    start_later(&mut cluster.nodes[2], "+16d");
    cluster.settled().await;
    lists(&cluster.nodes[2], &["meanwhile"]).await;
}

/// R-FAULT-1: n1 and n2 acknowledge writes while n3 is down. Both stop, and n2 loses its log. It must not help
/// n3, which never saw the writes, to elect a leader: it does not start, and says why and what to do.
async fn voter_without(folder: &str) {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    cluster.nodes[2].kill();
    let written: BTreeSet<String> = (0..5).map(|write| format!("acknowledged-{write}")).collect();
    for name in &written {
        issue(&cluster.nodes[0], name).await;
    }
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    fs::remove_dir_all(cluster.nodes[1].folder().join("data").join(folder))
        .expect("it has such a folder");

    cluster.nodes[1].start();
    cluster.nodes[2].start();
    // Without the protection n2 runs, and votes for n3.
    for _ in 0..100 {
        if cluster.nodes[1].has_ended() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(cluster.nodes[1].has_ended(), "{}", cluster.nodes[1].log_tail());
    let log = cluster.nodes[1].log_tail();
    assert!(log.contains("raft log of this node is gone"), "{log}");
    assert!(log.contains("run `jacod rejoin` on this node"), "{log}");

    // What was acknowledged is there once the member that has it is back.
    cluster.nodes[0].start();
    eventually("n1 and n3 have a leader", || async {
        let status = cluster.nodes[0].client().status(v1::ClusterStatusRequest {}).await;
        let status = status.map_err(|error| error.to_string())?;
        if status.leader.is_empty() { Err("no leader".to_owned()) } else { Ok(()) }
    })
    .await;
    issue(&cluster.nodes[0], "later").await;
    let written: Vec<&str> = written.iter().map(String::as_str).collect();
    lists(&cluster.nodes[2], &written).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t90_voter_that_lost_its_log_does_not_vote() {
    voter_without("raft/log").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t90_voter_that_lost_all_raft_data_does_not_vote() {
    voter_without("raft").await;
}
