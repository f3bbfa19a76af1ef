//! Joining, leaving, and who votes.

use jaco_testkit::{Cluster, Engine, eventually, v1};

use crate::scenario::{deploy, per_node};

async fn voters(cluster: &Cluster) -> Vec<String> {
    let status = cluster.client().status(v1::ClusterStatusRequest {}).await;
    let nodes = status.expect("the node answers").nodes;
    let voters = nodes.into_iter().filter(|node| node.suffrage == "voter");
    voters.map(|node| node.hostname).collect()
}

async fn has_voters(cluster: &Cluster, wanted: usize) {
    eventually(&format!("{wanted} voters"), || async {
        let voters = voters(cluster).await;
        if voters.len() == wanted { Ok(()) } else { Err(voters) }
    })
    .await;
}

/// R-NODE-4: joiners enter as learners; 1→1, 2→1, 3→3, 4→3 voters, and back.
#[tokio::test(flavor = "multi_thread")]
async fn voters_follow_the_policy_up_and_down() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    for (size, wanted) in [(2, 1), (3, 3), (4, 3)] {
        cluster.add_unborn();
        cluster.join(size - 1).await;
        cluster.settled().await;
        has_voters(&cluster, wanted).await;
    }
    for (gone, wanted) in [("n4", 3), ("n3", 1)] {
        let request = v1::RemoveNodeRequest { hostname: gone.to_owned(), ..Default::default() };
        cluster.client().remove_node(request).await.expect("an empty node can leave");
        has_voters(&cluster, wanted).await;
    }
}

/// R-PLACE-4, R-PLACE-6: a global service follows the nodes; a joining node moves nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_joining_node_moves_nobody() {
    let mut cluster = Cluster::start(2, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 4).await;
    let before = cluster.overview(0).await.unwrap();
    let everywhere = v1::ApplyRequest {
        compose_json: r#"{"name":"mon","services":{"agent":{"image":"agent:1"}}}"#.to_owned(),
        overlay_yaml: "deployment: mon\nservices:\n  - {name: agent, placement: global}\n"
            .to_owned(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(everywhere).await.expect("admitted");
    cluster.converged(0, "mon").await;
    cluster.add_unborn();
    cluster.join(2).await;
    cluster.settled().await;
    let after = eventually("the new node has its agent", || async {
        let status = cluster.overview(0).await?;
        let agents = status.replicas.iter().filter(|replica| replica.state == "running");
        let mut ids: Vec<_> = agents.map(|replica| replica.id.clone()).collect();
        ids.retain(|id| id.starts_with("mon"));
        if ids == ["mon-agent-n1", "mon-agent-n2", "mon-agent-n3"] {
            Ok(status)
        } else {
            Err(format!("{ids:?}"))
        }
    })
    .await;
    let shop = |status: &v1::StatusResponse| {
        let mut shop: Vec<_> = status
            .replicas
            .iter()
            .filter(|replica| replica.deployment == "shop")
            .cloned()
            .collect();
        shop.sort_by(|a, b| a.id.cmp(&b.id));
        shop
    };
    assert_eq!(shop(&after), shop(&before));
}

/// R-PLACE-1: three replicas on three nodes are one each.
#[tokio::test(flavor = "multi_thread")]
async fn spread_spreads() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    for name in ["app", "front", "hello"] {
        deploy(&cluster, name, "web:1", 3).await;
    }
    let status = cluster.overview(0).await.unwrap();
    assert_eq!(per_node(&status).into_values().collect::<Vec<_>>(), [3, 3, 3]);
    for name in ["app", "front", "hello"] {
        let mut nodes: Vec<_> = status
            .replicas
            .iter()
            .filter(|replica| replica.deployment == name)
            .map(|replica| replica.node.as_str())
            .collect();
        nodes.sort_unstable();
        assert_eq!(nodes, ["n1", "n2", "n3"], "{name}");
    }
}

/// A removed node's daemon stops by itself, and its old certificate opens no door any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_is_out() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let request = v1::RemoveNodeRequest { hostname: "n3".to_owned(), ..Default::default() };
    cluster.client().remove_node(request).await.expect("an empty node can leave");
    eventually("n3 is gone from the list", || async {
        let status = cluster.overview(0).await?;
        let names: Vec<_> = status.nodes.iter().map(|node| node.hostname.clone()).collect();
        if names == ["n1", "n2"] { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    // Whether or not it noticed by itself, as a new process it is refused by the others.
    cluster.nodes[2].kill();
    cluster.nodes[2].start();
    eventually("the others refused it", || async {
        let kinds = vec!["access_refused".to_owned()];
        let request = v1::AuditRequest { kinds, ..Default::default() };
        let mut events = cluster.client().audit(request);
        let mut seen = Vec::new();
        while let Some(event) = events.next().await.map_err(|error| error.to_string())? {
            seen.push(event);
        }
        let refused = seen.iter().any(|event| {
            event.payload.get("code").is_some_and(|code| code == "certificate_invalid")
        });
        // A node that has seen its own removal stops instead of knocking.
        let stopped = cluster.nodes[2].client().status(v1::ClusterStatusRequest {}).await.is_err();
        if refused || stopped { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}
