//! When a peer that cannot be reached may be dialled again.
//!
//! openraft dials for each heartbeat, each batch of entries and each linearizable read, by clients that do not
//! know of each other. All of them ask here first, so that a peer that is down costs at most one attempt per
//! pause, however busy the cluster is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Pause after the first failed attempt; doubled by each further one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause: a peer that returns silently is reached again within it.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The peers that could not be reached lately. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reconnects {
    unreachable: Arc<Mutex<BTreeMap<u64, Failed>>>,
}

/// The failed attempts to reach one peer.
#[derive(Debug)]
struct Failed {
    /// Where it was dialled; a peer that moved is dialled at once.
    address: String,
    pause: Duration,
    next: Instant,
}

impl Reconnects {
    /// How long `peer` must not be dialled at `address`; none if it may be dialled now.
    pub(crate) fn remaining(&self, peer: u64, address: &str) -> Option<Duration> {
        let unreachable = self.lock();
        let failed = unreachable.get(&peer).filter(|failed| failed.address == address)?;
        let remaining = failed.next.saturating_duration_since(Instant::now());
        (!remaining.is_zero()).then_some(remaining)
    }

    /// An attempt failed: the pause begins, twice as long as the one before.
    pub(crate) fn failed(&self, peer: u64, address: &str) {
        let mut unreachable = self.lock();
        let before = unreachable.get(&peer).filter(|failed| failed.address == address);
        let pause = before.map_or(PAUSE_MIN, |failed| (2 * failed.pause).min(PAUSE_MAX));
        let next = Instant::now() + pause;
        unreachable.insert(peer, Failed { address: address.to_owned(), pause, next });
    }

    /// The peer was reached, or has sent something: it may be dialled at once. Returns whether a pause ended.
    pub(crate) fn reached(&self, peer: u64) -> bool {
        self.lock().remove(&peer).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Failed>> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_one_second_and_end_when_the_peer_is_heard() {
        let reconnects = Reconnects::default();
        assert_eq!(reconnects.remaining(3, "n3"), None);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            reconnects.failed(3, "n3");
            let pause = reconnects.remaining(3, "n3").expect("a pause follows a failure");
            pauses.push(pause.as_millis());
            tokio::time::advance(pause).await;
            assert_eq!(reconnects.remaining(3, "n3"), None, "the pause is over");
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);

        reconnects.failed(3, "n3");
        assert_eq!(reconnects.remaining(2, "n2"), None, "other peers are dialled as before");
        assert_eq!(
            reconnects.remaining(3, "elsewhere"),
            None,
            "a peer that moved is dialled at once"
        );
        assert!(reconnects.reached(3), "a pause ended");
        assert_eq!(reconnects.remaining(3, "n3"), None);
        assert!(!reconnects.reached(3));
        reconnects.failed(3, "n3");
        assert_eq!(reconnects.remaining(3, "n3"), Some(PAUSE_MIN), "it begins anew");
    }
}
