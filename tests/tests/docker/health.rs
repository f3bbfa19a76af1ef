//! Healthchecks that come with an image: they gate what the manifest's own would.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, eventually_within};

use crate::scenario::{IMAGE, apply, replicas};

/// An image with a healthcheck of its own. Dropping it removes its name.
struct Checked(String);

impl Checked {
    /// One whose check asks for this path, once a second.
    fn build(path: &str) -> Self {
        let name = format!("jaco-checked-{}:{}", path.trim_start_matches('/'), std::process::id());
        let check = format!(r#"["/hello", "check", "http://127.0.0.1:8080{path}"]"#);
        // Failures count from the end of the first period on: until then it is only not healthy.
        let options = "--interval=1s --timeout=2s --retries=1 --start-period=300s";
        let text = format!("FROM {IMAGE}\nHEALTHCHECK {options} CMD {check}\n");
        let mut build = Command::new("docker");
        build.env("DOCKER_BUILDKIT", "0").args(["build", "--quiet", "--tag", &name, "-"]);
        build.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut build = build.spawn().expect("docker runs");
        let mut input = build.stdin.take().expect("it is piped");
        input.write_all(text.as_bytes()).expect("docker reads it");
        drop(input);
        assert!(build.wait().expect("docker ends").success(), "{name} is built");
        Self(name)
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        let _left = Command::new("docker").args(["rmi", "--force", &self.0]).output().is_err();
    }
}

/// R-HEAL-1, R-ROLL-2: where the manifest has no healthcheck the image's decides: a replica runs
/// once it has passed, and not before. A revision whose image's check never passes replaces nothing.
/// Turned off in the manifest, in either way, it counts for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn image_healthcheck_gates_a_rollout() {
    let (good, bad) = (Checked::build("/healthz"), Checked::build("/nowhere"));
    let cluster = Cluster::start(1, Engine::Docker).await;
    let slow = r#","environment":{"HELLO_HEALTHY_AFTER_MS":"2500"}"#;
    apply(&cluster, "shop", &good.0, 2, slow).await;
    eventually_within(Duration::from_secs(240), "one waits for its check", || async {
        let now = replicas(&cluster, 0, "shop").await;
        let waits = now.iter().any(|one| one.state == "starting" && one.code == "health_pending");
        if waits { Ok(()) } else { Err(now) }
    })
    .await;
    cluster.converged(0, "shop").await;
    let before = serving(&cluster).await;
    for one in &before {
        let format = "{{.State.Health.Status}}";
        assert_eq!(docker(&["inspect", "--format", format, one]), "healthy");
    }

    let folder = cluster.nodes[0].folder().join("project");
    std::fs::create_dir_all(&folder).expect("a folder");
    let compose = jaco_tests::compose_with("shop", "web", &bad.0, 2, "");
    std::fs::write(folder.join("compose.yaml"), compose).expect("written");
    let overlay = "deployment: shop\nservices:\n- name: web\n  update: {step_timeout: 5s}\n";
    std::fs::write(folder.join("jaco.yaml"), overlay).expect("written");
    let folder = folder.to_str().expect("a path of ours");
    let applied = cluster.cli(0, &["apply", "--allow-local-image", folder]);
    let told = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert_eq!(applied.status.code(), Some(6), "{told}");
    assert!(told.contains("step_timeout"), "{told}");
    assert_eq!(serving(&cluster).await, before, "nothing was replaced");

    for off in [r#","healthcheck":{"disable":true}"#, r#","healthcheck":{"test":["NONE"]}"#] {
        apply(&cluster, "shop", &bad.0, 2, off).await;
        eventually_within(Duration::from_secs(240), "both are replaced", || async {
            let now = replicas(&cluster, 0, "shop").await;
            let done = now
                .iter()
                .all(|one| one.state == "running" && one.image == bad.0 && one.retiring.is_none());
            if done { Ok(()) } else { Err(now) }
        })
        .await;
    }
}

/// The containers of shop's replicas.
async fn serving(cluster: &Cluster) -> BTreeSet<String> {
    replicas(cluster, 0, "shop").await.into_iter().map(|one| one.container_id).collect()
}
