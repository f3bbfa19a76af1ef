//! Writes a backup file, which gets its final name only when it is complete, durable and verified.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{BackupEnd, BackupHeader, BackupPart};
use prost::Message;
use sha2::{Digest, Sha256};

use super::damage::Damage;
use super::format::{FORMAT, MAGIC};
use super::read::Backup;

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

/// A temporary file beside the final one, which only its owner can read. Dropped unfinished, it is removed.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
    destination: PathBuf,
}

impl Partial {
    /// Creates the temporary file `PATH.partial`. The file of an interrupted run is replaced.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".partial");
        let beside = PathBuf::from(beside);
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
        Ok(Self { path: beside, file, destination: path.to_owned() })
    }

    /// The output for the parts.
    pub(crate) fn out(&self) -> BufWriter<&File> {
        BufWriter::new(&self.file)
    }

    /// Verifies the file and gives it its final name.
    ///
    /// # Errors
    /// How it is damaged; then there is no backup.
    pub(crate) fn finish(self) -> Result<(), Damage> {
        self.file.sync_all()?;
        Backup::open(self.file.try_clone()?)?;
        let (own, at_path) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        if (own.dev(), own.ino()) != (at_path.dev(), at_path.ino()) {
            let other = format!("another process is writing a backup to {}", self.path.display());
            return Err(io::Error::other(other).into());
        }
        fs::rename(&self.path, &self.destination)?;
        let folder = self.destination.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After `finish` this path does not exist, or is the file of another process.
        let is_own = |at_path: fs::Metadata| {
            self.file
                .metadata()
                .is_ok_and(|own| (own.dev(), own.ino()) == (at_path.dev(), at_path.ino()))
        };
        if fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            fs::remove_file(&self.path).ok();
        }
    }
}
