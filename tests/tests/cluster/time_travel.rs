//! The cluster as it was, on each node of it, through a restart and until a snapshot takes its place.

use jaco_client::Client;
use jaco_testkit::{Cluster, Engine, eventually, succeeded, v1};
use jaco_types::ErrorCode;

use crate::curl::{Version, ask, token};
use crate::scenario::{apply_request, deploy, per_node};

/// A snapshot is taken each time the log has grown by so many entries, and as many are kept behind it. The changes of the test
/// are far fewer.
const SNAPSHOT_ENTRIES: u64 = 400;

/// What a status of now and one of then have in common.
fn picture(status: &v1::StatusResponse) -> v1::StatusResponse {
    let mut picture = status.clone();
    picture.past = None;
    picture.leader.clear();
    picture.answered_by.clear();
    picture.nodes.iter_mut().for_each(|node| node.suffrage.clear());
    picture.replicas.iter_mut().for_each(|replica| replica.pull = None);
    picture
}

async fn at(client: &Client, index: u64) -> Result<v1::StatusResponse, String> {
    let request = v1::StatusRequest { at_index: index, ..v1::StatusRequest::default() };
    client.read_status(request).await.map_err(|error| error.to_string())
}

/// Compares what each node shows of these moments with what was seen then.
async fn check(cluster: &Cluster, seen: &[v1::StatusResponse]) {
    for node in &cluster.nodes {
        for expected in seen {
            let index = expected.raft_index;
            let what = format!("{} shows index {index}", node.name);
            let shown = eventually(&what, || async { at(&node.client(), index).await }).await;
            assert_eq!(picture(&shown), picture(expected), "{}", node.name);
            let past = shown.past.expect("it says of when it is");
            assert!(past.at_ms > 0 && past.kept_from <= index && index <= past.kept_to, "{past:?}");
        }
    }
}

/// R-OPS-1: every node shows the cluster as it was before it was scaled and before a node was drained: over gRPC, by the command
/// and on the page, also after a restart; and refuses by name what a snapshot has taken the place of.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_shows_the_cluster_as_it_was() {
    let settings = format!("raft: {{snapshot_entries: {SNAPSHOT_ENTRIES}}}\n");
    let mut cluster = Cluster::start_with(3, Engine::Fake, &settings).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let before = cluster.converged(0, "shop").await;
    let scale = cluster.client().apply(apply_request("shop", "web:1", 6)).await;
    scale.expect("it is admitted");
    let scaled = cluster.converged(0, "shop").await;
    let drained = cluster.nodes[2].name.clone();
    let out = cluster.cli(0, &["node", "drain", &drained]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let after = cluster.converged(0, "shop").await;
    assert_eq!((before.replicas.len(), scaled.replicas.len()), (3, 6));
    assert!(per_node(&scaled).contains_key(&drained), "{scaled:?}");
    assert!(!per_node(&after).contains_key(&drained), "{after:?}");
    let seen = [before.clone(), scaled, after];
    check(&cluster, &seen).await;

    cluster.nodes[1].stop();
    cluster.nodes[1].start();
    cluster.settled().await;
    check(&cluster, &seen).await;

    let index = before.raft_index.to_string();
    let out = cluster.cli(1, &["status", "shop", "--at", &index, "-o", "json"]);
    let shown: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(shown["replicas"].as_array().map(Vec::len), Some(3), "{shown}");
    assert_eq!(shown["raft_index"], before.raft_index);
    assert!(shown["past"]["at"].is_string(), "{shown}");
    let out = cluster.cli(1, &["status", "shop", "--at", &index]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.starts_with(&format!("as it was at index {index}, ")), "{text}");

    let (_, header) = token(&cluster, "ann", "viewer").await;
    for node in &cluster.nodes {
        let path = format!("/ui/deployments/shop?at={index}");
        eventually("the page shows it", || async {
            let page = ask(&cluster, node, Version::Http2, &path, &["--header", &header]).await;
            let is_then = page.body.contains(&format!("as it was at index {index}"))
                && page.body.contains("3 of 3")
                && !page.body.contains("6 of 6");
            if page.status == 200 && is_then { Ok(()) } else { Err(format!("{page:?}")) }
        })
        .await;
    }

    // A node as it was before and after it was drained.
    for (status, availability, runs) in [(&seen[1], "active", true), (&seen[2], "drain", false)] {
        let path = format!("/ui/nodes/{drained}?at={}", status.raft_index);
        let shown = &["--header", &header];
        let page = ask(&cluster, &cluster.nodes[0], Version::Http2, &path, shown).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.body.contains(availability), "{availability}: {page:?}");
        assert_eq!(page.body.contains("id=\"replica-shop-web-"), runs, "{page:?}");
    }

    // Until the newest snapshots begin after it.
    for number in 0..3 * SNAPSHOT_ENTRIES {
        token(&cluster, &format!("t{number}"), "viewer").await;
    }
    for node in &cluster.nodes {
        let request = v1::StatusRequest { at_index: before.raft_index, ..Default::default() };
        let refused = eventually("it is refused", || async {
            match node.client().read_status(request.clone()).await {
                Err(refused) => Ok(refused),
                Ok(shown) => Err(format!("{:?}", shown.past)),
            }
        })
        .await;
        assert_eq!(refused.code(), ErrorCode::IndexNotKept, "{refused}");
        assert!(refused.to_string().contains("it has what is needed from index"), "{refused}");
        let now = node.client().read_status(v1::StatusRequest::default()).await.expect("of now");
        let shown = at(&node.client(), now.raft_index).await.expect("the newest one is kept");
        assert_eq!(picture(&shown).replicas, picture(&now).replicas);
    }
    let out = cluster.cli(0, &["status", "--at", &index]);
    assert_eq!(out.status.code(), Some(3));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("index_not_kept"), "{said}");
}

