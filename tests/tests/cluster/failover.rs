//! Daemons that die, and what must survive them.

use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, eventually, v1};

use crate::scenario::{apply_request, containers, deploy};

/// R-LOOP-1, issue behaviour 1: the leader dies during an apply; the apply converges all the same,
/// nothing is doubled, and there is a new leader within 3 s.
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_dies_during_an_apply() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let request = apply_request("shop", "web:1", 6);
    let client = cluster.nodes[follower].client();
    let sent = request.clone();
    let applying = tokio::spawn(async move { client.apply(sent).await });
    cluster.nodes[leader].kill();
    let died = Instant::now();
    let others = [follower, (leader + 2) % 3];
    eventually("a new leader", || async {
        let mut seen = Vec::new();
        for node in others {
            let status = cluster.nodes[node].client().status(v1::ClusterStatusRequest {}).await;
            seen.push(status.map_err(|error| error.to_string())?.leader);
        }
        let old = cluster.nodes[leader].name.clone();
        let agreed = seen[0] == seen[1] && !seen[0].is_empty() && seen[0] != old;
        if agreed { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    let gap = died.elapsed();
    assert!(gap < Duration::from_secs(3), "a new leader took {gap:?}");
    let answer = applying.await.unwrap();
    if answer.is_err() {
        // The connection may have died with the leader before anything was written: the same
        // request id makes asking again safe.
        cluster.nodes[follower].client().apply(request).await.expect("a retry is answered");
    }
    let status = eventually("shop runs", || async {
        let status = cluster.overview(follower).await?;
        let mut running: Vec<_> =
            status.replicas.iter().map(|replica| replica.id.clone()).collect();
        running.sort();
        let wanted: Vec<_> = (0..6).map(|index| format!("shop-web-{index}")).collect();
        let on_living = |node: &str| node != cluster.nodes[leader].name;
        let up = status
            .replicas
            .iter()
            .filter(|replica| replica.state == "running" || !on_living(&replica.node));
        if running == wanted && up.count() == 6 { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert_eq!(status.deployments[0].revision, 1, "applied once");
}

/// Issue behaviour 2: all daemons die and come back: the same state, and the same containers.
#[tokio::test(flavor = "multi_thread")]
async fn all_daemons_die_and_come_back() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 6).await;
    let before = cluster.overview(0).await.unwrap();
    for node in &mut cluster.nodes {
        node.kill();
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.settled().await;
    let after = cluster.converged(0, "shop").await;
    assert_eq!(containers(&after), containers(&before));
    assert_eq!(after.deployments, before.deployments);
    let started = |status: &v1::StatusResponse| {
        let replicas = status.replicas.iter();
        let mut all: Vec<_> = replicas
            .map(|replica| (replica.id.clone(), replica.raft_index, replica.started_at_ms))
            .collect();
        all.sort();
        all
    };
    assert_eq!(started(&after), started(&before), "adopted, not started again");
}

/// R-CLI-7, issue behaviour 4: a minority refuses writes, keeps its containers, and catches up.
#[tokio::test(flavor = "multi_thread")]
async fn a_minority_refuses_writes_and_catches_up() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let before = cluster.overview(0).await.unwrap();
    cluster.nodes[1].pause();
    cluster.nodes[2].pause();
    let file = cluster.nodes[0].folder().join("compose.yaml");
    std::fs::write(&file, "services:\n  web:\n    image: web:2\n").unwrap();
    let out =
        cluster.cli(0, &["apply", "--detach", "-f", file.to_str().unwrap(), "--name", "other"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(9), "{said}");
    assert!(said.contains("no_leader") || said.contains("quorum_lost"), "{said}");
    // Reads are answered from the node's own state, and its containers run on.
    let alone = cluster.overview(0).await.unwrap();
    assert_eq!(containers(&alone), containers(&before));
    cluster.nodes[1].resume();
    cluster.nodes[2].resume();
    eventually("writes work again", || async {
        let request = apply_request("again", "web:1", 1);
        cluster.client().apply(request).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let after = cluster.converged(0, "again").await;
    assert!(!after.deployments.iter().any(|deployment| deployment.name == "other"));
}

/// R-CLI-9: a write that is sent again under its request id is executed once.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_sent_twice_is_executed_once() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let request = apply_request("shop", "web:1", 2);
    for node in [1, 2, 0, 1] {
        let answer = cluster.nodes[node].client().apply(request.clone()).await.expect("any node");
        assert_eq!((answer.revision, answer.change.as_str()), (1, "created"));
    }
}

/// R-LOOP-4: an idle cluster commits nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_cluster_commits_nothing() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 6).await;
    // What follows a change settles first: the last observation, the last pass.
    let quiet = eventually("the index stands still for 2 s", || async {
        let before = cluster.overview(0).await?.raft_index;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let after = cluster.overview(0).await?.raft_index;
        if before == after { Ok(after) } else { Err(format!("{before} -> {after}")) }
    })
    .await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(cluster.overview(0).await.unwrap().raft_index, quiet);
}

/// A planned stop of the leader hands over instead of leaving a gap.
#[tokio::test(flavor = "multi_thread")]
async fn a_planned_stop_hands_over() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    cluster.nodes[leader].stop();
    let log = std::fs::read_to_string(cluster.nodes[leader].log_path()).unwrap();
    assert!(!log.contains("leadership was not handed over"), "{log}");
    cluster.leader().await;
    cluster.nodes[leader].start();
    cluster.settled().await;
}
