//! Notices that the machine's clock was set: the wall clock and a steady one no longer go together.

use jaco_types::{Millis, Timestamp};

/// How far the two may part between two looks: more than a slewed clock does (half a millisecond a
/// second), less than anything that is decided by it.
const TOLERANCE: Millis = Millis(1000);

/// Compares the wall clock with a steady one, whose zero means nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockWatch {
    last: Option<(Timestamp, Millis)>,
}

/// Whether the wall clock was set since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockStep {
    /// It went on as the steady clock did.
    None,
    /// It was set, forward or back: what was heard before cannot be dated any more.
    Set,
}

impl ClockWatch {
    /// Looks at both clocks.
    pub fn look(&mut self, wall: Timestamp, steady: Millis) -> ClockStep {
        let before = self.last.replace((wall, steady));
        let Some((wall_before, steady_before)) = before else { return ClockStep::None };
        let expected =
            Timestamp(wall_before.0.saturating_add(steady.0.saturating_sub(steady_before.0)));
        let parted = wall.since(expected).max(expected.since(wall));
        if parted > TOLERANCE { ClockStep::Set } else { ClockStep::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-NODE-1: a clock that is set says nothing about who was silent.
    #[test]
    fn a_step_is_told_from_the_passing_of_time() {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.look(Timestamp(100_000), Millis(0)), ClockStep::None);
        assert_eq!(watch.look(Timestamp(130_000), Millis(30_000)), ClockStep::None);
        assert_eq!(watch.look(Timestamp(130_900), Millis(30_000)), ClockStep::None, "slewed");
        assert_eq!(watch.look(Timestamp(191_000), Millis(31_000)), ClockStep::Set, "forward");
        assert_eq!(watch.look(Timestamp(192_000), Millis(32_000)), ClockStep::None);
        assert_eq!(watch.look(Timestamp(2_000), Millis(33_000)), ClockStep::Set, "back");
    }
}
