//! The key of a node's tunnel is replaced over two machines, each with an engine and a router of its own.

use std::fs;
use std::path::Path;

use jaco_testkit::{eventually_within, router};
use serde_json::Value;

use crate::mesh::{Mesh, PATIENCE, succeeded};
use crate::reach::{PLACES, SHOP, holds};

/// Replaces the key of a node, asked on the first one; the keys before and after.
fn rotate(mesh: &Mesh, node: &str) -> [String; 2] {
    let said = mesh.cluster.cli(0, &["network", "rotate-key", node, "-o", "json"]);
    let json: Value =
        serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    succeeded(&said);
    assert_eq!(json["node"], node);
    ["before", "key"].map(|field| json[field].as_str().expect("a key").to_owned())
}

/// Whether a file below a folder has these bytes.
fn holds_bytes(folder: &Path, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(folder).expect("it can be read").map(|entry| entry.expect("read"));
    entries.into_iter().any(|entry| {
        let (path, kind) = (entry.path(), entry.file_type().expect("it has one"));
        if kind.is_dir() {
            holds_bytes(&path, bytes)
        } else if kind.is_file() {
            let content = fs::read(&path).unwrap_or_default();
            content.windows(bytes.len()).any(|part| part == bytes)
        } else {
            false
        }
    })
}

/// R-CLI-6, R-CLI-5, NET-10: an operator replaces the keys of both nodes, over either of them, while a replica asks another
/// one again and again; no request fails, private keys are on their node alone, and who asked is audited. A router
/// that is killed on the way ends with the new key.
#[tokio::test]
async fn a_key_is_rotated_under_traffic() {
    let mesh = Mesh::start().await;
    let refused = mesh.cluster.cli(0, &["network", "rotate-key", "n2"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("networks_not_enabled"));
    succeeded(&mesh.cluster.cli(0, &["network", "enable"]));
    mesh.has_routers().await;
    mesh.apply(SHOP, PLACES);
    holds(&mesh.cluster, "shop/web", "shop/db:8080").await;
    let watch = mesh.watch(0, &mesh.container(0, "shop", "web"), "http://db:8080/");
    let [first, second] = rotate(&mesh, "n2");
    assert_ne!(first, second);
    holds(&mesh.cluster, "shop/web", "shop/db:8080").await;
    let [before, _] = rotate(&mesh, "n1");
    assert_ne!(before, second);
    holds(&mesh.cluster, "shop/web", "shop/db:8080").await;
    let asked = watch.end();
    // On a busy machine each takes some tenths of a second.
    assert!(asked > 30, "only {asked} requests were made");

    // Killed between the key that is made and the plan that names it, which takes up to a second.
    let command = ["network", "rotate-key", "n2"];
    let killed = std::thread::scope(|scope| {
        let rotation = scope.spawn(|| mesh.cluster.cli(0, &command));
        let made = mesh.router(1).join("key.next");
        while !made.exists() && !rotation.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        router::kill(&mesh.router(1));
        rotation.join().expect("it does not panic")
    });
    eventually_within(PATIENCE, "the key is replaced", || async {
        match mesh.router(1).join("key.next").exists() {
            true => Err(format!("{killed:?}")),
            false => Ok(()),
        }
    })
    .await;
    holds(&mesh.cluster, "shop/web", "shop/db:8080").await;
    let [third, _] = rotate(&mesh, "n2");
    assert_ne!(third, second, "the killed one went on: {killed:?}");
    holds(&mesh.cluster, "shop/db", "shop/web:8080").await;

    for at in 0..2 {
        let private = fs::read(mesh.router(at).join("key")).expect("it is there");
        assert!(holds_bytes(&mesh.router(at), &private), "the search finds nothing at all");
        for node in &mesh.cluster.nodes {
            assert!(!holds_bytes(node.folder(), &private), "it is in {:?}", node.folder());
        }
    }
    let audit = mesh.cluster.cli(1, &["audit", "--type", "network_key_rotated"]);
    let audit = succeeded(&audit);
    assert_eq!(audit.matches("network_key_rotated").count(), 4, "{audit}");
    assert!(audit.contains("n1") && audit.contains("n2"), "{audit}");
}
