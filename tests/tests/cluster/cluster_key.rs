//! R-FAULT-1: a node whose key-encryption key is not the cluster's is named, and seals nothing.

use std::fs;
use std::path::PathBuf;

use jaco_testkit::{Cluster, Engine, Node, eventually, v1};
use serde_json::Value;

fn kek(node: &Node) -> PathBuf {
    node.folder().join("data/node/kek")
}

/// Changes one digit of the key, and returns the key of before.
fn change_digit(node: &Node) -> String {
    let text = fs::read_to_string(kek(node)).expect("the node has a key");
    let changed = if text.starts_with('0') { "1" } else { "0" };
    fs::write(kek(node), format!("{changed}{}", &text[1..])).expect("the key is written");
    text
}

async fn log_in(node: &Node) -> Result<(), String> {
    let request = v1::StoreRegistryRequest {
        registry: "registry.example".to_owned(),
        username: "ada".to_owned(),
        password: "secret".to_owned(),
        ..v1::StoreRegistryRequest::default()
    };
    let stored = node.client().store_registry(request).await;
    stored.map(drop).map_err(|error| error.to_string())
}

/// Waits until the findings of `jaco doctor` about keys have these objects.
async fn doubts(cluster: &Cluster, node: usize, objects: &[&str]) {
    eventually("the doctor names these keys", || async {
        let out = cluster.cli(node, &["doctor", "-o", "json"]);
        let report: Value =
            serde_json::from_slice(&out.stdout).map_err(|error| error.to_string())?;
        let findings = report["findings"].as_array().ok_or_else(|| report.to_string())?;
        let of_keys = findings.iter().filter(|one| one["check"] == "kek");
        let doubted: Vec<&Value> = of_keys.map(|one| &one["object"]).collect();
        if doubted == objects { Ok(()) } else { Err(report.to_string()) }
    })
    .await;
}

/// R-FAULT-1: with one digit of the key changed, a node that is alone seals nothing and says so; with the right key it
/// goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_key_seals_nothing() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    log_in(&cluster.nodes[0]).await.expect("the key is right");
    let right = change_digit(&cluster.nodes[0]);
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    let refused = eventually("the login is refused", || async {
        let refused = log_in(&cluster.nodes[0]).await.expect_err("another key must not seal");
        let is_named = refused.contains("kek_mismatch") || refused.contains("node/kek");
        if is_named { Ok(refused) } else { Err(refused) }
    })
    .await;
    assert!(refused.contains("node/kek"), "{refused}");
    doubts(&cluster, 0, &["n1"]).await;
    let said = cluster.nodes[0].log_tail();
    assert!(said.contains("kek_mismatch"), "{said}");
    // What needs no key goes on.
    let plain = v1::PutContentsRequest { plain: vec!["text".into()], ..Default::default() };
    cluster.nodes[0].client().put_contents(plain).await.expect("nothing is sealed");

    fs::write(kek(&cluster.nodes[0]), right).expect("the key is written");
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    eventually("the right key seals", || log_in(&cluster.nodes[0])).await;
    doubts(&cluster, 0, &[]).await;
}

/// R-FAULT-1: a member with another key is named by all members, and hands the leadership on to one that can seal.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_with_a_changed_key_hands_on() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    change_digit(&cluster.nodes[0]);
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    for node in 0..3 {
        doubts(&cluster, node, &["n1"]).await;
    }
    cluster.settled().await;
    // A leader that stops hands over to the first of those that have all entries.
    let leader = cluster.leader().await;
    assert_ne!(leader, 0, "it was not there when the leader was elected");
    cluster.nodes[leader].stop();
    cluster.nodes[leader].start();
    eventually("it hands the leadership on", || async {
        let said = cluster.nodes[0].log_tail();
        let has_handed_on = said.contains("leadership handed on to a member that can seal");
        if has_handed_on { Ok(()) } else { Err(said) }
    })
    .await;
    eventually("a member with the right key seals", || log_in(&cluster.nodes[0])).await;
}
