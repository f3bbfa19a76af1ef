//! Leaders that are gone, and leaders that only seem to be. The election timeouts are longer than these tests may
//! take, so that nothing here is their doing.

use std::time::Duration;

use jaco_raft::{RpcKind, Timing};

use crate::support::{Cluster, DEADLINE};

const PATIENT: Timing = Timing {
    heartbeat: Duration::from_millis(200),
    election_min: Duration::from_secs(60),
    election_max: Duration::from_secs(120),
};

async fn patient_three() -> Cluster {
    let cluster = Cluster::of_three_timed(PATIENT).await;
    let index = cluster.write("before").await;
    cluster.all_applied(index).await;
    cluster
}

fn pre_votes(cluster: &Cluster) -> u64 {
    cluster.network.calls().get(&RpcKind::PreVote).copied().unwrap_or(0)
}

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let waiting = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// Its connections are closed, and its port refuses new ones.
#[tokio::test(flavor = "multi_thread")]
async fn ended_leader_is_replaced_without_an_election_timeout() {
    let mut cluster = patient_three().await;
    let first = cluster.leader().await.id();
    cluster.stop(first).await;
    cluster.write("after").await;
    assert_ne!(cluster.leader().await.id(), first);
}

/// A link that breaks closes connections too, but nobody says that the leader does not listen.
#[tokio::test(flavor = "multi_thread")]
async fn unreachable_leader_is_given_its_time() {
    let cluster = patient_three().await;
    let leader = cluster.leader().await.id();
    let (dialled, asked) = (cluster.network.connects(leader), pre_votes(&cluster));
    for other in (1..=3).filter(|id| *id != leader) {
        cluster.network.cut(leader, other);
        cluster.network.cut(other, leader);
    }
    until("both followers have dialled ten times", || {
        cluster.network.connects(leader) >= dialled + 20
    })
    .await;
    assert_eq!(pre_votes(&cluster), asked, "nobody campaigns");
}

/// The port is closed to one follower only: it campaigns, and the other one keeps its word to the leader.
#[tokio::test(flavor = "multi_thread")]
async fn leader_that_one_follower_takes_for_ended_leads_on() {
    let cluster = patient_three().await;
    let leader = cluster.leader().await;
    let mistaken = (1..=3).find(|id| *id != leader.id()).unwrap();
    let (term, asked) = (leader.status().term, pre_votes(&cluster));
    cluster.network.close_port(mistaken, leader.id());
    cluster.network.cut(leader.id(), mistaken);
    // Of both others, in each of five campaigns.
    until("it campaigns in vain", || pre_votes(&cluster) >= asked + 10).await;
    leader.propose("goes on".into()).await.unwrap();
    for node in cluster.nodes.values() {
        assert_eq!(node.status().term, term, "a campaign in vain raises no term");
    }
    assert!(leader.status().is_leader());
}
