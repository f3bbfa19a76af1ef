//! A folder of backups: one is written at a time, and those beyond the retention are removed. Plain and encrypted ones may
//! lie beside each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::damage::Damage;
use super::folder_name::{Form, file_name, is_of, taken_of};
use super::read::Backup;
use super::retention::{Retention, Taken};
use super::source;
use super::unlock::Unlock;
use super::write::{Summary, finish};
use crate::age::Label;
use crate::partial::Partial;

/// Locked while a backup is written or removed. It stays: removing it would let two processes lock two files.
const LOCK: &str = ".jaco-backup.lock";

/// The incomplete backup, without the suffix of incomplete files. One at a time, so the next run replaces what a power
/// cut left.
const INCOMPLETE: &str = ".jaco-backup";

/// A folder of backups, locked by this process.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    pub(crate) lock: File,
}

impl Drop for Folder {
    /// Closing the file is not enough: a process that another thread starts has a copy of the descriptor until its
    /// `exec`.
    fn drop(&mut self) {
        drop(self.lock.unlock());
    }
}

/// What was found in a folder, and removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Good backups of the cluster that stay.
    pub kept: Vec<PathBuf>,
    /// Encrypted ones that stay and could not be looked into: what they say of themselves counts.
    pub unchecked: Vec<PathBuf>,
    /// Those that were removed.
    pub removed: Vec<PathBuf>,
    /// Files with the name of a backup of the cluster that cannot be restored, with the reason. They stay and do not
    /// count: one of them may be undamaged and of a newer version.
    pub damaged: Vec<(PathBuf, String)>,
}

/// A backup in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its file.
    pub path: PathBuf,
    /// Which one it is.
    pub label: Label,
}

/// A file of a backup, as far as it could be looked into.
enum Found {
    Checked(Label, Form),
    Unchecked(Label),
}

impl Found {
    fn label(&self) -> (&Label, Form) {
        match self {
            Self::Checked(label, form) => (label, *form),
            Self::Unchecked(label) => (label, Form::Encrypted),
        }
    }
}

