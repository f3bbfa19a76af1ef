//! The few file operations a snapshot needs, so that a simulated disk can lose what was not synced.
//!
//! Must never offer an operation that is durable "mostly": a file's bytes are durable after
//! `SyncWrite::sync`, its name after `sync_dir`, and nothing before.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A file being written.
pub(crate) trait SyncWrite: Write + Send {
    /// Returns when every byte written so far is on stable storage.
    ///
    /// # Errors
    /// If the disk does not confirm it; the file must then be abandoned.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file being read.
pub(crate) trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// One directory of files. Names are plain file names.
pub(crate) trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Creates or empties a file.
    ///
    /// # Errors
    /// As the file system says; likewise below.
    fn create(&self, name: &str) -> io::Result<Box<dyn SyncWrite>>;
    /// Opens a file to add to its end, creating it if need be.
    ///
    /// # Errors
    /// As above.
    fn append(&self, name: &str) -> io::Result<Box<dyn SyncWrite>>;
    /// Opens a file to read.
    ///
    /// # Errors
    /// As above.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadSeek>>;
    /// Length of a file in bytes.
    ///
    /// # Errors
    /// As above.
    fn len(&self, name: &str) -> io::Result<u64>;
    /// All file names, sorted.
    ///
    /// # Errors
    /// As above.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Gives a file another name, replacing what had it.
    ///
    /// # Errors
    /// As above.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// As above.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns when creations, renames and removals so far are on stable storage.
    ///
    /// # Errors
    /// As above.
    fn sync_dir(&self) -> io::Result<()>;
}

/// A real directory.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Creates the directory if need be.
    ///
    /// # Errors
    /// As the file system says.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        if let Some(parent) = path.parent() {
            sync_dir(parent)?;
        }
        Ok(Self { path: path.to_owned() })
    }
}

/// How often something is tried again for which there was no descriptor, and the pause in between: connections that
/// hold descriptors come and go.
const TRIES: u32 = 300;
const TRY_PAUSE: Duration = Duration::from_millis(100);

/// Opens something, and waits while the process or the system has no descriptor left.
fn with_descriptor<T>(pause: Duration, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for tried in 1..TRIES {
        match open() {
            Err(error) if is_out_of_descriptors(&error) => {
                if tried == 1 {
                    tracing::warn!(%error, "no descriptor is free for a snapshot, trying again");
                }
                thread::sleep(pause);
            }
            done => return done,
        }
    }
    open()
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

impl SyncWrite for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl Disk for Directory {
    fn create(&self, name: &str) -> io::Result<Box<dyn SyncWrite>> {
        Ok(Box::new(with_descriptor(TRY_PAUSE, || File::create(self.path.join(name)))?))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn SyncWrite>> {
        let open = || File::options().append(true).create(true).open(self.path.join(name));
        Ok(Box::new(with_descriptor(TRY_PAUSE, open)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadSeek>> {
        Ok(Box::new(with_descriptor(TRY_PAUSE, || File::open(self.path.join(name)))?))
    }

    fn len(&self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.path.join(name))?.len())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in with_descriptor(TRY_PAUSE, || fs::read_dir(&self.path))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        sync_dir(&self.path)
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    with_descriptor(TRY_PAUSE, || File::open(dir))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-3: a snapshot for which there is no descriptor for a while is taken in the end; other errors count.
    #[test]
    fn waits_for_a_descriptor() {
        let failing = |times: u32, errno: rustix::io::Errno| {
            let mut tries = 0;
            let outcome = with_descriptor(Duration::ZERO, || {
                tries += 1;
                if tries <= times { Err(io::Error::from(errno)) } else { Ok(()) }
            });
            (outcome.is_ok(), tries)
        };
        assert_eq!(failing(3, rustix::io::Errno::MFILE), (true, 4));
        assert_eq!(failing(3, rustix::io::Errno::NFILE), (true, 4));
        assert_eq!(failing(u32::MAX, rustix::io::Errno::MFILE), (false, TRIES));
        assert_eq!(failing(1, rustix::io::Errno::NOSPC), (false, 1));
    }
}
