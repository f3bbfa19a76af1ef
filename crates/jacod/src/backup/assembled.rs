//! The parts of a state, written to a file as `jaco backup` writes them: encrypted for the recipients of the schedule if it
//! has any. Blocks while a disk does.

use std::io::Write;

use jaco_backup::{Recipient, Recipients, Summary, Writer};
use jaco_proto::v1::backup_part::Kind;
use jaco_server::{Member, backup_parts};
use jaco_state::backup::BackupTaken;
use jaco_store::Store;
use jaco_types::{StateIndex, Timestamp};

use super::Attempt;

/// Writes a backup of what is committed by now.
///
/// # Errors
/// A sentence that says why, in which `path` is what the output is called.
pub(super) fn assemble(
    member: &Member,
    attempt: &Attempt,
    out: impl Write,
    path: &str,
) -> Result<Summary, String> {
    let unwritable = |error| format!("cannot write to {path}: {error}");
    let recipients = recipients(attempt)?;
    let state = member.store.snapshot();
    let parts = backup_parts(&state, &member.cluster_key, member.clock.now());
    let mut parts = parts.map_err(|rejection| rejection.message)?;
    let mut writer = None;
    let mut out = Some(out);
    for part in &mut parts {
        attempt.ended.check()?;
        let part = part.map_err(|rejection| rejection.message)?;
        if let Some(out) = out.take() {
            writer = Some(
                match (&recipients, &part.kind) {
                    (Some(recipients), Some(Kind::Header(header))) => {
                        Writer::encrypted(out, recipients, header)
                    }
                    (Some(_), _) => return Err("the state has no header".to_owned()),
                    (None, _) => Writer::new(out),
                }
                .map_err(unwritable)?,
            );
        }
        if let Some(writer) = &mut writer {
            writer.part(&part).map_err(unwritable)?;
        }
    }
    let writer = writer.ok_or_else(|| "the state has no parts".to_owned())?;
    writer.finish().map_err(unwritable)
}

/// Whom the schedule is for. One that is none any more was stored by another version.
fn recipients(attempt: &Attempt) -> Result<Option<Recipients>, String> {
    let recipients = &attempt.schedule.recipients;
    if recipients.is_empty() {
        return Ok(None);
    }
    let parsed: Result<Vec<Recipient>, _> =
        recipients.iter().map(|text| Recipient::parse(text)).collect();
    let all = parsed.and_then(Recipients::new).map_err(|error| error.to_string())?;
    Ok(Some(all))
}

/// What is reported of a backup.
pub(super) fn taken(
    member: &Member,
    (at_ms, raft_index): (i64, u64),
    bytes: u64,
    name: String,
) -> BackupTaken {
    BackupTaken {
        at: Timestamp(u64::try_from(at_ms).unwrap_or_default()),
        index: StateIndex(raft_index),
        bytes,
        name,
        node: member.hostname.to_string(),
    }
}
