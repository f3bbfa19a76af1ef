//! `jaco backup`

use std::io::Write;
use std::path::{Path, PathBuf};

use jaco_client::Answers;
use jaco_proto::v1::{BackupPart, BackupRequest};
use serde_json::{Value, json};

use super::{Context, Done};
use crate::backup::{Taken, Writer, store};
use crate::disk::STDIN;
use crate::error::CliError;
use crate::table::Table;
use crate::ui::{Frame, Show, Stream};
use crate::when;

/// How often the picture is drawn: after so many bytes more.
const DRAWN_EVERY_BYTES: u64 = 1 << 20;

/// Keep in a file what people said, to restore it in another cluster
///
/// The wanted revision of every deployment with its files and secrets, configs and secrets that the cluster
/// keeps, credentials of registries, the cluster's constraints, labels and cordons of nodes, what is
/// disabled, and how long audit events are kept: all of one moment, from whichever node answers. Not in it:
/// data of volumes, images, where replicas run, earlier revisions, tokens, certificates and keys, audit
/// events.
///
/// The file holds all secrets in clear. It is its owner's alone (0600); encrypt it before it goes elsewhere.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco backup sun.jacobak
  jaco backup - | age -r age1… > sun.jacobak.age      never in clear on a disk
  jaco backup --force /backups/sun.jacobak            in place of the last one, once this one is whole")]
pub(crate) struct Args {
    /// Where to write it; `-` for stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    if args.file == Path::new(STDIN) {
        return to_stdout(context).await;
    }
    let path = args.file.display().to_string();
    if !args.force && args.file.symlink_metadata().is_ok() {
        let help = "name another file, or --force to replace it once the new backup is whole";
        return Err(CliError::usage(format!("{path} is there already"), help));
    }
    let unwritten = |error| CliError::local(format!("cannot write {path}"), error);
    let client = context.client()?;
    // First a place to put it: the cluster notes each backup that it gives.
    let partial = store(&args.file).map_err(unwritten)?;
    let mut answers = client.backup(BackupRequest {}).await?;
    let draws = context.ui.is_terminal(Stream::Err);
    let mut drawn = 0;
    let mut draw = |bytes: u64| {
        if draws && bytes >= drawn + DRAWN_EVERY_BYTES {
            drawn = bytes;
            // The backup goes on where nobody can watch it.
            context.ui.draw(Stream::Err, &[format!("{} MiB written", bytes >> 20)]).ok();
        }
    };
    let received = receive(&mut answers, partial.out(), &mut draw).await;
    if draws {
        context.ui.draw(Stream::Err, &[]).map_err(CliError::Output)?;
    }
    let taken = received.map_err(|failed| failed.told(&path))?;
    let kept = partial.keep();
    kept.map_err(|damage| CliError::local(format!("{path} could not be written whole"), damage))?;
    context.done(&Kept { path, taken })
}

/// Parts as they come; what they came to is said on stderr, because stdout has the backup.
async fn to_stdout(context: &mut Context) -> Done {
    if context.ui.is_terminal(Stream::Out) {
        let message = "a backup holds secrets in clear, and stdout is a terminal";
        return Err(CliError::usage(message, "name a file, or pipe it: jaco backup - | age -r …"));
    }
    let mut answers = context.client()?.backup(BackupRequest {}).await?;
    let received = receive(&mut answers, context.ui.results(), &mut |_| {}).await;
    let taken = received.map_err(|failed| failed.told("stdout"))?;
    let kept = Kept { path: STDIN.to_owned(), taken };
    let text = kept.text(&context.ui.frame());
    context.ui.note(text.trim_end());
    Ok(jaco_types::code::ExitCode::Converged)
}

/// Why a backup did not come to its end.
enum Failed {
    Client(jaco_client::ClientError),
    Write(std::io::Error),
}

impl Failed {
    fn told(self, path: &str) -> CliError {
        match self {
            Self::Client(source) => {
                CliError::ClientDuring { source, help: "nothing was kept: run it again".to_owned() }
            }
            Self::Write(error) => CliError::local(format!("cannot write {path}"), error),
        }
    }
}

async fn receive<W: Write>(
    answers: &mut Answers<BackupPart>,
    out: W,
    progress: &mut dyn FnMut(u64),
) -> Result<Taken, Failed> {
    let mut writer = Writer::new(out).map_err(Failed::Write)?;
    while let Some(part) = answers.next().await.map_err(Failed::Client)? {
        writer.part(&part).map_err(Failed::Write)?;
        progress(writer.bytes());
    }
    writer.finish().map_err(Failed::Write)
}

/// A backup that is whole.
struct Kept {
    path: String,
    taken: Taken,
}

impl Show for Kept {
    fn json(&self) -> Value {
        let Taken { header, end, bytes } = &self.taken;
        json!({
            "path": self.path,
            "bytes": bytes,
            "cluster": header.cluster_name,
            "cluster_id": header.cluster_id,
            "raft_index": header.raft_index,
            "taken_at": when::rfc3339(header.taken_at_ms),
            "deployments": end.deployments,
            "named": end.named,
            "contents": end.contents,
        })
    }

    fn text(&self, _: &Frame) -> String {
        let Taken { header, end, bytes } = &self.taken;
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
