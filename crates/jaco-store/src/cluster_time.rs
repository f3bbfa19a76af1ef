//! The time of the cluster: the leader's clock, without its jumps, and the same one whoever leads.
//!
//! Entries carry it, and what lasts is measured in it: the quarantine of an address, a step of a rollout, a drain. Clocks of
//! members differ, and are set while they run; neither may end in a moment what is to last a minute.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use jaco_types::{Millis, Timestamp};

use crate::Clock;

/// By how much clocks of members may differ. One that differs by more, or is set by more, is wrong or was: it is taken as
/// it is.
pub const CLOCKS_AGREE_WITHIN: Millis = Millis(5 * 60 * 1000);

/// The cluster's time comes nearer to the leader's clock by one part in so many of the time that passes.
pub const SLEW: u64 = 20;

/// What a machine shows at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Its clock, which can be set.
    pub wall: Timestamp,
    /// The time since it booted, which cannot.
    pub steady: Millis,
}

/// The cluster's time as one member knows it.
///
/// It passes as the time since the machine booted does. What it is ahead of the member's own clock, or behind it, becomes less by
/// one part in [`SLEW`] of that; a member that follows a leader takes the leader's.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterTime {
    /// By how many milliseconds it is ahead of the member's own clock.
    ahead: i64,
    /// The last reading, absent before the first.
    seen: Option<Reading>,
    /// Up to when, since the boot of the machine, it has come nearer to the clock.
    slewed: Millis,
}

impl ClusterTime {
    /// The present moment.
    pub fn now(&mut self, reading: Reading) -> Timestamp {
        self.read(reading);
        Timestamp(reading.wall.0.saturating_add_signed(self.ahead))
    }

    /// By how many milliseconds it was ahead of the clock at the last reading.
    #[must_use]
    pub fn ahead(&self) -> i64 {
        self.ahead
    }

    /// Takes the time that the leader has at the moment of this reading, unless the clocks do not agree.
    pub fn follow(&mut self, reading: Reading, leader: Timestamp) {
        self.read(reading);
        let ahead = difference(leader, reading.wall);
        if ahead.unsigned_abs() <= CLOCKS_AGREE_WITHIN.0 {
            self.ahead = ahead;
        }
    }

    fn read(&mut self, reading: Reading) {
        let Some(before) = self.seen.replace(reading) else {
            self.slewed = reading.steady;
            return;
        };
        let passed = reading.steady.0.saturating_sub(before.steady.0);
        let shown = difference(reading.wall, before.wall);
        let set_by = shown.saturating_sub(i64::try_from(passed).unwrap_or(i64::MAX));
        self.ahead = self.ahead.saturating_sub(set_by);
        let nearer = reading.steady.0.saturating_sub(self.slewed.0) / SLEW;
        self.slewed = Millis(self.slewed.0 + nearer * SLEW);
        let left = i64::try_from(self.ahead.unsigned_abs().saturating_sub(nearer));
        self.ahead = left.unwrap_or(i64::MAX) * self.ahead.signum();
        if self.ahead.unsigned_abs() > CLOCKS_AGREE_WITHIN.0 {
            self.ahead = 0;
        }
    }
}

/// By how many milliseconds the first is later than the second.
#[must_use]
pub fn difference(one: Timestamp, other: Timestamp) -> i64 {
    let later = |a: Timestamp, b: Timestamp| i64::try_from(a.since(b).0).unwrap_or(i64::MAX);
    later(one, other) - later(other, one)
}

/// The cluster's time as a clock.
pub struct ClusterClock {
    own: Arc<dyn Clock>,
    /// The time since the machine booted.
    steady: fn() -> Millis,
    time: Mutex<ClusterTime>,
}

impl ClusterClock {
    /// As the member's own clock shows it, until it hears of a leader.
    #[must_use]
    pub fn new(own: Arc<dyn Clock>, steady: fn() -> Millis) -> Self {
        Self { own, steady, time: Mutex::default() }
    }

    /// Takes the leader's time, as it is at this moment.
    pub fn follow(&self, leader: Timestamp) {
        self.with(|time, reading| time.follow(reading, leader));
    }

    /// One reading after the other: two at once would pass each other.
    fn with<T>(&self, look: impl FnOnce(&mut ClusterTime, Reading) -> T) -> T {
        let mut time = self.time.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = Reading { wall: self.own.now(), steady: (self.steady)() };
        look(&mut time, reading)
    }
}

