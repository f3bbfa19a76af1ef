//! `jaco backup --to DIR`: a backup among others, of which the retention keeps some.

use std::num::NonZeroU32;
use std::path::Path;

use jaco_backup::{Folder, Identities, Pruned, Retention, Summary};

use super::receive::{Wanted, open, receive_file};
use super::written::Written;
use crate::commands::admin::keys::unlock;
use crate::error::CliError;
use crate::format::quantity::count;
use crate::session::{CommandResult, Session};

/// How many backups of the cluster stay in the folder. A backup stays if one of the rules keeps it.
#[derive(Debug, clap::Args)]
pub(super) struct KeepArgs {
    /// Keep the newest N backups of this cluster in DIR and remove the others
    #[arg(long, value_name = "N", requires = "to", conflicts_with = "file")]
    keep: Option<NonZeroU32>,
    /// Keep the newest backup of each of the last N days that have one, in UTC
    #[arg(long, value_name = "N", requires = "to", conflicts_with = "file")]
    keep_daily: Option<NonZeroU32>,
    /// The same for weeks, which begin on Monday
    #[arg(long, value_name = "N", requires = "to", conflicts_with = "file")]
    keep_weekly: Option<NonZeroU32>,
    /// The same for months
    #[arg(long, value_name = "N", requires = "to", conflicts_with = "file")]
    keep_monthly: Option<NonZeroU32>,
}

impl KeepArgs {
    fn retention(&self) -> Retention {
        let number = |rule: Option<NonZeroU32>| {
            rule.map_or(0, |number| usize::try_from(number.get()).unwrap_or(usize::MAX))
        };
        Retention {
            newest: number(self.keep),
            days: number(self.keep_daily),
            weeks: number(self.keep_weekly),
            months: number(self.keep_monthly),
        }
    }
}

/// Writes a backup to the folder, then removes what the retention does not keep.
pub(super) async fn run(
    session: &mut Session,
    path: &Path,
    wanted: Wanted<'_>,
    keep: &KeepArgs,
    identities: Option<Identities>,
) -> CommandResult {
    let shown = path.display().to_string();
    let unwritable = |error| CliError::local(format!("cannot write to {shown}"), error);
    // The folder first: the cluster records each backup that it sends in the audit log.
    let folder = Folder::lock(path).map_err(unwritable)?;
    let partial = folder.partial().map_err(unwritable)?;
    let mut source = open(session, wanted.offline).await?;
    let summary = receive_file(session, &mut source, &partial, wanted.recipients, &shown).await?;
    let kept = folder.keep(partial, &summary);
    let file = kept.map_err(|damage| {
        CliError::local(format!("cannot complete the backup in {shown}"), damage)
    })?;
    if let Some(note) = source.note() {
        session.ui.note(&note);
    }
    let file = file.display().to_string();
    let pruned = prune(session, &folder, &summary, keep.retention(), identities.as_ref());
    let pruned = pruned.map_err(|error| {
        CliError::local(format!("{file} is complete, and older backups cannot be removed"), error)
    })?;
    session.done(&Written { path: file, summary, pruned })
}

/// Removes what the retention does not keep, and says what could not be restored.
fn prune(
    session: &mut Session,
    folder: &Folder,
    summary: &Summary,
    retention: Retention,
    identities: Option<&Identities>,
) -> std::io::Result<Option<Pruned>> {
    if !retention.has_rules() {
        return Ok(None);
    }
    session.ui.note("verifying the backups in the folder");
    let pruned = folder.prune(summary, &retention, unlock(identities))?;
    for (path, reason) in &pruned.damaged {
        let path = path.display();
        session.ui.note(&format!(
            "warning: {path} cannot be restored: {reason}; it does not count as a backup to keep, and is not removed"
        ));
    }
    for path in &pruned.unchecked {
        let path = path.display();
        session.ui.note(&format!(
            "{path} is encrypted and was not checked: it counts by what its header says; --identity checks it"
        ));
    }
    let (kept, removed) =
        (count(pruned.kept.len() + pruned.unchecked.len(), "backup"), pruned.removed.len());
    session.ui.note(&format!("kept {kept} of this cluster, removed {removed}"));
    Ok(Some(pruned))
}
