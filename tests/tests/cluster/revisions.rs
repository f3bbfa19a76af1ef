//! Rollbacks and restarts through the command line and real daemons.

use jaco_testkit::{Cluster, Engine, v1};
use serde_json::Value;

use crate::scenario::{apply_request, containers, deploy};

fn json(cluster: &Cluster, node: usize, args: &[&str]) -> Value {
    let out = cluster.cli(node, args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "jaco {}: {said}", args.join(" "));
    serde_json::from_slice(&out.stdout).expect("json")
}

/// R-ROLL-6: a rollback is a rollout with the containers of the earlier revision, and shows in
/// history, diff and audit log.
#[tokio::test(flavor = "multi_thread")]
async fn rollback_restores_the_earlier_containers() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let first = cluster.converged(0, "shop").await;
    let second = apply_request("shop", "web:2", 3);
    let applied = cluster.client().apply(second).await.expect("admitted");
    jaco_testkit::eventually("all run the second revision", || async {
        let status = cluster.overview(1).await?;
        let done = status.raft_index >= applied.raft_index
            && status.replicas.iter().all(|one| one.image == "web:2" && one.retiring.is_none());
        if done { Ok(()) } else { Err(format!("{:?}", status.replicas)) }
    })
    .await;
    let diff = json(&cluster, 1, &["diff", "--of", "shop", "-o", "json"]);
    assert_eq!(diff["changes"][0]["key"], "services.web.image");
    assert_eq!(
        (&diff["changes"][0]["from"], &diff["changes"][0]["to"]),
        (&"web:1".into(), &"web:2".into())
    );
    // Any node accepts it.
    let done = json(&cluster, 2, &["rollback", "shop", "-o", "json"]);
    assert_eq!((done["revision"].as_u64(), &done["outcome"]), (Some(3), &"converged".into()));
    let third = cluster.converged(2, "shop").await;
    let hashes = |status: &jaco_testkit::v1::StatusResponse| -> Vec<_> {
        status.replicas.iter().map(|one| (one.image.clone(), one.spec_hash.clone())).collect()
    };
    assert_eq!(hashes(&first), hashes(&third));
    let history = json(&cluster, 0, &["history", "shop", "--pin", "2", "-o", "json"]);
    let rows = history["revisions"].as_array().expect("a list");
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[1]["pinned"], &rows[2]["restores"]), (&true.into(), &1.into()));
    assert_eq!((&rows[2]["current"], &rows[2]["replicas"]), (&true.into(), &3.into()));
    let audit = cluster.cli(1, &["audit", "--type", "rollback"]);
    assert!(String::from_utf8_lossy(&audit.stdout).contains("shop"));
    let refused = cluster.cli(0, &["rollback", "shop", "--to", "9"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("revision_not_found"));
}

/// R-CLI-6: a restart replaces every selected replica with the same spec, by a rollout; applying
/// the same files afterwards changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn restart_replaces_replicas_without_a_spec_change() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let file = cluster.nodes[0].folder().join("compose.yaml");
    std::fs::write(&file, jaco_tests::compose("shop", "web", "web:1", 3)).expect("it is written");
    let file = file.to_str().expect("text");
    let first = json(&cluster, 0, &["apply", "-f", file, "-o", "json"]);
    assert_eq!(first["revision"].as_u64(), Some(1), "{first}");
    let before = cluster.converged(0, "shop").await;
    let done = json(&cluster, 1, &["restart", "shop/web", "-o", "json"]);
    assert_eq!((done["revision"].as_u64(), &done["outcome"]), (Some(2), &"converged".into()));
    let after = cluster.converged(1, "shop").await;
    let (old, new) = (containers(&before), containers(&after));
    assert_eq!(old.keys().collect::<Vec<_>>(), new.keys().collect::<Vec<_>>());
    assert!(old.iter().all(|(id, container)| new[id] != *container), "{old:?} {new:?}");
    assert!(after.replicas.iter().all(|one| one.image == "web:1"), "{after:?}");

    let diff = json(&cluster, 2, &["diff", "-f", file, "-o", "json"]);
    assert_eq!(diff["changes"], serde_json::json!([]), "{diff}");
    let again = json(&cluster, 2, &["apply", "-f", file, "-o", "json"]);
    assert_eq!((again["revision"].as_u64(), &again["change"]), (Some(2), &"unchanged".into()));
    assert_eq!(containers(&cluster.converged(2, "shop").await), new);

    let twice = json(&cluster, 0, &["restart", "shop", "-o", "json"]);
    assert_eq!(twice["revision"].as_u64(), Some(3), "{twice}");
    let last = containers(&cluster.converged(0, "shop").await);
    assert!(new.iter().all(|(id, container)| last[id] != *container), "{new:?} {last:?}");
    let refused = cluster.cli(0, &["restart", "shop/wbe"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("service_not_found"));
}

/// R-CLI-6: concurrent scaling of different services over different nodes keeps all changes.
#[tokio::test(flavor = "multi_thread")]
async fn t90_concurrent_scaling_keeps_all_changes() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let names = ["a", "b", "c"];
    let service = |name: &str| format!(r#""{name}":{{"image":"{name}:1"}}"#);
    let services = names.map(service).join(",");
    let request = v1::ApplyRequest {
        compose_json: format!(r#"{{"name":"shop","services":{{{services}}}}}"#),
        request_id: jaco_testkit::fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("admitted");
    for replicas in 2..=5_u32 {
        std::thread::scope(|scope| {
            for (node, name) in names.into_iter().enumerate() {
                let cluster = &cluster;
                scope.spawn(move || {
                    let (of, number) = (format!("shop/{name}"), replicas.to_string());
                    let out = cluster.cli(node, &["scale", &of, &number, "--detach"]);
                    let said = String::from_utf8_lossy(&out.stderr).into_owned();
                    assert!(out.status.success(), "{of}: {said}");
                });
            }
        });
        let request = v1::StatusRequest { linearizable: true, ..v1::StatusRequest::default() };
        let status = cluster.nodes[0].client().read_status(request).await.expect("it answers");
        let wanted: Vec<u32> =
            status.deployments[0].services.iter().map(|service| service.desired).collect();
        assert_eq!(wanted, [replicas; 3]);
    }
}