impl Clock for ClusterClock {
    fn now(&self) -> Timestamp {
        self.with(ClusterTime::now)
    }
}

impl Debug for ClusterClock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterClock").field("time", &self.time).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_000_000_000;

    /// A machine whose clock differs from the true time by so much, `after` so many milliseconds.
    fn reading(after: u64, off: i64) -> Reading {
        let wall = START + off + i64::try_from(after).expect("short");
        let wall = Timestamp(u64::try_from(wall).expect("after 1970"));
        Reading { wall, steady: Millis(7_000 + after) }
    }

    /// What is shown after so long, as milliseconds since the start.
    fn shown(time: &mut ClusterTime, after: u64, off: i64) -> i64 {
        difference(time.now(reading(after, off)), Timestamp(1_000_000_000))
    }

    #[test]
    fn it_is_the_clock_where_nothing_happens() {
        let mut time = ClusterTime::default();
        for after in [0, 1, 1, 999, 60_000, 600_000] {
            assert_eq!(shown(&mut time, after, 17), i64::try_from(after).expect("short") + 17);
        }
    }

    /// A minute lasts 57 seconds at least, and 63 at most.
    #[test]
    fn a_clock_that_is_set_changes_no_interval_by_more_than_a_twentieth() {
        for set_by in [-299_000, -61_000, 1_000, 61_000, 299_000] {
            let mut time = ClusterTime::default();
            shown(&mut time, 0, 0);
            let begun = shown(&mut time, 1_000, set_by);
            assert!((940..=1_060).contains(&begun), "{set_by}: {begun}");
            for second in 2..=61 {
                let now = shown(&mut time, second * 1_000, set_by) - begun;
                let passed = (i64::try_from(second).expect("short") - 1) * 1_000;
                assert!((now - passed).abs() <= passed / 20 + 1, "{set_by}: {now} of {passed}");
            }
        }
    }

    #[test]
    fn it_comes_nearer_to_the_clock_until_it_is_the_clock() {
        for set_by in [-61_000, 61_000] {
            let mut time = ClusterTime::default();
            shown(&mut time, 0, 0);
            for second in 1..=1_219 {
                assert_ne!(
                    shown(&mut time, second * 1_000, set_by) - set_by,
                    1_000 * i64::try_from(second).expect("short")
                );
            }
            assert_eq!(shown(&mut time, 1_221_000, set_by), 1_221_000 + set_by);
        }
    }

    /// However often it is asked.
    #[test]
    fn it_comes_nearer_by_as_much_for_who_asks_each_millisecond() {
        let (mut often, mut seldom) = (ClusterTime::default(), ClusterTime::default());
        for time in [&mut often, &mut seldom] {
            shown(time, 0, 0);
            shown(time, 1, 50_000);
        }
        for after in 2..10_000 {
            shown(&mut often, after, 50_000);
        }
        assert_eq!(shown(&mut often, 10_000, 50_000), shown(&mut seldom, 10_000, 50_000));
    }

    /// What it was before was wrong, or it is now.
    #[test]
    fn a_clock_that_is_set_by_more_than_clocks_differ_is_taken_as_it_is() {
        for set_by in [-3_600_000, 3_600_000] {
            let mut time = ClusterTime::default();
            shown(&mut time, 0, 0);
            assert_eq!(shown(&mut time, 1_000, set_by), 1_000 + set_by);
        }
    }

    /// The time of a leader goes on at a member that follows it, and at its successor.
    #[test]
    fn a_successor_goes_on_with_the_time_of_the_leader() {
        let (mut leader, mut member) = (ClusterTime::default(), ClusterTime::default());
        shown(&mut leader, 0, 0);
        assert_eq!(shown(&mut member, 0, 120_000), 120_000);
        let told = leader.now(reading(1_000, 0));
        member.follow(reading(1_000, 120_000), told);
        assert_eq!(shown(&mut member, 1_000, 120_000), 1_000);
        assert_eq!(shown(&mut member, 61_000, 120_000), 64_000, "a twentieth faster");
    }

    #[test]
    fn a_leader_whose_clock_does_not_agree_is_not_followed() {
        let mut member = ClusterTime::default();
        member.follow(reading(0, 0), Timestamp(1_000_000_000 + 301_000));
        assert_eq!(shown(&mut member, 0, 0), 0);
    }
}
