//! Where the parts of a backup come from: a cluster, or the data of a node whose daemon is stopped.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use jaco_client::{Answers, ClientError};
use jaco_proto::v1::BackupPart;
use prost::Message as _;

use crate::dev::process;

/// Bytes of the longest part: a message of the cluster.
const PART_BYTES_MAX: u32 = 8 << 20;

/// The parts, in order.
pub(crate) enum Source {
    Cluster(Answers<BackupPart>),
    Offline(Stopped),
}

/// Why there is no next part.
#[derive(Debug)]
pub(crate) enum SourceError {
    Client(ClientError),
    /// What the daemon's program said.
    Offline(String),
}

impl Source {
    pub(crate) async fn next(&mut self) -> Result<Option<BackupPart>, SourceError> {
        match self {
            Self::Cluster(answers) => answers.next().await.map_err(SourceError::Client),
            Self::Offline(stopped) => stopped.next(),
        }
    }

    /// What the user has to know of a complete backup.
    pub(crate) fn note(&mut self) -> Option<String> {
        match self {
            Self::Cluster(_) => None,
            Self::Offline(stopped) => stopped.note.take(),
        }
    }
}

/// The daemon's program, which reads the data of a stopped node.
pub(crate) struct Stopped {
    child: Child,
    parts: BufReader<ChildStdout>,
    note: Option<String>,
}

impl Stopped {
    /// # Errors
    /// If the program `jacod` cannot be started.
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let mut command = Command::new(process::program(None));
        command.arg("backup-parts").arg(data_dir).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let parts = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
        Ok(Self { child, parts: BufReader::new(parts), note: None })
    }

    fn next(&mut self) -> Result<Option<BackupPart>, SourceError> {
        match self.read() {
            Ok(Some(part)) => Ok(Some(part)),
            Ok(None) => self.ended().map(|()| None),
            // What the program says of it is the cause.
            Err(error) => Err(match self.ended() {
                Err(said) => said,
                Ok(()) => SourceError::Offline(error.to_string()),
            }),
        }
    }

    fn read(&mut self) -> io::Result<Option<BackupPart>> {
        let mut length = [0; 4];
        if self.parts.read(&mut length[..1])? == 0 {
            return Ok(None);
        }
        self.parts.read_exact(&mut length[1..])?;
        let length = u32::from_be_bytes(length);
        if length > PART_BYTES_MAX {
            return Err(io::Error::other(format!("a part has {length} bytes")));
        }
        let mut part = Vec::new();
        let read = self.parts.by_ref().take(length.into()).read_to_end(&mut part)?;
        if u32::try_from(read) != Ok(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        BackupPart::decode(part.as_slice()).map(Some).map_err(io::Error::other)
    }

    /// Waits for the program. What it says is short, so it does not wait for it to be read.
    fn ended(&mut self) -> Result<(), SourceError> {
        let failed = |error: io::Error| SourceError::Offline(error.to_string());
        let mut said = String::new();
        if let Some(mut out) = self.child.stderr.take() {
            out.read_to_string(&mut said).map_err(failed)?;
        }
        let said = said.trim().trim_start_matches("error: ").to_owned();
        if !self.child.wait().map_err(failed)?.success() {
            return Err(SourceError::Offline(said));
        }
        self.note = (!said.is_empty()).then_some(said);
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It has ended, but for a file that cannot be written.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
