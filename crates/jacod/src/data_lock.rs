//! One process per data directory: a daemon, or a tool that reads the data of a stopped one.
//!
//! An advisory lock of the kernel, which ends with its process: a killed daemon leaves nothing to
//! clean up. The existence of the file means nothing.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

const LOCK: &str = "lock";

/// Exclusive use of a data directory until dropped.
#[derive(Debug)]
pub(crate) struct DataLock {
    _file: File,
}

/// Why a data directory cannot be locked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataLockError {
    /// Another process holds the lock.
    #[error("data directory {} is in use by another jacod", path.display())]
    Held {
        /// The data directory.
        path: PathBuf,
    },
    /// The lock file cannot be opened or locked.
    #[error("data directory {} cannot be locked", path.display())]
    Io {
        /// The data directory.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

impl DataLock {
    /// Locks an existing data directory.
    ///
    /// # Errors
    /// See [`DataLockError`]; does not wait for the lock.
    pub(crate) fn take(path: &Path) -> Result<Self, DataLockError> {
        let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK));
        Self::lock(path, file)
    }

    /// As [`DataLock::take`], without writing anything: `None` where no daemon has ever run.
    ///
    /// # Errors
    /// As [`DataLock::take`].
    pub(crate) fn take_existing(path: &Path) -> Result<Option<Self>, DataLockError> {
        match File::open(path.join(LOCK)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            file => Self::lock(path, file).map(Some),
        }
    }

    fn lock(path: &Path, file: std::io::Result<File>) -> Result<Self, DataLockError> {
        let unusable = |source| DataLockError::Io { path: path.to_owned(), source };
        let file = file.map_err(unusable)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(DataLockError::Held { path: path.to_owned() })
            }
            Err(errno) => Err(unusable(errno.into())),
        }
    }
}
