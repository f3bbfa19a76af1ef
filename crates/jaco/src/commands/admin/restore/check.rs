//! `jaco restore --check`: would these backups come back? Sends dry runs only.

use std::path::PathBuf;

use jaco_backup::{Backup, Damage, Extent, Identities, examine};
use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;

use super::checked::{Checked, Report, Tried, Verified};
use super::open::{extent, open};
use crate::commands::admin::keys::unlock;
use crate::error::CliError;
use crate::format::quantity::count;
use crate::restore::{Differing, Mapping, PolicyWanted, RestoreError, restore};
use crate::session::wait::interrupted;
use crate::session::{CommandResult, Session};
use crate::upload::UploadMode;

/// The restore that is tried.
pub(super) struct Drill {
    /// The selected deployments; all if there are none.
    pub(super) only: Vec<String>,
    pub(super) differing: Differing,
    pub(super) policy: PolicyWanted,
    pub(super) mapping: Mapping,
    pub(super) against: Against,
    pub(super) identities: Option<Identities>,
}

/// What is asked besides the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Against {
    /// What the cluster would change or refuse.
    Cluster,
    Nothing,
}

pub(super) async fn run(
    session: &mut Session,
    files: &[PathBuf],
    mut drill: Drill,
) -> CommandResult {
    let mut report = Report::default();
    for file in files {
        let path = file.display().to_string();
        session.ui.note(&format!("checking {path}"));
        let result = match open(file, unlock(drill.identities.as_ref())) {
            Ok(backup) => check(session, &backup, &drill).await?,
            Err(damage) => Err(damage),
        };
        if let Ok(Verified { here: Tried::Failed(_), .. }) = &result {
            // A cluster that does not answer is not asked for each of the next files.
            drill.against = Against::Nothing;
        }
        report.files.push(Checked { path, result });
    }
    session.done(&report)?;
    verdict(&report)?;
    match report.failed() {
        None => Ok(ExitCode::Converged),
        Some(source) => Err(CliError::ClientDuring {
            source,
            help: "the files are undamaged; what the cluster would refuse is not known. --offline checks the files alone"
                .to_owned(),
        }),
    }
}

/// Decodes an undamaged backup and asks the cluster what a restore would do.
async fn check(
    session: &mut Session,
    backup: &Backup,
    drill: &Drill,
) -> Result<Result<Verified, Damage>, CliError> {
    let extent = extent(backup, &drill.only)?;
    let examined = match examine(backup, &extent) {
        Ok(examined) => examined,
        Err(damage) => return Ok(Err(damage)),
    };
    for line in drill.mapping.lines(backup, &extent)? {
        session.ui.note(&line);
    }
    let here = match drill.against {
        Against::Nothing => Ok(Tried::NotAsked),
        Against::Cluster => dry_run(session, backup, extent, drill).await?,
    };
    let header = backup.header.clone();
    Ok(here.map(|here| Verified { header, examined, here }))
}

async fn dry_run(
    session: &mut Session,
    backup: &Backup,
    extent: Extent,
    drill: &Drill,
) -> Result<Result<Tried, Damage>, CliError> {
    let (client, mode) = (session.client()?, UploadMode::DryRun);
    let restored = tokio::select! {
        biased;
        restored = restore(client, backup, extent, drill.differing, drill.policy, mode, &drill.mapping) => restored,
        () = interrupted() => {
            return Err(CliError::Interrupted { message: "\nNothing was changed.".to_owned() });
        }
    };
    Ok(match restored {
        Ok(restored) => Ok(Tried::Answered(restored)),
        Err(RestoreError::Client(error)) => Ok(Tried::Failed(error)),
        Err(RestoreError::Backup(damage)) => Err(damage),
    })
}

/// An error if one of the files could not be restored.
fn verdict(report: &Report) -> Result<(), CliError> {
    let faults: Vec<(ErrorCode, String)> = report.files.iter().flat_map(Checked::faults).collect();
    if faults.is_empty() {
        return unchecked(report);
    }
    let is_damage = |(code, _): &(ErrorCode, String)| *code == ErrorCode::BackupInvalid;
    let code = match faults.iter().any(is_damage) {
        true => ErrorCode::BackupInvalid,
        false => ErrorCode::RestoreIncomplete,
    };
    let failing = report.files.iter().filter(|file| !file.faults().is_empty()).count();
    let all = count(report.files.len(), "backup");
    Err(CliError::Outcome {
        code,
        message: format!("{failing} of {all} could not be restored completely"),
        because: faults.into_iter().map(|(_, line)| line).collect(),
        help: vec![
            "nothing was changed; check an older backup, or take a new one: jaco backup".to_owned(),
            format!("more: jaco help error {code}"),
        ],
    })
}

/// An error if one of the files could not be looked into. It is not said to be damaged, and not to be restorable.
fn unchecked(report: &Report) -> Result<(), CliError> {
    let unchecked = report.files.iter().filter(|file| file.is_unchecked()).count();
    if unchecked == 0 {
        return Ok(());
    }
    let all = count(report.files.len(), "backup");
    Err(CliError::usage(
        format!("{unchecked} of {all} encrypted and unchecked"),
        "give the key that opens them: --identity FILE",
    ))
}
