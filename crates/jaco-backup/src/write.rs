//! Writes a backup file, which gets its final name only when it is complete, durable and verified.

use std::io::{self, Write};

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{BackupEnd, BackupHeader, BackupPart};
use prost::Message;
use sha2::{Digest, Sha256};

use super::damage::Damage;
use super::format::{FORMAT, MAGIC};
use super::read::Backup;
use super::unlock::Unlock;
use crate::age::{FileKey, Label, Recipients, Stream};
use crate::partial::Partial;

/// The contents of a complete backup.
#[derive(Debug)]
pub struct Summary {
    pub header: BackupHeader,
    pub end: BackupEnd,
    /// The size of what is in the file; an encrypted file is larger.
    pub bytes: u64,
    /// The key of an encrypted file.
    pub key: Option<FileKey>,
}

impl Summary {
    /// What opens the file.
    #[must_use]
    pub fn unlock(&self) -> Unlock<'_> {
        self.key.as_ref().map_or(Unlock::Nothing, Unlock::File)
    }
}

/// Where the bytes go.
enum Out<W: Write> {
    Plain(W),
    Encrypted(Box<Stream<W>>),
}

/// Writes the parts in order. The output is a backup only after [`finish`](Self::finish).
#[allow(
    missing_debug_implementations,
    reason = "holds keys and an output that have nothing to show"
)]
pub struct Writer<W: Write> {
    out: Out<W>,
    hash: Sha256,
    bytes: u64,
    header: Option<BackupHeader>,
    end: Option<BackupEnd>,
}

impl<W: Write> Writer<W> {
    /// Starts a backup.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub fn new(out: W) -> io::Result<Self> {
        Self::begin(Out::Plain(out))
    }

    /// Starts an encrypted backup with this header, which has to be its first part.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub fn encrypted(out: W, recipients: &Recipients, header: &BackupHeader) -> io::Result<Self> {
        let stream = Stream::new(out, recipients, &Label::of(header))?;
        Self::begin(Out::Encrypted(Box::new(stream)))
    }

    fn begin(out: Out<W>) -> io::Result<Self> {
        let mut writer = Self { out, hash: Sha256::new(), bytes: 0, header: None, end: None };
        writer.put(MAGIC)?;
        writer.put(&FORMAT.to_be_bytes())?;
        Ok(writer)
    }

    /// Adds a part.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub fn part(&mut self, part: &BackupPart) -> io::Result<()> {
        match &part.kind {
            Some(Kind::Header(header)) => self.header = Some(header.clone()),
            Some(Kind::End(end)) => self.end = Some(*end),
            Some(
                Kind::Retention(_)
                | Kind::Constraints(_)
                | Kind::Node(_)
                | Kind::Named(_)
                | Kind::Registry(_)
                | Kind::Network(_)
                | Kind::Policy(_)
                | Kind::Grants(_)
                | Kind::NotifyTarget(_)
                | Kind::Piece(_)
                | Kind::Secret(_)
                | Kind::Deployment(_)
                | Kind::Disabled(_),
            )
            | None => {}
        }
        let bytes = part.encode_to_vec();
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.put(&length.to_be_bytes())?;
        self.put(&bytes)
    }

    /// The number of bytes written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Completes the backup.
    ///
    /// # Errors
    /// If the output cannot be written to, or the last part is missing.
    pub fn finish(mut self) -> io::Result<Summary> {
        let (Some(header), Some(end)) = (self.header.take(), self.end.take()) else {
            let cut = "the cluster sent an incomplete backup";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
        };
        self.put(&0_u32.to_be_bytes())?;
        let sum = self.hash.finalize();
        let bytes = self.bytes + sum.len() as u64;
        let key = match self.out {
            Out::Plain(mut out) => {
                out.write_all(&sum)?;
                out.flush()?;
                None
            }
            Out::Encrypted(mut stream) => {
                stream.write_all(&sum)?;
                Some(stream.finish()?)
            }
        };
        Ok(Summary { header, end, bytes, key })
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        match &mut self.out {
            Out::Plain(out) => out.write_all(bytes),
            Out::Encrypted(stream) => stream.write_all(bytes),
        }
    }
}

/// Verifies the file of a backup and gives it its final name.
///
/// # Errors
/// How it is damaged; then there is no backup.
pub fn finish(partial: Partial, summary: &Summary) -> Result<(), Damage> {
    Backup::unlock(partial.synced()?, summary.unlock())?;
    Ok(partial.keep()?)
}
