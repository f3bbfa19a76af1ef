//! Jobs in real containers, on real daemons (R-JOB-1).

use std::time::Duration;

use jaco_testkit::docker::{containers, docker};
use jaco_testkit::{Cluster, Engine, eventually_within, v1};

use crate::scenario::{IMAGE, apply, replicas};

const PATIENCE: Duration = Duration::from_secs(180);

async fn shown(cluster: &Cluster, node: usize, state: &str) {
    eventually_within(PATIENCE, &format!("the job is {state}"), || async {
        match replicas(cluster, node, "shop").await.as_slice() {
            [job] if job.state == state => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

fn events(cluster: &Cluster, node: usize, kind: &str) -> usize {
    let out = cluster.cli(node, &["audit", "--type", kind, "-o", "json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).matches(kind).count()
}

/// R-JOB-1: a job that completed runs once: its node is drained, its leader is killed, the same files are applied and
/// its daemon is started again, and its one container stays, with its log.
#[tokio::test(flavor = "multi_thread")]
async fn completed_job_is_not_run_again() {
    let mut cluster = Cluster::start(3, Engine::Docker).await;
    let job = r#","command":["exit","0"],"restart":"no""#;
    apply(&cluster, "shop", IMAGE, 1, job).await;
    shown(&cluster, 0, "completed").await;
    let ran = replicas(&cluster, 0, "shop").await[0].clone();
    let container = containers(&cluster.id);
    assert_eq!(container.len(), 1, "the stopped container is kept");
    let drain = |availability: &str| v1::SetAvailabilityRequest {
        hostname: ran.node.clone(),
        availability: availability.to_owned(),
        ..v1::SetAvailabilityRequest::default()
    };
    cluster.client().set_availability(drain("draining")).await.expect("drained");
    apply(&cluster, "shop", IMAGE, 1, job).await;
    let leader = cluster.leader().await;
    cluster.nodes[leader].kill();
    let other = (leader + 1) % 3;
    shown(&cluster, other, "completed").await;
    cluster.nodes[leader].start();
    cluster.settled().await;
    cluster.client().set_availability(drain("active")).await.expect("active again");
    shown(&cluster, leader, "completed").await;
    let now = replicas(&cluster, leader, "shop").await[0].clone();
    assert_eq!((&now.container_id, &now.node), (&ran.container_id, &ran.node));
    assert_eq!(containers(&cluster.id), container);
    let restarts = docker(&["inspect", "--format", "{{.RestartCount}}", &now.container_id]);
    assert_eq!(restarts, "0");
    assert_eq!(events(&cluster, leader, "job_completed"), 1);
    assert_eq!(events(&cluster, leader, "replica_restarted"), 0);
}

/// R-JOB-1: a job that fails is retried as often as it says, and then failed; the next apply tries once more.
#[tokio::test(flavor = "multi_thread")]
async fn failing_job_is_retried_as_often_as_it_says() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let job = r#","command":["exit","3"],"restart":"on-failure:1""#;
    for round in 1..=2 {
        apply(&cluster, "shop", IMAGE, 1, job).await;
        eventually_within(PATIENCE, "the job has failed", || async {
            let failed = events(&cluster, 0, "job_failed");
            if failed == round { Ok(()) } else { Err(failed) }
        })
        .await;
        shown(&cluster, 0, "failed").await;
    }
    // One retry in each round, and one because of the apply between them.
    assert_eq!(events(&cluster, 0, "replica_restarted"), 3);
}
