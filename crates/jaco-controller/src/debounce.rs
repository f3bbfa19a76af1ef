//! When to run the next pass: at once after a quiet time, else soon after things calm down, and
//! never much later than the first of them, however many follow.

use jaco_types::{Millis, Timestamp};

/// Waits for a quiet moment, for a bounded time. What comes out of a quiet time does not wait at
/// all: a single request has nobody to travel with, and its sender waits.
///
/// ```text
///  events   x  x x               x x x x x x x x x x x x x x
///           |    |<-quiet->|     |  |<------ at most ------>|
///  due      ^              ^     ^                          ^
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debounce {
    quiet: Millis,
    at_most: Millis,
    waiting: Option<Waiting>,
    /// When the last pass ran.
    passed: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    first: Timestamp,
    last: Timestamp,
}

impl Debounce {
    /// Due at once if nothing ran for `quiet`; else `quiet` after the last event, but no later than
    /// `at_most` after the first (R-LOOP-2).
    #[must_use]
    pub const fn new(quiet: Millis, at_most: Millis) -> Self {
        Self { quiet, at_most, waiting: None, passed: None }
    }

    /// Something happened.
    pub fn event(&mut self, now: Timestamp) {
        let first = self.waiting.map_or(now, |waiting| waiting.first);
        self.waiting = Some(Waiting { first, last: now });
    }

    /// When the pass is due; `None` while nothing has happened.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        let Waiting { first, last } = self.waiting?;
        if self.passed.is_none_or(|passed| first.since(passed) >= self.quiet) {
            return Some(first);
        }
        Some(last.after(self.quiet).min(first.after(self.at_most)))
    }

    /// A pass begins: what happened so far is covered by it.
    pub fn pass(&mut self, now: Timestamp) {
        self.waiting = None;
        self.passed = Some(now);
    }

    /// The pass ended. What happened while it ran counts as if it happened now, so that the next one
    /// follows after a pause.
    pub fn end(&mut self, now: Timestamp) {
        self.passed = Some(now);
        self.waiting = self.waiting.map(|_| Waiting { first: now, last: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that ran a pass at zero.
    fn fifty() -> Debounce {
        let mut debounce = Debounce::new(Millis(50), Millis(500));
        debounce.pass(Timestamp(0));
        debounce
    }

    /// R-LOOP-2: a burst is one pass, 50 ms after its last event.
    #[test]
    fn a_burst_is_one_pass() {
        let mut debounce = fifty();
        assert_eq!(debounce.due_at(), None);
        for at in [1, 10, 20] {
            debounce.event(Timestamp(at));
        }
        assert_eq!(debounce.due_at(), Some(Timestamp(70)));
        debounce.pass(Timestamp(70));
        assert_eq!(debounce.due_at(), None);
    }

    /// R-LOOP-2: what comes after a quiet time is planned at once, and what follows it gathers.
    #[test]
    fn the_first_after_a_quiet_time_does_not_wait() {
        let mut debounce = fifty();
        debounce.event(Timestamp(50));
        assert_eq!(debounce.due_at(), Some(Timestamp(50)));
        debounce.pass(Timestamp(52));
        debounce.event(Timestamp(60));
        debounce.event(Timestamp(90));
        assert_eq!(debounce.due_at(), Some(Timestamp(140)));
    }

    /// R-LOOP-2: a stream of events that never calms down cannot starve the pass.
    #[test]
    fn a_steady_stream_cannot_starve_it() {
        let mut debounce = fifty();
        for at in (10..10_000).step_by(10) {
            debounce.event(Timestamp(at));
        }
        assert_eq!(debounce.due_at(), Some(Timestamp(510)));
    }

    /// A clock that is set back costs at most the usual wait.
    #[test]
    fn a_clock_that_is_set_back_does_not_hold_a_pass_up() {
        let mut debounce = Debounce::new(Millis(50), Millis(500));
        debounce.pass(Timestamp(1_000_000));
        debounce.event(Timestamp(100));
        assert_eq!(debounce.due_at(), Some(Timestamp(150)));
    }
}
