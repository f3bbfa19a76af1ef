//! Issue behaviours 4 and 6 on real containers.

use jaco_testkit::docker::running;
use jaco_testkit::{Cluster, Engine, eventually};

use crate::scenario::{IMAGE, apply};

/// R-CLI-7: a node without a majority refuses writes with exit 9, keeps its containers running, and
/// catches up afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn minority_keeps_its_containers() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 3, "").await;
    cluster.converged(0, "shop").await;
    let before = running(&cluster.id);
    cluster.nodes[1].pause();
    cluster.nodes[2].pause();
    let out = cluster.cli(0, &["node", "cordon", "n2"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(9), "{said}");
    assert!(said.contains("no_leader") || said.contains("quorum_lost"), "{said}");
    assert_eq!(running(&cluster.id), before);
    cluster.nodes[1].resume();
    cluster.nodes[2].resume();
    eventually("writes work again", || async {
        let out = cluster.cli(0, &["node", "cordon", "n3"]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        if out.status.success() { Ok(()) } else { Err(said) }
    })
    .await;
    let index = cluster.overview(1).await.expect("n2 answers").raft_index;
    eventually("the minority catches up", || async {
        let status = cluster.overview(0).await?;
        if status.raft_index >= index { Ok(()) } else { Err(format!("{}", status.raft_index)) }
    })
    .await;
    assert_eq!(running(&cluster.id), before);
}

/// R-IN-3, R-CLI-7: a manifest with an error changes nothing, not even a container.
#[tokio::test(flavor = "multi_thread")]
async fn refused_manifest_changes_nothing() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 2, "").await;
    cluster.converged(0, "shop").await;
    let before = (running(&cluster.id), cluster.overview(0).await.unwrap().deployments);
    let file = cluster.nodes[0].folder().join("compose.yaml");
    std::fs::write(&file, "name: shop\nservices:\n  web:\n    image: x\n    replicaz: 3\n")
        .unwrap();
    let out = cluster.cli(0, &["apply", "-f", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("compose.yaml:5:5"), "{said}");
    let after = (running(&cluster.id), cluster.overview(0).await.unwrap().deployments);
    assert_eq!(after, before);
}
