//! The log on sled 0.34.7, made as durable as it claims to be.
//!
//! Appends are durable in the journal and moved to sled at a checkpoint; every other operation is a
//! checkpoint. sled's own `flush()` calls `sync_file_range`, which survives a killed process but
//! not a power cut, so a checkpoint ends with one `fdatasync` of sled's `db` file. Must never hold
//! a value over 4 KiB (pages over 128 KiB go to blob files that sled does not sync), a snapshot, or
//! a second process.

pub(crate) mod extent;
mod folder;
#[cfg(test)]
mod tests;
mod values;

use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{BufMut as _, Bytes, BytesMut};

use self::extent::{Extent, ExtentFile};
use self::folder::{
    caught, move_snapshots_aside, open_in, refuse_blobs, remove_half_written_snapshots,
    remove_torn_settings, sync_everything,
};
use self::values::{Stored, index_of, key, start_of, values_of};
use super::journal::{JOURNAL, Journal, Journaled};
use super::{LogEngine, LogReader, Op, Reclaim, Recovered};
use crate::codec;
use crate::disk::sync_dir;

/// A key and its value, and an extent.
#[cfg(feature = "testing")]
pub(super) fn read_with_checksums(bytes: &[u8]) {
    values::read_with_checksum(bytes);
    extent::read_with_checksum(bytes);
}

/// Deleting 20,000 keys in one batch blocked the engine for 195 to 370 ms, longer than a heartbeat.
const RECLAIM_KEYS: usize = 1024;
const VOTE: &[u8] = b"vote";
const COMMITTED: &[u8] = b"committed";
const PURGED: &[u8] = b"purged";
/// Number of the last checkpoint; the journal of this generation holds later records.
const CHECKPOINT: &[u8] = b"group";

/// The log engine that ships; see the module.
#[derive(Debug)]
pub(crate) struct SledEngine {
    db: sled::Db,
    log: sled::Tree,
    meta: sled::Tree,
    /// sled's `db` file, opened only to sync it.
    file: File,
    recovered: Recovered,
    journal: Journal,
    /// Records in the journal that are not in sled yet.
    pending: Pending,
    extent_file: ExtentFile,
    /// Highest purged index; stored records at or below it await deletion.
    purged: Option<u64>,
}

