//! When this node last had contact with a leader that had a quorum. The heartbeat loop records it;
//! the agent reads it to stop instances that must not run on an isolated node
//! ([`jaco_types::spec::OnNodeLoss::StopSelf`]), and to start jobs only where they were not placed elsewhere
//! meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

use jaco_types::Millis;

/// After so long without contact the node's state may lack that its replicas were placed elsewhere. Less than what it
/// takes for a node to count as down, also by a clock that counts 11 where this one counts 10 (ADR 0045).
pub const CONTACT_LAPSE: Millis = Millis(6_000);

/// A monotonic clock with an arbitrary zero. It continues while the machine is suspended.
pub type SteadyClock = fn() -> Millis;

/// Whether the node's state may lack what was decided about its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateAge {
    /// It has what was committed up to a few seconds ago.
    Current,
    /// There was no contact for [`CONTACT_LAPSE`], and the node has not caught up since.
    Outdated,
}

/// Time of the last contact. Clones share it.
#[derive(Debug, Clone)]
pub struct LeaderContact {
    clock: SteadyClock,
    last: Arc<Mutex<Last>>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    at: Millis,
    /// As of that contact.
    state: StateAge,
}

impl LeaderContact {
    /// Starts with a contact at the current time, so that a node that starts has the full time
    /// limit. It does nothing before it has caught up.
    #[must_use]
    pub fn new(clock: SteadyClock) -> Self {
        let last = Last { at: clock(), state: StateAge::Current };
        Self { clock, last: Arc::new(Mutex::new(last)) }
    }

    /// The current time, to pass to [`LeaderContact::record`] once the answer arrives.
    #[must_use]
    pub fn now(&self) -> Millis {
        (self.clock)()
    }

    /// Records that a leader with a quorum answered a request sent at `sent_at`. Answers may arrive
    /// out of order. Returns whether the node's state has to catch up, which [`LeaderContact::caught_up`] then says.
    pub fn record(&self, sent_at: Millis) -> StateAge {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if has_lapsed(sent_at, last.at) {
            last.state = StateAge::Outdated;
        }
        last.at = last.at.max(sent_at);
        last.state
    }

    /// Records that the state has what was committed when a request was sent at `sent_at`.
    pub fn caught_up(&self, sent_at: Millis) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_lapsed((self.clock)(), sent_at) {
            last.state = StateAge::Current;
        }
    }

    /// Time since the last contact.
    #[must_use]
    pub fn elapsed(&self) -> Millis {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Millis((self.clock)().0.saturating_sub(last.at.0))
    }

    /// Whether the node's state may lack what was decided about its replicas.
    #[must_use]
    pub fn state(&self) -> StateAge {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match has_lapsed((self.clock)(), last.at) {
            true => StateAge::Outdated,
            false => last.state,
        }
    }
}

fn has_lapsed(now: Millis, since: Millis) -> bool {
    now.0.saturating_sub(since.0) >= CONTACT_LAPSE.0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(100_000) };
    }

    fn clock() -> Millis {
        Millis(NOW.get())
    }

    /// R-JOB-1: after a lapse the state is outdated until it was caught up, however soon there is contact again.
    #[test]
    fn contact_alone_does_not_end_a_lapse() {
        let contact = LeaderContact::new(clock);
        NOW.set(105_999);
        assert_eq!(contact.state(), StateAge::Current);
        NOW.set(106_000);
        assert_eq!(contact.state(), StateAge::Outdated);
        assert_eq!(contact.record(contact.now()), StateAge::Outdated);
        assert_eq!(contact.elapsed(), Millis(0));
        assert_eq!(contact.state(), StateAge::Outdated);
        contact.caught_up(Millis(99_000));
        assert_eq!(contact.state(), StateAge::Outdated, "that was long ago");
        contact.caught_up(contact.now());
        assert_eq!(contact.state(), StateAge::Current);
        NOW.set(107_000);
        assert_eq!(contact.record(Millis(106_500)), StateAge::Current);
    }
}
