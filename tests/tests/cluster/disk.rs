//! A node whose disk is nearly full.

use std::io::Write;

use jaco_testkit::{Cluster, Engine, eventually, v1};

use crate::scenario::{apply_request, deploy, per_node};

/// R-NODE-1: a node with a full disk keeps its replicas, gets no new ones, reports the usage, and
/// takes part again once there is space.
#[tokio::test(flavor = "multi_thread")]
async fn node_with_full_disk_gets_no_new_replicas() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    set_limit(&mut cluster, 2, "disk: {full_percent: 1}\n");
    status_is(&cluster, "n3", "disk_full").await;
    deploy(&cluster, "blog", "web:1", 4).await;
    let status = cluster.overview(0).await.expect("n1 answers");
    let (blog, shop) = status.replicas.into_iter().partition(|it| it.id.starts_with("blog-"));
    let of = |replicas| per_node(&v1::StatusResponse { replicas, ..Default::default() });
    assert_eq!(of(blog), [("n1".to_owned(), 2), ("n2".to_owned(), 2)].into());
    assert_eq!(of(shop).get("n3"), Some(&1), "what runs there stays");
    let explained = cluster.cli(0, &["explain", "blog/web"]);
    let said = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(said.contains("% full, the limit is 1%"), "{said}");
    set_limit(&mut cluster, 2, "disk: {full_percent: 0}\n");
    status_is(&cluster, "n3", "ready").await;
    deploy(&cluster, "wiki", "web:1", 3).await;
    let status = cluster.overview(0).await.expect("n1 answers");
    assert!(status.replicas.iter().any(|it| it.id.starts_with("wiki-") && it.node == "n3"));
}

/// R-FAULT-1, R-NODE-1: while the disks of two of three voters are full, what would write more is refused by name;
/// what frees space is done, and once there is space applies are admitted again.
#[tokio::test(flavor = "multi_thread")]
async fn t105_full_disks_of_a_majority_refuse_applies() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    deploy(&cluster, "blog", "web:1", 1).await;
    set_limit(&mut cluster, 1, "disk: {full_percent: 1}\n");
    set_limit(&mut cluster, 2, "disk: {full_percent: 1}\n");
    status_is(&cluster, "n2", "disk_full").await;
    status_is(&cluster, "n3", "disk_full").await;
    for (name, replicas) in [("wiki", 1), ("shop", 3), ("shop", 4)] {
        let refused = cluster.client().apply(apply_request(name, "web:2", replicas)).await;
        let refused = refused.expect_err("it is refused");
        assert_eq!(refused.code().as_str(), "disk_full", "{refused}");
        let said = refused.to_string();
        assert!(said.contains("2 of 3 voters are full: n2 (") && said.contains("n3 ("), "{said}");
    }
    let fewer = cluster.client().apply(apply_request("shop", "web:1", 2)).await;
    fewer.expect("fewer replicas are admitted");
    let gone = v1::DeleteRequest { deployment: "blog".to_owned(), ..Default::default() };
    cluster.client().delete(gone).await.expect("deletes are done");
    set_limit(&mut cluster, 1, "disk: {full_percent: 0}\n");
    status_is(&cluster, "n2", "ready").await;
    deploy(&cluster, "wiki", "web:1", 1).await;
}

/// Restarts a daemon with this additional setting.
fn set_limit(cluster: &mut Cluster, node: usize, setting: &str) {
    let node = &mut cluster.nodes[node];
    node.stop();
    let file = node.folder().join("jacod.yaml");
    let settings = std::fs::read_to_string(&file).expect("it was written before");
    let others = settings.lines().filter(|line| !line.starts_with("disk:"));
    let mut file = std::fs::File::create(&file).expect("it can be written again");
    for line in others {
        writeln!(file, "{line}").expect("there is room for it");
    }
    file.write_all(setting.as_bytes()).expect("there is room for it");
    node.start();
}

async fn status_is(cluster: &Cluster, name: &str, wanted: &str) {
    eventually("it has its status", || async {
        let status = cluster.client().status(v1::ClusterStatusRequest {}).await;
        let status = status.map_err(|error| error.to_string())?;
        let node = status.nodes.into_iter().find(|node| node.hostname == name);
        let node = node.ok_or("it is no member")?;
        let is_named =
            node.status == "ready" || node.status_reason.contains("full, the limit is 1%");
        if node.status == wanted && is_named { Ok(()) } else { Err(format!("{node:?}")) }
    })
    .await;
}
