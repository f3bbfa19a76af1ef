//! Volumes of a class with real containers: where their files are, and what becomes of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use jaco_testkit::docker::{containers, docker};
use jaco_testkit::{Cluster, Engine, eventually, fresh_request_id, v1};

use crate::scenario::IMAGE;

const SIZE: u64 = 1 << 20;

/// Applies `shop` with this text of its jaco.yaml, without waiting.
async fn apply(cluster: &Cluster, overlay: &str) {
    let mount = r#"{"type":"volume","source":"data","target":"/data"}"#;
    let service = format!(r#"{{"db":{{"image":"{IMAGE}","volumes":[{mount}]}}}}"#);
    let volumes = r#"{"data":{"name":"shop_data"}}"#;
    let request = v1::ApplyRequest {
        compose_json: format!(r#"{{"name":"shop","services":{service},"volumes":{volumes}}}"#),
        overlay_yaml: overlay.to_owned(),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
}

fn said(out: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&out.stdout), text(&out.stderr))
}

fn ok(cluster: &Cluster, args: &[&str]) -> String {
    let out = cluster.cli(0, args);
    assert!(out.status.success(), "{args:?}: {}", said(&out));
    said(&out)
}

/// The one entry of the folder of the class.
fn only(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).expect("it can be read");
    let entries: Vec<PathBuf> = entries.map(|entry| entry.expect("it is there").path()).collect();
    let [one] = &entries[..] else { panic!("{entries:?}") };
    one.clone()
}

/// Where the one container has its volume.
fn source(cluster: &Cluster) -> String {
    let ids = containers(&cluster.id);
    let format = "{{range .Mounts}}{{.Name}}{{end}}";
    let name = docker(&["inspect", "--format", format, &ids[0]]);
    docker(&["volume", "inspect", "--format", "{{.Options.device}}", name.trim()]).trim().to_owned()
}

async fn stopped(cluster: &Cluster) {
    ok(cluster, &["disable", "shop/db"]);
    eventually("no container is left", || async {
        let left = containers(&cluster.id);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

/// R-RES-3, R-OPS-1: a volume of a class is in the folder of its class; its data survives another container, comes back from a
/// backup, is counted, and goes with `jaco gc`.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_lies_in_the_folder_of_its_class() {
    let disk = tempfile::tempdir().expect("a folder");
    let path = disk.path().display();
    let settings = format!("volume_classes: {{ssd: {{path: {path}, capacity_bytes: 10485760}}}}\n");
    let cluster = Cluster::start_with(1, Engine::Docker, &settings).await;
    apply(&cluster, "deployment: shop\nvolumes: {data: {class: ssd, size: 1M}}\n").await;
    cluster.converged(0, "shop").await;
    let data = only(disk.path());
    assert_eq!(Path::new(&source(&cluster)), data);

    fs::write(data.join("file"), vec![7; 2 << 20]).expect("it can be written");
    let first = containers(&cluster.id);
    docker(&["kill", &first[0]]);
    eventually("another container runs", || async {
        let now = containers(&cluster.id);
        if now.len() == 1 && now != first { Ok(()) } else { Err(now) }
    })
    .await;
    cluster.converged(0, "shop").await;
    assert_eq!(Path::new(&source(&cluster)), data);
    assert_eq!(fs::read(data.join("file")).expect("it is there"), vec![7; 2 << 20]);

    let out = cluster.cli(0, &["volume", "ls", "shop", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    let row = &listed[0];
    assert_eq!((&row["class"], &row["size_bytes"]), (&"ssd".into(), &SIZE.into()), "{listed}");
    let used = row["used_bytes"].as_u64().expect("it is counted");
    assert!((2 << 20..3 << 20).contains(&used), "{used}");
    let warned = ok(&cluster, &["volume", "ls", "shop"]);
    assert!(warned.contains("warning: shop/data on n1 takes 2 MiB"), "{warned}");

    let here = tempfile::tempdir().expect("a folder");
    let file = here.path().join("data.tar").display().to_string();
    stopped(&cluster).await;
    ok(&cluster, &["volume", "backup", "shop/data", &file]);
    fs::write(data.join("later"), "gone after it").expect("it can be written");
    ok(&cluster, &["volume", "restore", "shop/data", &file, "--replace"]);
    assert_eq!(fs::read(data.join("file")).expect("it is there"), vec![7; 2 << 20]);
    assert!(!data.join("later").exists(), "it was not in the backup");
    // Its disk was lost: it is made again in its class.
    let name = data.file_name().expect("it has one").to_str().expect("it is UTF-8").to_owned();
    docker(&["volume", "rm", &name]);
    fs::remove_dir_all(&data).expect("root may");
    ok(&cluster, &["volume", "restore", "shop/data", &file]);
    assert_eq!(fs::read(data.join("file")).expect("it is there"), vec![7; 2 << 20]);

    ok(&cluster, &["delete", "shop", "--yes"]);
    eventually("its files are gone", || async {
        let told = ok(&cluster, &["gc", "--yes"]);
        let left = fs::metadata(&data).expect("an empty file stays");
        if left.is_file() && left.len() == 0 { Ok(()) } else { Err(told) }
    })
    .await;
    apply(&cluster, "deployment: shop\nvolumes: {data: {class: ssd}}\n").await;
    cluster.converged(0, "shop").await;
    assert_eq!(fs::read_dir(&data).expect("a folder again").count(), 0);
    ok(&cluster, &["delete", "shop", "--yes"]);
    eventually("nothing is left of the test", || async {
        ok(&cluster, &["gc", "--yes"]);
        if data.is_file() { Ok(()) } else { Err(()) }
    })
    .await;
}

/// R-RES-3: what no node offers waits with its reason, and a volume that is elsewhere is not taken for one of the class.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_another_place_is_not_mounted() {
    let disk = tempfile::tempdir().expect("a folder");
    let settings = format!("volume_classes: {{ssd: {{path: {}}}}}\n", disk.path().display());
    let cluster = Cluster::start_with(1, Engine::Docker, &settings).await;
    apply(&cluster, "deployment: shop\nvolumes: {data: {class: tape}}\n").await;
    eventually("it says why it waits", || async {
        let told = ok(&cluster, &["explain", "shop/db"]);
        match told.contains("offers no volumes of class tape") {
            true => Ok(()),
            false => Err(told),
        }
    })
    .await;
    apply(&cluster, "deployment: shop\n").await;
    cluster.converged(0, "shop").await;
    apply(&cluster, "deployment: shop\nvolumes: {data: {class: ssd}}\n").await;
    eventually("it says that the volume is elsewhere", || async {
        let told = said(&cluster.cli(0, &["status", "shop", "-o", "json"]));
        match told.contains("has no class on this node, and is to be of class ssd") {
            true => Ok(()),
            false => Err(told),
        }
    })
    .await;
    ok(&cluster, &["delete", "shop", "--yes"]);
    eventually("nothing is left of the test", || async {
        let told = ok(&cluster, &["gc", "--yes"]);
        let own = format!("label=jaco.cluster_id={}", cluster.id);
        let left = docker(&["volume", "ls", "--quiet", "--filter", &own]);
        if left.trim().is_empty() { Ok(()) } else { Err(told) }
    })
    .await;
}
