//! When this node last had contact with a leader that had a quorum. The heartbeat loop records it;
//! the agent reads it to stop instances that must not run on an isolated node
//! ([`jaco_types::spec::OnNodeLoss::StopSelf`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jaco_types::Millis;

/// A monotonic clock with an arbitrary zero. It continues while the machine is suspended.
pub type SteadyClock = fn() -> Millis;

/// Time of the last contact. Clones share it.
#[derive(Debug, Clone)]
pub struct LeaderContact {
    clock: SteadyClock,
    last: Arc<AtomicU64>,
}

impl LeaderContact {
    /// Starts with a contact at the current time, so that a node that starts has the full time
    /// limit.
    #[must_use]
    pub fn new(clock: SteadyClock) -> Self {
        Self { clock, last: Arc::new(AtomicU64::new(clock().0)) }
    }

    /// The current time, to pass to [`LeaderContact::record`] once the answer arrives.
    #[must_use]
    pub fn now(&self) -> Millis {
        (self.clock)()
    }

    /// Records that a leader with a quorum answered a request sent at `sent_at`. Answers may arrive
    /// out of order.
    pub fn record(&self, sent_at: Millis) {
        self.last.fetch_max(sent_at.0, Ordering::Relaxed);
    }

    /// Time since the last contact.
    #[must_use]
    pub fn elapsed(&self) -> Millis {
        Millis((self.clock)().0.saturating_sub(self.last.load(Ordering::Relaxed)))
    }
}
