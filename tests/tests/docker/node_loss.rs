//! Lost and returning nodes with real containers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jaco_testkit::docker::{docker, running, running_now};
use jaco_testkit::{Cluster, Engine, eventually, eventually_within, v1};

use crate::scenario::{IMAGE, apply};

/// A node is down after 8 s; several times that is a hanging cluster.
const PATIENCE: Duration = Duration::from_secs(180);

/// R-NODE-1: a node's daemon and containers are killed. Replicas are placed elsewhere; when it
/// returns each slot has one instance, nothing moves back, and nothing is restarted.
#[tokio::test(flavor = "multi_thread")]
async fn lost_node_is_replaced_and_returns_empty() {
    let mut cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 6, "").await;
    cluster.converged(0, "shop").await;
    let lost = placed(&cluster).await.into_iter().filter(|(_, at)| at.0 == "n3");
    let lost: Vec<String> = lost.map(|(_, (_, container))| container).collect();
    assert_eq!(lost.len(), 2, "two of six replicas are on n3");
    cluster.nodes[2].kill();
    for container in &lost {
        docker(&["kill", container]);
    }
    eventually_within(PATIENCE, "everything runs elsewhere", || async {
        let placed = placed(&cluster).await;
        let elsewhere = placed.values().all(|(node, _)| node != "n3");
        let all_run = running_now(&cluster.id) == 6;
        if elsewhere && all_run { Ok(()) } else { Err(format!("{placed:?}")) }
    })
    .await;
    cluster.converged(0, "shop").await;
    let before = (placed(&cluster).await, running(&cluster.id));
    cluster.nodes[2].start();
    cluster.settled().await;
    eventually("the node has removed what is not its own any more", || async {
        let left = docker(&["ps", "-aq", "--no-trunc"]);
        let left: BTreeSet<&str> = left.lines().collect();
        let found = lost.iter().find(|container| left.contains(container.as_str()));
        found.map_or(Ok(()), |container| Err(format!("{container} is still there")))
    })
    .await;
    assert_eq!((placed(&cluster).await, running(&cluster.id)), before);
}

/// R-NODE-1: a node without a leader stops the instances that require it, with their grace period,
/// and no others. With the leader back each slot has one instance, and no failure is counted.
#[tokio::test(flavor = "multi_thread")]
async fn isolated_node_stops_exclusive_instances() {
    let mut cluster = Cluster::start(2, Engine::Docker).await;
    let request = v1::ApplyRequest {
        compose_json: jaco_tests::compose_with(
            "jobs",
            "single",
            IMAGE,
            2,
            r#","stop_grace_period":"1s""#,
        ),
        overlay_yaml:
            "deployment: jobs\nservices: [{name: single, on_node_loss: stop_self after 15s}]\n"
                .to_owned(),
        request_id: jaco_testkit::fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("it is admitted");
    cluster.converged(0, "jobs").await;
    apply(&cluster, "shop", IMAGE, 2, "").await;
    cluster.converged(0, "shop").await;
    assert_eq!(running_now(&cluster.id), 4);
    // Of two nodes only the first votes; the containers of both keep running.
    cluster.nodes[0].kill();
    eventually_within(PATIENCE, "the node has stopped its own", || async {
        match running_now(&cluster.id) {
            3 => Ok(()),
            count => Err(format!("{count} run")),
        }
    })
    .await;
    cluster.nodes[0].start();
    cluster.settled().await;
    // The report of the stopped instance is older than its end until its node reports again.
    eventually("each slot has one instance that is known to run", || async {
        let status = cluster.overview(0).await?;
        let all_run = status.replicas.iter().all(|replica| replica.state == "running");
        let running = running_now(&cluster.id);
        if all_run && running == 4 { Ok(()) } else { Err(format!("{running}: {status:?}")) }
    })
    .await;
}

/// The node and the container of each replica.
async fn placed(cluster: &Cluster) -> BTreeMap<String, (String, String)> {
    let status = cluster.overview(0).await.expect("n1 answers");
    let replicas = status.replicas.into_iter();
    replicas.map(|it| (it.id, (it.node, it.container_id))).collect()
}
