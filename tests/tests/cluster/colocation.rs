//! Colocated services on real daemons.

use std::collections::BTreeMap;

use jaco_testkit::{Cluster, Engine, eventually, fresh_request_id, v1};

const MODEL: &str = r#"{"name":"shop","services":{
    "agent":{"image":"agent:1"},
    "cache":{"image":"cache:1","deploy":{"replicas":2}},
    "vpn":{"image":"vpn:1","deploy":{"replicas":2,"placement":{"max_replicas_per_node":1}}},
    "web":{"image":"web:1","network_mode":"service:vpn","deploy":{"replicas":2}}}}"#;

const OVERLAY: &str = "deployment: shop\nservices:\n\
    - {name: agent, constraints: scale-with=vpn}\n\
    - {name: cache, constraints: place-with=agent}\n";

async fn apply(cluster: &Cluster, overlay: &str) -> Result<v1::ApplyResponse, String> {
    let request = v1::ApplyRequest {
        compose_json: MODEL.to_owned(),
        overlay_yaml: overlay.to_owned(),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.map_err(|refused| refused.to_string())
}

/// Services by node, sorted.
async fn layout(cluster: &Cluster) -> Result<BTreeMap<String, Vec<String>>, String> {
    let status = cluster.overview(0).await?;
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for replica in status.replicas {
        nodes.entry(replica.node).or_default().push(replica.service);
    }
    nodes.values_mut().for_each(|services| services.sort());
    Ok(nodes)
}

/// R-CONS-6, R-IN-2, R-NODE-2: colocated services run on the same nodes, also after a drain.
#[tokio::test(flavor = "multi_thread")]
async fn colocated_services_share_nodes() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    apply(&cluster, OVERLAY).await.expect("the deployment is admitted");
    cluster.converged(0, "shop").await;
    let first = eventually("all go together", || async {
        let nodes = layout(&cluster).await?;
        let is_whole = |services: &Vec<String>| *services == ["agent", "cache", "vpn", "web"];
        if nodes.len() == 2 && nodes.values().all(is_whole) {
            Ok(nodes)
        } else {
            Err(format!("{nodes:?}"))
        }
    })
    .await;
    let left = first.keys().next().expect("two nodes").clone();
    let out = cluster.cli(1, &["node", "drain", &left]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    eventually("all have gone together", || async {
        let nodes = layout(&cluster).await?;
        let has = |services: &Vec<String>| {
            ["agent", "vpn", "web"].iter().all(|name| services.iter().any(|known| known == name))
        };
        let is_gone = !nodes.contains_key(&left);
        if is_gone && nodes.len() == 2 && nodes.values().all(has) {
            Ok(())
        } else {
            Err(format!("{nodes:?}"))
        }
    })
    .await;
}

/// R-CONS-6, R-RES-4: colocation with an unknown service is refused, with the nearest name.
#[tokio::test(flavor = "multi_thread")]
async fn colocation_with_unknown_service_is_refused() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let overlay = "deployment: shop\nservices: [{name: web, constraints: place-with=cahce}]\n";
    let refused = apply(&cluster, overlay).await.expect_err("nobody is called cahce");
    assert!(refused.contains("did you mean cache?"), "{refused}");
}