impl SledEngine {
    /// Opens the log in `dir`, which must be held by the caller's lock file.
    ///
    /// # Errors
    /// If the directory cannot be read or the log is damaged. Nothing is truncated to make it open:
    /// a missing record may have been acknowledged.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        if let Some(parent) = dir.parent() {
            // The directory itself may be new, and nothing else syncs its name.
            sync_dir(parent)?;
        }
        remove_half_written_snapshots(dir)?;
        remove_torn_settings(dir)?;
        let db = match open_in(dir) {
            Ok(db) => db,
            // A sled snapshot that is newer than sled's log makes an otherwise complete log
            // unreadable; sled rebuilds it from the log.
            Err(first) => {
                move_snapshots_aside(dir)?;
                tracing::warn!(error = %first, "log index unreadable, rebuilding");
                open_in(dir)?
            }
        };
        // Were it the last one, it would be closed while a panic of sled unwinds.
        let held = db.clone();
        let loaded = caught("reading", || Self::load(dir, db));
        match loaded {
            Ok(engine) => Ok(engine),
            Err(error) => {
                let close = || {
                    drop(held);
                    Ok(())
                };
                // Why it cannot be read says more.
                caught("closing", close).ok();
                Err(error)
            }
        }
    }

    /// Reads what the opened database has, with the journal's records.
    fn load(dir: &Path, db: sled::Db) -> io::Result<Self> {
        refuse_blobs(dir)?;
        sync_everything(dir)?;
        let file = File::open(dir.join("db"))?;
        let log = db.open_tree("log").map_err(from_sled)?;
        let meta = db.open_tree("meta").map_err(from_sled)?;
        let (journal, extent_file) = (Journal::open(dir)?, ExtentFile::open(dir)?);
        let recovered = Recovered::default();
        let checkpoints = read_checkpoint(&meta)?;
        let replayed = journal.replay(checkpoints)?;
        let pending = Pending::new(replayed.records);
        let purged = None;
        let mut engine =
            Self { db, log, meta, file, recovered, journal, pending, extent_file, purged };
        engine.move_to_sled()?;
        engine.recovered = engine.recover()?;
        let last = engine.recovered.indices.as_ref().map(|indices| *indices.end());
        let found = Extent { checkpoints, last: last.max(engine.purged) };
        let recorded = engine.extent_file.recorded;
        engine.extent_file.check(found).map_err(|error| {
            let place = match found.checkpoints < recorded.checkpoints {
                true => format!("records of {} are gone", dir.join("db").display()),
                false => format!(
                    "{} is damaged or cut at byte {}",
                    dir.join(JOURNAL).display(),
                    replayed.end
                ),
            };
            codec::invalid(format!("{place}: {error}"))
        })?;
        engine.checkpoint(found.last)?;
        Ok(engine)
    }

    fn recover(&mut self) -> io::Result<Recovered> {
        let get = |key| -> io::Result<Option<Bytes>> {
            Ok(self.meta.get(key).map_err(from_sled)?.map(|value| Bytes::copy_from_slice(&value)))
        };
        let mut recovered = Recovered {
            vote: get(VOTE)?,
            committed: get(COMMITTED)?,
            purged: get(PURGED)?,
            indices: None,
        };
        let mark = recovered.purged.clone().map(codec::decode_mark).transpose()?;
        self.purged = mark.and_then(|(log_id, _)| log_id).map(|id| id.index);
        let first_kept = self.purged.map_or(0, |index| index + 1);
        let Some((key, value)) = self.log.last().map_err(from_sled)? else { return Ok(recovered) };
        let last = Stored::read(&key, &value)?.last();
        if last >= first_kept {
            let from = start_of(&self.log, first_kept)?;
            let first = self.log.range(from..).keys().next().transpose().map_err(from_sled)?;
            let first = first.map(|key| index_of(&key)).transpose()?.unwrap_or(first_kept);
            recovered.indices = Some(first.max(first_kept)..=last);
        }
        Ok(recovered)
    }

    /// Moves everything to stable storage in sled and restarts the journal.
    fn checkpoint(&mut self, last: Option<u64>) -> io::Result<()> {
        self.move_to_sled()?;
        let extent = Extent { checkpoints: self.extent_file.recorded.checkpoints + 1, last };
        let number = extent.checkpoints.to_be_bytes();
        self.meta.insert(CHECKPOINT, &number).map_err(from_sled)?;
        self.db.flush().map_err(from_sled)?;
        self.file.sync_data()?;
        self.journal.restart(extent.checkpoints);
        self.extent_file.record(extent)
    }

    /// Moves records from the journal to sled, atomically.
    fn move_to_sled(&self) -> io::Result<()> {
        let records = self.pending.all();
        if records.is_empty() {
            return Ok(());
        }
        let mut batch = sled::Batch::default();
        for (key, value) in values_of(&records)? {
            batch.insert(key.as_slice(), value.as_ref());
        }
        self.log.apply_batch(batch).map_err(from_sled)?;
        self.pending.clear();
        Ok(())
    }

    /// Makes records durable, in the journal if it has room.
    fn append(&mut self, records: Vec<(u64, Bytes)>, last: Option<u64>) -> io::Result<()> {
        if self.journal.append(&records)? == Journaled::NoRoom {
            self.checkpoint(self.extent_file.recorded.last)?;
            if self.journal.append(&records)? == Journaled::NoRoom {
                self.pending.push(records);
                return self.checkpoint(last);
            }
        }
        self.pending.push(records);
        self.extent_file.record(Extent { last, ..self.extent_file.recorded })
    }

    /// Removes from the end backward, so that a reader never sees a hole.
    fn truncate(&self, from: u64) -> io::Result<()> {
        let mut batch = sled::Batch::default();
        let start = start_of(&self.log, from)?;
        for found in self.log.range(start..).rev() {
            let (key, value) = found.map_err(from_sled)?;
            batch.remove(&key);
            if let Stored::Block { first, records } = Stored::read(&key, &value)?
                && first < from
            {
                let kept: Vec<_> = (first..from).zip(records).collect();
                for (key, value) in values_of(&kept)? {
                    batch.insert(key.as_slice(), value.as_ref());
                }
            }
        }
        self.log.apply_batch(batch).map_err(from_sled)
    }

    /// The last index before `index`; there are no holes.
    fn last_before(&self, index: u64) -> io::Result<Option<u64>> {
        let first =
            self.log.first().map_err(from_sled)?.map(|(key, _)| index_of(&key)).transpose()?;
        let kept = index.checked_sub(1).filter(|last| first.is_some_and(|first| first <= *last));
        Ok(kept.max(self.purged))
    }

    fn put_meta(&self, key: &[u8], value: &Bytes) -> io::Result<()> {
        self.meta.insert(key, value.as_ref()).map_err(from_sled)?;
        Ok(())
    }
}

