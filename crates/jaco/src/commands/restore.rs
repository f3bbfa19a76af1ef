//! `jaco restore`

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use jaco_types::ErrorCode;

use super::{Context, Done};
use crate::backup::{Backup, Damage};
use crate::disk::STDIN;
use crate::error::{CliError, count};
use crate::restore::{Differing, Extent, Outcome, Restored, Sending, restore};
use crate::wait::interrupted;
use crate::when;

/// Say again what a backup holds
///
/// Everything is asked of the cluster by ordinary requests, as if people had said it just now, so that all of
/// it is checked again; the cluster stays what it is, with its own nodes, tokens and keys. What is there already
/// and equal is unchanged, so that it can be run again: after a refusal, or once more nodes have joined. What is
/// there and differs stays as it is and is named, unless --replace. The whole file is checked before anything
/// is sent. Nothing is waited for: `jaco status -w` shows what becomes of it.
///
/// What rested rests again, once its deployment is there; it may start before that.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco restore sun.jacobak --dry-run
  jaco restore sun.jacobak
  jaco restore sun.jacobak --only shop --replace     one deployment, as it was
  age -d sun.jacobak.age | jaco restore -")]
pub(crate) struct Args {
    /// The backup; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this deployment, with the configs and secrets that it takes by name; can be given again
    #[arg(long, value_name = "DEPLOYMENT")]
    only: Vec<String>,
    /// Replace what is there and differs
    #[arg(long)]
    replace: bool,
    /// Change nothing: show what would be restored, and what would be refused
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let path = args.file.display().to_string();
    let damaged = |damage| told(&path, damage);
    let backup = Backup::open(source(&args.file).map_err(|error| damaged(error.into()))?);
    let backup = backup.map_err(damaged)?;
    let extent = extent(&backup, args.only)?;
    let taken = when::rfc3339(backup.header.taken_at_ms).unwrap_or_default();
    context.ui.note(&format!("a backup of {}, taken at {taken}", backup.header.cluster_name));
    let differing = if args.replace { Differing::Replace } else { Differing::Keep };
    let sending = if args.dry_run { Sending::Nothing } else { Sending::Store };
    let client = context.client()?;
    let restored = tokio::select! {
        biased;
        restored = restore(client, &backup, extent, differing, sending) => restored,
        () = interrupted() => return Err(CliError::Interrupted { message: again(&path) }),
    };
    let restored = restored.map_err(|failed| failed.told(&path))?;
    let kept = restored.of(Outcome::Skipped);
    context.done(&restored)?;
    if kept > 0 {
        let what = count(kept, "difference");
        context.ui.note(&format!("{what} stayed as in the cluster; --replace restores them, too"));
    }
    refused(&restored)
}

/// What a run that was cut off leaves.
fn again(path: &str) -> String {
    format!("\nWhat was restored stays. `jaco restore {path}` goes on.")
}

fn told(path: &str, damage: Damage) -> CliError {
    match damage {
        Damage::Io(error) => CliError::local(format!("cannot read {path}"), error),
        Damage::Foreign
        | Damage::Newer(_)
        | Damage::NewerPart
        | Damage::Truncated(_)
        | Damage::Altered
        | Damage::Contradiction(_) => CliError::Refused {
            code: ErrorCode::BackupInvalid,
            message: format!("{path} cannot be restored: {damage}"),
            help: None,
        },
    }
}

/// The file; stdin is kept in one without a name, because a backup is read twice.
fn source(path: &Path) -> io::Result<File> {
    if path != Path::new(STDIN) {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file; use `-` for a pipe"));
        }
        return Ok(file);
    }
    let mut file = tempfile::tempfile()?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// What is asked for.
fn extent(backup: &Backup, only: Vec<String>) -> Result<Extent, CliError> {
    if only.is_empty() {
        return Ok(Extent::All);
    }
    let absent: Vec<&str> = only
        .iter()
        .map(String::as_str)
        .filter(|name| backup.deployments().all(|known| known != *name))
        .collect();
    if absent.is_empty() {
        return Ok(Extent::Only(only.into_iter().collect()));
    }
    let known: Vec<&str> = backup.deployments().collect();
    let message = format!("the backup holds no deployment {}", absent.join(" and no "));
    Err(CliError::usage(message, format!("it holds {}", known.join(", "))))
}

/// What the cluster refused decides how the command ends.
fn refused(restored: &Restored) -> Done {
    let because = restored.refusals();
    if because.is_empty() {
        return Ok(jaco_types::code::ExitCode::Converged);
    }
    Err(CliError::Outcome {
        code: ErrorCode::RestoreIncomplete,
        message: format!("{} refused", count(because.len(), "item")),
        because,
        help: vec![
            "take away what the reasons name, then run it again: the rest stays as it is"
                .to_owned(),
            "more: jaco help error restore_incomplete".to_owned(),
        ],
    })
}