impl Folder {
    /// Locks a folder. It has to exist: a missing one may be a disk that is not mounted.
    ///
    /// # Errors
    /// If it is no folder, cannot be written to, or another process has locked it.
    pub fn lock(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let lock = options.custom_flags(no_link).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock }),
            Err(TryLockError::WouldBlock) => {
                let message = "another backup is being written to this folder";
                Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The file for a new backup.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn partial(&self) -> io::Result<Partial> {
        Partial::create(&self.path.join(INCOMPLETE))
    }

    /// Verifies a complete backup, makes it durable, and gives it its name; returns its path.
    ///
    /// # Errors
    /// How it is damaged, or if it cannot get its name; then there is no backup.
    pub fn keep(&self, partial: Partial, summary: &Summary) -> Result<PathBuf, Damage> {
        let path = self.path_of(summary)?;
        if path.symlink_metadata().is_ok() {
            let exists = format!("{} already exists", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, exists).into());
        }
        finish(partial.named(&path), summary)?;
        Ok(path)
    }

    fn path_of(&self, summary: &Summary) -> Result<PathBuf, Damage> {
        let form = if summary.key.is_some() { Form::Encrypted } else { Form::Plain };
        let name =
            file_name(&summary.header.cluster_name, taken(&Label::of(&summary.header)), form);
        let no_date =
            || Damage::Contradiction("it was taken at no time that has a date".to_owned());
        Ok(self.path.join(name.ok_or_else(no_date)?))
    }

    /// Removes the backups of a cluster that the retention does not keep. `newest` is the one that was just written.
    /// All of them are read, those that are encrypted with these keys: only those that could be restored count, and
    /// encrypted ones that no key opens by what their header says. Of those that count the newest ones stay; of
    /// several of one moment, all or none.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file not be removed.
    pub fn prune(
        &self,
        newest: &Summary,
        retention: &Retention,
        unlock: Unlock<'_>,
    ) -> io::Result<Pruned> {
        let path = self.path_of(newest).map_err(io::Error::other)?;
        let kept = Kept { path, label: Label::of(&newest.header) };
        self.prune_around(&newest.header.cluster_name, (&kept, newest.unlock()), retention, unlock)
    }

    /// As [`prune`](Self::prune), where `newest` was written before, and `unlock` beside it opens it.
    ///
    /// # Errors
    /// As those.
    pub fn prune_around(
        &self,
        cluster_name: &str,
        (newest, own): (&Kept, Unlock<'_>),
        retention: &Retention,
        unlock: Unlock<'_>,
    ) -> io::Result<Pruned> {
        let (mut pruned, mut counted) = (Pruned::default(), BTreeMap::<Taken, Vec<_>>::new());
        for name in self.names(cluster_name)? {
            let path = self.path.join(&name);
            // The key of what was just written opens it.
            let unlock = if path == newest.path { own } else { unlock };
            match look(&path, unlock) {
                // Of another cluster of this name, or renamed: not this command's to remove.
                Ok(found) if !is_own(&found, (&newest.label.cluster_id, cluster_name), &name) => {}
                Ok(found) => {
                    counted.entry(taken(found.label().0)).or_default().push((found, path));
                }
                Err(damage) => pruned.damaged.push((path, damage.to_string())),
            }
        }
        let mut kept = retention.kept(&counted.keys().copied().collect());
        // A clock that was wrong once does not have it removed.
        kept.insert(taken(&newest.label));
        for (taken, files) in counted {
            for (found, path) in files {
                match (kept.contains(&taken), found) {
                    (true, Found::Checked(..)) => pruned.kept.push(path),
                    (true, Found::Unchecked(_)) => pruned.unchecked.push(path),
                    (false, _) => {
                        fs::remove_file(&path)?;
                        pruned.removed.push(path);
                    }
                }
            }
        }
        File::open(&self.path)?.sync_all()?;
        Ok(pruned)
    }

    /// A backup of a cluster, by id and name, of this state or a later one, that could be restored or says of itself that it is
    /// that. The newest one.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn since(
        &self,
        (cluster_id, cluster_name): (&str, &str),
        raft_index: u64,
    ) -> io::Result<Option<Kept>> {
        for name in self.names(cluster_name)?.into_iter().rev() {
            let taken = taken_of(cluster_name, &name);
            if taken.is_none_or(|taken| taken.raft_index < raft_index) {
                continue;
            }
            let path = self.path.join(&name);
            match look(&path, Unlock::Nothing) {
                Ok(found) if is_own(&found, (cluster_id, cluster_name), &name) => {
                    return Ok(Some(Kept { path, label: found.label().0.clone() }));
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(None)
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

/// Reads a whole file, or what it says of itself if no key opens it.
fn look(path: &Path, unlock: Unlock<'_>) -> Result<Found, Damage> {
    let mut file = File::open(path)?;
    let header = source::header(&mut file)?;
    let form = if header.is_some() { Form::Encrypted } else { Form::Plain };
    match Backup::unlock(file, unlock) {
        Ok(backup) => Ok(Found::Checked(Label::of(&backup.header), form)),
        Err(damage) if damage.is_unchecked() => {
            // A file of another program has none, and does not count.
            header.and_then(|header| header.label).map(Found::Unchecked).ok_or(damage)
        }
        Err(damage) => Err(damage),
    }
}

fn is_own(found: &Found, (cluster_id, cluster_name): (&str, &str), name: &str) -> bool {
    let (label, form) = found.label();
    let own_name = file_name(cluster_name, taken(label), form);
    label.cluster_id == cluster_id && own_name.as_deref() == Some(name)
}

fn taken(label: &Label) -> Taken {
    Taken { at_ms: label.taken_at_ms, raft_index: label.raft_index }
}