impl LogEngine for SledEngine {
    fn recovered(&self) -> Recovered {
        self.recovered.clone()
    }

    fn commit(&mut self, ops: &[Op]) -> io::Result<()> {
        let mut last = self.extent_file.recorded.last;
        let mut records = Vec::new();
        let mut appends_only = true;
        for op in ops {
            match op {
                Op::Append(more) => {
                    records.extend_from_slice(more);
                    last = more.last().map(|(index, _)| *index).max(last);
                    continue;
                }
                // Written at the next checkpoint at the latest.
                Op::Committed(mark) => {
                    self.put_meta(COMMITTED, mark)?;
                    continue;
                }
                Op::TruncateFrom(from) => {
                    self.pending.push(std::mem::take(&mut records));
                    // A power cut may keep what sled wrote of the truncation and lose the number
                    // of its checkpoint: the journal must not put back what followed then.
                    if !self.pending.all().is_empty() {
                        self.checkpoint(last)?;
                    }
                    last = last.min(self.last_before(*from)?);
                    self.extent_file.lower(last)?;
                    self.truncate(*from)?;
                }
                // Deleted later: once the mark is durable nobody reads them.
                Op::Purge { upto, mark } => {
                    self.put_meta(PURGED, mark)?;
                    self.purged = Some(*upto);
                }
                Op::Vote(vote) => self.put_meta(VOTE, vote)?,
            }
            appends_only = false;
        }
        // A lost append is detected by its index, other losses by the checkpoint number.
        if appends_only {
            return self.append(records, last);
        }
        self.pending.push(records);
        self.checkpoint(last)
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(SledReader { log: self.log.clone(), pending: self.pending.clone() })
    }

    fn reclaim(&mut self) -> io::Result<Reclaim> {
        let Some(purged) = self.purged else {
            return Ok(Reclaim::Done);
        };
        let mut batch = sled::Batch::default();
        let mut count = 0;
        for found in self.log.range(..key(purged + 1, 0)).take(RECLAIM_KEYS) {
            let (key, value) = found.map_err(from_sled)?;
            // The block also holds records that are not purged.
            if Stored::read(&key, &value)?.last() > purged {
                break;
            }
            batch.remove(key);
            count += 1;
        }
        if count == 0 {
            return Ok(Reclaim::Done);
        }
        self.log.apply_batch(batch).map_err(from_sled)?;
        Ok(if count < RECLAIM_KEYS { Reclaim::Done } else { Reclaim::More })
    }
}

#[derive(Debug)]
struct SledReader {
    log: sled::Tree,
    pending: Pending,
}

