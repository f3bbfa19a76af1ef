//! Whether there is a daemon that tells the edge its plans.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// A daemon that is away for longer than this may have missed that instances are gone.
const LOST_AFTER: Duration = Duration::from_secs(15);

/// Whether there is a daemon, and since when there is none.
#[derive(Debug)]
pub(crate) struct Presence(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    daemons: usize,
    alone_since: Instant,
}

/// A daemon that is there, until this is dropped.
#[derive(Debug)]
pub(crate) struct Present(Arc<Presence>);

impl Presence {
    /// None is connected yet.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Seen { daemons: 0, alone_since: Instant::now() }))
    }

    /// A daemon is there.
    pub(crate) fn enter(self: &Arc<Self>) -> Present {
        self.seen().daemons += 1;
        Present(Arc::clone(self))
    }

    /// Whether nobody has been there for so long that the plan may be out of date.
    pub(crate) fn is_stale(&self) -> bool {
        let seen = self.seen();
        seen.daemons == 0 && seen.alone_since.elapsed() > LOST_AFTER
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut seen = self.0.seen();
        seen.daemons -= 1;
        seen.alone_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_plan_is_stale_after_fifteen_seconds_without_daemon() {
        let presence = Arc::new(Presence::new());
        assert!(!presence.is_stale());
        tokio::time::advance(LOST_AFTER + Duration::from_millis(1)).await;
        assert!(presence.is_stale(), "none ever came");
        let (first, second) = (presence.enter(), presence.enter());
        drop(first);
        tokio::time::advance(2 * LOST_AFTER).await;
        assert!(!presence.is_stale(), "the other one is there");
        drop(second);
        tokio::time::advance(LOST_AFTER).await;
        assert!(!presence.is_stale());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(presence.is_stale());
    }
}
