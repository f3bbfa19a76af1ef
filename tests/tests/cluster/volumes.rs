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

/// Makes `shop/data` of a node of this archive, by another node.
async fn write(cluster: &Cluster, asked: usize, node: &str, archive: Vec<u8>) {
    write_volume(cluster, (asked, "data", node), archive).await;
}

async fn write_volume(
    cluster: &Cluster,
    (asked, volume, node): (usize, &str, &str),
    archive: Vec<u8>,
) {
    let start = v1::WriteVolumeStart {
        deployment: "shop".to_owned(),
        volume: volume.to_owned(),
        node: node.to_owned(),
        existing: "replace".to_owned(),
        from: String::new(),
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

/// Disables `shop/db`, and waits until no container has a volume.
async fn disable(cluster: &Cluster) {
    let disabled = cluster.cli(0, &["disable", "shop/db"]);
    assert!(disabled.status.success(), "{}", String::from_utf8_lossy(&disabled.stderr));
    eventually("no container has a volume", || async {
        let listed = ok(&volume(cluster, 0, &["ls", "shop"]));
        let rows = listed.as_array().expect("a list");
        if rows.iter().all(|row| row["mounts"] == json!([])) { Ok(()) } else { Err(listed) }
    })
    .await;
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
    disable(&cluster).await;

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

/// Applies `shop` with a replica that has two volumes; its node.
async fn deploy_two_volumes(cluster: &Cluster) -> String {
    let mounts = r#","volumes":[{"type":"volume","source":"data","target":"/data"},
        {"type":"volume","source":"more","target":"/more"}]"#;
    let model = jaco_tests::compose_with("shop", "db", "db:1", 1, mounts);
    let model = model.strip_suffix('}').expect("an object");
    let declared = r#""data":{"name":"shop_data"},"more":{"name":"shop_more"}"#;
    let request = v1::ApplyRequest {
        compose_json: format!(r#"{model},"volumes":{{{declared}}}}}"#),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
    cluster.converged(0, "shop").await;
    node_of_db(cluster).await
}

async fn node_of_db(cluster: &Cluster) -> String {
    let status = cluster.overview(0).await.expect("a status");
    let replicas = status.replicas.into_iter();
    replicas.map(|replica| replica.node).next().expect("it has a replica")
}

/// R-SEL-3, R-OPS-1: a replica starts on the node that its volumes were copied to, with what was in all of them, whichever
/// node is asked; and back.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_moves_with_its_replica_and_what_else_it_mounts() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let mut from = deploy_two_volumes(&cluster).await;
    let here = tempfile::tempdir().expect("a folder");
    let others = |from: &str| -> Vec<&str> {
        ["n1", "n2", "n3"].into_iter().filter(|node| *node != from).collect()
    };
    let to = others(&from)[0];
    refused(&volume(&cluster, 0, &["move", "shop/data", &from]), "is on");
    let out = volume(&cluster, 0, &["move", "shop/data", to]);
    refused(&out, "error[volume_in_use]");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("shop-db-0") && said.contains("jaco disable shop/db"), "{said}");
    let cordoned = cluster.cli(0, &["node", "cordon", to]);
    assert!(cordoned.status.success(), "{}", String::from_utf8_lossy(&cordoned.stderr));
    disable(&cluster).await;
    refused(&volume(&cluster, 0, &["move", "shop/data", to]), "error[cannot_place]");
    let uncordoned = cluster.cli(0, &["node", "uncordon", to]);
    assert!(uncordoned.status.success(), "{}", String::from_utf8_lossy(&uncordoned.stderr));

    let (data, more) = (archive(&vec![7; 5 << 20]), archive(b"a little more"));
    write_volume(&cluster, (0, "data", &from), data.clone()).await;
    write_volume(&cluster, (1, "more", &from), more.clone()).await;
    for asked in 0..3 {
        let to = others(&from)[asked % 2].to_owned();
        let planned = ok(&volume(&cluster, asked, &["move", "shop/data", &to, "--dry-run"]));
        assert_eq!((&planned["moved"], &planned["bytes"]), (&json!(false), &Value::Null));
        // Where it was before it has been kept, and is replaced when it is asked for.
        let args = ["move", "shop/data", &to, "--replace"];
        let told = ok(&volume(&cluster, asked, &args));
        assert_eq!(told["volumes"], json!(["data", "more"]), "{told}");
        assert_eq!(told["replicas"], json!(["shop-db-0"]), "{told}");
        assert_eq!((&told["from"], &told["to"]), (&json!(from), &json!(to)), "{told}");
        for (name, content) in [("data", &data), ("more", &more)] {
            let file = here.path().join(format!("{asked}-{name}"));
            let path = file.to_str().expect("it is UTF-8");
            let volume_of_shop = format!("shop/{name}");
            let args = ["backup", &volume_of_shop, path, "--node", &to];
            let _backed_up = ok(&volume(&cluster, (asked + 1) % 3, &args));
            let copy = fs::read(&file).expect("it is there");
            assert!(copy[..content.len()] == content[..], "{name} is what it was");
        }
        let enabled = cluster.cli(asked, &["enable", "shop/db"]);
        assert!(enabled.status.success(), "{}", String::from_utf8_lossy(&enabled.stderr));
        cluster.converged(0, "shop").await;
        assert_eq!(node_of_db(&cluster).await, to);
        disable(&cluster).await;
        from = to;
    }
    let moves = v1::AuditRequest { kinds: vec!["data_moved".to_owned()], ..Default::default() };
    let mut events = cluster.client().events(moves);
    let mut found = 0;
    while let Some(event) = events.next().await.expect("events") {
        assert_eq!(event.payload["replica"], "shop-db-0");
        found += 1;
    }
    assert_eq!(found, 3);
    // The copies that nothing needs go, and what the replica has stays.
    let collected = cluster.cli(0, &["gc", "shop", "--yes"]);
    assert!(collected.status.success(), "{}", String::from_utf8_lossy(&collected.stderr));
    let left = ok(&volume(&cluster, 0, &["ls", "shop"]));
    let left: Vec<_> = left.as_array().expect("a list").iter().map(|row| &row["node"]).collect();
    assert_eq!(left, [&json!(from), &json!(from)]);
}

/// R-SEL-3: a replica that ran after the copy began has data that the copy lacks: it stays where it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_ran_during_a_move_stays() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let from = deploy_two_volumes(&cluster).await;
    disable(&cluster).await;
    let to = if from == "n1" { "n2" } else { "n1" };
    let request = v1::PlanVolumeMoveRequest {
        deployment: "shop".to_owned(),
        volume: "more".to_owned(),
        from: String::new(),
        to: to.to_owned(),
    };
    let plan = cluster.client().plan_volume_move(request).await.expect("a plan");
    assert!(plan.replicas.iter().all(|replica| replica.disabled), "{plan:?}");
    let enabled = cluster.cli(0, &["enable", "shop/db"]);
    assert!(enabled.status.success(), "{}", String::from_utf8_lossy(&enabled.stderr));
    cluster.converged(0, "shop").await;
    let settle = v1::SettleVolumeMoveRequest {
        deployment: "shop".to_owned(),
        replicas: plan.replicas,
        volumes: Vec::new(),
        to: to.to_owned(),
        request_id: String::new(),
    };
    for what in ["it runs", "it ran"] {
        let refused = cluster.client().settle_volume_move(settle.clone()).await;
        let refused = refused.expect_err(what).to_string();
        assert!(refused.contains("replica shop-db-0"), "{what}: {refused}");
        disable(&cluster).await;
    }
    assert_eq!(node_of_db(&cluster).await, from);
}

/// R-SEL-3: a replica is not sent to where its data is not, such as when a garbage collection has removed the copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_does_not_move_without_its_data() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let from = deploy_two_volumes(&cluster).await;
    disable(&cluster).await;
    let to = if from == "n1" { "n2" } else { "n1" };
    let request = v1::PlanVolumeMoveRequest {
        deployment: "shop".to_owned(),
        volume: "data".to_owned(),
        from: String::new(),
        to: to.to_owned(),
    };
    let plan = cluster.client().plan_volume_move(request).await.expect("a plan");
    write_volume(&cluster, (2, "data", to), archive(b"copied")).await;
    let settle = v1::SettleVolumeMoveRequest {
        deployment: "shop".to_owned(),
        replicas: plan.replicas,
        volumes: plan.volumes,
        to: to.to_owned(),
        request_id: String::new(),
    };
    let refused = cluster.client().settle_volume_move(settle.clone()).await;
    let refused = refused.expect_err("one of two was copied").to_string();
    assert!(refused.contains(&format!("{to} has no copy of shop/more")), "{refused}");
    assert_eq!(node_of_db(&cluster).await, from);
    write_volume(&cluster, (2, "more", to), archive(b"copied as well")).await;
    cluster.client().settle_volume_move(settle).await.expect("both are there");
    assert_eq!(node_of_db(&cluster).await, to);
}

/// R-SEL-3, R-OPS-1: what another replica has in the volume of that name on the node is never replaced, though it is disabled.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_does_not_move_onto_that_of_another_replica() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, 3).await;
    disable(&cluster).await;
    for asked in 0..3 {
        for replace in [&[][..], &["--replace"]] {
            let args = [&["move", "shop/data", "n2", "--from", "n1"][..], replace].concat();
            let out = volume(&cluster, asked, &args);
            refused(&out, "error[volume_in_use]");
            refused(&out, "has its own data in that volume on n2");
        }
    }
}
