//! The engine restarts. The machine's own engine is shared, so these tests start a second one with
//! data, sockets and networks of its own.

use std::time::{Duration, Instant};

use jaco_testkit::engines::{Dockerd, LiveRestore};
use jaco_testkit::{Cluster, Engine, eventually_within, stays, v1};
use rustix::process::Signal;

use crate::scenario::{IMAGE, apply, replicas};

const PATIENCE: Duration = Duration::from_secs(180);

/// How long an engine may be away before its node says so.
const GRACE: Duration = Duration::from_secs(9);

const KEEPS_A_VOLUME: &str = "
name: shop
services:
  web:
    image: jaco-hello:v1
    command: [serve]
    volumes: ['data:/data']
    deploy: {replicas: 2}
volumes:
  data: {}
";

/// R-HEAL-1: after a restart of the engine surviving containers are adopted with their ids and
/// start times. Where they ended with the engine, each replica gets exactly one new instance.
#[tokio::test(flavor = "multi_thread")]
async fn containers_are_reconciled_after_an_engine_restart() {
    for (live_restore, signal) in [
        (LiveRestore::On, Signal::TERM),
        (LiveRestore::Off, Signal::TERM),
        // A crash: the next engine finds the containers, and ends them without live-restore.
        (LiveRestore::On, Signal::KILL),
        (LiveRestore::Off, Signal::KILL),
    ] {
        let mut dockerd = Dockerd::start(live_restore).await;
        let settings = format!("docker_host: {}\n", dockerd.host());
        let cluster = Cluster::start_with(2, Engine::Docker, &settings).await;
        apply(&cluster, "shop", IMAGE, 4, "").await;
        cluster.converged(0, "shop").await;
        let before = dockerd.running();
        assert_eq!(before.len(), 4);
        let instances = instances(&cluster).await;

        dockerd.end(signal);
        dockerd.is_over().await;
        dockerd.boot().await;
        eventually_within(PATIENCE, "all run, and the nodes are ready", || async {
            let status = cluster.overview(1).await?;
            let up = status.replicas.iter().filter(|one| one.state == "running").count();
            let ready = status.nodes.iter().filter(|node| node.status == "ready").count();
            let there = dockerd.running().len();
            let new =
                instances_of(&status.replicas).iter().filter(|id| !instances.contains(id)).count();
            let expected = if live_restore == LiveRestore::On { 0 } else { 4 };
            let done = (up, ready, there, new) == (4, 2, 4, expected);
            if done { Ok(()) } else { Err(format!("{up} {ready} {there} {new}: {status:?}")) }
        })
        .await;
        // Agents check every two seconds: a second restart would show within two checks.
        let after = dockerd.running();
        let look = || async { Ok::<_, String>(dockerd.running()) };
        stays(Duration::from_secs(5), "nothing is restarted again", &after, look).await;
        assert_eq!(after.len(), 4, "{live_restore:?} {signal:?}");
        if live_restore == LiveRestore::On {
            assert_eq!(after, before, "{signal:?}: adopted, not started again");
        } else {
            let audit = cluster.cli(0, &["audit", "--type", "replica_restarted"]);
            let said = String::from_utf8_lossy(&audit.stdout).into_owned();
            let count = said.matches("shop-web-").count();
            assert_eq!(count, 4, "{signal:?}: each of them once: {said}");
        }
        drop(cluster);
    }
}

/// R-FAULT-1, R-HEAL-1: a daemon that starts while its engine is off, so that there is no socket, is a member that votes. It says
/// what is wrong once that has lasted for ten seconds, and its containers are adopted as soon as the engine is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_starts_and_votes_without_its_engine() {
    let mut dockerd = Dockerd::start(LiveRestore::On).await;
    let settings = format!("docker_host: {}\n", dockerd.host());
    let mut cluster = Cluster::start_with(2, Engine::Docker, &settings).await;
    // Both nodes lose the engine, one a moment after the other: what has a volume does not move meanwhile.
    let folder = tempfile::tempdir().expect("temporary files can be made");
    std::fs::write(folder.path().join("compose.yaml"), KEEPS_A_VOLUME).expect("written");
    let applied = cluster.cli(0, &["apply", folder.path().to_str().expect("a text")]);
    assert!(applied.status.success(), "{applied:?}");
    let before = dockerd.running();
    assert_eq!(before.len(), 2);
    cluster.nodes[1].stop();
    dockerd.end(Signal::TERM);
    cluster.nodes[1].start();
    let started = Instant::now();

    eventually_within(PATIENCE, "it takes part, and says what it lacks", || async {
        let status = cluster.overview(1).await?;
        let node = status.nodes.iter().find(|node| node.hostname == "n2").ok_or("no member")?;
        let is_told =
            node.status == "engine_down" && node.status_reason.contains("Socket not found");
        if is_told { Ok(()) } else { Err(format!("{node:?}")) }
    })
    .await;
    assert!(started.elapsed() > GRACE, "{:?} after its start", started.elapsed());
    // Both votes are needed for a write.
    let labelled = cluster.cli(1, &["node", "label", "n2", "rack=b"]);
    assert!(labelled.status.success(), "{labelled:?}");

    dockerd.boot().await;
    eventually_within(PATIENCE, "the node is ready, and its replicas run", || async {
        let status = cluster.overview(1).await?;
        let up = status.replicas.iter().filter(|one| one.state == "running").count();
        let ready = status.nodes.iter().filter(|node| node.status == "ready").count();
        if (up, ready) == (2, 2) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert_eq!(dockerd.running(), before, "adopted, not started again");
}

async fn instances(cluster: &Cluster) -> Vec<(String, u64)> {
    instances_of(&replicas(cluster, 0, "shop").await)
}

fn instances_of(replicas: &[v1::ReplicaInfo]) -> Vec<(String, u64)> {
    replicas.iter().map(|one| (one.id.clone(), one.raft_index)).collect()
}
