//! Snapshot files: header, state, SHA-256 of both. A file is complete or absent.
//!
//! A file gets its final name only after its bytes are durable and were read back. The newest two
//! are kept. Must never delete a valid file before a newer one is verified, nor return a file whose
//! checksum was not verified.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::codec::{
    self, FORMAT, LogIdRecord, SnapshotHeader, StoredMembershipRecord, check_format, invalid,
};
use crate::disk::{Disk, ReadSeek, SyncWrite};
use crate::types::{LogId, SnapshotMeta, StoredMembership};

const MAGIC: &[u8; 8] = b"JACOSNP1";
const SUM_BYTES: u64 = 32;
/// A header holds a membership; a longer one is damaged.
const HEADER_BYTES: u32 = 1 << 20;
/// Number of snapshots kept.
const KEPT: usize = 2;
const BUFFER_BYTES: usize = 64 << 10;
const SUFFIX: &str = ".snap";
/// Temporary names: being written, and being received from a leader.
const BUILDING: &str = "building.tmp";
const INCOMING: &str = "incoming-";
/// Why nothing is written any more.
const CLOSED: &str = "the node is being stopped";

/// A captured state, to be serialised outside the lock.
pub trait SnapshotSource: Send {
    /// Serialises the state as of its capture. Equal states must give equal bytes on every node.
    ///
    /// # Errors
    /// Only those of `writer`.
    fn write(self: Box<Self>, writer: &mut dyn Write) -> io::Result<()>;
}

/// A verified snapshot file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SnapshotFile {
    pub(crate) name: String,
    pub(crate) len: u64,
    pub(crate) sum: [u8; 32],
    pub(crate) header: SnapshotHeader,
}

impl fmt::Debug for SnapshotFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SnapshotFile({}, {} bytes)", self.name, self.len)
    }
}

impl SnapshotFile {
    /// The last entry the snapshot covers; `None` if there was none.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.header.last.map(LogId::from)
    }

    pub(crate) fn meta(&self) -> io::Result<SnapshotMeta> {
        let membership = self.header.membership.clone().unwrap_or_default();
        Ok(SnapshotMeta { last_log_id: self.last(), last_membership: membership.try_into()? })
    }
}

/// The snapshots of one node. Cheap to clone; the caller ensures a single writer.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotStore {
    disk: Arc<dyn Disk>,
    cluster: Arc<str>,
    writers: Writers,
}

/// Who writes files now: threads that go on when the task that waits for them is dropped, as by a shutdown.
#[derive(Debug, Clone, Default)]
struct Writers {
    closing: Arc<AtomicBool>,
    /// Held by each of them.
    held: Arc<RwLock<()>>,
}

impl Writers {
    /// # Errors
    /// If the store is closed.
    fn begin(&self) -> io::Result<RwLockReadGuard<'_, ()>> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        self.go_on().map(|()| held)
    }

    /// # Errors
    /// If the store is being closed.
    fn go_on(&self) -> io::Result<()> {
        match self.closing.load(Ordering::Acquire) {
            false => Ok(()),
            // Not `Interrupted`, after which whoever writes tries again.
            true => Err(io::Error::other(CLOSED)),
        }
    }
}

impl SnapshotStore {
    pub(crate) fn new(disk: Arc<dyn Disk>, cluster: &str) -> Self {
        Self { disk, cluster: cluster.into(), writers: Writers::default() }
    }

