//! Crashes of daemons.

use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, eventually, stays, v1};

use crate::scenario::{apply_request, containers, deploy};

/// When the leader dies, relative to an apply on a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// There is no leader when the request arrives.
    BeforeTheRequest,
    /// The request is in transit to the leader, in its log, or its answer is in transit.
    UnderTheRequest,
    /// It is acknowledged, and nothing runs yet.
    AfterTheAnswer,
}

/// R-LOOP-1: the leader dies before, during and right after an apply. Each time the apply is
/// answered and converges, no replica is duplicated, and there is a new leader within 3 s.
#[tokio::test(flavor = "multi_thread")]
async fn leader_crash_around_an_apply_loses_nothing() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    for (name, death) in [
        ("early", Death::BeforeTheRequest),
        ("amid", Death::UnderTheRequest),
        ("late", Death::AfterTheAnswer),
    ] {
        let leader = cluster.leader().await;
        let follower = (leader + 1) % 3;
        let client = cluster.nodes[follower].client();
        // Connected before, so that only the leader's death matters.
        client.status(v1::ClusterStatusRequest {}).await.expect("the follower answers");
        let request = apply_request(name, "web:1", 6);
        if death == Death::BeforeTheRequest {
            cluster.nodes[leader].kill();
        }
        let mut applying = tokio::spawn(async move { client.apply(request).await });
        match death {
            Death::BeforeTheRequest => {}
            Death::UnderTheRequest => cluster.nodes[leader].kill(),
            Death::AfterTheAnswer => {
                let answer = (&mut applying).await.expect("the client does not panic");
                assert_eq!(answer.expect("admitted").revision, 1, "{death:?}");
                cluster.nodes[leader].kill();
            }
        }
        let died = Instant::now();
        new_leader(&cluster, leader).await;
        let gap = died.elapsed();
        assert!(gap < Duration::from_secs(3), "{death:?}: a new leader took {gap:?}");
        if death != Death::AfterTheAnswer {
            let answer = applying.await.expect("the client does not panic");
            assert_eq!(answer.expect("the death is waited out").revision, 1, "{death:?}");
        }
        runs_once(&cluster, follower, leader, name).await;
        cluster.nodes[leader].start();
        cluster.settled().await;
    }
    assert_eq!(cluster.overview(0).await.unwrap().replicas.len(), 3 * 6, "nothing is doubled");
}

/// The machine of a killed leader refuses connections to its port, so no election timeout is awaited: a lease of 2 s
/// and a timeout of 1 s at least, less the time since its last message.
#[tokio::test(flavor = "multi_thread")]
async fn killed_leader_is_replaced_without_an_election_timeout() {
    let mut cluster = Cluster::start_with(3, Engine::Fake, "network: wan\n").await;
    let leader = cluster.leader().await;
    cluster.nodes[leader].kill();
    let died = Instant::now();
    new_leader(&cluster, leader).await;
    let gap = died.elapsed();
    assert!(gap < Duration::from_millis(2500), "a new leader took {gap:?}");
}

