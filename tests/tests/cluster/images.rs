//! Images that are pushed into the cluster, and run without a registry (R-OPS-1).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, eventually, eventually_within, fresh_request_id, v1};
use jaco_types::BlobDigest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::scenario::{apply_request, deploy};

fn digest(content: &[u8]) -> BlobDigest {
    BlobDigest(Sha256::digest(content).into())
}

/// A layer of this size, which no other number has.
fn layer(number: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| at.to_le_bytes()[at % 2] ^ number).collect()
}

fn config(layers: &[Vec<u8>]) -> Vec<u8> {
    let ids: Vec<String> = layers.iter().map(|layer| digest(layer).to_string()).collect();
    json!({ "os": "linux", "rootfs": { "type": "layers", "diff_ids": ids } }).to_string().into()
}

/// An archive as `docker save` makes it.
fn archive(folder: &Path, layers: &[Vec<u8>]) -> PathBuf {
    let config = config(layers);
    let names: Vec<String> =
        (0..layers.len()).map(|number| format!("l{number}/layer.tar")).collect();
    let name = format!("{}.json", digest(&config).hex());
    let manifest = json!([{ "Config": name, "RepoTags": ["any:1"], "Layers": names }]).to_string();
    let mut bytes = Vec::new();
    let mut put = |name: &str, content: &[u8]| {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    };
    for (name, layer) in names.iter().zip(layers) {
        put(name, layer);
    }
    put(&name, &config);
    put("manifest.json", manifest.as_bytes());
    bytes.extend_from_slice(&[0; 1024]);
    let path = folder.join(format!("{}.tar", digest(&config).hex()));
    fs::write(&path, bytes).expect("temporary files can be written");
    path
}

/// `jaco image` against a node, with this output.
fn image(cluster: &Cluster, node: usize, args: &[&str]) -> Output {
    let mut all = vec!["image"];
    all.extend_from_slice(args);
    all.extend_from_slice(&["-o", "json"]);
    cluster.cli(node, &all)
}

fn ok(out: &Output) -> Value {
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    serde_json::from_slice(&out.stdout).expect("it is JSON")
}

fn push(cluster: &Cluster, node: usize, name: &str, file: &Path, more: &[&str]) -> Value {
    let mut args = vec!["push", name, "--file", file.to_str().expect("it is UTF-8")];
    args.extend_from_slice(more);
    ok(&image(cluster, node, &args))
}

/// The layers that the engine of a node has loaded.
fn loaded(cluster: &Cluster, node: usize) -> Vec<String> {
    let file = cluster.nodes[node].folder().join("data/fake-engine.json");
    let host: Value = fs::read(file)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let layers = host["layers"].as_array().cloned().unwrap_or_default();
    layers.iter().filter_map(|layer| layer.as_str().map(str::to_owned)).collect()
}

