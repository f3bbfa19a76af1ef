//! What the tests do again and again.

use std::collections::BTreeMap;

use jaco_testkit::{Cluster, v1};

/// Asks for `replicas` of one image, under this name.
pub(crate) fn apply_request(name: &str, image: &str, replicas: u32) -> v1::ApplyRequest {
    v1::ApplyRequest {
        compose_json: jaco_tests::compose(name, "web", image, replicas),
        request_id: jaco_testkit::fresh_request_id(),
        ..v1::ApplyRequest::default()
    }
}

/// Applies and waits until it runs.
pub(crate) async fn deploy(cluster: &Cluster, name: &str, image: &str, replicas: u32) {
    let applied = cluster.client().apply(apply_request(name, image, replicas)).await;
    applied.expect("the deployment is admitted");
    cluster.converged(0, name).await;
}

/// The container of each replica.
pub(crate) fn containers(status: &v1::StatusResponse) -> BTreeMap<String, String> {
    let ids = status.replicas.iter();
    ids.map(|replica| (replica.id.clone(), replica.container_id.clone())).collect()
}

/// How many replicas each node has.
pub(crate) fn per_node(status: &v1::StatusResponse) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for replica in &status.replicas {
        *counts.entry(replica.node.clone()).or_default() += 1;
    }
    counts
}