    /// Ends what is being written, and waits until nobody writes: the directory may be another process's then.
    pub(crate) fn close(&self) {
        self.writers.closing.store(true, Ordering::Release);
        drop(self.writers.held.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Removes incomplete files after a crash and returns the newest valid snapshot.
    ///
    /// An invalid file is renamed for inspection: it was valid once.
    pub(crate) fn recover(&self) -> io::Result<Option<SnapshotFile>> {
        let mut newest = None;
        for name in self.disk.list()?.into_iter().rev() {
            if name == BUILDING || name.starts_with(INCOMING) {
                self.disk.remove(&name)?;
            } else if name.ends_with(SUFFIX) && newest.is_none() {
                match self.verify(&name) {
                    Ok(file) => newest = Some(file),
                    Err(error) => {
                        tracing::error!(%name, %error, "snapshot damaged, renamed");
                        self.disk.rename(&name, &format!("{name}.damaged"))?;
                    }
                }
            }
        }
        self.disk.sync_dir()?;
        Ok(newest)
    }

    /// Writes a snapshot and returns it once it is durable and verified.
    pub(crate) fn build(
        &self,
        last: Option<LogId>,
        membership: &StoredMembership,
        chain: u64,
        source: Box<dyn SnapshotSource>,
    ) -> io::Result<SnapshotFile> {
        let _held = self.writers.begin()?;
        let header = SnapshotHeader {
            format: FORMAT,
            cluster: self.cluster.to_string(),
            last: last.as_ref().map(LogIdRecord::from),
            membership: Some(StoredMembershipRecord::from(membership)),
            chain,
        };
        let mut writer = HashingWriter::new(self.disk.create(BUILDING)?, self.writers.clone());
        let head = header.encode_to_vec();
        let head_len = u32::try_from(head.len()).map_err(|_| invalid("header".to_owned()))?;
        writer.write_all(MAGIC)?;
        writer.write_all(&head_len.to_le_bytes())?;
        writer.write_all(&head)?;
        source.write(&mut writer)?;
        writer.finish()?;
        self.publish(BUILDING)
    }

    /// Name under which a snapshot with this checksum is being received.
    pub(crate) fn incoming(sum: &[u8; 32]) -> String {
        let mut name = INCOMING.to_owned();
        for byte in &sum[..16] {
            name.push_str(&format!("{byte:02x}"));
        }
        name
    }

    /// Bytes of `name` that have been received so far.
    pub(crate) fn received(&self, name: &str) -> io::Result<u64> {
        if self.disk.list()?.iter().any(|found| found == name) {
            return self.disk.len(name);
        }
        Ok(0)
    }

    /// Deletes every partially received snapshot but `keep`.
    pub(crate) fn forget_incoming(&self, keep: &str) -> io::Result<()> {
        for name in self.disk.list()? {
            if name.starts_with(INCOMING) && name != keep {
                self.disk.remove(&name)?;
            }
        }
        Ok(())
    }

    /// Appends a received chunk.
    pub(crate) fn receive(&self, name: &str, data: &[u8]) -> io::Result<()> {
        let _held = self.writers.begin()?;
        self.disk.append(name)?.write_all(data)
    }

    /// Turns a completely received file into a snapshot, if it is valid.
    pub(crate) fn accept(&self, name: &str) -> io::Result<SnapshotFile> {
        let _held = self.writers.begin()?;
        if let Err(error) = self.verify(name) {
            self.disk.remove(name)?;
            return Err(error);
        }
        self.disk.append(name)?.sync()?;
        self.publish(name)
    }

    /// Reads `len` bytes of a file from `offset`, fewer at its end.
    pub(crate) fn read_chunk(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut file = self.disk.open(name)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut chunk = Vec::new();
        file.take(len as u64).read_to_end(&mut chunk)?;
        Ok(chunk)
    }

    /// Calls `restore` with the state in `file`, after verifying it again.
    pub(crate) fn restore_from<T>(
        &self,
        file: &SnapshotFile,
        restore: impl FnOnce(&mut dyn Read) -> io::Result<T>,
    ) -> io::Result<T> {
        self.restore_named(&file.name, restore)
    }

    /// As [`SnapshotStore::restore_from`], by the name of the file.
    pub(crate) fn restore_named<T>(
        &self,
        name: &str,
        restore: impl FnOnce(&mut dyn Read) -> io::Result<T>,
    ) -> io::Result<T> {
        let verified = self.verify(name)?;
        let mut reader = self.disk.open(name)?;
        let body = body_start(&mut reader)?;
        reader.seek(SeekFrom::Start(body))?;
        // A header that reaches into the checksum was never written by this program.
        let state = (verified.len - SUM_BYTES).checked_sub(body);
        let state = state.ok_or_else(|| invalid("snapshot header is too long".to_owned()))?;
        let mut state = io::BufReader::new(reader.take(state));
        restore(&mut state)
    }

    /// Verifies a synced file, gives it its final name, and deletes superseded ones.
    fn publish(&self, from: &str) -> io::Result<SnapshotFile> {
        let mut file = self.verify(from)?;
        let LogIdRecord { term, node_id, index } = file.header.last.unwrap_or_default();
        // Index first: names sort by how much they cover.
        file.name = format!("{index:020}-{term:020}-{node_id:020}{SUFFIX}");
        self.disk.rename(from, &file.name)?;
        self.disk.sync_dir()?;
        self.keep_newest()?;
        Ok(file)
    }

    fn keep_newest(&self) -> io::Result<()> {
        let names = self.names()?;
        let superseded = names.len().saturating_sub(KEPT);
        for name in &names[..superseded] {
            self.disk.remove(name)?;
        }
        if superseded > 0 {
            self.disk.sync_dir()?;
        }
        Ok(())
    }

    /// The last entry that each complete snapshot covers, by its name, the greatest last.
    pub(crate) fn covered(&self) -> io::Result<Vec<u64>> {
        Ok(self.names()?.iter().filter_map(|name| covered_by(name)).collect())
    }

    /// Deletes the snapshots that end before `index`.
    pub(crate) fn forget_before(&self, index: u64) -> io::Result<()> {
        for name in self.names()? {
            if covered_by(&name).is_some_and(|covered| covered < index) {
                self.disk.remove(&name)?;
            }
        }
        self.disk.sync_dir()
    }

    /// The names of complete snapshots, the one that covers most last.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list()?;
        names.retain(|name| name.ends_with(SUFFIX));
        Ok(names)
    }

    /// Reads a whole file back and checks it.
    pub(crate) fn verify(&self, name: &str) -> io::Result<SnapshotFile> {
        let len = self.disk.len(name)?;
        let mut file = self.disk.open(name)?;
        let Some(hashed) = len.checked_sub(SUM_BYTES) else {
            return Err(invalid("snapshot is truncated".to_owned()));
        };
        let mut hash = Sha256::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut left = hashed;
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER_BYTES);
            file.read_exact(&mut buffer[..want])?;
            hash.update(&buffer[..want]);
            left -= want as u64;
        }
        let mut stored = [0; 32];
        file.read_exact(&mut stored)?;
        let sum: [u8; 32] = hash.finalize().into();
        if sum != stored {
            return Err(invalid("snapshot fails its checksum".to_owned()));
        }
        file.seek(SeekFrom::Start(0))?;
        let header = read_header(&mut file)?;
        check_format(header.format, "snapshot")?;
        if header.cluster != *self.cluster {
            return Err(invalid(format!("snapshot belongs to cluster {:?}", header.cluster)));
        }
        Ok(SnapshotFile { name: name.to_owned(), len, sum, header })
    }
}

