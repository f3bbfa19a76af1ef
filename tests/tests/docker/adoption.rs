//! Restarted daemons adopt their containers and leave others alone.

use jaco_testkit::docker::{containers, docker, running};
use jaco_testkit::{Cluster, Engine, eventually, v1};

use crate::scenario::{IMAGE, apply};

/// All daemons are killed and restarted: running containers are adopted with the same ids and start
/// times.
#[tokio::test(flavor = "multi_thread")]
async fn running_containers_are_adopted() {
    let mut cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 6, "").await;
    cluster.converged(0, "shop").await;
    let before = running(&cluster.id);
    assert_eq!(before.len(), 6);
    for node in &mut cluster.nodes {
        node.kill();
    }
    assert_eq!(running(&cluster.id), before, "containers do not depend on their daemons");
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.settled().await;
    cluster.converged(0, "shop").await;
    assert_eq!(running(&cluster.id), before);
}

/// A returning node removes containers that are not desired any more, and none of others.
#[tokio::test(flavor = "multi_thread")]
async fn returning_node_removes_only_its_own_containers() {
    let mut cluster = Cluster::start(3, Engine::Docker).await;
    let other = Cluster::start(1, Engine::Docker).await;
    apply(&other, "shop", IMAGE, 1, "").await;
    other.converged(0, "shop").await;
    apply(&cluster, "shop", IMAGE, 3, "").await;
    cluster.converged(0, "shop").await;
    let users_own = format!("users-own-{}", std::process::id());
    docker(&["run", "--detach", "--name", &users_own, IMAGE]);
    let bystanders =
        (running(&other.id), docker(&["inspect", "--format", "{{.State.StartedAt}}", &users_own]));

    cluster.nodes[2].kill();
    let delete = v1::DeleteRequest { deployment: "shop".to_owned(), ..Default::default() };
    cluster.client().delete(delete).await.expect("deleted by the other two");
    eventually("only the absent node's container is left", || async {
        let left = containers(&cluster.id);
        if left.len() == 1 { Ok(()) } else { Err(left) }
    })
    .await;
    cluster.nodes[2].start();
    eventually("it cleans up", || async {
        let left = containers(&cluster.id);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    let after =
        (running(&other.id), docker(&["inspect", "--format", "{{.State.StartedAt}}", &users_own]));
    docker(&["rm", "--force", &users_own]);
    assert_eq!(after, bystanders);
}
