//! A law about schedules of backups (ST-32).

use super::{Law, Violations};
use crate::backup::{BackupSchedule, BackupTarget, REPORT_BYTES_MAX, SCHEDULES_MAX};
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let count = state.backups.len();
    if count > SCHEDULES_MAX {
        found.add(Law::BackupSchedules, format!("there are {count} backup schedules"));
    }
    for (name, schedule) in state.backups.iter() {
        for problem in problems(state, schedule) {
            found.add(Law::BackupSchedules, format!("the schedule {name} {problem}"));
        }
        let mut others = state.backups.iter().filter(|(other, _)| *other > name);
        if let Some((other, _)) =
            others.find(|(_, other)| other.target.is_same_place(&schedule.target))
        {
            let subject = format!("the schedules {name} and {other} write to the same place");
            found.add(Law::BackupSchedules, subject);
        }
    }
}

fn problems(state: &ClusterState, schedule: &BackupSchedule) -> Vec<&'static str> {
    let BackupSchedule { target, credentials, times, seen, run, last, failing, .. } = schedule;
    let mut problems = Vec::new();
    if !times.fits() || !target.fits() {
        problems.push("is out of bounds");
    }
    if credentials.is_some() != matches!(target, BackupTarget::Bucket(_)) {
        problems.push("has a key where it needs none, or none where it needs one");
    }
    let run_id = run.map(|run| run.id);
    let newest = [Some(schedule.id), run_id, last.as_ref().map(|last| last.index)];
    if newest.into_iter().flatten().any(|index| index > state.index) {
        problems.push("is ahead of the log");
    }
    if run.and_then(|run| run.due).is_some_and(|due| due > *seen) {
        problems.push("takes a backup that counts as due still");
    }
    if failing.is_some() && run.is_none() {
        problems.push("fails, and nothing is tried");
    }
    let reason = failing.as_ref().map_or(0, |failing| failing.reason.len());
    let name = last.as_ref().map_or(0, |last| last.name.len().max(last.node.len()));
    if reason.max(name) > REPORT_BYTES_MAX {
        problems.push("has a report that is too long");
    }
    problems
}
