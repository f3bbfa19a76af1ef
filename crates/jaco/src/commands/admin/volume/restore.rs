//! `jaco volume restore`

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jaco_client::{Taken, VolumeInputs};
use jaco_proto::v1::WriteVolumeStart;
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::{Named, draw};
use crate::commands::admin::restore::source;
use crate::error::CliError;
use crate::format::quantity::size;
use crate::image::on_thread;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::volume::{Facts, FileError, plain_archive, verify};

/// Bytes of a piece.
const PIECE_BYTES: usize = 512 << 10;

/// How often progress is drawn.
const LOOK: Duration = Duration::from_millis(150);

/// Restore what is in a volume
///
/// The volume has exactly what is in the file afterwards, with owners and modes. The whole file is verified before
/// anything is sent. One that the node has already is replaced with --replace only, and only while no container
/// mounts it: `jaco disable` its services before. A restore that breaks off leaves no volume.
///
/// With --plain the file is a tar archive of another program, such as `docker cp shop_db_1:/data/. -`. It has no
/// checksum; that it ends as an archive does is all that can be verified.
///
/// It is a volume of one node. Replicas with data stay on their node, so restore it there: `jaco status` says where
/// they are.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco disable shop/db && jaco volume restore shop/data data.tar --replace && jaco enable shop/db
  jaco volume restore shop/data data.tar --plain --replace     data.tar is of `docker cp` or `tar`
  zstd -dc data.tar.zst | jaco volume restore shop/data --node n2 -")]
pub(super) struct Args {
    /// DEPLOYMENT/VOLUME
    #[arg(value_name = "VOLUME")]
    volume: String,
    /// The file of `jaco volume backup`; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The node, unless only one has the volume
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Replace what is in the volume
    #[arg(long)]
    replace: bool,
    /// The file is a tar archive of another program
    #[arg(long)]
    plain: bool,
}

pub(super) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let named = Named::parse(&args.volume)?;
    let path = args.file.display().to_string();
    let kind = if args.plain { Kind::Plain } else { Kind::Backup };
    let archive = on_thread(move || Archive::open(source(&args.file)?, kind)).await?;
    let archive = archive.map_err(|error| damaged(&path, error))?;
    if let Some(Facts { volume, node, taken_at }) = &archive.facts {
        session.ui.note(&format!("{volume} of {node}, backed up at {taken_at}"));
    }
    let start = WriteVolumeStart {
        deployment: named.deployment,
        volume: named.volume,
        node: args.node.unwrap_or_default(),
        existing: if args.replace { "replace" } else { "refuse" }.to_owned(),
        from: String::new(),
    };
    let (mut write, inputs, started) = session.client()?.write_volume(start).await?;
    let (bytes, sent) = (archive.bytes, Arc::new(AtomicU64::new(0)));
    let shared = Arc::clone(&sent);
    let sending = on_thread(move || send(&inputs, archive, &shared));
    let mut sending = std::pin::pin!(sending);
    let mut read = None;
    let written = loop {
        tokio::select! {
            written = write.done() => break written,
            done = &mut sending, if read.is_none() => read = Some(done?),
            () = tokio::time::sleep(LOOK) => {
                let done = sent.load(Ordering::Relaxed);
                draw(session, &[format!("{} of {} sent", size(done), size(bytes))]);
            }
        }
    };
    draw(session, &[]);
    if let Some(Err(error)) = read {
        return Err(CliError::local(format!("cannot read {path}"), error));
    }
    written?;
    session.done(&Restored { volume: args.volume, node: started.node, bytes })
}

/// Whose archive a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of `jaco volume backup`, with a checksum.
    Backup,
    /// Of another program.
    Plain,
}

/// An archive that may be sent.
struct Archive {
    /// At the beginning of the archive.
    file: File,
    bytes: u64,
    /// What it is of, if the file says so.
    facts: Option<Facts>,
}

impl Archive {
    fn open(file: File, kind: Kind) -> Result<Self, FileError> {
        match kind {
            Kind::Backup => {
                let verified = verify(file)?;
                let (file, bytes) = (verified.file, verified.bytes);
                Ok(Self { file, bytes, facts: Some(verified.facts) })
            }
            Kind::Plain => {
                let (file, bytes) = plain_archive(file)?;
                Ok(Self { file, bytes, facts: None })
            }
        }
    }
}

/// Sends the archive. Stops without a word where the node takes no more: it says why.
fn send(inputs: &VolumeInputs, archive: Archive, sent: &AtomicU64) -> io::Result<()> {
    let mut archive = archive.file.take(archive.bytes);
    loop {
        let mut piece = Vec::new();
        (&mut archive).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if piece.is_empty() {
            break;
        }
        let length = piece.len() as u64;
        if inputs.send_blocking(piece) == Taken::No {
            return Ok(());
        }
        sent.fetch_add(length, Ordering::Relaxed);
    }
    match archive.limit() {
        0 => {
            // Who takes no more has said why.
            let _taken = inputs.end_blocking();
            Ok(())
        }
        _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file was cut meanwhile")),
    }
}

fn damaged(path: &str, error: FileError) -> CliError {
    match error {
        FileError::Io(error) => CliError::local(format!("cannot read {path}"), error),
        FileError::Foreign => {
            invalid(path, &error, Some("a tar archive of another program is taken with --plain"))
        }
        FileError::Altered | FileError::NoArchive => invalid(path, &error, None),
    }
}

fn invalid(path: &str, error: &FileError, help: Option<&str>) -> CliError {
    CliError::Refused {
        code: ErrorCode::BackupInvalid,
        message: format!("{path} cannot be restored: {error}"),
        help: help.map(str::to_owned),
    }
}

/// A volume that was restored.
struct Restored {
    volume: String,
    node: String,
    bytes: u64,
}

impl Show for Restored {
    fn json(&self) -> Value {
        json!({ "volume": self.volume, "node": self.node, "bytes": self.bytes })
    }

    fn text(&self, _: &Frame) -> String {
        format!("{} restored on {}: {}\n", self.volume, self.node, size(self.bytes))
    }
}
