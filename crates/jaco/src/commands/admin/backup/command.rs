//! `jaco backup`

use std::path::{Path, PathBuf};

use jaco_backup::{Partial, finish};

use super::receive::{Wanted, open, receive, receive_file};
use super::schedule;
use super::to_folder::{self, KeepArgs};
use super::written::Written;
use crate::commands::admin::keys::{IdentityArgs, RecipientArgs};
use crate::error::CliError;
use crate::manifest::disk::STDIN;
use crate::output::{Show, Stream};
use crate::session::{CommandResult, Session};

/// Back up the desired state
///
/// The file holds the current revision of every deployment with its files and secrets, stored configs
/// and secrets, registry credentials, default constraints, labels and cordons of nodes, disabled
/// allocations and the audit retention, all as of one raft index. It does not hold volumes, images,
/// placements, earlier revisions, tokens, certificates, keys or audit events.
///
/// The file holds all secrets in plain text, unless recipients are given: then it is encrypted for them (age), and only
/// their identities open it, of `jaco restore --identity` or of `age -d`. Only its owner can read the file (0600).
///
/// With --to the file is named CLUSTER-YYYYMMDDTHHMMSSZ-INDEX.jacobak, in UTC. The options --keep… then remove older
/// backups of the same cluster that none of them keeps: after the new one is complete, verified and durable. Only files
/// with such a name and this cluster's id are removed. A file that could not be restored does not count as one to keep,
/// is named on stderr, and is not removed. An encrypted one counts by what its header says, unless --identity opens it:
/// then it is verified as the others are.
///
/// `jaco backup schedule` has the cluster do that by itself, to a path or an object store.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_long_help = "Examples:
  jaco backup sun.jacobak
  jaco backup --recipient age1… sun.jacobak.age       never in plain text on a disk
  jaco backup --recipient age1… - | ssh store 'cat > sun.jacobak.age'
  jaco backup --force /backups/sun.jacobak            replace the last one when this one is complete
  jaco backup --to /backups --keep 7 --keep-monthly 12   for cron or a systemd timer
  jaco backup schedule add nightly /mnt/backups --cron '30 3 * * *' --keep 7   taken by the cluster
  jaco backup --offline /var/lib/jaco sun.jacobak     what this node holds, without a quorum")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Subcommand>,
    /// The file to write; `-` for stdout
    #[arg(value_name = "FILE", required_unless_present = "to")]
    file: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Write to this folder, which has to exist, under a name with cluster, time and index
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "force"])]
    to: Option<PathBuf>,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    recipients: RecipientArgs,
    /// Read the data directory of a node whose daemon is stopped, instead of asking a cluster
    ///
    /// For what a survivor holds when the quorum is lost. It needs the rights of the daemon, and the program `jacod`.
    #[arg(long, value_name = "DATA_DIR")]
    offline: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Manage schedules of backups, which the leader takes
    ///
    /// A schedule has times, a destination and rules for which backups stay. A backup counts once it was written and read
    /// back; only then are older ones removed. A time that was missed is made up for once. What fails is tried again, after
    /// a minute first and an hour at most, and is an event of the audit log, which notifications can tell of.
    #[command(after_long_help = "Examples:
  jaco backup schedule add nightly /mnt/backups --cron '30 3 * * *' --keep-daily 7
  jaco backup schedule run nightly
  jaco backup schedule ls
  jaco backup schedule rm nightly")]
    Schedule {
        #[command(subcommand)]
        action: schedule::Action,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    if let Some(Subcommand::Schedule { action }) = args.command {
        return schedule::dispatch(session, action).await;
    }
    let (offline, recipients) = (args.offline.as_deref(), args.recipients.read()?);
    let recipients = recipients.as_ref();
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    match (&args.to, &args.file) {
        (Some(folder), _) => {
            let wanted = Wanted { offline, recipients };
            to_folder::run(session, folder, wanted, &args.keep, args.identity.read()?).await
        }
        (None, Some(file)) if file == Path::new(STDIN) => {
            to_stdout(session, Wanted { offline, recipients }).await
        }
        (None, Some(file)) => {
            to_file(session, file, Wanted { offline, recipients }, existing).await
        }
        (None, None) => Err(CliError::usage(
            "nothing says where to write the backup",
            "give a file, or a folder: jaco backup --to DIR",
        )),
    }
}

/// What to do with a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    Refuse,
    Replace,
}

async fn to_file(
    session: &mut Session,
    file: &Path,
    wanted: Wanted<'_>,
    existing: Existing,
) -> CommandResult {
    let path = file.display().to_string();
    if existing == Existing::Refuse && file.symlink_metadata().is_ok() {
        let help = "give another file, or --force to replace it when the new backup is complete";
        return Err(CliError::usage(format!("{path} already exists"), help));
    }
    let unwritable = |error| CliError::local(format!("cannot write {path}"), error);
    // The file first: the cluster records each backup that it sends in the audit log.
    let partial = Partial::create(file).map_err(unwritable)?;
    let mut source = open(session, wanted.offline).await?;
    let summary = receive_file(session, &mut source, &partial, wanted.recipients, &path).await?;
    let finished = finish(partial, &summary);
    finished.map_err(|damage| CliError::local(format!("cannot complete {path}"), damage))?;
    if let Some(note) = source.note() {
        session.ui.note(&note);
    }
    session.done(&Written { path, summary, pruned: None })
}

/// Writes the backup to stdout, and the summary to stderr.
async fn to_stdout(session: &mut Session, wanted: Wanted<'_>) -> CommandResult {
    if wanted.recipients.is_none() && session.ui.is_terminal(Stream::Out) {
        let message = "a backup holds secrets in plain text, and stdout is a terminal";
        return Err(CliError::usage(
            message,
            "give a file, or encrypt it: jaco backup --recipient age1… - > FILE",
        ));
    }
    let mut source = open(session, wanted.offline).await?;
    let received = receive(&mut source, session.ui.results(), wanted.recipients, &mut |_| {}).await;
    let summary = received.map_err(|failed| failed.error("stdout"))?;
    let written = Written { path: STDIN.to_owned(), summary, pruned: None };
    let text = written.text(&session.ui.frame());
    session.ui.note(text.trim_end());
    if let Some(note) = source.note() {
        session.ui.note(&note);
    }
    Ok(jaco_types::code::ExitCode::Converged)
}
