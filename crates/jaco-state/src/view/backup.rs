//! When a run of a schedule of backups is tried.

use jaco_types::{Millis, Timestamp};

use crate::backup::{BackupFailing, BackupSchedule};

/// The pause after the first failure in a row.
const PAUSE_MIN: Millis = Millis(60 * 1000);

/// The longest pause. What is to be tried later than that was said by a clock that was set back since.
pub const BACKUP_PAUSE_MAX: Millis = Millis(60 * 60 * 1000);

/// When the run that goes on is tried next; `None` if there is none. The pause after a failure doubles from a minute to an
/// hour; what a user asked for since does not wait.
#[must_use]
pub fn backup_tried_at(schedule: &BackupSchedule) -> Option<Timestamp> {
    let run = schedule.run?;
    Some(match &schedule.failing {
        Some(failing) if failing.at > run.begun_at => failing.at.after(pause(failing)),
        Some(_) | None => run.begun_at,
    })
}

fn pause(BackupFailing { attempts, .. }: &BackupFailing) -> Millis {
    let doublings = attempts.saturating_sub(1).min(16);
    Millis(PAUSE_MIN.0 << doublings).min(BACKUP_PAUSE_MAX)
}
