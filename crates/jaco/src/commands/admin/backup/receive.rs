//! Receives the parts of a backup, from a cluster or from the data of a stopped node, and shows the progress.

use std::io::{self, Write};
use std::path::Path;

use jaco_backup::{Partial, Recipients, Summary, Writer};
use jaco_proto::v1::BackupRequest;
use jaco_proto::v1::backup_part::Kind;

use crate::backup::{Source, SourceError, Stopped};
use crate::error::CliError;
use crate::output::Stream;
use crate::session::Session;

/// The number of bytes between two updates of the progress line.
const PROGRESS_BYTES: u64 = 1 << 20;

/// What is wrong with a backup without its first part.
const CUT: &str = "the cluster sent an incomplete backup";

/// What is written: where it comes from, and whom it is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The data of a stopped node, in place of a cluster.
    pub(super) offline: Option<&'a Path>,
    /// Without any it is not encrypted.
    pub(super) recipients: Option<&'a Recipients>,
}

/// Starts a backup of the cluster, or of this data directory.
///
/// # Errors
/// If the cluster refuses it, or `jacod` cannot be started.
pub(super) async fn open(
    session: &mut Session,
    offline: Option<&Path>,
) -> Result<Source, CliError> {
    let Some(data_dir) = offline else {
        return Ok(Source::Cluster(session.client()?.backup(BackupRequest {}).await?));
    };
    let stopped = Stopped::open(data_dir);
    let stopped = stopped.map_err(|error| CliError::local("cannot start `jacod`", error))?;
    Ok(Source::Offline(stopped))
}

/// Receives a whole backup into an incomplete file; `path` is what messages call it.
///
/// # Errors
/// If the source ends early, or the file cannot be written.
pub(super) async fn receive_file(
    session: &mut Session,
    source: &mut Source,
    partial: &Partial,
    recipients: Option<&Recipients>,
    path: &str,
) -> Result<Summary, CliError> {
    let shows_progress = session.ui.is_terminal(Stream::Err);
    let mut drawn = 0;
    let mut draw = |bytes: u64| {
        if shows_progress && bytes >= drawn + PROGRESS_BYTES {
            drawn = bytes;
            // The backup goes on even if the progress cannot be printed.
            session.ui.draw(Stream::Err, &[format!("{} MiB written", bytes >> 20)]).ok();
        }
    };
    let received = receive(source, partial.out(), recipients, &mut draw).await;
    if shows_progress {
        session.ui.draw(Stream::Err, &[]).map_err(CliError::Output)?;
    }
    received.map_err(|failed| failed.error(path))
}

/// Why a backup was not completed.
pub(super) enum Failed {
    Source(SourceError),
    Write(io::Error),
}

impl Failed {
    pub(super) fn error(self, path: &str) -> CliError {
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

/// Writes all parts, encrypted for these recipients if there are any.
///
/// # Errors
/// If the source ends early, or `out` cannot be written to.
pub(super) async fn receive<W: Write>(
    source: &mut Source,
    out: W,
    recipients: Option<&Recipients>,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary, Failed> {
    // What an encrypted file says of itself is in the first part.
    let first = source.next().await.map_err(Failed::Source)?.unwrap_or_default();
    let writer = match (recipients, &first.kind) {
        (Some(recipients), Some(Kind::Header(header))) => {
            Writer::encrypted(out, recipients, header)
        }
        (Some(_), _) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, CUT)),
        (None, _) => Writer::new(out),
    };
    let mut writer = writer.map_err(Failed::Write)?;
    if first.kind.is_some() {
        writer.part(&first).map_err(Failed::Write)?;
    }
    while let Some(part) = source.next().await.map_err(Failed::Source)? {
        writer.part(&part).map_err(Failed::Write)?;
        progress(writer.bytes());
    }
    writer.finish().map_err(Failed::Write)
}
