//! What the metrics of this node say of its router.

use std::time::Duration;

use jaco_net::{PeerCounts, Questions, RouterClient, RouterCounts, RouterStatus};
use jaco_server::metrics::{PeerReading, RouterReading};
use tokio::time::timeout;

use super::RouterHandle;

/// How long the process may take to answer: a scraper waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

impl RouterHandle {
    /// What there is to say of it; none before the cluster has networks of its own.
    pub(crate) async fn reading(&self) -> Option<RouterReading> {
        let view = self.view.borrow().clone();
        if view.planned.is_none() && view.status.is_none() {
            return None;
        }
        // One that is away has nothing to say, and that it is away is said all the same.
        let counts = timeout(PATIENCE, RouterClient::counts(&self.runtime_dir)).await;
        let counts = counts.ok().and_then(Result::ok);
        let status = view.status.as_ref();
        let failed = status.map_or(0, |status| status.failures().count());
        Some(RouterReading {
            works: status.is_some_and(|status| status.error.is_none()),
            failed_networks: u64::try_from(failed).unwrap_or(u64::MAX),
            planned: view.planned.map(|index| index.0),
            applied: status.and_then(RouterStatus::applied).map(|index| index.0),
            peers: counts.iter().flat_map(|counts| &counts.peers).map(peer).collect(),
            questions: counts.as_ref().map(questions).unwrap_or_default(),
        })
    }
}

fn peer(peer: &PeerCounts) -> PeerReading {
    PeerReading {
        handshake_age: peer.handshake_ms.map(Duration::from_millis),
        received_bytes: peer.received,
        sent_bytes: peer.sent,
    }
}

fn questions(counts: &RouterCounts) -> Vec<(&'static str, u64)> {
    let Questions { answered, no_such_name, refused, forwarded, forward_failed, limited, invalid } =
        counts.questions;
    vec![
        ("answered", answered),
        ("no_such_name", no_such_name),
        ("refused", refused),
        ("forwarded", forwarded),
        ("forward_failed", forward_failed),
        ("limited", limited),
        ("invalid", invalid),
    ]
}
