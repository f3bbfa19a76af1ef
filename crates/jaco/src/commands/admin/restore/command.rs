//! `jaco restore`

use std::path::PathBuf;

use jaco_types::ErrorCode;

use super::check;
use super::open::{damage_error, extent, open};
use crate::commands::admin::keys::{IdentityArgs, unlock};
use crate::error::CliError;
use crate::format::quantity::count;
use crate::format::time;
use crate::restore::{Differing, Mapping, Outcome, PolicyWanted, Restored, restore};
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
/// --check is a drill, of one backup or many: it verifies checksum and structure, decodes every object as a restore
/// does, and shows what would come back, as of when, what the cluster would change or refuse, and what is in no backup.
/// It changes nothing. The exit code is 0 only if all of it could be restored: an encrypted backup without its
/// --identity is unchecked. Secrets are shown by name.
///
/// The policy and its grants are shown and stay as they are in this cluster, unless --policy is given: they say which
/// containers may reach what of the nodes.
///
/// Targets of notifications are paused when they are restored: `jaco notify resume` has them sent events again.
///
/// Where the nodes of this cluster have other names, or offer their storage under other names, --host and --volume-class
/// map those of the backup; --check and --dry-run show what is mapped. Constraints that name hosts stay as they are.
///
/// Disabled allocations are disabled again after their deployment is restored; replicas may start before
/// that.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco restore sun.jacobak --dry-run
  jaco restore sun.jacobak
  jaco restore sun.jacobak --policy                  with what its deployments may reach of the nodes
  jaco restore sun.jacobak --only shop --replace     one deployment
  jaco restore sun.jacobak --volume-class ssd=nvme --host old1=new1
  jaco restore --identity key.txt sun.jacobak.age    one that was encrypted with --recipient
  jaco restore --check /backups/*.jacobak            would each of them come back, here?
  jaco restore --check --offline sun.jacobak         is the file whole? Asks no cluster")]
pub(crate) struct Args {
    /// The backup file; `-` for stdin; with --check also several
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Verify backups and show what would come back; change nothing
    #[arg(long)]
    check: bool,
    /// Check the files alone, without a cluster
    #[arg(long, requires = "check")]
    offline: bool,
    #[command(flatten)]
    identity: IdentityArgs,
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
    /// Give volumes of class OLD of a jaco.yaml the class NEW; can be repeated
    #[arg(long, value_name = "OLD=NEW")]
    volume_class: Vec<String>,
    /// Have what is said of host OLD be of host NEW: hosts of a jaco.yaml, labels, cordons and disabled allocations; can be
    /// repeated
    #[arg(long, value_name = "OLD=NEW")]
    host: Vec<String>,
    /// Show what would be restored or refused; change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let differing = if args.replace { Differing::Replace } else { Differing::Keep };
    let policy = if args.policy { PolicyWanted::Yes } else { PolicyWanted::No };
    let mapping = Mapping::parse(&args.volume_class, &args.host)?;
    if args.check {
        let against = if args.offline { check::Against::Nothing } else { check::Against::Cluster };
        let identities = args.identity.read()?;
        let drill =
            check::Drill { only: args.only, differing, policy, mapping, against, identities };
        return check::run(session, &args.files, drill).await;
    }
    let [file] = &args.files[..] else {
        let help = "give one file, or --check to verify several";
        return Err(CliError::usage("one backup is restored at a time", help));
    };
    let path = file.display().to_string();
    let identities = args.identity.read()?;
    let backup =
        open(file, unlock(identities.as_ref())).map_err(|damage| damage_error(&path, damage))?;
    let extent = extent(&backup, &args.only)?;
    for line in mapping.lines(&backup, &extent)? {
        session.ui.note(&line);
    }
    let taken = time::rfc3339(backup.header.taken_at_ms).unwrap_or_default();
    session.ui.note(&format!("backup of {}, taken at {taken}", backup.header.cluster_name));
    let mode = if args.dry_run { UploadMode::DryRun } else { UploadMode::Store };
    let client = session.client()?;
    let restored = tokio::select! {
        biased;
        restored = restore(client, &backup, extent, differing, policy, mode, &mapping) => restored,
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
    let paused = restored.number_of_paused();
    if paused > 0 && mode == UploadMode::Store {
        let targets = count(paused, "notification target");
        session.ui.note(&format!("paused: {targets}; jaco notify resume NAME sends to it again"));
    }
    result(&restored)
}

/// What an interrupted restore leaves behind.
fn interrupted_message(path: &str) -> String {
    format!("\nRestored objects stay. `jaco restore {path}` continues.")
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
