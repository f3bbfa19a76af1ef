//! The client as programs of others use it: its example, against real daemons.

use jaco_client::{Client, ErrorCode, Target};
use jaco_testkit::{Cluster, Engine, eventually};

use crate::curl::token;

#[path = "../../../crates/jaco-client/examples/rollout.rs"]
mod rollout;

/// R-CLI-9: the example of the client, with address, authority and token, applies a model and follows its rollout to the end,
/// also while the leader dies; and is told when there is nothing to follow.
#[tokio::test(flavor = "multi_thread")]
async fn example_follows_a_rollout_across_a_change_of_leader() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let (secret, _) = token(&cluster, "program", "operator").await;
    let file = cluster.nodes[0].folder().join("program.token");
    std::fs::write(&file, secret).expect("written");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, private).expect("it is ours");
    let servers: Vec<String> = cluster.nodes.iter().map(|node| node.address.clone()).collect();
    let ca = cluster.nodes[0].folder().join("data/node/ca.crt");
    let client =
        Client::new(Target::from_files(&servers, &ca, &file).expect("the files are whole"));

    let model = |image: &str| jaco_tests::compose("shop", "web", image, 3);
    let mut told = Vec::new();
    let first = rollout::roll_out(&client, model("web:1"), |line| told.push(line)).await;
    assert_eq!(first.expect("it converges"), 1);
    assert_eq!(told.first().map(String::as_str), Some("shop: revision 1 is created"));
    assert_eq!(told.last().map(String::as_str), Some("web: 3 of 3 replicas run the new spec"));

    let leader = cluster.leader().await;
    let followed = async {
        rollout::roll_out(&client, model("web:2"), |_| {}).await.map_err(|error| error.to_string())
    };
    let killed = async {
        eventually("the change is agreed on", || async {
            let status = cluster.overview((leader + 1) % 3).await?;
            let revision = status.deployments.first().map(|deployment| deployment.revision);
            if revision == Some(2) { Ok(()) } else { Err(format!("revision {revision:?}")) }
        })
        .await;
        leader
    };
    let mut followed = std::pin::pin!(followed);
    let ended = tokio::select! {
        done = &mut followed => Some(done),
        _ = killed => None,
    };
    cluster.nodes[leader].kill();
    let ended = match ended {
        Some(done) => done,
        None => followed.await,
    };
    assert_eq!(ended, Ok(2));

    let wrong =
        rollout::roll_out(&client, "{}".to_owned(), |_| {}).await.expect_err("it has no services");
    let refused = wrong.downcast_ref::<jaco_client::ClientError>().expect("the cluster refuses it");
    assert!(!refused.is_transient(), "{refused}");
    assert_ne!(refused.code(), ErrorCode::Internal, "{refused}");
}
