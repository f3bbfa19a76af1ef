//! `jaco restore`

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use jaco_types::ErrorCode;

use crate::backup::{Backup, Damage};
use crate::error::CliError;
use crate::format::quantity::count;
use crate::format::time;
use crate::manifest::disk::STDIN;
use crate::restore::{Differing, Extent, Outcome, PolicyWanted, Restored, restore};
use crate::session::wait::interrupted;
use crate::session::{CommandResult, Session};
use crate::upload::UploadMode;

/// Restore a backup
///
/// Sends ordinary requests to the cluster, which checks all of them again; the cluster keeps its own
/// nodes, tokens and keys. Objects that are equal stay unchanged, so a restore can be repeated: after a
/// refusal, or when more nodes have joined. Objects that differ stay as they are and are listed, unless
/// --replace is given. The whole file is verified before anything is sent. The command does not wait for
/// replicas: `jaco status -w` shows them.
///
/// The policy and its grants are shown and stay as they are in this cluster, unless --policy is given: they say which
/// containers may reach what of the nodes.
///
/// Disabled allocations are disabled again after their deployment is restored; replicas may start before
/// that.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco restore sun.jacobak --dry-run
  jaco restore sun.jacobak
  jaco restore sun.jacobak --policy                  with what its deployments may reach of the nodes
  jaco restore sun.jacobak --only shop --replace     one deployment
  age -d sun.jacobak.age | jaco restore -")]
pub(crate) struct Args {
    /// The backup file; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this deployment, with the configs and secrets that it refers to; can be repeated
    #[arg(long, value_name = "DEPLOYMENT")]
    only: Vec<String>,
    /// Replace objects that differ
    #[arg(long)]
    replace: bool,
    /// Restore what deployments may reach of the nodes as well: the grants, and what happens without one. Grants of this
    /// cluster stay
    #[arg(long, conflicts_with = "only")]
    policy: bool,
    /// Show what would be restored or refused; change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let path = args.file.display().to_string();
    let damaged = |damage| damage_error(&path, damage);
    let backup = Backup::open(source(&args.file).map_err(|error| damaged(error.into()))?);
    let backup = backup.map_err(damaged)?;
    let extent = extent(&backup, args.only)?;
    let taken = time::rfc3339(backup.header.taken_at_ms).unwrap_or_default();
    session.ui.note(&format!("backup of {}, taken at {taken}", backup.header.cluster_name));
    let differing = if args.replace { Differing::Replace } else { Differing::Keep };
    let policy = if args.policy { PolicyWanted::Yes } else { PolicyWanted::No };
    let mode = if args.dry_run { UploadMode::DryRun } else { UploadMode::Store };
    let client = session.client()?;
    let restored = tokio::select! {
        biased;
        restored = restore(client, &backup, extent, differing, policy, mode) => restored,
        () = interrupted() => return Err(CliError::Interrupted { message: interrupted_message(&path) }),
    };
    let restored = restored.map_err(|failed| failed.error(&path))?;
    session.done(&restored)?;
    let policy = restored.number_of_policy_skipped();
    let others = restored.number_of(Outcome::Skipped) - policy;
    if others > 0 {
        let objects = count(others, "object");
        let note =
            format!("not changed because they differ: {objects}; --replace restores them too");
        session.ui.note(&note);
    }
    if policy > 0 {
        let rules = count(policy, "object");
        session.ui.note(&format!("not changed of the policy: {rules}; --policy restores them too"));
    }
    result(&restored)
}

/// What an interrupted restore leaves behind.
fn interrupted_message(path: &str) -> String {
    format!("\nRestored objects stay. `jaco restore {path}` continues.")
}

fn damage_error(path: &str, damage: Damage) -> CliError {
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

/// Opens the file. Stdin is copied to a temporary file, because a backup is read twice.
pub(super) fn source(path: &Path) -> io::Result<File> {
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

/// The part of the backup to restore.
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
    let message = format!("the backup has no deployment {}", absent.join(" and no "));
    Err(CliError::usage(message, format!("its deployments are {}", known.join(", "))))
}

/// The exit code; refused objects are an error.
fn result(restored: &Restored) -> CommandResult {
    let because = restored.refusals();
    if because.is_empty() {
        return Ok(jaco_types::code::ExitCode::Converged);
    }
    Err(CliError::Outcome {
        code: ErrorCode::RestoreIncomplete,
        message: format!("{} refused", count(because.len(), "object")),
        because,
        help: vec![
            "fix the reasons and run it again: restored objects stay as they are".to_owned(),
            "more: jaco help error restore_incomplete".to_owned(),
        ],
    })
}
