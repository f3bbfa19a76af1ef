//! Schedules of backups, and their runs (R-CLI-6, ST-32): a due time begins at most one run, whoever proposes it, and a run
//! goes on until a backup was taken, whoever leads.

use jaco_types::{BackupScheduleName, ErrorCode, Rejection};

use super::audit::Audit;
use super::notify::bounded;
use crate::audit::{AuditKind, JUMP_MAX};
use crate::backup::{
    BackupFailing, BackupRun, BackupSchedule, BackupTaken, BackupTarget, EVERY_MAX, EVERY_MIN,
    RECIPIENT_BYTES_MAX, RECIPIENTS_MAX, SCHEDULES_MAX, TARGET_BYTES_MAX,
};
use crate::command::{
    AttemptEnd, BackupBegin, BackupReport, BackupScheduleRemove, BackupScheduleStore, Entry,
    Existing, Outcome,
};
use crate::state::ClusterState;

/// After how many failures in a row, a quarter of an hour after the first, an operator is needed.
const ATTEMPTS_UNTIL_CRITICAL: u32 = 5;

/// Adds a schedule, or replaces it.
pub(super) fn store(
    state: &mut ClusterState,
    entry: &Entry,
    command: &BackupScheduleStore,
    audit: &mut Audit<'_>,
) -> Outcome {
    if let Some(rejection) = refusal(state, command) {
        return Outcome::Rejected(rejection);
    }
    let BackupScheduleStore { name, times, target, credentials, keep, recipients, existing: _ } =
        command;
    let schedule = BackupSchedule {
        id: entry.index,
        times: times.clone(),
        target: target.clone(),
        credentials: credentials.clone(),
        keep: *keep,
        recipients: recipients.clone(),
        stored_at: entry.at,
        by: entry.by.clone(),
        seen: entry.at,
        run: None,
        last: state.backups.get(name).and_then(|before| before.last.clone()),
        failing: None,
    };
    audit.event(
        AuditKind::BackupScheduleStored,
        [
            ("schedule", name.to_string()),
            ("times", times.to_string()),
            ("target", target.to_string()),
            ("keep", keep.to_string()),
            ("recipients", recipients.len().to_string()),
        ],
    );
    state.backups.insert(name.clone(), schedule);
    Outcome::Done
}

fn refusal(state: &ClusterState, command: &BackupScheduleStore) -> Option<Rejection> {
    let BackupScheduleStore { name, times, target, credentials, keep: _, recipients, existing } =
        command;
    let invalid = |message| Some(Rejection::new(ErrorCode::InvalidRequest, message));
    let too_large = |message| Some(Rejection::new(ErrorCode::TooLarge, message));
    if !times.fits() {
        return invalid(format!(
            "the time between two backups is {EVERY_MIN} at least and {EVERY_MAX} at most"
        ));
    }
    if !target.fits() {
        return invalid(format!(
            "a target is an absolute path or a bucket with its endpoint and region, each of {TARGET_BYTES_MAX} bytes at most"
        ));
    }
    let is_bucket = matches!(target, BackupTarget::Bucket(_));
    if is_bucket != credentials.as_ref().is_some_and(|credentials| credentials.fits()) {
        return invalid("a bucket has a key, and a folder has none".to_owned());
    }
    let is_long = |recipient: &String| recipient.len() > RECIPIENT_BYTES_MAX;
    if recipients.len() > RECIPIENTS_MAX || recipients.iter().any(is_long) {
        return too_large(format!(
            "a backup has {RECIPIENTS_MAX} recipients at most, of {RECIPIENT_BYTES_MAX} bytes each"
        ));
    }
    let is_there = state.backups.contains(name);
    if is_there && *existing == Existing::Refuse {
        return invalid(format!("there is a backup schedule {name} already: replace or remove it"));
    }
    if !is_there && state.backups.len() >= SCHEDULES_MAX {
        return too_large(format!(
            "there are {SCHEDULES_MAX} backup schedules, and these are the most: remove one that is not used any more"
        ));
    }
    let mut others = state.backups.iter().filter(|(other, _)| *other != name);
    let (other, _) = others.find(|(_, other)| other.target.is_same_place(target))?;
    invalid(format!(
        "the schedule {other} writes to {target} already, and each would remove backups of the other: give another folder or prefix"
    ))
}

/// Removes a schedule. Without one there is nothing to do.
pub(super) fn remove(
    state: &mut ClusterState,
    command: &BackupScheduleRemove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let BackupScheduleRemove { name } = command;
    if let Some(schedule) = state.backups.remove(name) {
        let facts = [("schedule", name.to_string()), ("target", schedule.target.to_string())];
        audit.event(AuditKind::BackupScheduleRemoved, facts);
    }
    Outcome::Done
}

