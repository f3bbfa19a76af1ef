//! Which raft streams are to be replaced, because what they were opened with is not to be used any more. A stream is
//! replaced by one that stands already, once nothing is unanswered on it: the follower never misses a heartbeat.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// Counts for each peer how often its streams were to be replaced. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct StreamRenewal {
    wanted: Arc<watch::Sender<BTreeMap<u64, u64>>>,
}

impl StreamRenewal {
    /// Has all streams to `peer` replaced that are open now.
    pub fn request(&self, peer: u64) {
        self.wanted.send_modify(|wanted| *wanted.entry(peer).or_default() += 1);
    }

    /// The age of a stream to `peer` that is opened now.
    pub(crate) fn of(&self, peer: u64) -> u64 {
        self.wanted.borrow().get(&peer).copied().unwrap_or_default()
    }

    /// Notes requests from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<BTreeMap<u64, u64>> {
        self.wanted.subscribe()
    }
}
