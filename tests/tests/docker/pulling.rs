//! R-RUN-1, R-RUN-2: a hanging pull blocks nothing else, is visible, and recovers with the
//! registry.

use std::io::Read as _;
use std::time::Duration;

use jaco_testkit::docker::{docker, running};
use jaco_testkit::{Cluster, Engine, eventually, eventually_within, v1};

use crate::registry::{Registry, UnresponsiveRegistry, free_port, images_with_hello, slow_line};
use crate::scenario::{IMAGE, apply, replicas};

#[tokio::test(flavor = "multi_thread")]
async fn hanging_pull_blocks_nothing_and_recovers() {
    let images = images_with_hello().await;
    let cluster = Cluster::start(1, Engine::Docker).await;
    let unresponsive = UnresponsiveRegistry::start();
    let port = unresponsive.port();
    let image = format!("127.0.0.1:{port}/hello:1");
    apply(&cluster, "slow", &image, 1, "").await;
    let state = || async {
        let found = replicas(&cluster, 0, "slow").await;
        found.first().map(|slow| (slow.state.clone(), slow.code.clone(), slow.details.clone()))
    };
    eventually("the pull is visible", || async {
        let now = state().await;
        let pulling = now.as_ref().is_some_and(|(_, code, _)| code == "pulling");
        if pulling { Ok(()) } else { Err(now) }
    })
    .await;
    // Other replicas on the same node start meanwhile.
    apply(&cluster, "fast", IMAGE, 2, "").await;
    cluster.converged(0, "fast").await;
    assert_eq!(state().await.map(|(state, ..)| state).as_deref(), Some("pulling"));

    // The unresponsive registry goes away: the attempt fails with its reason.
    drop(unresponsive);
    eventually_within(Duration::from_secs(240), "the failure is visible", || async {
        let now = state().await;
        let told = now.as_ref().is_some_and(|(_, code, details)| {
            code == "image_pull_failed"
                && details.get("reason").is_some_and(|reason| reason.starts_with(&image))
        });
        if told { Ok(()) } else { Err(now) }
    })
    .await;

    // A registry with the image takes its place: the next attempt succeeds. The image was pushed
    // under another name, so it is not on the node yet.
    let _registry = Registry::start(port, &images);
    eventually_within(Duration::from_secs(240), "it recovers", || async {
        let now = state().await;
        let is_up = now.as_ref().is_some_and(|(state, ..)| state == "running");
        if is_up { Ok(()) } else { Err(now) }
    })
    .await;
    docker(&["rmi", "--force", &image]);
}

/// R-RUN-2: the status shows how much of an image has arrived, and how much there is, in bytes.
#[tokio::test(flavor = "multi_thread")]
async fn progress_of_a_slow_pull_is_shown() {
    let images = images_with_hello().await;
    let port = free_port();
    let _registry = Registry::start(port, &images);
    push_with_unknown_layer(&format!("127.0.0.1:{port}/hello:1"));
    let image = format!("127.0.0.1:{}/hello:1", slow_line(port).await);
    let cluster = Cluster::start(1, Engine::Docker).await;
    apply(&cluster, "shop", &image, 1, "").await;
    let mut shown: Vec<u64> = Vec::new();
    while shown.len() < 3 {
        let pull = eventually("more of it has arrived", || async {
            let pull = replicas(&cluster, 0, "shop").await.first().and_then(|it| it.pull);
            let is_more =
                |pull: &v1::PullInfo| pull.done_bytes > shown.last().copied().unwrap_or(0);
            pull.filter(is_more).ok_or("no pull, or no more of it")
        })
        .await;
        assert!(pull.done_bytes <= pull.total_bytes, "{pull:?}");
        shown.push(pull.done_bytes);
    }
    let status = cluster.cli(0, &["status", "shop"]);
    let status = String::from_utf8(status.stdout).expect("text");
    assert!(status.contains("MiB of ") || status.contains("KiB of "), "{status}");
    cluster.converged(0, "shop").await;
    drop(cluster);
    docker(&["rmi", "--force", &image]);
}

