//! Images of the real engine that are pushed into the cluster, and run from there (R-OPS-1).

use std::fs;
use std::path::Path;
use std::process::Output;

use jaco_testkit::docker::{IMAGE, docker};
use jaco_testkit::{Cluster, Engine};
use serde_json::Value;
use tempfile::TempDir;

use crate::scenario::{apply, replicas};

/// Names of this process, so that runs side by side do not meet.
fn repository(test: &str) -> String {
    format!("jaco-push-{}/{test}", std::process::id())
}

/// A context of the tests' image with a file on top. Images with the same content are one to the engine, so whoever removes one
/// removes it for all: each test needs contents of its own.
fn context(content: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let dockerfile = format!("FROM {IMAGE}\nCOPY top /top\n");
    fs::write(folder.path().join("Dockerfile"), dockerfile).expect("it can be written");
    fs::write(folder.path().join("top"), content).expect("it can be written");
    folder
}

fn build(name: &str, content: &str) {
    let folder = context(content);
    docker(&["build", "--quiet", "--tag", name, text(folder.path())]);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is UTF-8")
}

fn json(out: &Output) -> Value {
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    serde_json::from_slice(&out.stdout).expect("it is JSON")
}

/// Removes all images of a repository.
fn remove(repository: &str) {
    let listed = docker(&["images", "--format", "{{.Repository}}:{{.Tag}}", repository]);
    for name in listed.lines() {
        docker(&["rmi", "--force", name]);
    }
}

/// The image that the container of each replica of a deployment was made from.
async fn images(cluster: &Cluster, deployment: &str) -> Vec<String> {
    let containers = replicas(cluster, 0, deployment).await;
    let image = |id: &str| docker(&["inspect", "--format", "{{.Config.Image}}", id]);
    containers.iter().map(|replica| image(&replica.container_id)).collect()
}

/// R-OPS-1, R-ROLL-5: an image that no engine has any more runs on all nodes from an archive that was pushed; of the next
/// version, out of the engine, only the layer that differs is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_pushed_image_runs_though_no_engine_has_it() {
    let (cluster, here) = (Cluster::start(3, Engine::Docker).await, tempfile::tempdir().unwrap());
    let repository = repository("app");
    let (first, second) = (format!("{repository}:1"), format!("{repository}:2"));
    let archive = here.path().join("image.tar");
    build(&first, "pushed, one");
    docker(&["save", "--output", text(&archive), &first]);
    docker(&["rmi", &first]);
    let push = ["image", "push", &first, "--file", text(&archive), "-o", "json"];
    let pushed = json(&cluster.cli(1, &push));
    assert_eq!(pushed["nodes"].as_array().map(Vec::len), Some(2), "{pushed}");
    assert_eq!(pushed["sent_layers"], pushed["layers"], "{pushed}");
    apply(&cluster, "shop", &first, 3, "").await;
    cluster.converged(0, "shop").await;
    let id = pushed["id"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    let local = format!("{repository}:jaco-{id}");
    assert_eq!(images(&cluster, "shop").await, vec![local; 3]);

    build(&second, "pushed, two");
    let push = ["image", "push", &second, "-o", "json"];
    let pushed = json(&cluster.cli(2, &push));
    assert_eq!(pushed["sent_layers"], 1, "{pushed}");
    assert!(pushed["sent_bytes"].as_u64().unwrap() < 50_000, "{pushed}");
    docker(&["rmi", &second]);
    apply(&cluster, "shop", &second, 3, "").await;
    cluster.converged(0, "shop").await;
    let again = json(&cluster.cli(0, &["image", "ls", "-o", "json"]));
    assert_eq!(again.as_array().map(Vec::len), Some(2), "{again}");
    drop(cluster);
    remove(&repository);
}

/// R-OPS-1: a compose file with `build: .` runs with one command; a change of what is built is rolled out, and without a change
/// there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_compose_file_that_builds_runs() {
    let cluster = Cluster::start(2, Engine::Docker).await;
    let folder = context("built, one");
    let compose =
        "services:\n  web:\n    build: .\n    command: [serve]\n    deploy: {replicas: 2}\n";
    fs::write(folder.path().join("compose.yaml"), compose).expect("it can be written");
    let name = format!("built{}", std::process::id());
    let place = text(folder.path()).to_owned();
    let refused = cluster.cli(0, &["apply", &place, "--name", &name]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("jaco apply --build"), "{said}");
    let run = || {
        let out = cluster.cli(1, &["apply", &place, "--name", &name, "--build"]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}");
    };
    run();
    cluster.converged(0, &name).await;
    let before = images(&cluster, &name).await;
    let repository = format!("{name}/web");
    assert!(before.len() == 2 && before[0] == before[1], "{before:?}");
    assert!(before[0].starts_with(&format!("{repository}:jaco-")), "{before:?}");
    run();
    let history = json(&cluster.cli(0, &["history", &name, "-o", "json"]));
    let revisions = history["revisions"].as_array().map(Vec::len);
    assert_eq!(revisions, Some(1), "nothing has changed: {history}");
    fs::write(folder.path().join("top"), "built, two").expect("it can be written");
    run();
    cluster.converged(0, &name).await;
    let after = images(&cluster, &name).await;
    assert!(after.len() == 2 && after[0] != before[0], "{after:?}");
    drop(cluster);
    remove(&repository);
    // As compose names it: no prune of images without a name takes it before it is pushed.
    docker(&["rmi", "--force", &format!("{name}-web:latest")]);
}
