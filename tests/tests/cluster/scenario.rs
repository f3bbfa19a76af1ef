//! What the tests do again and again.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use jaco_testkit::{Cluster, Node, binary, v1};

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

/// Runs a `jacod` that is expected to end by itself, with the node's settings and these flags.
pub(crate) fn jacod(node: &Node, flags: &[&str]) -> Output {
    let mut command = Command::new(binary("jacod"));
    command.arg("--config").arg(node.folder().join("jacod.yaml")).args(flags);
    command.output().expect("the daemon can be started")
}

/// The digest of a stopped node's state.
pub(crate) fn digest(node: &Node) -> String {
    let out = jacod(node, &["--digest"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: {said}", node.name);
    String::from_utf8(out.stdout).expect("it is text").trim_end().to_owned()
}
