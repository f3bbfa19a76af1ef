//! Nodes that are lost, and come back, on real containers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jaco_testkit::docker::{docker, running, running_now};
use jaco_testkit::{Cluster, Engine, eventually, eventually_within, v1};

use crate::scenario::{IMAGE, apply};

/// A node counts as lost after 15 s; several times that is a cluster that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// R-NODE-1: a node's daemon and containers are killed. The replicas are placed elsewhere; when the
/// node is back each slot has one instance, nothing moves back, and nothing was restarted for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_is_replaced_and_comes_back_to_nothing() {
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

/// R-NODE-1: a node without a leader stops what asks for that, by itself and by its grace period, and
/// nothing else. With the leader back each slot has one instance again, without a strike.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_leader_stops_what_must_not_run_twice() {
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
    // Of two nodes the first votes. The other one looks after its own containers; the first one's run on.
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
    // What is known of the stopped one is older than its end, until its node has told.
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
