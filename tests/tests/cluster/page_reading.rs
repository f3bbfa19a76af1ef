//! What the page shows when one looks closer, by real daemons: log lines of other nodes, revisions, endpoints, links.

use jaco_testkit::{Cluster, Engine, eventually};

use crate::curl::{Answer, Version, ask, token};

const SHOP: &str = "name: shop
services:
  web: {image: web:1, deploy: {replicas: 3}, networks: [back]}
networks: {back: {}}
";

fn done(cluster: &Cluster, args: &[&str]) {
    let out = cluster.cli(0, args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Asks each node until it answers so.
async fn each(cluster: &Cluster, header: &str, path: &str, holds: impl Fn(&Answer) -> bool) {
    for node in &cluster.nodes {
        eventually(&format!("{} shows {path}", node.name), || async {
            let page = ask(cluster, node, Version::Http2, path, &["--header", header]).await;
            if holds(&page) { Ok(()) } else { Err(format!("{page:?}")) }
        })
        .await;
    }
}

/// R-OPS-1: each node shows the log lines of a replica on another node, the endpoints of a deployment with their addresses, what
/// an apply changed, and the links between nodes.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_looks_closer() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    eventually("all nodes have reported their versions", || async {
        let out = cluster.cli(0, &["network", "enable"]);
        if out.status.success() { Ok(()) } else { Err(format!("{out:?}")) }
    })
    .await;
    let file = cluster.nodes[0].folder().join("shop.yaml");
    let path = file.to_str().expect("text");
    for text in [SHOP.to_owned(), SHOP.replace("web:1", "web:2")] {
        std::fs::write(&file, text).expect("the node's folder is there");
        done(&cluster, &["apply", path, "--timeout", "60s"]);
    }
    let shown = cluster.converged(0, "shop").await;
    let (_, viewer) = token(&cluster, "ann", "viewer").await;
    let (_, admin) = token(&cluster, "bob", "admin").await;

    for replica in &shown.replicas {
        let path = format!("/ui/logs?replica={}&tail=5", replica.id);
        each(&cluster, &admin, &path, |page| {
            page.status == 200 && page.body.contains("web:2 started")
        })
        .await;
    }
    each(&cluster, &viewer, "/ui/logs?deployment=shop&service=web", |page| page.status == 403)
        .await;

    let address = &shown.replicas[0].addresses[0].address;
    each(&cluster, &viewer, "/ui/deployments/shop", |page| {
        page.body.contains("web.shop.jaco.internal")
            && page.body.contains(&format!("<code>{address}</code>"))
            && page.body.contains("/ui/logs?deployment=shop&amp;service=web&amp;replica=shop-web-0")
    })
    .await;
    each(&cluster, &viewer, "/ui/deployments/shop/diff?from=1&to=2", |page| {
        page.body.contains("services.web.image") && page.body.contains("&quot;web:1&quot;")
    })
    .await;
    // Routers are pretended as well: the page says so, and does not call the links well.
    each(&cluster, &viewer, "/ui/network", |page| {
        page.status == 200 && !page.body.contains("reaches</span>")
    })
    .await;
}
