//! Going back to what an earlier revision said, through the command line and real daemons.

use jaco_testkit::{Cluster, Engine};
use serde_json::Value;

use crate::scenario::{apply_request, deploy};

fn json(cluster: &Cluster, node: usize, args: &[&str]) -> Value {
    let out = cluster.cli(node, args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "jaco {}: {said}", args.join(" "));
    serde_json::from_slice(&out.stdout).expect("json")
}

/// R-ROLL-6: a rollback rolls like any change, its containers are made from what they were made from
/// before, and history, diff and the audit log say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_restores_what_ran() {
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
    // Any node takes it.
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
    assert_eq!((&rows[2]["wanted"], &rows[2]["replicas"]), (&true.into(), &3.into()));
    let audit = cluster.cli(1, &["audit", "--type", "rollback"]);
    assert!(String::from_utf8_lossy(&audit.stdout).contains("shop"));
    let refused = cluster.cli(0, &["rollback", "shop", "--to", "9"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("revision_not_found"));
}
