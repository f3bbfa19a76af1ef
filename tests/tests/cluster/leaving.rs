//! A node leaves its cluster by one command, or forgets one that is gone.

use std::fs;
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, Node, said, v1};

use crate::scenario::{deploy, jacod, per_node};

fn containers_of(node: &Node) -> usize {
    let engine = fs::read_to_string(node.folder().join("data/fake-engine.json"));
    engine.unwrap_or_default().matches("\"shop-web").count()
}

/// The exit status with which a daemon ends by itself.
async fn ended(node: &mut Node) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(status) = node.ended() {
            return status.code();
        }
        assert!(Instant::now() < deadline, "{} runs on:\n{}", node.name, node.log_tail());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn status(node: &Node) -> v1::ClusterStatusResponse {
    let status = node.client().status(v1::ClusterStatusRequest {}).await;
    status.expect("the node answers")
}

/// R-NODE-2: of two nodes one votes, and it can be removed as well as the other one, by whichever is asked.
#[tokio::test(flavor = "multi_thread")]
async fn the_only_voter_of_two_nodes_can_be_removed() {
    for asked_of in [0, 1] {
        let mut cluster = Cluster::start(2, Engine::Fake).await;
        deploy(&cluster, "shop", "web:1", 2).await;
        let leader = cluster.leader().await;
        let voters = status(&cluster.nodes[0]).await;
        let voters = voters.nodes.iter().filter(|node| node.suffrage == "voter");
        assert_eq!(voters.count(), 1);
        let (name, other) = (cluster.nodes[leader].name.clone(), 1 - leader);
        let asked = if asked_of == 0 { leader } else { other };
        let removed = cluster.cli(asked, &["node", "rm", &name]);
        assert!(removed.status.success(), "{}", said(&removed));
        assert_eq!(ended(&mut cluster.nodes[leader]).await, Some(3));
        let seen = cluster.converged(other, "shop").await;
        assert_eq!(per_node(&seen), [(cluster.nodes[other].name.clone(), 2)].into());
        let status = status(&cluster.nodes[other]).await;
        assert_eq!((status.nodes.len(), &status.leader), (1, &cluster.nodes[other].name));
    }
}

/// R-NODE-2, R-OPS-1: its replicas serve elsewhere before it goes, also where it leads; nothing of it is left, and it can join again.
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_leaves_by_one_command() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let leader = cluster.leader().await;
    let (other, name) = (usize::from(leader == 0), cluster.nodes[leader].name.clone());
    assert_eq!(containers_of(&cluster.nodes[leader]), 1, "it has a replica");
    let shown = cluster.cli(leader, &["cluster", "leave", "--dry-run"]);
    assert!(
        shown.status.success() && said(&shown).contains("move    shop-web"),
        "{}",
        said(&shown)
    );
    assert_eq!(status(&cluster.nodes[other]).await.nodes.len(), 3, "nothing is changed");

    let left = cluster.cli(leader, &["cluster", "leave"]);
    assert!(left.status.success(), "{}", said(&left));
    assert!(said(&left).contains(&format!("{name} has left cluster")), "{}", said(&left));
    assert_eq!(ended(&mut cluster.nodes[leader]).await, Some(3), "as the unit expects it");
    assert_eq!(containers_of(&cluster.nodes[leader]), 0);
    assert!(!cluster.nodes[leader].folder().join("data/raft").exists(), "its log is gone");
    let seen = cluster.converged(other, "shop").await;
    let placed = per_node(&seen);
    assert!(placed.values().sum::<usize>() == 3 && !placed.contains_key(&name), "{placed:?}");

    cluster.nodes[leader].start();
    let request = v1::IssueJoinTokenRequest { uses: 1, ..Default::default() };
    let token = cluster.nodes[other].client().issue_join_token(request).await;
    let token = token.expect("a token is issued").token;
    let request = v1::JoinClusterRequest { server: cluster.nodes[other].address.clone(), token };
    jaco_testkit::eventually("it joins again", || async {
        let joined = cluster.nodes[leader].client().join_cluster(request.clone()).await;
        joined.map_err(|error| error.to_string())
    })
    .await;
    cluster.settled().await;
    assert_eq!(status(&cluster.nodes[other]).await.nodes.len(), 3);
}