fn blobs(cluster: &Cluster, node: usize) -> usize {
    let folder = cluster.nodes[node].folder().join("data/images/blobs");
    fs::read_dir(folder).map_or(0, Iterator::count)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// R-OPS-1: an image that was pushed to one node once runs on all of them, from the id that the revision is pinned to; of a
/// second one, pushed to another node, only what differs is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_pushed_image_runs_on_every_node() {
    let (cluster, here) = (Cluster::start(3, Engine::Fake).await, folder());
    let (base, top) = (layer(1, 3 << 20), layer(2, 100_000));
    let first = archive(here.path(), &[base.clone(), top.clone()]);
    let pushed = push(&cluster, 1, "shop/web:1", &first, &[]);
    let config_bytes = config(&[base.clone(), top.clone()]).len();
    assert_eq!(pushed["sent_bytes"], base.len() + top.len() + config_bytes);
    assert_eq!(pushed["nodes"].as_array().map(Vec::len), Some(2), "{pushed}");
    deploy(&cluster, "shop", "shop/web:1", 3).await;
    for node in 0..3 {
        let mut expected = [digest(&base).to_string(), digest(&top).to_string()];
        expected.sort();
        assert_eq!(loaded(&cluster, node), expected, "node {node}");
    }
    let id = pushed["id"].as_str().expect("it has an id");
    let history = ok(&cluster.cli(0, &["history", "shop", "-o", "json"]));
    assert!(history.to_string().contains(&format!("shop/web@{id}")), "{history}");

    let other = layer(3, 50_000);
    let second = archive(here.path(), &[base.clone(), other.clone()]);
    let pushed = push(&cluster, 2, "shop/web:2", &second, &[]);
    let config_bytes = config(&[base.clone(), other.clone()]).len();
    assert_eq!(pushed["sent_bytes"], other.len() + config_bytes, "the base is in the cluster");
    assert_eq!(pushed["sent_layers"], 1);
    deploy(&cluster, "shop", "shop/web:2", 3).await;
    for node in 0..3 {
        assert!(loaded(&cluster, node).contains(&digest(&other).to_string()), "node {node}");
    }
    let listed = ok(&image(&cluster, 0, &["ls"]));
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    let users = listed.to_string();
    assert!(users.contains("shop/web@1") && users.contains("shop/web@2"), "{users}");
    let audit = ok(&cluster.cli(0, &["audit", "-o", "json"])).to_string();
    assert!(audit.contains("image_push"), "{audit}");
}

/// R-OPS-1: what the pusher's node had is elsewhere by the time a push is done.
#[tokio::test(flavor = "multi_thread")]
async fn the_loss_of_the_node_that_took_a_push_loses_nothing() {
    let (mut cluster, here) = (Cluster::start(3, Engine::Fake).await, folder());
    let file = archive(here.path(), &[layer(1, 1 << 20)]);
    push(&cluster, 2, "app:1", &file, &[]);
    cluster.nodes[2].kill();
    let applied = cluster.client().apply(apply_request("shop", "app:1", 2)).await;
    applied.expect("the deployment is admitted");
    eventually_within(Duration::from_secs(90), "it runs on the others", || async {
        let status = cluster.overview(0).await?;
        let on = |node: &str| {
            let mut here = status.replicas.iter().filter(|replica| replica.node == node);
            here.any(|replica| replica.state == "running")
        };
        if on("n1") && on("n2") { Ok(()) } else { Err(format!("{:?}", status.replicas)) }
    })
    .await;
    // A second copy is made in place of the one that is out of reach.
    eventually_within(Duration::from_secs(60), "it is kept twice again", || async {
        let listed = ok(&image(&cluster, 0, &["ls"]));
        let nodes = listed[0]["nodes"].to_string();
        if nodes.contains("n1") && nodes.contains("n2") { Ok(()) } else { Err(nodes) }
    })
    .await;
}

/// R-OPS-1: a list that names the index of a record waits for it: the node that a push talks to may apply the record after the
/// leader has answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_waits_for_the_record() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let content = config(&[layer(1, 1000)]);
    let blob = |content: &[u8]| v1::BlobInfo {
        digest: digest(content).0.to_vec().into(),
        bytes: content.len() as u64,
    };
    let record = |number: u8| v1::RecordImageRequest {
        config: Some(blob(&config(&[layer(number, 1000)]))),
        layers: vec![blob(&layer(number, 1000))],
        request_id: fresh_request_id(),
        ..v1::RecordImageRequest::default()
    };
    // What is still written after the start of the cluster would be taken for the record.
    let index = cluster.idle_index(follower).await;
    let request =
        v1::ListImagesRequest { id: digest(&content).0.to_vec().into(), min_index: index + 1 };
    let asked = cluster.nodes[follower].client();
    let listed = tokio::spawn(async move { asked.list_images(request).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!listed.is_finished(), "the record is not there yet");
    let recorded = cluster.nodes[leader].client().record_image(record(1)).await;
    assert!(recorded.expect("it is recorded").raft_index > index);
    let listed = listed.await.expect("it does not panic").expect("it answers");
    assert_eq!(listed.images.len(), 1);

    for number in 2..12 {
        let recorded = cluster.nodes[follower].client().record_image(record(number)).await;
        let min_index = recorded.expect("it is recorded").raft_index;
        let id = blob(&config(&[layer(number, 1000)])).digest;
        let request = v1::ListImagesRequest { id, min_index };
        let listed = cluster.nodes[follower].client().list_images(request).await;
        assert_eq!(listed.expect("it answers").images.len(), 1, "record {number}");
    }
}

