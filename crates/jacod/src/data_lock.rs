//! One process per data folder: a daemon, or somebody who reads its data while it is stopped.
//!
//! Must never be a file whose mere presence means something: the kernel's lock ends with its process,
//! so a daemon that was killed leaves nothing to clear away.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

const LOCK: &str = "lock";

/// A data folder that no other process may use until this is dropped.
#[derive(Debug)]
pub(crate) struct DataLock {
    _file: File,
}

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataLockError {
    /// Another process holds it.
    #[error("data folder {} is in use by another jacod", path.display())]
    Held {
        /// The folder.
        path: PathBuf,
    },
    /// The lock itself cannot be had.
    #[error("data folder {} cannot be locked", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl DataLock {
    /// Locks an existing folder.
    ///
    /// # Errors
    /// See [`DataLockError`]; nothing is waited for.
    pub(crate) fn take(path: &Path) -> Result<Self, DataLockError> {
        let unusable = |source| DataLockError::Io { path: path.to_owned(), source };
        let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK));
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