/// R-OPS-1: a node that others count on is not reset, nor one whose members cannot be asked, until the user says that they are gone. Then
/// nothing of the cluster is left on it, and it makes another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_forgets_a_cluster_that_is_gone() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let running = jacod(&cluster.nodes[2], &["reset", "--yes", "--force"]);
    assert!(
        !running.status.success() && said(&running).contains("stop the daemon"),
        "{}",
        said(&running)
    );
    cluster.nodes[2].kill();
    let counted = jacod(&cluster.nodes[2], &["reset", "--yes"]);
    assert!(!counted.status.success(), "{}", said(&counted));
    assert!(said(&counted).contains("jaco node rm n3 --force"), "{}", said(&counted));

    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    let unasked = jacod(&cluster.nodes[2], &["reset", "--yes"]);
    assert!(!unasked.status.success() && said(&unasked).contains("--force"), "{}", said(&unasked));
    let shown = jacod(&cluster.nodes[2], &["reset", "--dry-run", "--force"]);
    assert!(shown.status.success() && said(&shown).contains("n3 (node"), "{}", said(&shown));
    assert_eq!(containers_of(&cluster.nodes[2]), 1, "nothing is changed");
    let reset = jacod(&cluster.nodes[2], &["reset", "--force", "--yes"]);
    assert!(reset.status.success(), "{}", said(&reset));
    assert_eq!(containers_of(&cluster.nodes[2]), 0);
    let again = jacod(&cluster.nodes[2], &["reset", "--yes"]);
    assert!(
        again.status.success() && said(&again).contains("belongs to no cluster"),
        "{}",
        said(&again)
    );

    cluster.nodes[2].start();
    let node = &cluster.nodes[2];
    jaco_testkit::eventually("it makes another cluster", || async {
        let made = node.client().init(v1::InitRequest::default()).await;
        made.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(status(node).await.nodes.len(), 1);
}

/// R-NODE-2, R-OPS-1: the last node says what ends its cluster, and what it says does.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_node_is_reset() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 1).await;
    let refused = cluster.cli(0, &["cluster", "leave"]);
    assert!(
        !refused.status.success() && said(&refused).contains("jacod reset"),
        "{}",
        said(&refused)
    );
    cluster.nodes[0].stop();
    let reset = jacod(&cluster.nodes[0], &["reset", "--yes"]);
    assert!(reset.status.success(), "{}", said(&reset));
    assert_eq!(containers_of(&cluster.nodes[0]), 0);
}

/// R-OPS-1: the line that a new cluster prints joins the other nodes, and no more than it was told there will be.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_cluster_prints_the_line_that_joins() {
    let mut cluster = Cluster::without_nodes(Engine::Fake);
    for _ in 0..3 {
        cluster.add_daemon();
    }
    let answering = |node: usize| {
        let client = cluster.nodes[node].client();
        async move {
            let answer = client.status(v1::ClusterStatusRequest {}).await;
            answer.map_err(|error| error.to_string())
        }
    };
    for node in 0..3 {
        jaco_testkit::eventually("the daemon answers", || answering(node)).await;
    }
    let made = cluster.cli(0, &["cluster", "init", "--nodes", "2", "--no-network", "-o", "json"]);
    assert!(made.status.success(), "{}", said(&made));
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).expect("it is JSON");
    let line = made["join"]["command"].as_str().expect("there is a line").to_owned();
    let join = |node: usize| {
        let line = line.replace(" jaco ", &format!(" {} ", jaco_testkit::binary("jaco").display()));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line]).env("JACO_SOCKET", cluster.nodes[node].socket());
        shell.output().expect("the shell can be started")
    };
    let joined = join(1);
    assert!(joined.status.success(), "{}", said(&joined));
    let third = join(2);
    assert!(!third.status.success(), "it is for two nodes: {}", said(&third));
    assert_eq!(status(&cluster.nodes[0]).await.nodes.len(), 2);
}
