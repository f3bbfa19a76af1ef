//! What the tests do again and again.

use jaco_testkit::{Cluster, fresh_request_id, v1};

/// The image that `cargo xtask image` builds from nothing.
pub(crate) use jaco_testkit::docker::IMAGE;

/// Asks for `replicas` of an image; `members` are further members of the service.
pub(crate) async fn apply(
    cluster: &Cluster,
    name: &str,
    image: &str,
    replicas: u32,
    members: &str,
) {
    let request = v1::ApplyRequest {
        compose_json: jaco_tests::compose_with(name, "web", image, replicas, members),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
}

/// The replicas of a deployment by a node that has all that was committed before it was asked: a command at another node
/// may have ended just now.
pub(crate) async fn replicas(cluster: &Cluster, node: usize, name: &str) -> Vec<v1::ReplicaInfo> {
    let all = v1::StatusRequest { linearizable: true, ..v1::StatusRequest::default() };
    let status = cluster.nodes[node].client().read_status(all).await.expect("the node answers");
    status.replicas.into_iter().filter(|replica| replica.deployment == name).collect()
}