impl LogReader for SledReader {
    fn read(&self, range: RangeInclusive<u64>, max_bytes: usize) -> io::Result<Vec<(u64, Bytes)>> {
        // Read first: records moved in the meantime are found in sled.
        let pending = self.pending.all();
        let mut read = Read { range, max_bytes, bytes: 0, records: Vec::new() };
        let mut open: Option<OpenRecord> = None;
        let from = start_of(&self.log, *read.range.start())?;
        for item in self.log.range(from..=key(*read.range.end(), u16::MAX)) {
            let (found, value) = item.map_err(from_sled)?;
            match Stored::read(&found, &value)? {
                Stored::Block { first, records } => {
                    if let Some(open) = open {
                        return Err(open.without_end());
                    }
                    for (index, record) in (first..).zip(records) {
                        if read.push(index, record) == Room::No {
                            return Ok(read.records);
                        }
                    }
                }
                Stored::Part { index, part, parts, data } => {
                    let record = match open.take() {
                        None if part == 0 => {
                            OpenRecord { index, parts, next: 0, data: BytesMut::new() }
                        }
                        Some(record) if record.index == index && record.next == part => record,
                        None | Some(_) => {
                            return Err(codec::invalid(format!("record {index} has a hole")));
                        }
                    };
                    let record = record.push(data);
                    if record.next < record.parts {
                        open = Some(record);
                    } else if read.push(index, record.data.freeze()) == Room::No {
                        return Ok(read.records);
                    }
                }
            }
        }
        if let Some(open) = open {
            return Err(open.without_end());
        }
        for (index, record) in pending {
            let is_next = read.records.last().is_none_or(|(last, _)| *last < index);
            if is_next && read.push(index, record) == Room::No {
                break;
            }
        }
        Ok(read.records)
    }
}

/// State of a read.
struct Read {
    range: RangeInclusive<u64>,
    max_bytes: usize,
    bytes: usize,
    records: Vec<(u64, Bytes)>,
}

/// Whether a read continues.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    Yes,
    No,
}

impl Read {
    fn push(&mut self, index: u64, record: Bytes) -> Room {
        if self.range.contains(&index) {
            self.bytes += record.len();
            self.records.push((index, record));
        }
        if self.bytes >= self.max_bytes && !self.records.is_empty() { Room::No } else { Room::Yes }
    }
}

/// Records in the journal but not in sled, for readers. They are the newest of the log.
#[derive(Debug, Clone)]
struct Pending {
    records: Arc<Mutex<Vec<(u64, Bytes)>>>,
}

impl Pending {
    fn new(records: Vec<(u64, Bytes)>) -> Self {
        Self { records: Arc::new(Mutex::new(records)) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Bytes)>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<(u64, Bytes)> {
        self.lock().clone()
    }

    fn push(&self, more: Vec<(u64, Bytes)>) {
        self.lock().extend(more);
    }

    fn clear(&self) {
        self.lock().clear();
    }
}

fn read_checkpoint(meta: &sled::Tree) -> io::Result<u64> {
    let Some(stored) = meta.get(CHECKPOINT).map_err(from_sled)? else { return Ok(0) };
    let bytes = stored.as_ref().try_into();
    bytes.map(u64::from_be_bytes).map_err(|_| codec::invalid("checkpoint number".to_owned()))
}

/// A record whose parts are not all read yet.
struct OpenRecord {
    index: u64,
    parts: u16,
    next: u16,
    data: BytesMut,
}

impl OpenRecord {
    fn push(mut self, data: &[u8]) -> Self {
        self.data.put_slice(data);
        self.next += 1;
        self
    }

    fn without_end(&self) -> io::Error {
        codec::invalid(format!("record {} has no end", self.index))
    }
}

fn from_sled(error: sled::Error) -> io::Error {
    match error {
        sled::Error::Io(error) => error,
        other @ (sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_)
        | sled::Error::Corruption { .. }) => codec::invalid(other.to_string()),
    }
}