/// R-ROLL-5: a registry that hangs and then dies stops a rollout before its first step: it shows
/// which nodes wait for what, and ends with every old replica serving. With a working registry the
/// same image rolls out.
#[tokio::test(flavor = "multi_thread")]
async fn dead_registry_leaves_old_replicas_serving() {
    let images = images_with_hello().await;
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 3, "").await;
    cluster.converged(0, "shop").await;
    let before = running(&cluster.id);
    let unresponsive = UnresponsiveRegistry::start();
    let port = unresponsive.port();
    let image = format!("127.0.0.1:{port}/hello:1");
    apply(&cluster, "shop", &image, 3, "").await;
    let rollout = || async {
        let status = cluster.overview(1).await.expect("it answers");
        status.deployments[0].services[0].rollout.clone().unwrap_or_default()
    };
    eventually("all nodes fetch it", || async {
        let now = rollout().await;
        let pulling = now.prepull.values().filter(|reason| *reason == "pulling").count();
        if pulling == 3 && now.current_step == 0 { Ok(()) } else { Err(now) }
    })
    .await;
    assert_eq!(running(&cluster.id), before);
    drop(unresponsive);
    eventually_within(Duration::from_secs(240), "it is given up", || async {
        let now = rollout().await;
        let told = now.failure_reason.starts_with("image_pull_failed: n");
        let is_over = now.state == "aborted" && told && now.failure_reason.contains(&image);
        if is_over { Ok(()) } else { Err(now) }
    })
    .await;
    assert_eq!(running(&cluster.id), before, "nothing was replaced");

    let _registry = Registry::start(port, &images);
    apply(&cluster, "shop", &image, 3, r#","environment":{"ROUND":"2"}"#).await;
    eventually_within(Duration::from_secs(240), "it rolls out", || async {
        let now = rollout().await;
        let running = replicas(&cluster, 0, "shop").await;
        let is_new = running.iter().all(|one| one.image == image && one.state == "running");
        if now.state == "completed" && is_new { Ok(()) } else { Err(now) }
    })
    .await;
    drop(cluster);
    docker(&["rmi", "--force", &image]);
}

/// R-ROLL-5: a rollout pins the image digest. Wherever its tag points later, locally or in the
/// registry, restarted and additional replicas run the pinned digest, which is shown.
#[tokio::test(flavor = "multi_thread")]
async fn moved_tag_does_not_change_pinned_digests() {
    let images = images_with_hello().await;
    let port = free_port();
    let _registry = Registry::start(port, &images);
    let image = format!("127.0.0.1:{port}/hello:1");
    let cluster = Cluster::start(2, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 1, "").await;
    cluster.converged(0, "shop").await;
    apply(&cluster, "shop", &image, 1, "").await;
    let status = cluster.converged(1, "shop").await;
    let settled = status.deployments[0].services[0].image_digest.clone();
    let repository = format!("127.0.0.1:{port}/hello@sha256:");
    assert!(settled.starts_with(&repository), "{settled}");

    push_another(&image);
    let moved = docker(&["image", "inspect", "--format", "{{json .RepoDigests}}", &image]);
    assert!(!moved.contains(&settled), "the name leads elsewhere: {moved}");
    let first = replicas(&cluster, 0, "shop").await[0].container_id.clone();
    docker(&["kill", &first]);
    eventually("it is started again", || async {
        let now = replicas(&cluster, 0, "shop").await;
        let is_back = now[0].state == "running" && now[0].container_id != first;
        if is_back { Ok(()) } else { Err(now) }
    })
    .await;
    apply(&cluster, "shop", &image, 3, "").await;
    let status = cluster.converged(1, "shop").await;
    assert_eq!(status.replicas.len(), 3);
    for replica in &status.replicas {
        assert_eq!(replica.image_digest, settled);
        let runs = docker(&["inspect", "--format", "{{.Config.Image}}", &replica.container_id]);
        assert_eq!(runs.trim(), settled, "{}", replica.id);
    }
    let history = cluster.cli(0, &["history", "shop", "-o", "json"]);
    let history: serde_json::Value = serde_json::from_slice(&history.stdout).expect("JSON");
    assert_eq!(history["revisions"][2]["digests"]["web"], settled.as_str(), "{history}");
    drop(cluster);
    docker(&["rmi", "--force", &image, &settled]);
}

/// Pushes another image under the same name.
fn push_another(image: &str) {
    let id = docker(&["create", IMAGE]);
    docker(&["commit", "--change", "LABEL moved=yes", id.trim(), image]);
    docker(&["rm", id.trim()]);
    docker(&["push", "--quiet", image]);
}

/// Pushes an image that has a layer which no engine has, and that does not become smaller.
fn push_with_unknown_layer(image: &str) {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let random = std::fs::File::open("/dev/urandom").expect("it is there");
    let mut noise = Vec::new();
    random.take(512 * 1024).read_to_end(&mut noise).expect("it does not end");
    let file = folder.path().join("noise");
    std::fs::write(&file, noise).expect("temporary files can be written");
    let id = docker(&["create", IMAGE]);
    docker(&["cp", file.to_str().expect("a path in ASCII"), &format!("{}:/noise", id.trim())]);
    docker(&["commit", id.trim(), image]);
    docker(&["rm", id.trim()]);
    docker(&["push", "--quiet", image]);
    docker(&["rmi", image]);
}