/// R-OPS-1: an upload that broke in the middle of a layer goes on there.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_push_goes_on_where_it_stopped() {
    let (cluster, here) = (Cluster::start(3, Engine::Fake).await, folder());
    let layers = [layer(1, 2 << 20), layer(2, 1 << 20)];
    let file = archive(here.path(), &layers);
    let config = config(&layers);
    let info = |content: &[u8]| v1::BlobInfo {
        digest: digest(content).0.to_vec().into(),
        bytes: content.len() as u64,
    };
    let blobs = vec![info(&config), info(&layers[0]), info(&layers[1])];
    let (mut upload, missing) = cluster.nodes[1]
        .client()
        .upload(v1::UploadStart { blobs })
        .await
        .expect("the upload begins");
    assert_eq!(missing.blobs.len(), 3);
    let inputs = upload.take_inputs().expect("they are there once");
    let half: Vec<Vec<u8>> = layers[0][..1 << 20].chunks(256 << 10).map(<[u8]>::to_vec).collect();
    let (whole, first) = (layers[1].clone(), digest(&layers[0]).0);
    let second = digest(&layers[1]).0;
    let sent = std::thread::spawn(move || {
        let mut taken = vec![inputs.blob_blocking(second, 0), inputs.data_blocking(whole)];
        taken.push(inputs.blob_blocking(first, 0));
        taken.extend(half.into_iter().map(|piece| inputs.data_blocking(piece)));
        taken.len()
    });
    assert_eq!(upload.next().await.expect("it goes on"), Some(second.to_vec()), "one is complete");
    assert_eq!(sent.join().expect("it does not panic"), 7);
    // The sender is gone in the middle of a layer; what has arrived is written.
    let partial =
        cluster.nodes[1].folder().join("data/images/partial").join(digest(&layers[0]).hex());
    eventually("half of the first layer is there", || async {
        let bytes = fs::metadata(&partial).map_or(0, |seen| seen.len());
        if bytes == 1 << 20 { Ok(()) } else { Err(bytes) }
    })
    .await;
    drop(upload);
    let pushed = push(&cluster, 1, "app:1", &file, &[]);
    assert_eq!(pushed["sent_bytes"], config.len() + (1 << 20), "only what was missing");
    assert_eq!(pushed["nodes"].as_array().map(Vec::len), Some(2));
    deploy(&cluster, "shop", "app:1", 3).await;
}

