//! What shows that an instance is good: being up, and having been up for the watch time.

use jaco_types::spec::UpdatePolicy;
use jaco_types::{Millis, Timestamp};

use super::goal::ServiceRole;
use super::slot::SlotDraft;

/// What a good instance of a service has to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proof {
    role: ServiceRole,
    /// What a rollback asks instead of what the instance's own spec does.
    monitor_back: Option<Millis>,
}

/// Whether the current instance of a slot has proven to be good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proven {
    Yes,
    /// It is not up.
    No,
    /// It is up, and not for long enough until then.
    NotBefore(Timestamp),
}

/// Node clocks that are further ahead than this say nothing about how long an instance has been up:
/// its watch time would not end for as long.
const CLOCK_AHEAD_MAX: Millis = Millis::from_secs(60);

impl Proof {
    pub(super) fn new(role: ServiceRole, monitor_back: Option<Millis>) -> Self {
        Self { role, monitor_back }
    }

    /// Whether the current instance of a slot is up, and has been for its watch time: its `monitor`,
    /// or [`UpdatePolicy::DEFAULT_MONITOR`]. One that takes over from an instance of the same revision
    /// runs what was proven elsewhere: it is not watched, unless it follows a failure or has a `monitor`.
    pub(crate) fn of(self, slot: &SlotDraft<'_>, now: Timestamp) -> Proven {
        let current = &slot.current;
        let is_up = current.is_running() || slot.has_completed(self.role);
        let is_up = if is_up { Proven::Yes } else { Proven::No };
        let Some(observed) = current.observed.filter(|_| current.is_running()) else {
            return is_up;
        };
        let is_move = slot.retiring.as_ref().is_some_and(|old| old.revision == current.revision);
        let watch_time = match self.monitor(slot) {
            Some(monitor) => monitor,
            None if is_move && slot.restarts.consecutive == 0 => Millis(0),
            None => UpdatePolicy::DEFAULT_MONITOR,
        };
        let proven_at = observed.since.after(watch_time);
        let latest = now.after(watch_time).after(CLOCK_AHEAD_MAX);
        match watch_time.0 > 0 && now < proven_at && proven_at <= latest {
            true => Proven::NotBefore(proven_at),
            false => Proven::Yes,
        }
    }

    /// The watch time that users wrote, if they did.
    pub(crate) fn monitor(self, slot: &SlotDraft<'_>) -> Option<Millis> {
        self.monitor_back.or(slot.current.spec.and_then(|spec| spec.update.monitor))
    }
}