/// R-OPS-1, R-CLI-4: routes are listed as they were, by every node: those of now do not show in it, nor it in those of now.
#[tokio::test(flavor = "multi_thread")]
async fn routes_are_listed_as_they_were() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    eventually("all nodes have reported their versions", || async {
        let out = cluster.cli(0, &["network", "enable"]);
        if out.status.success() { Ok(()) } else { Err(format!("{out:?}")) }
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text");
    let compose = "name: shop\nservices: {web: {image: 'web:1'}}\n";
    std::fs::write(folder.path().join("compose.yaml"), compose).expect("written");
    let mut seen = Vec::new();
    for domains in [&["a.example"][..], &["a.example", "b.example"], &[]] {
        let routes =
            domains.iter().map(|it| format!("{{domain: {it}, service: web, port: 80, tls: off}}"));
        let routes = routes.collect::<Vec<_>>().join(", ");
        let text = format!("deployment: shop\nroutes: [{routes}]\n");
        std::fs::write(folder.path().join("jaco.yaml"), text).expect("written");
        succeeded(&cluster.cli(0, &["apply", path]));
        let status = cluster.client().read_status(v1::StatusRequest::default()).await;
        seen.push((status.expect("of now").raft_index, domains));
    }
    let listed = |node: usize, arguments: &[&str]| {
        let out = cluster.cli(node, &[&["route", "ls", "-o", "json"], arguments].concat());
        let routes: serde_json::Value = serde_json::from_str(&succeeded(&out)).expect("JSON");
        let routes = routes.as_array().expect("a list").iter();
        let domains = routes.map(|route| route["domain"].as_str().expect("a text").to_owned());
        domains.collect::<Vec<_>>()
    };
    for node in 0..2 {
        for (index, domains) in &seen {
            assert_eq!(listed(node, &["--at", &index.to_string()]), **domains, "at {index}");
        }
        assert_eq!(listed(node, &[]), [""; 0], "there are none now");
    }
    let refused = cluster.cli(1, &["route", "ls", "--at", "1000000"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("index_not_kept"), "{refused:?}");
}