/// R-OPS-1: an image in use is not removed by mistake; one that nobody needs leaves the disks of all nodes.
#[tokio::test(flavor = "multi_thread")]
async fn unused_images_leave_the_nodes() {
    let (cluster, here) = (Cluster::start(3, Engine::Fake).await, folder());
    let (base, top) = (layer(1, 200_000), layer(2, 100_000));
    let kept = archive(here.path(), std::slice::from_ref(&base));
    let gone = archive(here.path(), &[base.clone(), top]);
    push(&cluster, 0, "base:1", &kept, &["--copies", "3"]);
    push(&cluster, 0, "app:1", &gone, &["--copies", "3"]);
    deploy(&cluster, "shop", "app:1", 1).await;
    let refused = image(&cluster, 1, &["rm", "app:1"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("image_in_use"), "{said}");
    assert!(said.contains("shop/web") && said.contains("--in-use"), "{said}");
    let deleted = cluster.cli(0, &["delete", "shop", "--yes"]);
    assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    assert_eq!(ok(&image(&cluster, 1, &["rm", "app:1"]))["outcome"], "removed");
    for node in 0..3 {
        eventually("what only the removed image had is gone", || async {
            // The configuration and the one layer of the other.
            let left = blobs(&cluster, node);
            if left == 2 { Ok(()) } else { Err(left) }
        })
        .await;
    }
    let listed = ok(&image(&cluster, 2, &["ls"]));
    assert_eq!(listed[0]["names"], json!(["base:1"]));
    let absent = image(&cluster, 2, &["rm", "app:1"]);
    assert!(String::from_utf8_lossy(&absent.stderr).contains("image_not_found"));
}

/// R-OPS-1, R-RUN-2: a node that can get a pushed image from nobody says so, with what to do; once a node that holds it is
/// back, the replica starts.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_out_of_reach_is_named() {
    let (mut cluster, here) = (Cluster::start(3, Engine::Fake).await, folder());
    let file = archive(here.path(), &[layer(1, 100_000)]);
    let pushed = push(&cluster, 2, "app:1", &file, &["--copies", "1"]);
    assert_eq!(pushed["nodes"], json!(["n3"]));
    assert_eq!([blobs(&cluster, 0), blobs(&cluster, 1)], [0, 0], "no other node began a copy");
    cluster.nodes[2].kill();
    let applied = cluster.client().apply(apply_request("shop", "app:1", 2)).await;
    applied.expect("the deployment is admitted");
    eventually_within(Duration::from_secs(90), "the reason is told", || async {
        let status = cluster.overview(0).await?;
        let mut reasons = status.replicas.iter().filter_map(|it| it.details.get("reason"));
        let told = reasons.any(|reason| {
            reason.contains("no node gives it") && reason.contains("jaco image push")
        });
        if told { Ok(()) } else { Err(format!("{:?}", status.replicas)) }
    })
    .await;
    for node in &cluster.nodes[..2] {
        let log = fs::read_to_string(node.log_path()).expect("the log can be read");
        let attempts = log.matches("copy of a pushed image not fetched").count();
        assert!(attempts <= 10, "{attempts} attempts of {} in a few seconds", node.name);
    }
    cluster.nodes[2].start();
    cluster.converged(0, "shop").await;
}

/// R-OPS-1, R-IN-3: an archive that is not what it says is refused before anything is sent, and a full store says so.
#[tokio::test(flavor = "multi_thread")]
async fn bad_archives_and_full_stores_are_refused() {
    let settings = "images: {max_mebibytes: 1}";
    let (cluster, here) = (Cluster::start_with(1, Engine::Fake, settings).await, folder());
    let file = archive(here.path(), &[layer(1, 100_000)]);
    let mut bytes = fs::read(&file).expect("it is there");
    bytes[600] ^= 1;
    fs::write(&file, bytes).expect("it can be written");
    let path = file.to_str().expect("it is UTF-8");
    let refused = image(&cluster, 0, &["push", "app:1", "--file", path]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("layer 1") && said.contains("invalid_request"), "{said}");
    assert_eq!(blobs(&cluster, 0), 0);
    let large = archive(here.path(), &[layer(1, 2 << 20)]);
    let path = large.to_str().expect("it is UTF-8");
    let refused = image(&cluster, 0, &["push", "app:1", "--file", path]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("image_store_full") && said.contains("images.max_mebibytes"), "{said}");
    let small = archive(here.path(), &[layer(1, 200_000)]);
    let pushed = push(&cluster, 0, "app:1", &small, &[]);
    assert_eq!(pushed["nodes"], json!(["n1"]), "one node is all there is");
    deploy(&cluster, "shop", "app:1", 2).await;
}
