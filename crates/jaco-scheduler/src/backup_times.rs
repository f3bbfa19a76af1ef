//! When backups of a schedule are due (R-CLI-6). Must never read a clock.

use jaco_state::audit::JUMP_MAX;
use jaco_state::backup::{BackupSchedule, BackupTimes};
use jaco_types::{Millis, Timestamp};

use crate::schedule::Calendar;

/// The newest due time that has come and was not dealt with: those before it are made up for by the same backup. After a
/// clock was set back by more than a day, due times count anew.
#[must_use]
pub fn backup_due(schedule: &BackupSchedule, now: Timestamp) -> Option<Timestamp> {
    let BackupSchedule { times, stored_at, seen, .. } = schedule;
    let is_of_a_wrong_clock = seen.since(now) > JUMP_MAX;
    let seen = if is_of_a_wrong_clock { Timestamp(0) } else { *seen };
    match times {
        BackupTimes::Every(every) => {
            let passed = now.since(*stored_at).0.checked_div(every.0).unwrap_or(0);
            let due = stored_at.after(Millis(passed * every.0));
            (passed > 0 && due > seen).then_some(due)
        }
        BackupTimes::Cron { cron, time_zone } => {
            Calendar::by(cron, time_zone)?.between(seen, now).map(|dues| dues.last)
        }
    }
}

/// When the next backup is due, after now. `None` if never, or this version does not know the time zone.
#[must_use]
pub fn backup_due_next(schedule: &BackupSchedule, now: Timestamp) -> Option<Timestamp> {
    match &schedule.times {
        BackupTimes::Every(every) => {
            let passed = now.since(schedule.stored_at).0.checked_div(every.0)?;
            Some(schedule.stored_at.after(Millis((passed + 1).saturating_mul(every.0))))
        }
        BackupTimes::Cron { cron, time_zone } => Calendar::by(cron, time_zone)?.next_after(now),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jaco_state::backup::{BackupKeep, BackupTarget};
    use jaco_types::spec::{Cron, ZoneName};
    use jaco_types::{Identity, StateIndex};
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000;

    fn schedule(times: BackupTimes, stored_at: u64, seen: u64) -> BackupSchedule {
        BackupSchedule {
            id: StateIndex(1),
            times,
            target: BackupTarget::Folder("/backups".into()),
            credentials: None,
            keep: BackupKeep::default(),
            recipients: BTreeSet::new(),
            stored_at: Timestamp(stored_at),
            by: Identity::Scheduler,
            seen: Timestamp(seen),
            run: None,
            last: None,
            failing: None,
        }
    }

    fn cron(text: &str) -> BackupTimes {
        let (cron, time_zone) = (Cron::parse(text).unwrap(), ZoneName::new("UTC").unwrap());
        BackupTimes::Cron { cron, time_zone }
    }

    /// R-CLI-6: of what was missed, the newest is made up for; nothing is due before its time, nor twice.
    #[test]
    fn the_newest_due_time_is_made_up() {
        let every = |stored, seen| schedule(BackupTimes::Every(Millis(HOUR)), stored, seen);
        let due = |of: &BackupSchedule, now| backup_due(of, Timestamp(now)).map(|due| due.0);
        assert_eq!(due(&every(5, 5), HOUR + 4), None);
        assert_eq!(due(&every(5, 5), HOUR + 5), Some(HOUR + 5));
        assert_eq!(due(&every(5, HOUR + 5), 2 * HOUR), None);
        assert_eq!(due(&every(5, HOUR + 5), 9 * HOUR), Some(8 * HOUR + 5));
        assert_eq!(
            backup_due_next(&every(5, 5), Timestamp(9 * HOUR)),
            Some(Timestamp(9 * HOUR + 5))
        );
        let nightly = |seen| schedule(cron("30 3 * * *"), 0, seen);
        assert_eq!(due(&nightly(0), 3 * HOUR), None);
        let third = 2 * 24 * HOUR + 3 * HOUR + HOUR / 2;
        assert_eq!(due(&nightly(0), 3 * 24 * HOUR), Some(third));
        assert_eq!(due(&nightly(third), 3 * 24 * HOUR), None);
        let far = 400 * 24 * HOUR;
        assert_eq!(due(&nightly(far), 3 * 24 * HOUR), Some(third), "the clock was a year ahead");
    }

    proptest! {
        /// R-CLI-6: once it is dealt with, nothing is due until the next time that was said.
        #[test]
        fn nothing_is_due_before_what_is_said_to_be_next(
            stored in 0..10 * HOUR, every in 60_000..50 * HOUR, later in 0..500 * HOUR, is_cron: bool,
        ) {
            let times = if is_cron { cron("15 */5 * * *") } else { BackupTimes::Every(Millis(every)) };
            let mut of = schedule(times, stored, stored);
            let now = Timestamp(stored + later);
            if let Some(due) = backup_due(&of, now) {
                prop_assert!(due > of.seen && due <= now);
                of.seen = due;
            }
            prop_assert_eq!(backup_due(&of, now), None);
            let next = backup_due_next(&of, now).unwrap();
            prop_assert!(next > now);
            prop_assert_eq!(backup_due(&of, Timestamp(next.0 - 1)), None);
            prop_assert_eq!(backup_due(&of, next), Some(next));
        }
    }
}
