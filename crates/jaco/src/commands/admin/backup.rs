//! `jaco backup`

use std::io::Write;
use std::path::{Path, PathBuf};

use jaco_proto::v1::BackupRequest;
use serde_json::{Value, json};

use crate::backup::{Source, SourceError, Stopped, Summary, Writer, finish};
use crate::error::CliError;
use crate::format::table::Table;
use crate::format::time;
use crate::manifest::disk::STDIN;
use crate::output::{Frame, Show, Stream};
use crate::partial::Partial;
use crate::session::{CommandResult, Session};

/// The number of bytes between two updates of the progress line.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Back up the desired state
///
/// The file holds the current revision of every deployment with its files and secrets, stored configs
/// and secrets, registry credentials, default constraints, labels and cordons of nodes, disabled
/// allocations and the audit retention, all as of one raft index. It does not hold volumes, images,
/// placements, earlier revisions, tokens, certificates, keys or audit events.
///
/// The file holds all secrets in plain text. Only its owner can read it (0600); encrypt it before it is
/// copied elsewhere.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco backup sun.jacobak
  jaco backup - | age -r age1… > sun.jacobak.age      never in plain text on a disk
  jaco backup --force /backups/sun.jacobak            replace the last one when this one is complete
  jaco backup --offline /var/lib/jaco sun.jacobak     what this node holds, without a quorum")]
pub(crate) struct Args {
    /// The file to write; `-` for stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Read the data directory of a node whose daemon is stopped, instead of asking a cluster
    ///
    /// For what a survivor holds when the quorum is lost. It needs the rights of the daemon, and the program `jacod`.
    #[arg(long, value_name = "DATA_DIR")]
    offline: Option<PathBuf>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    if args.file == Path::new(STDIN) {
        return to_stdout(session, args.offline.as_deref()).await;
    }
    let path = args.file.display().to_string();
    if !args.force && args.file.symlink_metadata().is_ok() {
        let help = "give another file, or --force to replace it when the new backup is complete";
        return Err(CliError::usage(format!("{path} already exists"), help));
    }
    let unwritable = |error| CliError::local(format!("cannot write {path}"), error);
    // The file first: the cluster records each backup that it sends in the audit log.
    let partial = Partial::create(&args.file).map_err(unwritable)?;
    let mut source = open(session, args.offline.as_deref()).await?;
    let shows_progress = session.ui.is_terminal(Stream::Err);
    let mut drawn = 0;
    let mut draw = |bytes: u64| {
        if shows_progress && bytes >= drawn + PROGRESS_BYTES {
            drawn = bytes;
            // The backup goes on even if the progress cannot be printed.
            session.ui.draw(Stream::Err, &[format!("{} MiB written", bytes >> 20)]).ok();
        }
    };
    let received = receive(&mut source, partial.out(), &mut draw).await;
    if shows_progress {
        session.ui.draw(Stream::Err, &[]).map_err(CliError::Output)?;
    }
    let summary = received.map_err(|failed| failed.error(&path))?;
    let finished = finish(partial);
    finished.map_err(|damage| CliError::local(format!("cannot complete {path}"), damage))?;
    if let Some(note) = source.note() {
        session.ui.note(&note);
    }
    session.done(&Written { path, summary })
}

async fn open(session: &mut Session, offline: Option<&Path>) -> Result<Source, CliError> {
    let Some(data_dir) = offline else {
        return Ok(Source::Cluster(session.client()?.backup(BackupRequest {}).await?));
    };
    let stopped = Stopped::open(data_dir);
    let stopped = stopped.map_err(|error| CliError::local("cannot start `jacod`", error))?;
    Ok(Source::Offline(stopped))
}

/// Writes the backup to stdout, and the summary to stderr.
async fn to_stdout(session: &mut Session, offline: Option<&Path>) -> CommandResult {
    if session.ui.is_terminal(Stream::Out) {
        let message = "a backup holds secrets in plain text, and stdout is a terminal";
        return Err(CliError::usage(message, "give a file, or pipe it: jaco backup - | age -r …"));
    }
    let mut source = open(session, offline).await?;
    let received = receive(&mut source, session.ui.results(), &mut |_| {}).await;
    let summary = received.map_err(|failed| failed.error("stdout"))?;
    let written = Written { path: STDIN.to_owned(), summary };
    let text = written.text(&session.ui.frame());
    session.ui.note(text.trim_end());
    if let Some(note) = source.note() {
        session.ui.note(&note);
    }
    Ok(jaco_types::code::ExitCode::Converged)
}

/// Why a backup was not completed.
enum Failed {
    Source(SourceError),
    Write(std::io::Error),
}

impl Failed {
    fn error(self, path: &str) -> CliError {
        match self {
            Self::Source(SourceError::Offline(said)) => {
                CliError::local("no backup was written of the data of the stopped node", said)
            }
            Self::Source(SourceError::Client(source)) => CliError::ClientDuring {
                source,
                help: "no backup was written; run it again".to_owned(),
            },
            Self::Write(error) => CliError::local(format!("cannot write {path}"), error),
        }
    }
}

async fn receive<W: Write>(
    source: &mut Source,
    out: W,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Failed> {
    let mut writer = Writer::new(out).map_err(Failed::Write)?;
    while let Some(part) = source.next().await.map_err(Failed::Source)? {
        writer.part(&part).map_err(Failed::Write)?;
        progress(writer.bytes());
    }
    writer.finish().map_err(Failed::Write)
}

/// A complete backup.
struct Written {
    path: String,
    summary: Summary,
}

impl Show for Written {
    fn json(&self) -> Value {
        let Summary { header, end, bytes } = &self.summary;
        json!({
            "path": self.path,
            "bytes": bytes,
            "cluster": header.cluster_name,
            "cluster_id": header.cluster_id,
            "raft_index": header.raft_index,
            "taken_at": time::rfc3339(header.taken_at_ms),
            "deployments": end.deployments,
            "named": end.named,
            "contents": end.contents,
        })
    }

    fn text(&self, _: &Frame) -> String {
        let Summary { header, end, bytes } = &self.summary;
        let columns = ["FILE", "BYTES", "CLUSTER", "INDEX", "DEPLOYMENTS", "NAMED", "CONTENTS"];
        let mut table = Table::new(&columns);
        table.row([
            self.path.clone(),
            bytes.to_string(),
            header.cluster_name.clone(),
            header.raft_index.to_string(),
            end.deployments.to_string(),
            end.named.to_string(),
            end.contents.to_string(),
        ]);
        table.render()
    }
}
