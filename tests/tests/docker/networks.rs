//! Networks of the cluster in a real engine.

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, eventually, fresh_request_id, v1};
use serde_json::Value;

use crate::scenario::{IMAGE, replicas};

/// The addresses that a container has in networks of the cluster, sorted.
fn addresses(container: &str) -> Vec<String> {
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}";
    let shown = docker(&["inspect", "--format", format, container]);
    let mut shown: Vec<String> = shown.split_whitespace().map(str::to_owned).collect();
    shown.sort();
    shown
}

/// The networks of a cluster in the engine, by the names that they have in the cluster.
fn networks(cluster: &Cluster) -> Vec<String> {
    let filter = format!("label=jaco.cluster_id={}", cluster.id);
    let format = r#"{{.Label "jaco.network"}}"#;
    let shown = docker(&["network", "ls", "--filter", &filter, "--format", format]);
    let mut shown: Vec<String> = shown.split_whitespace().map(str::to_owned).collect();
    shown.sort();
    shown
}

/// R-IN-2, R-RUN-1: containers have exactly the addresses of the state in networks of the cluster and no other
/// network; a restart gives another address; the networks go with the deployment.
#[tokio::test(flavor = "multi_thread")]
async fn containers_have_the_addresses_of_the_state() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    eventually("the node has reported its version", || async {
        let out = cluster.cli(0, &["network", "enable", "--pool", "10.96.0.0/12"]);
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        if out.status.success() { Ok(()) } else { Err(err) }
    })
    .await;
    let service = |networks: &str| {
        format!(r#"{{"image":"{IMAGE}","command":["serve"],"networks":{networks}}}"#)
    };
    let (web, db) = (service(r#"{"default":null,"back":null}"#), service(r#"{"back":null}"#));
    let request = v1::ApplyRequest {
        compose_json: format!(
            r#"{{"name":"shop","services":{{"web":{web},"db":{db}}},"networks":{{
                "default":{{"name":"shop_default"}},"back":{{"name":"shop_back","internal":true}}}}}}"#
        ),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
    cluster.converged(0, "shop").await;
    let shown = replicas(&cluster, 0, "shop").await;
    let mut counts = Vec::new();
    for replica in &shown {
        let mut wanted: Vec<String> =
            replica.addresses.iter().map(|one| one.address.clone()).collect();
        wanted.sort();
        assert_eq!(addresses(&replica.container_id), wanted, "{}", replica.id);
        counts.push((replica.service.as_str(), wanted.len()));
    }
    counts.sort_unstable();
    assert_eq!(counts, [("db", 1), ("web", 2)]);
    assert_eq!(networks(&cluster), ["shop/back", "shop/default"]);

    let first = shown.iter().find(|replica| replica.service == "db").expect("there is one");
    let out = cluster.cli(0, &["restart", "shop/db", "--timeout", "60s"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    cluster.converged(0, "shop").await;
    let now = replicas(&cluster, 0, "shop").await;
    let second = now.iter().find(|replica| replica.service == "db").expect("there is one");
    assert_ne!(second.addresses, first.addresses);
    assert_eq!(addresses(&second.container_id), [second.addresses[0].address.clone()]);
    // The first one stops once its names are forgotten.
    eventually("only the address of the first one is in quarantine", || async {
        let out = cluster.cli(0, &["network", "inspect", "shop/back", "-o", "json"]);
        let back: Value = serde_json::from_slice(&out.stdout).expect("json");
        let of = |address: &str| {
            let all = back[0]["addresses"].as_array().expect("a list").iter();
            let mut found = all.filter(|one| one["address"] == address);
            found.next().map(|one| one["quarantined"] == true)
        };
        let seen = [first, second].map(|replica| of(&replica.addresses[0].address));
        if seen == [Some(true), Some(false)] { Ok(()) } else { Err(format!("{back:#}")) }
    })
    .await;

    let out = cluster.cli(0, &["delete", "shop", "--yes", "--timeout", "60s"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    eventually("the networks are removed", || async {
        let left = networks(&cluster);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}