/// Law ST-32: a due time that is not newer than the last one that was dealt with is refused, and so is one while a run
/// goes on. What a user asks for changes nothing while a run goes on, unless that waits after a failed attempt.
pub(super) fn begin(
    state: &mut ClusterState,
    entry: &Entry,
    command: &BackupBegin,
    audit: &mut Audit<'_>,
) -> Outcome {
    let BackupBegin { name, id, due } = command;
    let Some(schedule) = state.backups.get_mut(name).filter(|schedule| schedule.id == *id) else {
        return stale(format!("there is no such backup schedule {name} any more"));
    };
    match due {
        None if schedule.run.is_some() && schedule.failing.is_none() => return Outcome::Done,
        None => {}
        Some(_) if schedule.run.is_some() => {
            return stale(format!("a backup of the schedule {name} is being taken"));
        }
        Some(due) if *due > entry.at => {
            return stale(format!("the backup of {name} at {} ms is not due yet", due.0));
        }
        // A clock that was ahead by more than a day was wrong: once it is set back, due times count anew.
        Some(due) if *due <= schedule.seen && schedule.seen.since(entry.at) <= JUMP_MAX => {
            return stale(format!("what was due of {name} at {} ms was dealt with", due.0));
        }
        Some(due) => schedule.seen = *due,
    }
    schedule.run = Some(BackupRun { id: entry.index, begun_at: entry.at, due: *due });
    // Secrets leave the cluster: who has them do so is on record before the first one.
    let facts = [
        ("schedule", name.to_string()),
        ("target", schedule.target.to_string()),
        ("raft_index", entry.index.to_string()),
    ];
    audit.event(AuditKind::BackupTaken, facts);
    Outcome::Done
}

/// Records what came of an attempt. What is about a run that ended, or of a schedule that was replaced, is skipped.
pub(super) fn report(
    state: &mut ClusterState,
    entry: &Entry,
    command: &BackupReport,
    audit: &mut Audit<'_>,
) -> Outcome {
    let BackupReport { name, id, run, end } = command;
    let is_meant = |schedule: &&mut BackupSchedule| {
        schedule.id == *id && schedule.run.is_some_and(|open| open.id == *run)
    };
    let Some(schedule) = state.backups.get_mut(name).filter(is_meant) else {
        return Outcome::Done;
    };
    match end {
        AttemptEnd::Taken(taken) if taken.index < *run || taken.index > entry.index => {
            stale(format!("a backup as of {} is none of the run {run} of {name}", taken.index))
        }
        AttemptEnd::Taken(taken) => {
            succeed(schedule, entry, name, taken, audit);
            Outcome::Done
        }
        AttemptEnd::Failed { reason } => {
            fail(schedule, entry, name, reason, audit);
            Outcome::Done
        }
    }
}

fn succeed(
    schedule: &mut BackupSchedule,
    entry: &Entry,
    name: &BackupScheduleName,
    taken: &BackupTaken,
    audit: &mut Audit<'_>,
) {
    let BackupTaken { at, index, bytes, name: file, node } = taken;
    let taken = BackupTaken {
        at: (*at).min(entry.at),
        index: *index,
        bytes: *bytes,
        name: bounded(file),
        node: bounded(node),
    };
    audit.event(
        AuditKind::BackupStored,
        [
            ("schedule", name.to_string()),
            ("target", schedule.target.to_string()),
            ("name", taken.name.clone()),
            ("bytes", bytes.to_string()),
            ("raft_index", index.to_string()),
            ("node", taken.node.clone()),
        ],
    );
    // What was due while earlier attempts failed is dealt with by this one.
    schedule.seen = schedule.seen.max(taken.at);
    (schedule.run, schedule.failing) = (None, None);
    schedule.last = Some(taken);
}

/// The first failure in a row is an event, and so is the one after which it looks as if it stayed so.
fn fail(
    schedule: &mut BackupSchedule,
    entry: &Entry,
    name: &BackupScheduleName,
    reason: &str,
    audit: &mut Audit<'_>,
) {
    let reason = bounded(reason);
    let before = schedule.failing.take();
    let attempts = before.as_ref().map_or(0, |before| before.attempts).saturating_add(1);
    if [1, ATTEMPTS_UNTIL_CRITICAL].contains(&attempts) {
        audit.event(
            AuditKind::BackupFailed,
            [
                ("schedule", name.to_string()),
                ("target", schedule.target.to_string()),
                ("attempts", attempts.to_string()),
                ("reason", reason.clone()),
            ],
        );
    }
    schedule.failing = Some(BackupFailing {
        since: before.as_ref().map_or(entry.at, |before| before.since),
        at: entry.at,
        attempts,
        reason,
    });
}

fn stale(message: String) -> Outcome {
    Outcome::Rejected(Rejection::new(ErrorCode::StalePlan, message))
}