/// Waits until all other nodes agree on a leader among them.
async fn new_leader(cluster: &Cluster, dead: usize) {
    eventually("a new leader", || async {
        let mut seen = Vec::new();
        for node in cluster.nodes.iter().filter(|node| node.is_running()) {
            let status = node.client().status(v1::ClusterStatusRequest {}).await;
            seen.push(status.map_err(|error| error.to_string())?.leader);
        }
        let agreed = seen[0] == seen[1] && !seen[0].is_empty();
        if agreed && seen[0] != cluster.nodes[dead].name {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    })
    .await;
}

/// Waits until a deployment of six runs, apart from what is on the dead node, and was applied once.
async fn runs_once(cluster: &Cluster, asked: usize, dead: usize, name: &str) {
    let status = eventually(&format!("{name} runs"), || async {
        let mut status = cluster.overview(asked).await?;
        status.replicas.retain(|replica| replica.deployment == name);
        let mut ids: Vec<_> = status.replicas.iter().map(|replica| replica.id.clone()).collect();
        ids.sort();
        let wanted: Vec<_> = (0..6).map(|index| format!("{name}-web-{index}")).collect();
        let dead = &cluster.nodes[dead].name;
        let up = |replica: &v1::ReplicaInfo| replica.state == "running" || replica.node == *dead;
        let all_up = status.replicas.iter().all(up);
        if ids == wanted && all_up { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await;
    let applied = status.deployments.iter().find(|deployment| deployment.name == name);
    assert_eq!(applied.expect("it is there").revision, 1, "applied once");
}

/// All daemons die and come back with the same state and the same containers.
#[tokio::test(flavor = "multi_thread")]
async fn all_daemons_restart_with_the_same_state() {
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

/// R-CLI-7: a leader that lost its quorum refuses writes, keeps its containers, and catches up; so
/// does an isolated follower.
#[tokio::test(flavor = "multi_thread")]
async fn minority_refuses_writes_and_catches_up() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let leader = cluster.leader().await;
    let before = cluster.overview(leader).await.unwrap();
    pause_all_but(&cluster, leader);
    // Entries it appended before it noticed may yet be committed; later ones are refused.
    eventually("the leader notices", || async {
        let status = cluster.nodes[leader].client().status(v1::ClusterStatusRequest {}).await;
        let status = status.map_err(|error| error.to_string())?;
        if status.quorum_lost { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    refuses(&cluster, leader, "refused");
    // Reads are answered from local state, and containers keep running.
    let alone = cluster.overview(leader).await.unwrap();
    assert_eq!(containers(&alone), containers(&before));
    heals(&cluster, leader, "healed").await;
    let after = cluster.overview(leader).await.unwrap();
    assert!(!after.deployments.iter().any(|deployment| deployment.name == "refused"), "{after:?}");

    let follower = (cluster.leader().await + 1) % 3;
    pause_all_but(&cluster, follower);
    // The leader it knows may still receive this when it wakes up, so only the answer counts.
    refuses(&cluster, follower, "unheard");
    let alone = cluster.overview(follower).await.unwrap();
    assert_eq!(containers(&alone), containers(&after));
    heals(&cluster, follower, "again").await;
}

fn pause_all_but(cluster: &Cluster, alone: usize) {
    for (number, node) in cluster.nodes.iter().enumerate() {
        if number != alone {
            node.pause();
        }
    }
}

/// An apply at this node fails for lack of a quorum.
fn refuses(cluster: &Cluster, node: usize, name: &str) {
    let file = cluster.nodes[node].folder().join("compose.yaml");
    std::fs::write(&file, "services:\n  web:\n    image: web:2\n").expect("it can be written");
    let path = file.to_str().expect("the path is text");
    let out = cluster.cli(node, &["apply", "--detach", "-f", path, "--name", name]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(9), "{said}");
    assert!(said.contains("no_leader") || said.contains("quorum_lost"), "{said}");
}

/// The other nodes come back; the isolated node accepts writes and shows their result.
async fn heals(cluster: &Cluster, alone: usize, name: &str) {
    for (number, node) in cluster.nodes.iter().enumerate() {
        if number != alone {
            node.resume();
        }
    }
    let request = apply_request(name, "web:1", 1);
    eventually("writes work again", || async {
        let applied = cluster.nodes[alone].client().apply(request.clone()).await;
        applied.map(drop).map_err(|error| error.to_string())
    })
    .await;
    cluster.converged(alone, name).await;
}

/// R-CLI-9: a write that is repeated with its request id is executed once.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_write_is_executed_once() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let request = apply_request("shop", "web:1", 2);
    for node in [1, 2, 0, 1] {
        let answer = cluster.nodes[node].client().apply(request.clone()).await.expect("any node");
        assert_eq!((answer.revision, answer.change.as_str()), (1, "created"));
    }
}

/// R-LOOP-4: an idle cluster commits nothing.
#[tokio::test(flavor = "multi_thread")]
async fn idle_cluster_commits_nothing() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 6).await;
    let idle = cluster.idle_index(0).await;
    // Longer than the controller's safety tick of 30 s.
    let look = || async { Ok(cluster.overview(0).await?.raft_index) };
    stays(Duration::from_secs(35), "nothing is committed", &idle, look).await;
}

/// A planned stop of the leader transfers leadership.
#[tokio::test(flavor = "multi_thread")]
async fn planned_stop_transfers_leadership() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    cluster.nodes[leader].stop();
    let log = std::fs::read_to_string(cluster.nodes[leader].log_path()).unwrap();
    assert!(!log.contains("leadership not transferred"), "{log}");
    cluster.leader().await;
    cluster.nodes[leader].start();
    cluster.settled().await;
}
