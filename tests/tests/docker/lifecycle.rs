//! Containers from apply to delete, and changes behind JACO's back.

use std::time::{Duration, Instant};

use jaco_testkit::docker::{containers, docker, running, running_now};
use jaco_testkit::{Cluster, Engine, eventually, eventually_within, v1};

use crate::scenario::{IMAGE, apply, replicas};

/// R-LOOP-5, R-CLI-9: deployed, changed one at a time, and deleted without a trace.
#[tokio::test(flavor = "multi_thread")]
async fn from_apply_to_delete() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 3, r#","stop_signal":"SIGTERM","stop_grace_period":"5s""#).await;
    let first = cluster.converged(1, "shop").await;
    assert_eq!(running(&cluster.id).len(), 3);
    for replica in &first.replicas {
        let args = [
            "inspect",
            "--format",
            "{{.Config.StopSignal}} {{.Config.StopTimeout}}",
            &replica.container_id,
        ];
        assert_eq!(docker(&args).split_whitespace().next(), Some("SIGTERM"));
    }
    apply(&cluster, "shop", "jaco-hello:v2", 3, "").await;
    let second = cluster.converged(2, "shop").await;
    assert!(second.replicas.iter().all(|replica| replica.image == "jaco-hello:v2"));
    eventually("the old containers are gone", || async {
        let left = containers(&cluster.id);
        if left.len() == 3 { Ok(()) } else { Err(left) }
    })
    .await;
    let delete = v1::DeleteRequest { deployment: "shop".to_owned(), ..Default::default() };
    cluster.nodes[1].client().delete(delete).await.expect("deleted");
    eventually("nothing is left", || async {
        let left = containers(&cluster.id);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    eventually("the networks are gone", || async {
        let filter = format!("label=jaco.cluster_id={}", cluster.id);
        let left = docker(&["network", "ls", "--quiet", "--filter", &filter]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

/// R-NODE-2: `node remove` returns once the node's containers have stopped, and when its daemon
/// ends nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn removed_node_leaves_nothing() {
    let mut cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 3, "").await;
    let status = cluster.converged(0, "shop").await;
    let node = status.nodes.iter().find(|node| node.hostname == "n3").expect("a member").id;
    let owned = format!("label=jaco.node={node}");
    let cluster_label = format!("label=jaco.cluster_id={}", cluster.id);
    let left = |kind: &[&str]| {
        docker(&[kind, &["--quiet", "--filter", &cluster_label, "--filter", &owned]].concat())
    };
    assert_ne!(left(&["ps", "--all"]), "", "the node runs a replica");
    let removed = cluster.cli(0, &["node", "remove", "n3"]);
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(left(&["ps", "--all"]), "", "a container outlived its node");
    let gone = Instant::now() + Duration::from_secs(30);
    while !cluster.nodes[2].has_ended() {
        assert!(Instant::now() < gone, "{}", cluster.nodes[2].log_tail());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(left(&["network", "ls"]), "", "a network outlived its node");
    assert_eq!(cluster.converged(0, "shop").await.replicas.len(), 3);
}

/// R-ROLL-2: during a rollout every replica has a serving instance at any time.
#[tokio::test(flavor = "multi_thread")]
async fn rollout_always_has_serving_replicas() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    let check = r#","healthcheck":{"test":["CMD","/hello","check","http://127.0.0.1:8080/healthz"],"interval":"1s","timeout":"2s","retries":3}"#;
    apply(&cluster, "shop", IMAGE, 3, check).await;
    cluster.converged(0, "shop").await;
    apply(&cluster, "shop", "jaco-hello:v2", 3, check).await;
    let mut fewest = usize::MAX;
    eventually_within(Duration::from_secs(240), "the change is through", || {
        fewest = fewest.min(running_now(&cluster.id));
        let cluster = &cluster;
        async move {
            let status = cluster.overview(0).await?;
            let shop = &status.deployments[0];
            let done = shop.revision == 2 && shop.status == "active";
            if done { Ok(()) } else { Err(format!("{shop:?}")) }
        }
    })
    .await;
    assert!(fewest >= 3, "at some moment only {fewest} containers ran");
}

/// A refusal of the engine is the replica's reason, verbatim.
#[tokio::test(flavor = "multi_thread")]
async fn engine_refusal_is_the_reason() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 1, r#","command":["/no/such/program"],"entrypoint":[]"#).await;
    eventually("the reason is shown", || async {
        let now = replicas(&cluster, 0, "shop").await;
        let told = now.iter().any(|replica| {
            replica.details.values().any(|detail| detail.contains("/no/such/program"))
        });
        if told { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

/// R-CLI-6: any node returns the logs of all replicas, with the replica of each line.
#[tokio::test(flavor = "multi_thread")]
async fn logs_come_from_every_node() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 3, "").await;
    cluster.converged(0, "shop").await;
    for node in 0..3 {
        eventually("a line of each replica", || async {
            let out = cluster.cli(node, &["logs", "shop/web", "--tail", "5"]);
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            let all = (0..3).all(|index| said.contains(&format!("[shop-web-{index}@n")));
            if out.status.success() && all { Ok(()) } else { Err(said) }
        })
        .await;
    }
}
