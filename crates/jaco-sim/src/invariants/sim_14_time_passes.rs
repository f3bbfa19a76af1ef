//! SIM-14: time passes: no loop goes round and round within one moment.

use super::{Invariant, InvariantViolation, Verdict};

/// How many events can happen within a millisecond before something must be wrong.
const AT_ONCE_MAX: u32 = 20_000;

#[derive(Debug, Default)]
pub(super) struct TimePasses;

impl Invariant for TimePasses {
    fn at_once(&mut self, events: u32, next: &str) -> Verdict {
        match events > AT_ONCE_MAX {
            true => Err(InvariantViolation::TimeStandsStill { events, next: next.to_owned() }),
            false => Ok(()),
        }
    }
}
