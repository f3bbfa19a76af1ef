//! Which schedule is next: the run that waits longest, or else a due time. Pure.

use jaco_scheduler::backup_times::backup_due;
use jaco_state::ClusterState;
use jaco_state::backup::BackupSchedule;
use jaco_state::view::{BACKUP_PAUSE_MAX, backup_tried_at};
use jaco_types::{BackupScheduleName, StateIndex, Timestamp};

/// What the leader does now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A backup has become due.
    Due { name: BackupScheduleName, id: StateIndex, due: Timestamp },
    /// A run is to be tried.
    Run { name: BackupScheduleName, schedule: Box<BackupSchedule>, run: StateIndex },
    /// Nothing.
    Nothing,
}

/// What is done now. A due time is said before a run is tried, so that what is due is on record while one takes long.
pub(super) fn next(state: &ClusterState, now: Timestamp) -> Next {
    for (name, schedule) in state.backups.iter().filter(|(_, schedule)| schedule.run.is_none()) {
        if let Some(due) = backup_due(schedule, now) {
            return Next::Due { name: name.clone(), id: schedule.id, due };
        }
    }
    let tried = state.backups.iter().filter_map(|(name, schedule)| {
        let at = backup_tried_at(schedule)?;
        let is_due = at <= now || at.since(now) > BACKUP_PAUSE_MAX;
        is_due.then_some((at, name, schedule, schedule.run?.id))
    });
    match tried.min_by_key(|(at, ..)| *at) {
        Some((_, name, schedule, run)) => {
            Next::Run { name: name.clone(), schedule: Box::new(schedule.clone()), run }
        }
        None => Next::Nothing,
    }
}
