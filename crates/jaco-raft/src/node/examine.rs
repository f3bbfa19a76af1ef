//! The files of a stopped node, each by itself: whose they are, and which are damaged. What they say together is for
//! [`super::Offline`] to find. Must never write.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Directory;
use crate::engine::sled::extent::{self, Readable};
use crate::error::OpenError;
use crate::identity;
use crate::snapshot::{SnapshotFile, SnapshotStore};

/// What the files of a data directory say, each by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// The node and its cluster.
    pub owner: Option<(u64, String)>,
    /// The index of the last entry that each complete snapshot covers, the greatest last.
    pub snapshots: Vec<u64>,
    /// What is damaged.
    pub damage: Vec<Damage>,
}

/// A file that does not hold what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub file: PathBuf,
    pub what: String,
    pub severity: Severity,
}

/// What a damaged file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The node can go on without it.
    Spare,
    /// The node does not start with it.
    Fatal,
}

/// Reads the files in the data directory `dir` of a node.
///
/// # Errors
/// When a folder cannot be read.
pub fn examine(dir: &Path) -> io::Result<Examined> {
    let mut examined = Examined::default();
    match identity::read(dir) {
        Ok(Some(found)) => examined.owner = Some((found.node_id, found.cluster)),
        Ok(None) => {
            examined.note(identity::file(dir), "it is missing".to_owned(), Severity::Fatal);
        }
        Err(error) => examined.note(identity::file(dir), told(&error), Severity::Fatal),
    }
    let log = dir.join("log");
    match extent::examine(&log) {
        Ok((_, Readable::Yes)) => {}
        Ok((file, Readable::No)) => {
            let what = "it is damaged: nothing else tells whether the end of the log is there";
            examined.note(file, what.to_owned(), Severity::Spare);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => examined.note(log, error.to_string(), Severity::Fatal),
    }
    let folder = dir.join("snapshots");
    if let (Some((_, cluster)), true) = (examined.owner.clone(), folder.is_dir()) {
        let store = SnapshotStore::new(Arc::new(Directory::open(&folder)?), &cluster);
        for name in store.names()? {
            match store.verify(&name) {
                Ok(file) => examined.snapshots.push(covered(&file)),
                Err(error) => {
                    examined.note(folder.join(&name), error.to_string(), Severity::Spare);
                }
            }
        }
    }
    Ok(examined)
}

impl Examined {
    fn note(&mut self, file: PathBuf, what: String, severity: Severity) {
        self.damage.push(Damage { file, what, severity });
    }
}

fn covered(file: &SnapshotFile) -> u64 {
    file.last().map_or(0, |last| last.index)
}

fn told(error: &OpenError) -> String {
    match error {
        OpenError::Io(cause) => cause.to_string(),
        OpenError::Locked { .. }
        | OpenError::WrongIdentity { .. }
        | OpenError::IdentityMissing
        | OpenError::LogLost { .. }
        | OpenError::LogReverted { .. }
        | OpenError::FormatVersion { .. }
        | OpenError::Corrupt { .. }
        | OpenError::Settings { .. }
        | OpenError::Start { .. } => error.to_string(),
    }
}
