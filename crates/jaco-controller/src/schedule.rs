//! When the leader plans: the part of its loop that decides, without the waiting. The simulation runs the
//! same. Must never read a clock.

use jaco_types::{Millis, Timestamp};

use crate::debounce::Debounce;

/// How often a leader plans (R-LOOP-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How long things must be quiet before a pass, or must have been (50 ms).
    pub quiet: Millis,
    /// How long a steady stream of events can delay a pass (250 ms).
    pub at_most: Millis,
    /// A pass runs at least this often (30 s).
    pub safety_tick: Millis,
}

impl Default for Pace {
    fn default() -> Self {
        Self { quiet: Millis(50), at_most: Millis(250), safety_tick: Millis::from_secs(30) }
    }
}

/// When the next pass is due: soon after an event, when the planner asked for it, and in any case after the
/// safety tick (R-LOOP-2). Only a leader has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassSchedule {
    pace: Pace,
    debounce: Debounce,
    /// When a pass is due without any event.
    next_tick: Timestamp,
    /// The pause behind the last pass, if that could not write.
    pause: Option<Millis>,
}

/// The longest pause between two passes that cannot write, as those of a leader that hears no others.
const LONGEST_PAUSE: Millis = Millis(1_000);

/// What came of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassResult {
    /// There was nothing to change, or all was written.
    Done {
        /// When the planner wants to look again.
        wake_at: Option<Timestamp>,
    },
    /// The state had changed meanwhile: the next pass plans again.
    Refused,
    /// Nothing can be written, or nobody knows whether it was: the next pass plans again, after a pause that grows.
    Failed,
}

impl PassSchedule {
    /// At the beginning of a leadership: the first pass is due at once.
    #[must_use]
    pub const fn new(pace: Pace, now: Timestamp) -> Self {
        let debounce = Debounce::new(pace.quiet, pace.at_most);
        Self { pace, debounce, next_tick: now, pause: None }
    }

    /// Something happened that a plan depends on.
    pub fn event(&mut self, now: Timestamp) {
        self.debounce.event(now);
    }

    /// When the next pass is due.
    #[must_use]
    pub fn due_at(&self) -> Timestamp {
        self.debounce.due_at().map_or(self.next_tick, |at| at.min(self.next_tick))
    }

    /// A pass begins: it sees everything that happened so far.
    pub fn begin(&mut self, now: Timestamp) {
        self.debounce.pass(now);
        self.next_tick = now.after(self.pace.safety_tick);
    }

    /// The pass that began last has ended.
    pub fn end(&mut self, now: Timestamp, result: PassResult) {
        self.debounce.end(now);
        self.pause = match result {
            PassResult::Done { .. } | PassResult::Refused => None,
            PassResult::Failed => {
                let longer = |pause: Millis| Millis(pause.0 * 2).min(LONGEST_PAUSE);
                Some(self.pause.map_or(self.pace.quiet, longer))
            }
        };
        let wake_at = match result {
            PassResult::Done { wake_at } => wake_at,
            PassResult::Refused => Some(now),
            PassResult::Failed => self.pause.map(|pause| now.after(pause)),
        };
        let soonest = now.after(self.pace.quiet);
        self.next_tick = wake_at.map_or(self.next_tick, |at| at.max(soonest).min(self.next_tick));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: PassResult = PassResult::Done { wake_at: None };

    /// A leader whose first pass ran from 1,000 to 1,010 ms.
    fn leading() -> PassSchedule {
        let mut schedule = PassSchedule::new(Pace::default(), Timestamp(1_000));
        assert_eq!(schedule.due_at(), Timestamp(1_000), "a new leader plans at once");
        schedule.begin(Timestamp(1_000));
        schedule.end(Timestamp(1_010), DONE);
        schedule
    }

    /// R-LOOP-2: without any event a pass is due 30 s after the last one began.
    #[test]
    fn safety_tick_follows_every_pass() {
        let mut schedule = leading();
        assert_eq!(schedule.due_at(), Timestamp(31_000));
        schedule.begin(Timestamp(31_000));
        schedule.end(Timestamp(31_000), PassResult::Done { wake_at: Some(Timestamp(99_000)) });
        assert_eq!(schedule.due_at(), Timestamp(61_000), "whatever the planner asks for");
    }

    /// R-LOOP-2: the planner is asked again when it wants to be, and soon where its plan was refused.
    #[test]
    fn planner_sets_its_own_alarm() {
        let mut schedule = leading();
        schedule.begin(Timestamp(2_000));
        schedule.end(Timestamp(2_000), PassResult::Done { wake_at: Some(Timestamp(5_000)) });
        assert_eq!(schedule.due_at(), Timestamp(5_000));
        schedule.begin(Timestamp(5_000));
        schedule.end(Timestamp(5_020), PassResult::Refused);
        assert_eq!(schedule.due_at(), Timestamp(5_070));
    }

    /// R-LOOP-2: a leader that cannot write, as it hears no others, does not plan twenty times a second.
    #[test]
    fn passes_that_cannot_write_become_rare() {
        let (mut schedule, mut now) = (leading(), Timestamp(2_000));
        let mut pause = |result| {
            schedule.begin(now);
            schedule.end(now, result);
            let pause = schedule.due_at().since(now).0;
            now = schedule.due_at();
            pause
        };
        let failed = [PassResult::Failed; 8].map(&mut pause);
        assert_eq!(failed, [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]);
        assert_eq!(pause(PassResult::Refused), 50);
        assert_eq!(pause(PassResult::Failed), 50);
    }

    /// What happened while a pass ran is planned by the next one, once the pause after it is over.
    #[test]
    fn events_during_a_pass_are_not_lost() {
        let mut schedule = leading();
        schedule.begin(Timestamp(2_000));
        schedule.event(Timestamp(2_005));
        schedule.end(Timestamp(2_100), DONE);
        assert_eq!(schedule.due_at(), Timestamp(2_150));
    }
}
