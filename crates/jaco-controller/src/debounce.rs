//! When to run the next pass: soon after things calm down, and never much later than the first of
//! them, however many follow.

use jaco_types::{Millis, Timestamp};

/// Waits for a quiet moment, for a bounded time.
///
/// ```text
///  events   x  x x      x x x x x x x x x x x x x x
///           |<-quiet->  |<------- at most -------->
///  due             ^                              ^
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debounce {
    quiet: Millis,
    at_most: Millis,
    waiting: Option<Waiting>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    first: Timestamp,
    last: Timestamp,
}

impl Debounce {
    /// Due `quiet` after the last event, but no later than `at_most` after the first (R-LOOP-2).
    #[must_use]
    pub const fn new(quiet: Millis, at_most: Millis) -> Self {
        Self { quiet, at_most, waiting: None }
    }

    /// Something happened.
    pub fn event(&mut self, now: Timestamp) {
        let first = self.waiting.map_or(now, |waiting| waiting.first);
        self.waiting = Some(Waiting { first, last: now });
    }

    /// When the pass is due; `None` while nothing has happened.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        let waiting = self.waiting?;
        Some(waiting.last.after(self.quiet).min(waiting.first.after(self.at_most)))
    }

    /// The pass runs: what happened so far is covered by it.
    pub fn clear(&mut self) {
        self.waiting = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifty() -> Debounce {
        Debounce::new(Millis(50), Millis(500))
    }

    /// R-LOOP-2: a burst is one pass, 50 ms after its last event.
    #[test]
    fn a_burst_is_one_pass() {
        let mut debounce = fifty();
        assert_eq!(debounce.due_at(), None);
        for at in [0, 10, 20] {
            debounce.event(Timestamp(at));
        }
        assert_eq!(debounce.due_at(), Some(Timestamp(70)));
        debounce.clear();
        assert_eq!(debounce.due_at(), None);
    }

    /// R-LOOP-2: a stream of events that never calms down cannot starve the pass.
    #[test]
    fn a_steady_stream_cannot_starve_it() {
        let mut debounce = fifty();
        for at in (0..10_000).step_by(10) {
            debounce.event(Timestamp(at));
        }
        assert_eq!(debounce.due_at(), Some(Timestamp(500)));
    }
}