/// The last entry of a snapshot, by its name.
pub(crate) fn covered_by(name: &str) -> Option<u64> {
    name.split('-').next()?.parse().ok()
}

/// Reads a snapshot file with the right checksum, whatever else it holds; for mutations.
#[cfg(feature = "testing")]
pub(crate) fn read_with_checksum(disk: Arc<dyn Disk>, bytes: &[u8]) {
    let store = SnapshotStore::new(disk, "blue");
    let whole = [MAGIC.as_slice(), bytes].concat();
    let sum: [u8; 32] = Sha256::digest(&whole).into();
    store.receive("found.snap", &[whole.as_slice(), &sum].concat()).expect("the disk works");
    if let Ok(Some(file)) = store.recover() {
        drop(file.meta());
        store.restore_from(&file, |state| io::copy(state, &mut io::sink())).ok();
    }
}

fn read_header(file: &mut Box<dyn ReadSeek>) -> io::Result<SnapshotHeader> {
    let mut head = vec![0; head_len(file)?];
    file.read_exact(&mut head)?;
    SnapshotHeader::decode(head.as_slice())
        .map_err(|error| invalid(format!("snapshot header: {error}")))
}

fn body_start(file: &mut Box<dyn ReadSeek>) -> io::Result<u64> {
    Ok((MAGIC.len() + 4 + head_len(file)?) as u64)
}

fn head_len(file: &mut Box<dyn ReadSeek>) -> io::Result<usize> {
    let mut start = [0; 12];
    file.read_exact(&mut start)?;
    if &start[..8] != MAGIC {
        return Err(invalid("not a snapshot".to_owned()));
    }
    let len = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
    if len > HEADER_BYTES {
        return Err(invalid("snapshot header is too long".to_owned()));
    }
    usize::try_from(len).map_err(|_| codec::invalid("snapshot header is too long".to_owned()))
}

/// Buffers, hashes, and appends the hash.
struct HashingWriter {
    file: Box<dyn SyncWrite>,
    hash: Sha256,
    buffer: Vec<u8>,
    writers: Writers,
}

impl HashingWriter {
    fn new(file: Box<dyn SyncWrite>, writers: Writers) -> Self {
        Self { file, hash: Sha256::new(), buffer: Vec::with_capacity(BUFFER_BYTES), writers }
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.write_all(&self.hash.finalize())?;
        self.file.flush()?;
        self.file.sync()
    }
}

impl Write for HashingWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.hash.update(data);
        self.buffer.extend_from_slice(data);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writers.go_on()?;
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::disk::Directory;

    /// Tells that it is being written, and writes once it is told to.
    struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>);

    impl SnapshotSource for Slow {
        fn write(self: Box<Self>, writer: &mut dyn Write) -> io::Result<()> {
            self.0.send(()).expect("the test waits");
            self.1.recv().expect("the test tells");
            writer.write_all(&[7; BUFFER_BYTES])
        }
    }

    /// R-FAULT-1: a directory that is released is not written to: a snapshot that is being built is given up, and waited
    /// for until then.
    #[test]
    fn a_store_that_is_closed_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let store = SnapshotStore::new(Arc::new(Directory::open(folder.path()).unwrap()), "blue");
        let build = |store: &SnapshotStore| {
            let (begun, begins) = mpsc::channel();
            let (told, tell) = mpsc::channel();
            let (store, source) = (store.clone(), Box::new(Slow(begun, tell)));
            let membership = StoredMembership::default();
            (thread::spawn(move || store.build(None, &membership, 0, source)), begins, told)
        };
        let (built, begins, told) = build(&store);
        begins.recv().unwrap();
        let closing = thread::spawn({
            let store = store.clone();
            move || store.close()
        });
        while store.writers.go_on().is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!closing.is_finished(), "a thread writes");
        told.send(()).unwrap();
        assert_eq!(built.join().unwrap().unwrap_err().to_string(), CLOSED);
        closing.join().unwrap();
        assert_eq!(store.names().unwrap(), [""; 0]);
        let (refused, ..) = build(&store);
        assert_eq!(refused.join().unwrap().unwrap_err().to_string(), CLOSED);
        assert!(store.receive("incoming-1", b"x").is_err() && store.accept("incoming-1").is_err());
    }
}
