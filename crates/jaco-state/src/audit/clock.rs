//! The time that events are aged by: that of entries, but not after one jump of a clock. Each entry carries the time of
//! the node that proposed it, and a node whose clock is months ahead must not empty the log.

use jaco_types::{Millis, Timestamp};

/// How far one entry may be ahead of the time that is believed, and for how long the time of entries has to stay ahead
/// of that until it is believed: a day, in which an operator is paged and sets the clock right. An idle cluster writes
/// nothing for longer than that; its events then stay for a day more.
pub const JUMP_MAX: Millis = Millis::from_secs(24 * 3600);

/// What is believed of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditClock {
    /// The time that events are aged by. Never goes back.
    pub believed: Timestamp,
    /// The first of the entries that were further ahead, without one since that was not.
    pub jumped: Option<Timestamp>,
}

impl AuditClock {
    /// Starts at a time that is believed.
    #[must_use]
    pub const fn at(believed: Timestamp) -> Self {
        Self { believed, jumped: None }
    }

    /// Takes the time of an entry into account, and returns what is believed then.
    pub(super) fn entry(&mut self, now: Timestamp) -> Timestamp {
        if now.0 <= self.believed.0.saturating_add(JUMP_MAX.0) {
            self.believed = self.believed.max(now);
            self.jumped = None;
            return self.believed;
        }
        match self.jumped {
            Some(first) if now.0 >= first.0.saturating_add(JUMP_MAX.0) => *self = Self::at(now),
            // The earliest: clocks that are ahead differ as well.
            Some(first) => self.jumped = Some(first.min(now)),
            None => self.jumped = Some(now),
        }
        self.believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    /// What is believed after entries at these hours.
    fn believed(hours: &[u64]) -> Vec<u64> {
        let mut clock = AuditClock::at(Timestamp(0));
        hours.iter().map(|hour| clock.entry(Timestamp(hour * HOUR)).0 / HOUR).collect()
    }

    /// ST-10: steps of up to a day are believed, backwards or not; a jump once it has lasted a day.
    #[test]
    fn a_jump_is_believed_after_a_day() {
        assert_eq!(believed(&[1, 25, 3, 20, 49]), [1, 25, 25, 25, 49]);
        assert_eq!(believed(&[1, 2_400, 2_423, 2_424, 2_425]), [1, 1, 1, 2_424, 2_425]);
    }

    /// ST-10: one entry with the right time is enough to forget a jump.
    #[test]
    fn a_jump_is_forgotten_with_the_next_right_entry() {
        assert_eq!(believed(&[1, 2_400, 2, 2_430, 3, 2_460]), [1, 1, 2, 2, 3, 3]);
    }

    /// ST-10: a cluster that writes every other day is a jump behind, and no more.
    #[test]
    fn an_idle_cluster_goes_on() {
        assert_eq!(believed(&[1, 49, 97, 145, 193]), [1, 1, 97, 97, 193]);
    }
}
