//! Rollouts and drains of real daemons whose leader dies, or that do not end.

use std::time::Duration;

use jaco_testkit::{Cluster, Engine, eventually, eventually_within, fresh_request_id, v1};

use crate::scenario::{containers, deploy};

const PATIENCE: Duration = Duration::from_secs(180);

/// Asks for six replicas of an image, each of which takes a while to start.
async fn apply_slow(cluster: &Cluster, image: &str) -> u64 {
    let members = r#","labels":{"jaco.fake.start_ms":"150"}"#;
    let request = v1::ApplyRequest {
        compose_json: jaco_tests::compose_with("shop", "web", image, 6, members),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("admitted").revision
}

async fn rollout(cluster: &Cluster, node: usize) -> Result<v1::RolloutInfo, String> {
    let status = cluster.overview(node).await?;
    let shop = status.deployments.iter().find(|found| found.name == "shop");
    Ok(shop.and_then(|shop| shop.services[0].rollout.clone()).unwrap_or_default())
}

/// How many audit events of a kind there are.
fn events(cluster: &Cluster, node: usize, kind: &str) -> usize {
    let out = cluster.cli(node, &["audit", "--type", kind, "--last", "1000"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    said.matches("shop-web-").count()
}

/// Waits until every replica runs this image, alone, and the rollout is through.
async fn rolled(cluster: &Cluster, node: usize, image: &str) {
    eventually_within(PATIENCE, &format!("all run {image}"), || async {
        let status = cluster.overview(node).await?;
        let is_new = |one: &v1::ReplicaInfo| {
            one.image == image && one.state == "running" && one.retiring.is_none()
        };
        let all = status.replicas.len() == 6 && status.replicas.iter().all(is_new);
        let state = rollout(cluster, node).await?.state;
        if all && state == "completed" { Ok(()) } else { Err(format!("{state}: {status:?}")) }
    })
    .await;
}

/// R-ROLL-2: the leader dies at several steps of a rollout: the next one finishes
/// it, and each replica is replaced once.
#[tokio::test(flavor = "multi_thread")]
async fn rollout_survives_leader_crashes() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    apply_slow(&cluster, "web:1").await;
    cluster.converged(0, "shop").await;
    for (round, steps) in [0, 2, 5].into_iter().enumerate() {
        let image = format!("web:{}", round + 2);
        let leader = cluster.leader().await;
        let other = (leader + 1) % 3;
        let before = events(&cluster, other, "replica_replaced");
        let revision = apply_slow(&cluster, &image).await;
        eventually_within(PATIENCE, &format!("{steps} steps are done"), || async {
            let now = rollout(&cluster, other).await?;
            let is_there = now.target_revision == revision && now.current_step >= steps;
            if is_there { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        cluster.nodes[leader].kill();
        cluster.leader().await;
        cluster.nodes[leader].start();
        rolled(&cluster, other, &image).await;
        cluster.settled().await;
        let replaced = events(&cluster, other, "replica_replaced") - before;
        assert_eq!(replaced, 6, "after {steps} steps: each replica is replaced once");
    }
}

/// R-NODE-2: the leader dies while a node is drained: the next one finishes it, and
/// each replica moves once.
#[tokio::test(flavor = "multi_thread")]
async fn drain_survives_a_leader_crash() {
    let mut cluster = Cluster::start(4, Engine::Fake).await;
    apply_slow(&cluster, "web:1").await;
    let start = cluster.converged(0, "shop").await;
    let leader = cluster.leader().await;
    let crowded = |at: &usize| start.replicas.iter().any(|one| one.node == format!("n{}", at + 1));
    let drained = (0..4).find(|at| *at != leader && crowded(at)).expect("one has replicas");
    let name = cluster.nodes[drained].name.clone();
    let on_it = start.replicas.iter().filter(|one| one.node == name).count();
    let other = (0..4).find(|at| *at != leader && *at != drained).expect("there are four");
    let out = cluster.cli(other, &["node", "drain", &name, "--detach"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    cluster.nodes[leader].kill();
    cluster.leader().await;
    cluster.nodes[leader].start();
    eventually_within(PATIENCE, "it is empty", || async {
        let status = cluster.overview(other).await?;
        let is_there = |one: &&v1::ReplicaInfo| {
            one.node == name || one.retiring.is_some() || one.state != "running"
        };
        let left = status.replicas.iter().filter(is_there).count();
        if left == 0 && status.replicas.len() == 6 { Ok(()) } else { Err(left) }
            .map_err(|left| format!("{left} left: {status:?}"))
    })
    .await;
    assert_eq!(events(&cluster, other, "replica_moved"), on_it, "each moves once");
}

/// R-NODE-2: a drain that does not end in time leaves the node and what is on it as it was, and to make
/// a node what it is already writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn timed_out_drain_changes_nothing() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let before = cluster.overview(0).await.expect("it answers");
    // There is no other node.
    let out = cluster.cli(0, &["node", "drain", "n1", "--timeout", "2s"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("remaining replicas stay"), "{said}");
    for index in 0..3 {
        assert!(said.contains(&format!("shop-web-{index}")), "what is in the way is named: {said}");
    }
    let after = cluster.converged(0, "shop").await;
    assert_eq!(after.nodes[0].availability, "active");
    assert_eq!(containers(&after), containers(&before));
    for node in ["uncordon", "cordon", "cordon"] {
        let index = || async { cluster.overview(0).await.expect("it answers").raft_index };
        let was = cluster.overview(0).await.expect("it answers").nodes[0].availability.clone();
        let wanted = if node == "cordon" { "cordoned" } else { "active" };
        let entries = index().await;
        let out = cluster.cli(0, &["node", node, "n1"]);
        assert!(out.status.success());
        let is_written = index().await > entries;
        assert_eq!(is_written, was != wanted, "{was} to {wanted}");
    }
}

/// R-NODE-2: nobody waits for it, and it ends all the same: the node is what it was, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn drain_without_a_destination_ends() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let before = cluster.overview(0).await.expect("it answers");
    let out = cluster.cli(0, &["node", "drain", "n1", "--detach", "--replica-timeout", "2s"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && said.contains("no node is eligible"), "it is named: {said}");
    let given_up = eventually("the drain is given up", || async {
        let status = cluster.overview(0).await?;
        let node = status.nodes[0].clone();
        if node.availability == "active" { Ok(node) } else { Err(format!("{node:?}")) }
    })
    .await;
    let reason = "drain_timeout: nothing left for 2 s; shop-web-0, shop-web-1";
    assert_eq!(given_up.availability_reason, reason);
    assert_eq!(events(&cluster, 0, "node_drain_timeout"), 2, "both are named, once");
    assert_eq!(containers(&cluster.converged(0, "shop").await), containers(&before));
}
