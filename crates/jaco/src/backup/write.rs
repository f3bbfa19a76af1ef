//! Writes a backup file. It has its name only once it is whole, durable, and was read back.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{BackupEnd, BackupHeader, BackupPart};
use prost::Message;
use sha2::{Digest, Sha256};

use super::{Backup, Damage, FORMAT, MAGIC};

/// What a backup turned out to be.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) header: BackupHeader,
    pub(crate) end: BackupEnd,
    /// Of the whole file.
    pub(crate) bytes: u64,
}

/// Puts parts one behind the other. What it wrote is a backup only once it is finished.
pub(crate) struct Writer<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
    header: Option<BackupHeader>,
    end: Option<BackupEnd>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If it takes no more.
    pub(crate) fn new(out: W) -> io::Result<Self> {
        let mut writer = Self { out, hash: Sha256::new(), bytes: 0, header: None, end: None };
        writer.put(MAGIC)?;
        writer.put(&FORMAT.to_be_bytes())?;
        Ok(writer)
    }

    /// Adds a part.
    ///
    /// # Errors
    /// If the file takes no more.
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

    /// How many bytes there are so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If it takes no more, or the last part never came.
    pub(crate) fn finish(mut self) -> io::Result<Taken> {
        let (Some(header), Some(end)) = (self.header.take(), self.end.take()) else {
            let cut = "the cluster sent only the beginning of the backup";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
        };
        self.put(&0_u32.to_be_bytes())?;
        let sum = self.hash.finalize();
        self.out.write_all(&sum)?;
        self.out.flush()?;
        Ok(Taken { header, end, bytes: self.bytes + sum.len() as u64 })
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// A file beside the one that it becomes, for its owner alone. Dropped before that, it is removed.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: File,
    becomes: PathBuf,
}

/// A place for a backup that is not whole yet: `PATH.partial`. What a run that was cut off has left there
/// is replaced.
///
/// # Errors
/// If the file cannot be made.
pub(crate) fn store(path: &Path) -> io::Result<Partial> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = PathBuf::from(beside);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
    Ok(Partial { path: beside, file, becomes: path.to_owned() })
}

impl Partial {
    /// Where the parts are written to.
    pub(crate) fn out(&self) -> BufWriter<&File> {
        BufWriter::new(&self.file)
    }

    /// Gives it its name, once the disk has it and it reads as what was written.
    ///
    /// # Errors
    /// What keeps it from being a backup; then there is none.
    pub(crate) fn keep(self) -> Result<(), Damage> {
        self.file.sync_all()?;
        Backup::open(self.file.try_clone()?)?;
        let (own, there) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        if (own.dev(), own.ino()) != (there.dev(), there.ino()) {
            let other = format!("another backup is being written to {}", self.path.display());
            return Err(io::Error::other(other).into());
        }
        fs::rename(&self.path, &self.becomes)?;
        let folder = self.becomes.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it was kept there is nothing of this name any more, or somebody else's.
        let is_own = |there: fs::Metadata| {
            self.file
                .metadata()
                .is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
        };
        if fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            fs::remove_file(&self.path).ok();
        }
    }
}
