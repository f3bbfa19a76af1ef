//! When this node was last in contact with a leader that had a quorum. Written by whoever speaks with
//! the leader, read by the agent, which stops what must not run on a node that is cut off
//! ([`jaco_types::spec::OnNodeLoss::StopSelf`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jaco_types::Millis;

/// A clock that nobody sets; its zero means nothing. It goes on while the machine sleeps.
pub type SteadyClock = fn() -> Millis;

/// The last contact, shared.
#[derive(Debug, Clone)]
pub struct Contact {
    clock: SteadyClock,
    last: Arc<AtomicU64>,
}

impl Contact {
    /// A contact that is made now: a node that starts has as much time as one that falls silent.
    #[must_use]
    pub fn new(clock: SteadyClock) -> Self {
        Self { clock, last: Arc::new(AtomicU64::new(clock().0)) }
    }

    /// This moment, to hand to [`Contact::note`] once the answer is there.
    #[must_use]
    pub fn now(&self) -> Millis {
        (self.clock)()
    }

    /// A leader that has a quorum answered to what was sent at this moment. Answers may overtake each
    /// other.
    pub fn note(&self, sent_at: Millis) {
        self.last.fetch_max(sent_at.0, Ordering::Relaxed);
    }

    /// For how long there was none.
    #[must_use]
    pub fn silence(&self) -> Millis {
        Millis((self.clock)().0.saturating_sub(self.last.load(Ordering::Relaxed)))
    }
}
