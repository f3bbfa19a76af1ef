//! What is in volumes, by any node.

use std::fs;
use std::process::Output;

use jaco_testkit::{Cluster, Engine, eventually, fresh_request_id, v1};
use serde_json::{Value, json};

/// Applies `shop` with a volume for each of its replicas.
async fn deploy(cluster: &Cluster, replicas: u32) {
    let mounts = r#","volumes":[{"type":"volume","source":"data","target":"/data"}]"#;
    let model = jaco_tests::compose_with("shop", "db", "db:1", replicas, mounts);
    let model = model.strip_suffix('}').expect("an object");
    let request = v1::ApplyRequest {
        compose_json: format!(r#"{model},"volumes":{{"data":{{"name":"shop_data"}}}}}}"#),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
    cluster.converged(0, "shop").await;
}

fn volume(cluster: &Cluster, node: usize, args: &[&str]) -> Output {
    let mut all = vec!["volume"];
    all.extend_from_slice(args);
    all.extend_from_slice(&["-o", "json"]);
    cluster.cli(node, &all)
}

fn ok(out: &Output) -> Value {
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    serde_json::from_slice(&out.stdout).expect("it is JSON")
}

fn refused(out: &Output, code: &str) {
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains(code), "{said}");
}

/// A tar archive whose root is `./`, with this as content of its one file.
fn archive(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |name: &str, kind: u8, content: &[u8]| {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000700\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    };
    put("./", b'5', b"");
    put("./file", b'0', content);
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Makes the volume of a node of this archive, by another node.
async fn write(cluster: &Cluster, asked: usize, node: &str, archive: Vec<u8>) {
    let start = v1::WriteVolumeStart {
        deployment: "shop".to_owned(),
        volume: "data".to_owned(),
        node: node.to_owned(),
        existing: "replace".to_owned(),
    };
    let client = cluster.nodes[asked].client();
    let (mut write, inputs, started) = client.write_volume(start).await.expect("it begins");
    assert_eq!(started.node, node);
    let sending = std::thread::spawn(move || {
        for piece in archive.chunks(512 << 10) {
            let _taken = inputs.send_blocking(piece.to_vec());
        }
        let _taken = inputs.end_blocking();
    });
    write.done().await.expect("it is written");
    sending.join().expect("it does not panic");
}

/// R-OPS-1, R-CLI-6: volumes are listed, read and written whichever node is asked; what is read is what was written, and the
/// audit log has who did it.
#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_backed_up_and_restored_from_any_node() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, 3).await;
    let listed = ok(&volume(&cluster, 1, &["ls", "shop"]));
    let rows = listed.as_array().expect("a list");
    let nodes: Vec<&Value> = rows.iter().map(|row| &row["node"]).collect();
    assert_eq!(nodes, ["n1", "n2", "n3"], "{listed}");
    assert!(rows.iter().all(|row| row["mounts"][0]["access"] == "writes"), "{listed}");
    assert_eq!(ok(&volume(&cluster, 0, &["ls", "blog"])), json!([]));

    let here = tempfile::tempdir().expect("a folder");
    let at = |name: &str| here.path().join(name).to_str().expect("it is UTF-8").to_owned();
    refused(&volume(&cluster, 0, &["backup", "shop/data", &at("a")]), "n1, n2, n3: name one");
    let args = ["backup", "shop/data", &at("a"), "--node", "n2"];
    refused(&volume(&cluster, 0, &args), "error[volume_in_use]");
    let disabled = cluster.cli(0, &["disable", "shop/db"]);
    assert!(disabled.status.success(), "{}", String::from_utf8_lossy(&disabled.stderr));
    eventually("no container has a volume", || async {
        let listed = ok(&volume(&cluster, 0, &["ls", "shop"]));
        let rows = listed.as_array().expect("a list");
        if rows.iter().all(|row| row["mounts"] == json!([])) { Ok(()) } else { Err(listed) }
    })
    .await;

    let content: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
    let archive = archive(&content);
    for asked in 0..3 {
        for node in ["n1", "n2", "n3"] {
            let file = at(&format!("{asked}-{node}"));
            write(&cluster, asked, node, archive.clone()).await;
            let args = ["backup", "shop/data", &file, "--node", node];
            let told = ok(&volume(&cluster, (asked + 1) % 3, &args));
            assert_eq!((&told["node"], &told["bytes"]), (&json!(node), &json!(archive.len())));
            let written = fs::read(&file).expect("it is there");
            assert!(written[..archive.len()] == archive, "what was written is read");
            let args = ["restore", "shop/data", &file, "--node", node];
            refused(&volume(&cluster, asked, &args), "error[volume_exists]");
            let args = ["restore", "shop/data", &file, "--node", node, "--replace"];
            assert_eq!(ok(&volume(&cluster, asked, &args))["node"], node);
        }
    }
    let kinds = vec!["volume_read".to_owned(), "volume_write".to_owned()];
    let request = v1::AuditRequest { kinds, ..Default::default() };
    let mut events = cluster.client().events(request);
    let mut found = Vec::new();
    while let Some(event) = events.next().await.expect("events") {
        found.push(event);
    }
    let reads = found.iter().filter(|event| event.kind == "volume_read").count();
    assert!(reads >= 9 && found.len() >= 27, "{found:?}");
    let first = &found[0];
    assert!(first.by.starts_with("local:"), "{first:?}");
    assert_eq!((&*first.payload["deployment"], &*first.payload["volume"]), ("shop", "data"));

    // A file that was changed is not sent, and one that is cut off is none.
    let file = at("0-n1");
    let mut bytes = fs::read(&file).expect("it is there");
    bytes[1000] ^= 1;
    fs::write(&file, &bytes).expect("it can be written");
    let args = ["restore", "shop/data", &file, "--node", "n1", "--replace"];
    refused(&volume(&cluster, 0, &args), "error[backup_invalid]");
    refused(&volume(&cluster, 0, &["restore", "shop", &file]), "names no volume");

    // The volumes of a node that is down are missing in the list, and the list says so.
    cluster.nodes[2].kill();
    let out = volume(&cluster, 0, &["ls"]);
    assert_eq!(ok(&out).as_array().map(Vec::len), Some(2));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("the volumes of a node are missing here: n3"), "{said}");
}
