//! Identity and lock of a data directory.
//!
//! Must never adopt a directory of another node or cluster, nor one that lost its identity: a node
//! that restarts without its vote and log can break the promises it made.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use prost::Message as _;
use rustix::fs::{FlockOperation, flock};

use crate::codec::{FORMAT, IdentityRecord, invalid};
use crate::disk::sync_dir;
use crate::error::OpenError;
use crate::reversion;

const LOCK: &str = "lock";
const IDENTITY: &str = "identity";
const MAGIC: &[u8; 8] = b"JACOIDN1";
/// Permanent id of a log. In the log's directory, so that it is lost together with the log.
const LOG_ID: &str = "log.id";
/// How often a process has started with the log. Beside the log's id.
const STARTS: &str = "starts";

/// Where the identity of a data directory is.
pub(crate) fn file(dir: &Path) -> PathBuf {
    dir.join(IDENTITY)
}

/// Whose data directory it is; `None` if it says nothing of that.
pub(crate) fn read(dir: &Path) -> Result<Option<IdentityRecord>, OpenError> {
    let bytes = match fs::read(file(dir)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(decode(&bytes)?))
}

/// A data directory held by this process until dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// A kernel lock, which ends with the process.
    lock: File,
}

impl Drop for DataDir {
    /// Closing the file is not enough: a process that another thread starts has a copy of the descriptor between its
    /// `fork` and its `exec`, and the lock is held until the last copy is closed.
    fn drop(&mut self) {
        let _unlocked = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl DataDir {
    /// Locks `path`, creating it if needed, and checks or writes the identity.
    pub(crate) fn open(path: &Path, node_id: u64, cluster: &str) -> Result<Self, OpenError> {
        fs::create_dir_all(path)?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| OpenError::Locked { dir: path.to_owned() })?;
        let dir = Self { path: path.to_owned(), lock };
        match dir.read_identity()? {
            Some(found) => check(&found, node_id, cluster)?,
            // A log without an identity is an incomplete copy.
            None if dir.log().exists() => return Err(OpenError::IdentityMissing),
            None => dir.write_identity(node_id, cluster)?,
        }
        Ok(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Refuses a log that is not the one this node has written before, or none at all.
    ///
    /// A voter that lost its log would vote acknowledged writes away. `expected` is kept by the
    /// caller, outside of this directory; `None` if no log was opened before.
    pub(crate) fn check_log(&self, expected: Option<&str>) -> Result<(), OpenError> {
        let Some(expected) = expected else { return Ok(()) };
        let found = self.read_log_id()?;
        if found.as_deref() == Some(expected) {
            return Ok(());
        }
        let found = found.map_or("nothing is there".to_owned(), |id| format!("log {id} is there"));
        Err(OpenError::LogLost { dir: self.log(), found })
    }

    /// Refuses a log that was started less often than `expected` says, or that was found to be an older copy.
    ///
    /// `expected` is kept by the caller, outside of this directory, and written after the count here. So a process that
    /// ends between the two leaves a higher count here, and only an older copy of this directory has a lower one.
    pub(crate) fn check_starts(&self, expected: u64) -> Result<(), OpenError> {
        let refused = |found| OpenError::LogReverted { dir: self.path.clone(), found };
        if let Some(found) = reversion::mark(&self.path)? {
            return Err(refused(found));
        }
        let starts = self.read_starts()?;
        if starts >= expected {
            return Ok(());
        }
        Err(refused(format!("it was started {starts} times, the node {expected} times")))
    }

    /// Counts a start with this log; returns how many there were.
    pub(crate) fn count_start(&self) -> io::Result<u64> {
        let starts = self.read_starts()? + 1;
        let unnamed = self.path.join("starts.tmp");
        let mut file = File::create(&unnamed)?;
        file.write_all(starts.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&unnamed, self.log().join(STARTS))?;
        sync_dir(&self.log())?;
        Ok(starts)
    }

    /// 0 in a log of an earlier version.
    fn read_starts(&self) -> io::Result<u64> {
        match fs::read_to_string(self.log().join(STARTS)) {
            Ok(text) => {
                text.trim().parse().map_err(|_| invalid(format!("{STARTS} holds {text:?}")))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The id of the log, drawn when it is opened for the first time.
    pub(crate) fn log_id(&self) -> io::Result<String> {
        if let Some(id) = self.read_log_id()? {
            return Ok(id);
        }
        let drawn = [RandomState::new().hash_one(LOG_ID), RandomState::new().hash_one(LOG_ID)];
        let id = format!("{:016x}{:016x}", drawn[0], drawn[1]);
        let unnamed = self.path.join("log.id.tmp");
        let mut file = File::create(&unnamed)?;
        file.write_all(id.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unnamed, self.log().join(LOG_ID))?;
        sync_dir(&self.log())?;
        Ok(id)
    }

    fn read_log_id(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(self.log().join(LOG_ID)) {
            Ok(id) => Ok(Some(id)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    fn read_identity(&self) -> Result<Option<IdentityRecord>, OpenError> {
        read(&self.path)
    }

    fn write_identity(&self, node_id: u64, cluster: &str) -> io::Result<()> {
        let record = IdentityRecord { format: FORMAT, node_id, cluster: cluster.to_owned() };
        let unnamed = self.path.join("identity.tmp");
        let mut file = File::create(&unnamed)?;
        file.write_all(&encode(&record))?;
        file.sync_all()?;
        fs::rename(&unnamed, self.path.join(IDENTITY))?;
        sync_dir(&self.path)?;
        match self.path.parent() {
            // The directory itself may be new.
            Some(parent) if parent.is_dir() => sync_dir(parent),
            Some(_) | None => Ok(()),
        }
    }
}

fn encode(record: &IdentityRecord) -> Vec<u8> {
    let body = record.encode_to_vec();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn decode(bytes: &[u8]) -> io::Result<IdentityRecord> {
    let damaged = || invalid("identity file is damaged".to_owned());
    let (magic, rest) = bytes.split_at_checked(MAGIC.len()).ok_or_else(damaged)?;
    let (sum, body) = rest.split_at_checked(4).ok_or_else(damaged)?;
    if magic != MAGIC || sum != crc32c::crc32c(body).to_le_bytes() {
        return Err(damaged());
    }
    IdentityRecord::decode(body).map_err(|_| damaged())
}

/// Reads an identity with the right checksum; for mutations.
#[cfg(feature = "testing")]
pub(crate) fn read_with_checksum(body: &[u8]) {
    let sum = crc32c::crc32c(body).to_le_bytes();
    if let Ok(record) = decode(&[MAGIC.as_slice(), &sum, body].concat()) {
        drop(check(&record, 7, "blue"));
    }
}

fn check(found: &IdentityRecord, node_id: u64, cluster: &str) -> Result<(), OpenError> {
    if found.format != FORMAT {
        return Err(OpenError::FormatVersion { found: found.format, supported: FORMAT });
    }
    if found.node_id != node_id || found.cluster != cluster {
        return Err(OpenError::WrongIdentity {
            found: found.node_id,
            found_cluster: found.cluster.clone(),
            expected: node_id,
            expected_cluster: cluster.to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_belongs_to_one_node_and_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDir::open(dir.path(), 3, "blue").unwrap();
        let twice = DataDir::open(dir.path(), 3, "blue").unwrap_err();
        assert!(matches!(twice, OpenError::Locked { .. }), "{twice}");
        drop(held);

        for (node_id, cluster) in [(4, "blue"), (3, "green")] {
            let refused = DataDir::open(dir.path(), node_id, cluster).unwrap_err();
            assert!(matches!(refused, OpenError::WrongIdentity { .. }), "{refused}");
        }
        DataDir::open(dir.path(), 3, "blue").unwrap();
    }

    /// A process that is being started has copies of all descriptors until its `exec`.
    #[test]
    fn directory_is_free_though_a_copy_of_its_descriptor_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDir::open(dir.path(), 3, "blue").unwrap();
        let copy = held.lock.try_clone().unwrap();
        drop(held);
        DataDir::open(dir.path(), 3, "blue").unwrap();
        drop(copy);
    }

    #[test]
    fn log_without_identity_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDir::open(dir.path(), 3, "blue").unwrap();
        fs::create_dir_all(held.log()).unwrap();
        drop(held);
        fs::remove_file(dir.path().join(IDENTITY)).unwrap();
        let refused = DataDir::open(dir.path(), 3, "blue").unwrap_err();
        assert!(matches!(refused, OpenError::IdentityMissing), "{refused}");
    }

    /// R-FAULT-1: a node that has opened a log does not open without it, nor with another.
    #[test]
    fn a_log_that_is_gone_or_replaced_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = || DataDir::open(dir.path(), 3, "blue").unwrap();
        let held = open();
        held.check_log(None).unwrap();
        fs::create_dir_all(held.log()).unwrap();
        let id = held.log_id().unwrap();
        assert_eq!(held.log_id().unwrap(), id, "drawn once");
        held.check_log(Some(&id)).unwrap();
        drop(held);

        let refused = open().check_log(Some("another")).unwrap_err();
        assert!(matches!(refused, OpenError::LogLost { .. }), "{refused}");
        fs::remove_dir_all(dir.path().join("log")).unwrap();
        let refused = open().check_log(Some(&id)).unwrap_err();
        assert!(refused.to_string().contains("nothing is there"), "{refused}");
        fs::remove_dir_all(dir.path()).unwrap();
        let refused = open().check_log(Some(&id)).unwrap_err();
        assert!(matches!(refused, OpenError::LogLost { .. }), "{refused}");
    }

    /// R-FAULT-1: an older copy of the log is refused; a process that ended before the count was kept outside, and a log
    /// of an earlier version, are not.
    #[test]
    fn an_older_copy_of_the_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let held = DataDir::open(dir.path(), 3, "blue").unwrap();
        fs::create_dir_all(held.log()).unwrap();
        held.check_starts(0).unwrap();
        assert_eq!(held.count_start().unwrap(), 1);
        let older = fs::read(held.log().join(STARTS)).unwrap();
        held.check_starts(1).unwrap();
        assert_eq!(held.count_start().unwrap(), 2);
        held.check_starts(1).unwrap();
        held.check_starts(2).unwrap();
        fs::write(held.log().join(STARTS), older).unwrap();
        let refused = held.check_starts(2).unwrap_err();
        assert!(matches!(refused, OpenError::LogReverted { .. }), "{refused}");
        assert!(refused.to_string().contains("started 1 times, the node 2 times"), "{refused}");
        fs::remove_file(held.log().join(STARTS)).unwrap();
        assert!(held.check_starts(2).is_err());
    }

    #[test]
    fn identity_bytes_are_frozen() {
        let record = IdentityRecord { format: 1, node_id: 7, cluster: "blue".to_owned() };
        let bytes = encode(&record);
        expect_test::expect!["4a41434f49444e31ef6165a6080110071a04626c7565"]
            .assert_eq(&hex::encode(&bytes));
        assert_eq!(decode(&bytes).unwrap(), record);
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(decode(&damaged).is_err(), "bit {at}");
        }
    }
}
