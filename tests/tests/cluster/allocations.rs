//! Disabled and removed allocations on real daemons.

use jaco_testkit::{Cluster, Engine, eventually, fresh_request_id, v1};

async fn apply(cluster: &Cluster, replicas: u32) {
    let request = v1::ApplyRequest {
        compose_json: jaco_tests::compose_with("shop", "web", "web:1", replicas, ""),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
}

fn said(cluster: &Cluster, node: usize, args: &[&str]) -> String {
    let out = cluster.cli(node, args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

async fn allocations(cluster: &Cluster, node: usize) -> Vec<v1::AllocationInfo> {
    let request = v1::AllocationsRequest::default();
    let found = cluster.nodes[node].client().allocations(request).await;
    found.expect("the node answers").allocations
}

async fn running(cluster: &Cluster, node: usize) -> Result<Vec<String>, String> {
    let status = cluster.overview(node).await?;
    let is_up = |replica: &v1::ReplicaInfo| replica.state == "running";
    let up = status.replicas.into_iter().filter(is_up);
    Ok(up.map(|replica| replica.node).collect())
}

async fn until_running(cluster: &Cluster, node: usize, wanted: &[&str]) {
    eventually("so many run, and there", || async {
        let mut up = running(cluster, node).await?;
        up.sort();
        if up == wanted { Ok(()) } else { Err(format!("{up:?}")) }
    })
    .await;
}

/// R-SEL-2, R-SEL-3, R-SEL-4, R-SEL-5: a disable sent to a follower stops the service's replica on
/// the node and survives a new leader; the deployment stays converged; the list shows who and why,
/// with a stable id; enabled, the replica runs where it was. A file can list all disabled
/// allocations.
#[tokio::test(flavor = "multi_thread")]
async fn disabled_allocation_stops_until_enabled() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    apply(&cluster, 3).await;
    cluster.converged(0, "shop").await;
    until_running(&cluster, 0, &["n1", "n2", "n3"]).await;
    let before = allocations(&cluster, 0).await;
    assert_eq!(before.len(), 3);
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let rests = cluster.nodes[follower].name.clone();
    let told = said(&cluster, follower, &["disable", "shop/web", "--node", &rests]);
    assert!(told.contains("shop/web") && told.contains(&rests), "{told}");
    let others: Vec<String> = (1..=3).map(|n| format!("n{n}")).filter(|n| *n != rests).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    until_running(&cluster, follower, &others).await;
    cluster.converged(follower, "shop").await;
    let table = said(&cluster, follower, &["get", "allocations", "--node", &rests, "-o", "wide"]);
    assert!(table.contains("yes") && table.contains(&format!("shop/web on {rests}")), "{table}");
    let listed = said(&cluster, follower, &["get", "replicas"]);
    assert!(listed.contains("disabled"), "{listed}");
    // The next leader has it.
    cluster.nodes[leader].kill();
    cluster.leader().await;
    cluster.nodes[leader].start();
    cluster.settled().await;
    until_running(&cluster, follower, &others).await;
    let after = allocations(&cluster, follower).await;
    let ids = |all: &[v1::AllocationInfo]| {
        all.iter().map(|one| (one.node.clone(), one.alloc_id.clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids(&before), ids(&after), "ids stay");
    let disabled: Vec<_> = after.iter().filter(|one| one.disabled).map(|one| &one.node).collect();
    assert_eq!(disabled, [&rests]);
    let refused = cluster.cli(follower, &["disable", "shop/wbe"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("service_not_found") && why.contains("did you mean web?"), "{why}");
    let told = said(&cluster, follower, &["enable", "shop/web", "--node", &rests]);
    assert_eq!(told, "nothing is disabled\n");
    until_running(&cluster, follower, &["n1", "n2", "n3"]).await;
    // maand's file format: node names, and the service where it is unambiguous.
    let file = cluster.nodes[follower].folder().join("disabled.json");
    let text = format!(r#"{{"jobs": {{"web": {{"allocations": ["{rests}"]}}}}, "workers": []}}"#);
    std::fs::write(&file, text).expect("the folder can be written");
    let file = file.to_str().expect("a path of the test");
    said(&cluster, follower, &["disable", "-f", file]);
    until_running(&cluster, follower, &others).await;
    std::fs::write(file, "{}").expect("the folder can be written");
    assert_eq!(said(&cluster, follower, &["disable", "-f", file]), "nothing is disabled\n");
    until_running(&cluster, follower, &["n1", "n2", "n3"]).await;
}

/// R-SEL-3, R-SEL-5: allocations of a deleted deployment are listed as removed on every node that
/// had them, from any node; other deployments are not touched. After gc nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn removed_allocation_is_listed_until_collected() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let apply = async |name: &str| {
        let mounts = r#","volumes":[{"type":"volume","source":"data","target":"/data"}]"#;
        let model = jaco_tests::compose_with(name, "web", "web:1", 3, mounts);
        let volumes = format!(r#","volumes":{{"data":{{"name":"{name}_data"}}}}}}"#);
        let model = format!("{}{volumes}", model.strip_suffix('}').expect("an object"));
        let request = v1::ApplyRequest {
            compose_json: model,
            request_id: fresh_request_id(),
            ..v1::ApplyRequest::default()
        };
        cluster.client().apply(request).await.expect("the deployment is admitted");
    };
    let removed = async |node: usize| {
        let request = v1::AllocationsRequest { with_removed: true, ..Default::default() };
        let found = cluster.nodes[node].client().allocations(request).await;
        let found = found.expect("the node answers");
        assert!(found.unreachable.is_empty(), "{:?}", found.unreachable);
        let removed = found.allocations.into_iter().filter(|one| one.removed);
        removed.collect::<Vec<_>>()
    };
    apply("shop").await;
    apply("blog").await;
    cluster.converged(0, "shop").await;
    cluster.converged(0, "blog").await;
    let before = allocations(&cluster, 0).await;
    assert_eq!(removed(0).await, vec![]);
    said(&cluster, 1, &["delete", "shop", "--yes"]);
    let node_names = |all: &[v1::AllocationInfo]| -> Vec<String> {
        all.iter().map(|one| one.node.clone()).collect()
    };
    eventually("all three are removed", || async {
        let found = removed(2).await;
        let is_done = node_names(&found) == ["n1", "n2", "n3"]
            && found.iter().all(|one| one.volumes == ["shop_data"]);
        if is_done { Ok(()) } else { Err(found) }
    })
    .await;
    for one in removed(1).await {
        let was = before.iter().find(|it| it.alloc_id == one.alloc_id).expect("its id stays");
        assert_eq!((&was.service, &was.node), (&one.service, &one.node));
        assert!(one.log_bytes > 0 && one.removed_at_ms > 0, "{one:?}");
    }
    let table = said(&cluster, 0, &["get", "allocations", "-o", "wide", "--service", "shop/web"]);
    assert!(table.contains("logs,shop_data"), "{table}");
    let told = said(&cluster, 2, &["gc", "--yes"]);
    for node in ["n1", "n2", "n3"] {
        let of_node: Vec<_> = told.lines().filter(|line| line.starts_with(node)).collect();
        let is_all = of_node.len() == 2
            && of_node.iter().any(|line| line.contains("volume shop_data"))
            && of_node.iter().any(|line| line.contains("logs of web"));
        assert!(is_all, "{told}");
    }
    assert_eq!(removed(0).await, vec![]);
    let left = allocations(&cluster, 0).await;
    assert!(left.iter().all(|one| one.deployment == "blog") && left.len() == 3, "{left:?}");
    assert_eq!(said(&cluster, 2, &["gc", "--dry-run"]), "nothing to remove\n");
    let audit = said(&cluster, 0, &["audit"]);
    assert!(audit.contains("volumes_collected"), "{audit}");
}

/// R-SEL-5: `get deployments` has the hash of the spec and the version of each allocation: one whose container has
/// another spec than the desired one is `outdated`. Allocations have the zone of their node.
#[tokio::test(flavor = "multi_thread")]
async fn deployments_show_the_version_of_each_allocation() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    for (node, zone) in [("n1", "a"), ("n2", "b")] {
        said(&cluster, 0, &["node", "label", node, &format!("zone={zone}")]);
    }
    apply(&cluster, 2).await;
    cluster.converged(0, "shop").await;
    let shown = |args: &[&str]| -> serde_json::Value {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        serde_json::from_str(&said(&cluster, 1, &args)).expect("JSON")
    };
    let before = shown(&["get", "deployments"]);
    let of = |shown: &serde_json::Value, key: &str| -> Vec<String> {
        let allocations = shown[0]["allocations"].as_array().expect("a list");
        let mut all: Vec<_> = allocations
            .iter()
            .map(|one| format!("{} {}", one["node"], one[key]).replace('"', ""))
            .collect();
        all.sort();
        all
    };
    assert_eq!(of(&before, "zone"), ["n1 a", "n2 b"], "{before:#}");
    assert_eq!(of(&before, "version"), ["n1 current", "n2 current"], "{before:#}");
    let hash = before[0]["services"][0]["spec_hash"].as_str().expect("a hash").to_owned();
    let hashes = [format!("n1 {hash}"), format!("n2 {hash}")];
    assert_eq!(of(&before, "spec_hash"), hashes, "{before:#}");
    // The successor never becomes healthy, so the containers keep the old spec.
    let slow = r#","labels":{"jaco.fake.start_ms":"600000"}"#;
    let request = v1::ApplyRequest {
        compose_json: jaco_tests::compose_with("shop", "web", "web:2", 2, slow),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("admitted");
    let after = eventually("the allocations are outdated", || async {
        let shown = shown(&["get", "deployments"]);
        let outdated = of(&shown, "version").iter().any(|one| one.ends_with("outdated"));
        if outdated { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    let desired = after[0]["services"][0]["spec_hash"].as_str().expect("a hash");
    assert_ne!(desired, hash, "{after:#}");
    let table = said(&cluster, 0, &["get", "deployments", "-o", "wide"]);
    let head = table.lines().find(|line| line.starts_with("ALLOC ID")).expect("a table");
    for column in ["ZONE", "VERSION", "SPEC"] {
        assert!(head.contains(column), "{head}");
    }
}
