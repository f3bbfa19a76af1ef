//! Containers that are removed or stopped behind JACO's back. The time is promised, and engines take longer for others.

use std::time::Duration;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, eventually_within};

use crate::scenario::{IMAGE, apply, replicas};

/// R-HEAL-1: a container that is removed or stopped by hand is replaced within 5 s.
#[tokio::test(flavor = "multi_thread")]
async fn manually_removed_container_is_replaced() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 3, "").await;
    for how in [&["rm", "--force"][..], &["stop", "--time", "1"][..]] {
        let status = cluster.converged(0, "shop").await;
        let victim = status.replicas[0].container_id.clone();
        docker(&[how, &[victim.as_str()][..]].concat());
        eventually_within(Duration::from_secs(5), "a container in its place", || async {
            let now = replicas(&cluster, 0, "shop").await;
            let back = now.iter().filter(|replica| replica.state == "running").count() == 3
                && now.iter().all(|replica| replica.container_id != victim);
            if back { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
    }
}
