//! Clocks that differ by less than they may, and leaders that come and go.

use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, eventually, v1};

use crate::outages::start_later;

/// By how much the clocks of two of the nodes are ahead.
const AHEAD: &str = "+120s";

/// How far apart two entries may be besides the time between them: a heartbeat, and half of its round trip.
const ROOM: Duration = Duration::from_secs(5);

/// How often the first node may fail to lead, before what is tested begins.
const TRIES: usize = 10;

/// When the entry was agreed on by which a token with this name was issued, in milliseconds of the cluster's time.
async fn issued_at(cluster: &Cluster, at: usize, name: &str) -> i64 {
    let client = cluster.nodes[at].client();
    let request = v1::IssueOperatorTokenRequest { name: name.to_owned(), ..Default::default() };
    eventually("there is a leader", || async {
        let issued = client.issue_operator_token(request.clone()).await;
        issued.map_err(|error| error.to_string())
    })
    .await;
    let mut events = client.events(v1::AuditRequest::default());
    let mut found = None;
    while let Some(event) = events.next().await.expect("the node answers") {
        if event.kind == "token_issue" {
            found = Some(event.at_ms);
        }
    }
    found.expect("a token was issued")
}

/// NET-4, R-ROLL-3: what lasts a minute lasts a minute where the next leader's clock is two minutes ahead.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_clock_is_ahead_goes_on_with_the_time_of_its_predecessor() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    for at in [1, 2] {
        ahead(&mut cluster, at).await;
    }
    // Both others are ahead, so that either may follow.
    let mut tries = 0;
    while cluster.leader().await != 0 {
        assert!(tries < TRIES, "n1 never leads");
        let leader = cluster.leader().await;
        ahead(&mut cluster, leader).await;
        tries += 1;
    }
    let (before, begun) = (issued_at(&cluster, 0, "before").await, Instant::now());
    cluster.nodes[0].kill();
    let after = issued_at(&cluster, 1, "after").await;
    let (passed, between) = (begun.elapsed(), Duration::from_millis(after.abs_diff(before)));
    assert!(between <= passed + ROOM, "{before} and {after}: {between:?} for {passed:?}");
}

async fn ahead(cluster: &mut Cluster, at: usize) {
    cluster.nodes[at].stop();
    start_later(&mut cluster.nodes[at], AHEAD);
    cluster.settled().await;
}
