//! Networks of the cluster from the command to the replica's address, by real daemons.

use std::collections::{BTreeMap, BTreeSet};

use jaco_testkit::{Cluster, Engine, eventually, v1};
use serde_json::Value;

use crate::scenario::containers;

const SHOP: &str = "name: shop
services:
  web: {image: web:1, deploy: {replicas: 3}, networks: [default, back]}
  db: {image: db:1, container_name: base, networks: {back: {aliases: [store]}}}
  host: {image: host:1, network_mode: host}
networks: {back: {internal: true}}
";

/// Runs a command that succeeds; stdout and stderr.
fn done(cluster: &Cluster, node: usize, args: &[&str]) -> (String, String) {
    let (code, out, err) = ran(cluster, node, args);
    assert_eq!(code, Some(0), "{args:?}: {err}");
    (out, err)
}

fn ran(cluster: &Cluster, node: usize, args: &[&str]) -> (Option<i32>, String, String) {
    let out = cluster.cli(node, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

/// The addresses of each replica, as `network address`.
fn addresses(status: &v1::StatusResponse) -> BTreeMap<String, Vec<String>> {
    let of = |replica: &v1::ReplicaInfo| {
        let all = replica.addresses.iter();
        let shown = all.map(|one| format!("{} {}", one.network, one.address)).collect();
        (replica.id.clone(), shown)
    };
    status.replicas.iter().map(of).collect()
}

/// R-CLI-6, R-ROLL-2, R-CLI-5, R-IN-2: networks become the cluster's by a command, once, and nothing moves because of it. The
/// next apply of a deployment replaces all that has a network and nothing else, says so and is audited; the one
/// after that changes nothing. Each replica then has its own address in each network, which another one gets at
/// a restart.
#[tokio::test(flavor = "multi_thread")]
async fn deployment_moves_to_networks_of_the_cluster_once() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let file = cluster.nodes[0].folder().join("shop.yaml");
    std::fs::write(&file, SHOP).expect("the node's folder is there");
    let apply = ["apply", file.to_str().expect("text"), "--timeout", "60s"];
    let (code, _, err) = ran(&cluster, 1, &["network", "create", "backbone"]);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("networks_not_enabled") && err.contains("jaco network enable"), "{err}");
    done(&cluster, 0, &apply);
    let before = cluster.converged(0, "shop").await;
    assert!(addresses(&before).values().all(Vec::is_empty));

    eventually("all nodes have reported their versions", || async {
        let (code, _, err) = ran(&cluster, 1, &["network", "enable", "--mtu", "1400"]);
        if code == Some(0) { Ok(()) } else { Err(err) }
    })
    .await;
    done(&cluster, 2, &["network", "enable", "--mtu", "1400"]);
    let (code, _, err) = ran(&cluster, 0, &["network", "enable", "--pool", "172.16.0.0/12"]);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("network_exists") && err.contains("10.64.0.0/12"), "{err}");
    let enabled = cluster.converged(0, "shop").await;
    assert_eq!(containers(&enabled), containers(&before), "nothing moves by itself");

    let (_, err) = done(&cluster, 0, &apply);
    assert!(err.contains("all replicas of db, web are replaced, once"), "{err}");
    let moved = cluster.converged(0, "shop").await;
    let (old, new) = (containers(&before), containers(&moved));
    for (replica, container) in &new {
        assert_eq!(old[replica] == *container, replica == "shop-host-0", "{replica}");
    }
    let given = addresses(&moved);
    assert_eq!(given["shop-host-0"], [""; 0]);
    assert!(given["shop-db-0"][0].starts_with("shop/back 10.6"), "{given:?}");
    let web = &given["shop-web-2"];
    assert!(web[0].starts_with("shop/back ") && web[1].starts_with("shop/default "), "{web:?}");
    let all: BTreeSet<&String> = given.values().flatten().collect();
    assert_eq!(all.len(), 7, "each has its own: {given:?}");

    let (out, err) = done(&cluster, 1, &[&apply[..], &["-o", "json"]].concat());
    assert!(!err.contains("are replaced"), "{err}");
    let again: Value = serde_json::from_str(&out).expect("json");
    assert_eq!(again["change"], "unchanged", "{again:#}");
    let (out, _) = done(&cluster, 1, &["network", "inspect", "shop/back", "-o", "json"]);
    let back: Value = serde_json::from_str(&out).expect("json");
    assert_eq!((&back[0]["used"], &back[0]["internal"]), (&4.into(), &true.into()), "{back:#}");
    assert_eq!(back[0]["mtu"], 1400);
    let listed = back[0]["addresses"].as_array().expect("a list").iter();
    let listed: BTreeSet<String> =
        listed.map(|one| format!("shop/back {}", one["address"].as_str().expect("text"))).collect();
    assert!(all.iter().filter(|one| one.starts_with("shop/back")).all(|one| listed.contains(*one)));

    done(&cluster, 0, &["restart", "shop/db", "--timeout", "60s"]);
    let restarted = cluster.converged(0, "shop").await;
    assert!(!all.contains(&addresses(&restarted)["shop-db-0"][0]), "not within a minute");
    let (out, _) = done(&cluster, 2, &["audit", "--type", "networks_enabled,apply", "-o", "json"]);
    assert!(out.contains(r#""pool":"10.64.0.0/12""#) || out.contains(r#""pool": "10.64.0.0/12""#));
    assert!(
        out.contains("networks of each node -> of the cluster; db: networks, container;"),
        "{out}"
    );
}

/// R-IN-3, R-CLI-6: a missing shared network is refused with the command that creates it, and a shared network is
/// removed only once nothing names it and nobody has an address there.
#[tokio::test(flavor = "multi_thread")]
async fn shared_network_is_created_used_and_removed() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    eventually("the node has reported its version", || async {
        let (code, _, err) = ran(&cluster, 0, &["network", "enable"]);
        if code == Some(0) { Ok(()) } else { Err(err) }
    })
    .await;
    let file = cluster.nodes[0].folder().join("blog.yaml");
    let text = "name: blog\nservices: {web: {image: web:1, networks: [lan]}}\n\
                networks: {lan: {external: true, name: backbone}}\n";
    std::fs::write(&file, text).expect("the node's folder is there");
    let apply = ["apply", file.to_str().expect("text"), "--timeout", "60s"];
    let (code, _, err) = ran(&cluster, 0, &apply);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("`jaco network create backbone`"), "{err}");
    done(&cluster, 0, &["network", "create", "backbone", "--prefix-length", "26"]);
    done(&cluster, 0, &["network", "resize", "backbone", "25"]);
    done(&cluster, 0, &apply);
    for refused in [&["network", "rm", "backbone"][..], &["network", "resize", "backbone", "24"]] {
        let (code, _, err) = ran(&cluster, 0, refused);
        assert_eq!(code, Some(3), "{err}");
        assert!(err.contains("network_in_use"), "{err}");
    }
    done(&cluster, 0, &["network", "create", "other"]);
    done(&cluster, 0, &["network", "rm", "other"]);
    let (out, _) = done(&cluster, 0, &["network", "ls", "-o", "json"]);
    let listed: Value = serde_json::from_str(&out).expect("json");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed:#}");
    assert_eq!((&listed[0]["used"], &listed[0]["free"]), (&1.into(), &123.into()), "{listed:#}");
    assert_eq!(listed[0]["deployments"][0], "blog");
}
