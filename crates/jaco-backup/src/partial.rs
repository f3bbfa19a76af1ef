//! Files that get their final name only when they are complete and durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A temporary file beside the final one, which only its owner can read. Dropped unfinished, it is removed.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    file: File,
    destination: PathBuf,
}

impl Partial {
    /// Creates the temporary file `PATH.partial`. The file of an interrupted run is replaced.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
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

    /// The same file with another final name, in the same folder.
    pub fn named(mut self, destination: &Path) -> Self {
        destination.clone_into(&mut self.destination);
        self
    }

    /// The output.
    pub fn out(&self) -> BufWriter<&File> {
        BufWriter::new(&self.file)
    }

    /// What was written, once it is durable, from wherever it was read last.
    ///
    /// # Errors
    /// If it cannot be made durable.
    pub fn synced(&self) -> io::Result<File> {
        self.file.sync_all()?;
        self.file.try_clone()
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// If it cannot, or the temporary file is another process's by now.
    pub fn keep(self) -> io::Result<()> {
        self.file.sync_all()?;
        let (own, at_path) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        if (own.dev(), own.ino()) != (at_path.dev(), at_path.ino()) {
            let other = format!("another process is writing to {}", self.path.display());
            return Err(io::Error::other(other));
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
