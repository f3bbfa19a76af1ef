//! `jaco volume backup`

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jaco_backup::Partial;
use jaco_client::Answers;
use jaco_proto::v1::volume_output::Output;
use jaco_proto::v1::{ReadVolumeRequest, VolumeOutput, VolumeStarted};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::Named;
use crate::error::CliError;
use crate::format::quantity::size;
use crate::format::time;
use crate::manifest::disk::STDIN;
use crate::output::{Frame, Show, Stream};
use crate::session::{CommandResult, Session};
use crate::volume::{Facts, Writer};

/// The number of bytes between two updates of the progress line.
const PROGRESS_BYTES: u64 = 4 << 20;

/// Back up what is in a volume
///
/// The file is a tar archive, with owners and modes, and a SHA-256 behind its end: `tar xf` unpacks it, and
/// `jaco volume restore` makes a volume of it again. It holds what is in the volume in plain text; only its owner can
/// read it (0600).
///
/// As long as a running replica may write to the volume, nothing is read: the copy would have files as they were at
/// different times, which databases do not start from. `jaco disable` stops the service, with its `pre_stop` hooks,
/// and keeps its place; --live reads all the same.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco disable shop/db && jaco volume backup shop/data data.tar; jaco enable shop/db
  jaco volume backup shop/media media.tar --live            files that only ever are added
  jaco volume backup shop/data --node n2 - | zstd > data.tar.zst")]
pub(super) struct Args {
    /// DEPLOYMENT/VOLUME
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// The file to write; `-` for stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The node, if several have the volume
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Read it while replicas may write to it
    #[arg(long)]
    live: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let named = Named::parse(&args.volume)?;
    let request = ReadVolumeRequest {
        deployment: named.deployment,
        volume: named.volume,
        node: args.node.unwrap_or_default(),
        in_use: if args.live { "allow" } else { "refuse" }.to_owned(),
    };
    if args.file == Path::new(STDIN) {
        return to_stdout(session, request).await;
    }
    let path = args.file.display().to_string();
    if !args.force && args.file.symlink_metadata().is_ok() {
        let help = "give another file, or --force to replace it when the new backup is complete";
        return Err(CliError::usage(format!("{path} already exists"), help));
    }
    let unwritable = |error: io::Error| CliError::local(format!("cannot write {path}"), error);
    let partial = Partial::create(&args.file).map_err(unwritable)?;
    let shows_progress = session.ui.is_terminal(Stream::Err);
    let mut source = Source::open(session, request).await?;
    let mut drawn = 0;
    let mut draw = |bytes: u64| {
        if shows_progress && bytes >= drawn + PROGRESS_BYTES {
            drawn = bytes;
            // The backup goes on even if the progress cannot be printed.
            session.ui.draw(Stream::Err, &[format!("{} read", size(bytes))]).ok();
        }
    };
    let received = receive(&mut source, partial.out(), &mut draw).await;
    if shows_progress {
        session.ui.draw(Stream::Err, &[]).map_err(CliError::Output)?;
    }
    let written = received.map_err(|failed| failed.error(&path))?;
    partial.keep().map_err(unwritable)?;
    session.done(&Written { path, ..written })
}

async fn to_stdout(session: &mut Session, request: ReadVolumeRequest) -> CommandResult {
    if session.ui.is_terminal(Stream::Out) {
        let help = "give a file, or pipe it: jaco volume backup shop/data - | zstd > …";
        return Err(CliError::usage("an archive would be printed, and stdout is a terminal", help));
    }
    let mut source = Source::open(session, request).await?;
    let received = receive(&mut source, session.ui.results(), &mut |_| {}).await;
    let written = received.map_err(|failed| failed.error("stdout"))?;
    let text = written.text(&session.ui.frame());
    session.ui.note(text.trim_end());
    Ok(jaco_types::code::ExitCode::Converged)
}

/// An archive that comes from a node.
struct Source {
    deployment: String,
    started: VolumeStarted,
    answers: Answers<VolumeOutput>,
}

impl Source {
    async fn open(session: &mut Session, request: ReadVolumeRequest) -> Result<Self, CliError> {
        let deployment = request.deployment.clone();
        let mut answers = session.client()?.read_volume(request).await?;
        match answers.next().await?.and_then(|answer| answer.output) {
            Some(Output::Started(started)) => Ok(Self { deployment, started, answers }),
            Some(Output::Archive(_) | Output::End(_) | Output::Copied(_)) | None => Err(cut()),
        }
    }
}

/// The stream has ended before its end.
fn cut() -> CliError {
    CliError::Refused {
        code: ErrorCode::Unavailable,
        message: "the node has ended the archive before its end".to_owned(),
        help: Some("run it again".to_owned()),
    }
}

/// Why a backup was not completed.
enum Failed {
    Source(CliError),
    Write(io::Error),
}

impl Failed {
    fn error(self, path: &str) -> CliError {
        match self {
            Self::Source(error) => error,
            Self::Write(error) => CliError::local(format!("cannot write {path}"), error),
        }
    }
}

async fn receive<W: Write>(
    source: &mut Source,
    out: W,
    progress: &mut dyn FnMut(u64),
) -> Result<Written, Failed> {
    let mut writer = Writer::new(out);
    loop {
        let answer = source.answers.next().await;
        let answer = answer.map_err(|error| Failed::Source(error.into()))?;
        match answer.and_then(|answer| answer.output) {
            Some(Output::Archive(piece)) => {
                writer.piece(&piece).map_err(Failed::Write)?;
                progress(writer.bytes());
            }
            Some(Output::End(_)) => break,
            Some(Output::Started(_) | Output::Copied(_)) | None => {
                return Err(Failed::Source(cut()));
            }
        }
    }
    let facts = Facts {
        volume: format!("{}/{}", source.deployment, source.started.volume),
        node: source.started.node.clone(),
        taken_at: time::rfc3339(time::now_ms()).unwrap_or_default(),
    };
    let bytes = writer.bytes();
    let sha256 = writer.finish(&facts).map_err(Failed::Write)?;
    Ok(Written { path: STDIN.to_owned(), facts, bytes, sha256 })
}

/// A complete backup.
struct Written {
    path: String,
    facts: Facts,
    bytes: u64,
    sha256: String,
}

impl Show for Written {
    fn json(&self) -> Value {
        json!({
            "path": self.path,
            "volume": self.facts.volume,
            "node": self.facts.node,
            "taken_at": self.facts.taken_at,
            "bytes": self.bytes,
            "sha256": self.sha256,
        })
    }

    fn text(&self, _: &Frame) -> String {
        let Facts { volume, node, .. } = &self.facts;
        format!("{volume} of {node} backed up to {}: {}\n", self.path, size(self.bytes))
    }
}
