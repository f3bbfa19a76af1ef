//! A folder of backups: one is written at a time, and those beyond the retention are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jaco_proto::v1::BackupHeader;
use rustix::fs::OFlags;

use super::damage::Damage;
use super::folder_name::{file_name, is_of};
use super::read::Backup;
use super::retention::{Retention, Taken};
use super::write::finish;
use crate::partial::Partial;

/// Locked while a backup is written or removed. It stays: removing it would let two processes lock two files.
const LOCK: &str = ".jaco-backup.lock";

/// The incomplete backup, without the suffix of incomplete files. One at a time, so the next run replaces what a power
/// cut left.
const INCOMPLETE: &str = ".jaco-backup";

/// A folder of backups, locked by this process.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The lock ends when it is closed.
    _lock: File,
}

/// What was found in a folder, and removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pruned {
    /// Good backups of the cluster that stay.
    pub(crate) kept: Vec<PathBuf>,
    pub(crate) removed: Vec<PathBuf>,
    /// Files with the name of a backup of the cluster that cannot be restored, with the reason. They stay and do not
    /// count: one of them may be undamaged and of a newer version.
    pub(crate) damaged: Vec<(PathBuf, String)>,
}

impl Folder {
    /// Locks a folder. It has to exist: a missing one may be a disk that is not mounted.
    ///
    /// # Errors
    /// If it is no folder, cannot be written to, or another process has locked it.
    pub(crate) fn lock(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let lock = options.custom_flags(no_link).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                Err(io::Error::other("another `jaco backup` is writing to this folder"))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The file for a new backup.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn partial(&self) -> io::Result<Partial> {
        Partial::create(&self.path.join(INCOMPLETE))
    }

    /// Verifies a complete backup, makes it durable, and gives it its name; returns its path.
    ///
    /// # Errors
    /// How it is damaged, or if it cannot get its name; then there is no backup.
    pub(crate) fn keep(&self, partial: Partial, header: &BackupHeader) -> Result<PathBuf, Damage> {
        let no_date =
            || Damage::Contradiction("it was taken at no time that has a date".to_owned());
        let path = self.path.join(file_name(header).ok_or_else(no_date)?);
        if path.symlink_metadata().is_ok() {
            let exists = format!("{} already exists", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, exists).into());
        }
        finish(partial.named(&path))?;
        Ok(path)
    }

    /// Removes the backups of a cluster that the retention does not keep. `newest` is the one that was just written.
    /// All of them are read: only those that could be restored count.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file not be removed.
    pub(crate) fn prune(&self, newest: &BackupHeader, retention: &Retention) -> io::Result<Pruned> {
        let (mut pruned, mut good) = (Pruned::default(), BTreeMap::new());
        for name in self.names(&newest.cluster_name)? {
            let path = self.path.join(&name);
            match header(&path) {
                // Of another cluster of this name, or renamed: not this command's to remove.
                Ok(found) if !is_own(&found, newest, &name) => {}
                Ok(found) => drop(good.insert(taken(&found), path)),
                Err(damage) => pruned.damaged.push((path, damage.to_string())),
            }
        }
        let mut kept = retention.kept(&good.keys().copied().collect());
        // A clock that was wrong once does not have it removed.
        kept.insert(taken(newest));
        for (taken, path) in good {
            if kept.contains(&taken) {
                pruned.kept.push(path);
                continue;
            }
            fs::remove_file(&path)?;
            pruned.removed.push(path);
        }
        File::open(&self.path)?.sync_all()?;
        Ok(pruned)
    }

    /// The regular files with a name of a backup of a cluster of this name, sorted.
    fn names(&self, cluster_name: &str) -> io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if is_of(cluster_name, &name) && entry.file_type()?.is_file() {
                names.insert(name);
            }
        }
        Ok(names)
    }
}

fn header(path: &Path) -> Result<BackupHeader, Damage> {
    Ok(Backup::open(File::open(path)?)?.header)
}

fn is_own(found: &BackupHeader, newest: &BackupHeader, name: &str) -> bool {
    found.cluster_id == newest.cluster_id && file_name(found).as_deref() == Some(name)
}

fn taken(header: &BackupHeader) -> Taken {
    Taken { at_ms: header.taken_at_ms, raft_index: header.raft_index }
}
