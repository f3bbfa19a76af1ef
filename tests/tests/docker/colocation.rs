//! Replicas that share a namespace with another service's.

use std::process::Command;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, eventually, fresh_request_id, v1};

use crate::scenario::{IMAGE, replicas};

/// `probe` is healthy only if it reaches `web` on its own loopback.
fn model() -> String {
    let check = r#"{"test":["CMD","/hello","check","http://127.0.0.1:8080/healthz"],"interval":"1s","timeout":"2s","retries":2}"#;
    format!(
        r#"{{"name":"shop","services":{{
            "probe":{{"image":"{IMAGE}","command":["sleep"],"network_mode":"service:web","healthcheck":{check},"deploy":{{"replicas":4}}}},
            "web":{{"image":"{IMAGE}","deploy":{{"replicas":4,"placement":{{"max_replicas_per_node":2}}}}}}}}}}"#
    )
}

/// Container whose network a container joined. It may be gone by now.
fn network_of(container: &str) -> Result<String, String> {
    let args = ["inspect", "--format", "{{.HostConfig.NetworkMode}}", container];
    let out = Command::new("docker").args(args).output().map_err(|error| error.to_string())?;
    let mode = String::from_utf8_lossy(&out.stdout);
    match mode.trim().strip_prefix("container:") {
        Some(other) if out.status.success() => Ok(other.to_owned()),
        _ => Err(format!("{container:?} has network {mode:?}")),
    }
}

/// Containers of `web` with their nodes and the containers that joined them on the same node; an
/// error for anything else.
async fn pairs(cluster: &Cluster) -> Result<Vec<(String, String)>, String> {
    let all = replicas(cluster, 0, "shop").await;
    let (probes, webs): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|replica| replica.service == "probe");
    let mut joined = Vec::new();
    for probe in &probes {
        joined.push((network_of(&probe.container_id)?, probe.node.clone()));
    }
    let mut here: Vec<_> = webs.into_iter().map(|web| (web.container_id, web.node)).collect();
    joined.sort();
    here.sort();
    if joined == here && here.len() == 4 {
        Ok(here)
    } else {
        Err(format!("{joined:?} in {here:?}"))
    }
}

/// R-IN-2, R-CONS-6: each replica shares the network of one replica of the other service on its
/// node, no two the same one, and joins the new one after a replacement.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_join_the_network_of_a_colocated_replica() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    let request = v1::ApplyRequest {
        compose_json: model(),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
    cluster.converged(0, "shop").await;
    let first = eventually("every web has its probe", || pairs(&cluster)).await;
    for host in first.iter().map(|(_, node)| node) {
        assert!(first.iter().filter(|(_, node)| node == host).count() <= 2, "{first:?}");
    }
    let (victim, _) = &first[0];
    docker(&["rm", "--force", victim]);
    let second = eventually("the probe has joined the new web", || async {
        let pairs = pairs(&cluster).await?;
        if pairs.iter().any(|(web, _)| web == victim) {
            Err("not replaced".to_owned())
        } else {
            Ok(pairs)
        }
    })
    .await;
    let same = first.iter().filter(|pair| second.contains(pair)).count();
    assert_eq!(same, 3, "one was replaced: {first:?}, {second:?}");
    cluster.converged(0, "shop").await;
}
