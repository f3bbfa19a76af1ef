//! Daemons that are asked to stop while they cannot agree on anything.

use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, eventually};
use jaco_types::ErrorCode;

use crate::scenario::apply_request;

/// What a daemon without a quorum may take: nothing that it waits for will come.
const LIMIT: Duration = Duration::from_secs(2);

/// What the last node is when it is asked to stop.
#[derive(Debug, Clone, Copy)]
enum Survivor {
    /// It leads, and has not noticed yet that nobody answers.
    LeaderUnaware,
    /// It leads, and refuses writes already.
    LeaderAware,
    /// It follows, and looks for a leader.
    Follower,
}

/// The last of three nodes stops at once, though a client and its own loops wait for a majority.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_quorum_stops_at_once() {
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
