//! Stopping daemons without a quorum.

use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, eventually};
use jaco_types::ErrorCode;

use crate::scenario::apply_request;

/// Time limit for a daemon without a quorum to stop.
const LIMIT: Duration = Duration::from_secs(2);

/// Role of the last node when it is stopped.
#[derive(Debug, Clone, Copy)]
enum Survivor {
    /// Leader that has not noticed the loss of its quorum.
    LeaderUnaware,
    /// Leader that already refuses writes.
    LeaderAware,
    /// Follower without a leader.
    Follower,
}

/// The last of three nodes stops immediately although a client and its loops wait for a quorum.
#[tokio::test(flavor = "multi_thread")]
async fn node_without_quorum_stops_immediately() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    for survivor in [Survivor::LeaderUnaware, Survivor::LeaderAware, Survivor::Follower] {
        let leader = cluster.leader().await;
        let last = match survivor {
            Survivor::LeaderUnaware | Survivor::LeaderAware => leader,
            Survivor::Follower => (leader + 1) % 3,
        };
        for other in (0..3).filter(|node| *node != last) {
            cluster.nodes[other].kill();
        }
        let client = cluster.nodes[last].client();
        match survivor {
            Survivor::LeaderUnaware => {}
            Survivor::LeaderAware | Survivor::Follower => refuses_writes(&cluster, last).await,
        }
        let waiting =
            tokio::spawn(async move { client.apply(apply_request("shop", "web:1", 1)).await });
        let asked = Instant::now();
        cluster.nodes[last].stop();
        let took = asked.elapsed();
        assert!(took < LIMIT, "{survivor:?}: took {took:?}\n{}", cluster.nodes[last].log_tail());
        waiting.abort();
        for node in &mut cluster.nodes {
            node.start();
        }
        cluster.settled().await;
    }
}

async fn refuses_writes(cluster: &Cluster, node: usize) {
    eventually("writes are refused for want of a quorum", || async {
        let refused = cluster.nodes[node].client().apply(apply_request("shop", "web:1", 1)).await;
        match refused.map_err(|error| error.code()) {
            Err(ErrorCode::QuorumLost | ErrorCode::NoLeader) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
