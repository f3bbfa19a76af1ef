//! Image pulls as a status shows them.

use jaco_testkit::{Cluster, Engine, eventually, v1};

/// Applies a deployment of one service on every node, whose image has these labels of the fake engine.
async fn apply(cluster: &Cluster, name: &str, label: &str) {
    let request = v1::ApplyRequest {
        compose_json: format!(
            r#"{{"name":"{name}","services":{{"web":{{"image":"{name}:1","labels":{{{label}}}}}}}}}"#
        ),
        overlay_yaml: format!(
            "deployment: {name}\nservices:\n  - {{name: web, placement: global}}\n"
        ),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("admitted");
}

/// The pulls of all replicas, as a node shows them once each of them is as wanted; and the index of its state.
async fn pulls(
    cluster: &Cluster,
    node: usize,
    is_wanted: impl Fn(&v1::PullInfo) -> bool,
) -> (Vec<v1::PullInfo>, u64) {
    eventually("the pulls are shown", || async {
        let status = cluster.overview(node).await?;
        let pulls: Option<Vec<_>> = status.replicas.iter().map(|replica| replica.pull).collect();
        match pulls {
            Some(pulls) if pulls.len() == 3 && pulls.iter().all(&is_wanted) => {
                Ok((pulls, status.raft_index))
            }
            _ => Err(format!("{:?}", status.replicas)),
        }
    })
    .await
}

/// R-RUN-2: every node shows how far the pulls of all nodes are, without an entry in the log.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_shows_the_progress_of_all_pulls() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    apply(&cluster, "slow", r#""jaco.fake.pull_ms":"60000""#).await;
    for node in 0..3 {
        let is_wanted = |pull: &v1::PullInfo| pull.total_bytes == 60_000 && pull.attempts == 1;
        pulls(&cluster, node, is_wanted).await;
    }
    let index = cluster.idle_index(0).await;
    for node in 0..3 {
        let (_, after) = pulls(&cluster, node, |pull| pull.done_bytes > 0).await;
        assert_eq!(after, index, "progress is not replicated");
    }
    let mut watch =
        cluster.client().watch_status(v1::StatusRequest::default()).await.expect("a stream");
    let mut shown = Vec::new();
    while shown.len() < 2 {
        let status = watch.next().await.expect("it answers").expect("it goes on");
        let done = status.replicas[0].pull.expect("it is being pulled").done_bytes;
        // Another one's progress is news as well.
        if shown.last() != Some(&done) {
            shown.push(done);
        }
        assert_eq!(status.raft_index, index);
    }
    assert!(shown[0] < shown[1], "{shown:?}");
}

/// R-RUN-2: every node shows how often a pull failed, and when it is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_shows_the_attempts_of_failing_pulls() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    apply(&cluster, "broken", r#""jaco.fake.pull_error":"no such image""#).await;
    for node in 0..3 {
        let is_wanted = |pull: &v1::PullInfo| pull.attempts >= 3 && pull.next_attempt_at_ms > 0;
        pulls(&cluster, node, is_wanted).await;
    }
    let shown = cluster.cli(1, &["status", "broken"]);
    let shown = String::from_utf8(shown.stdout).expect("text");
    assert!(
        shown.contains("no such image; ") && shown.contains("attempts, the next in"),
        "{shown}"
    );
}
