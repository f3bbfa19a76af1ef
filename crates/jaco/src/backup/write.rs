//! Writes a backup file, which gets its final name only when it is complete, durable and verified.

use std::io::{self, Write};

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{BackupEnd, BackupHeader, BackupPart};
use prost::Message;
use sha2::{Digest, Sha256};

use super::damage::Damage;
use super::format::{FORMAT, MAGIC};
use super::read::Backup;
use crate::partial::Partial;

/// The contents of a complete backup.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) header: BackupHeader,
    pub(crate) end: BackupEnd,
    /// The size of the file.
    pub(crate) bytes: u64,
}

/// Writes the parts in order. The output is a backup only after [`finish`](Self::finish).
pub(crate) struct Writer<W> {
    out: W,
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
    pub(crate) fn new(out: W) -> io::Result<Self> {
        let mut writer = Self { out, hash: Sha256::new(), bytes: 0, header: None, end: None };
        writer.put(MAGIC)?;
        writer.put(&FORMAT.to_be_bytes())?;
        Ok(writer)
    }

    /// Adds a part.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub(crate) fn part(&mut self, part: &BackupPart) -> io::Result<()> {
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
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Completes the backup.
    ///
    /// # Errors
    /// If the output cannot be written to, or the last part is missing.
    pub(crate) fn finish(mut self) -> io::Result<Summary> {
        let (Some(header), Some(end)) = (self.header.take(), self.end.take()) else {
            let cut = "the cluster sent an incomplete backup";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
        };
        self.put(&0_u32.to_be_bytes())?;
        let sum = self.hash.finalize();
        self.out.write_all(&sum)?;
        self.out.flush()?;
        Ok(Summary { header, end, bytes: self.bytes + sum.len() as u64 })
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// Verifies the file of a backup and gives it its final name.
///
/// # Errors
/// How it is damaged; then there is no backup.
pub(crate) fn finish(partial: Partial) -> Result<(), Damage> {
    Backup::open(partial.synced()?)?;
    Ok(partial.keep()?)
}
