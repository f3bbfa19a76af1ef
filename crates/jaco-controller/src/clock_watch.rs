//! Notices what makes earlier heartbeats worthless as evidence: the machine's clock was set, or the process
//! did not run for a while.

use jaco_types::{Millis, Timestamp};

/// How far the two clocks may part between two looks: more than a slewed clock does (half a millisecond a
/// second), less than anything that is decided by it.
const TOLERANCE: Millis = Millis(1000);

/// How often the clocks are looked at.
pub const LOOK_EVERY: Millis = Millis(1000);

/// Two looks that are further apart than this had no process between them that could receive anything: a
/// frozen machine, a stopped process, a host without processor time. More than a loaded machine delays a
/// timer, far less than the silence after which a node counts as down.
const STALLED_AFTER: Millis = Millis(4000);

/// Compares the wall clock with a steady one, whose zero means nothing. To be looked at every
/// [`LOOK_EVERY`], and before anything is decided by the time since a heartbeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockWatch {
    last: Option<(Timestamp, Millis)>,
}

/// What happened since the last look. After anything but [`ClockStep::None`] a node's silence counts anew
/// from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockStep {
    /// Time went by as expected.
    None,
    /// The wall clock was set, forward or back: what was heard before cannot be dated any more.
    Set,
    /// The process did not run: nobody can tell who was silent meanwhile.
    Stalled,
}

impl ClockWatch {
    /// Looks at both clocks.
    pub fn look(&mut self, wall: Timestamp, steady: Millis) -> ClockStep {
        let before = self.last.replace((wall, steady));
        let Some((wall_before, steady_before)) = before else { return ClockStep::None };
        let passed = Millis(steady.0.saturating_sub(steady_before.0));
        let expected = wall_before.after(passed);
        let parted = wall.since(expected).max(expected.since(wall));
        if parted > TOLERANCE {
            ClockStep::Set
        } else if passed > STALLED_AFTER {
            ClockStep::Stalled
        } else {
            ClockStep::None
        }
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
        assert_eq!(watch.look(Timestamp(101_000), Millis(1_000)), ClockStep::None);
        assert_eq!(watch.look(Timestamp(102_900), Millis(2_000)), ClockStep::None, "slewed");
        assert_eq!(watch.look(Timestamp(164_000), Millis(3_000)), ClockStep::Set, "forward");
        assert_eq!(watch.look(Timestamp(165_000), Millis(4_000)), ClockStep::None);
        assert_eq!(watch.look(Timestamp(2_000), Millis(5_000)), ClockStep::Set, "back");
    }

    /// R-NODE-1: time in which the process did not run counts as no node's silence, whether the steady clock went on
    /// meanwhile or stood still.
    #[test]
    fn time_without_looks_is_noticed() {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.look(Timestamp(100_000), Millis(0)), ClockStep::None);
        assert_eq!(
            watch.look(Timestamp(104_000), Millis(4_000)),
            ClockStep::None,
            "a busy machine"
        );
        assert_eq!(watch.look(Timestamp(124_000), Millis(24_000)), ClockStep::Stalled);
        assert_eq!(watch.look(Timestamp(125_000), Millis(25_000)), ClockStep::None);
        assert_eq!(watch.look(Timestamp(145_000), Millis(26_000)), ClockStep::Set, "stood still");
    }
}
