//! The log on sled 0.34.7, made as durable as it claims to be.
//!
//! Appends are durable by the journal and handed to sled at a checkpoint, which every other op is. sled's own `flush()` calls `sync_file_range`, which survives a killed process and not a
//! power cut, so a checkpoint ends with one `fdatasync` of sled's `db` file. Must never hold a value over
//! 4 KiB (pages over 128 KiB go to blob files that sled does not sync), a snapshot, or a second
//! process.

use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};

use super::journal::{Journal, Journaled};
use super::{LogEngine, LogReader, Op, Reclaim, Recovered};
use crate::codec;
use crate::disk::sync_dir;

/// Bytes of a record that go into one sled value.
///
/// What must stay small is not the value but the page: a leaf is split when it holds more than 16
/// values and is merged with a neighbour when it holds fewer than 4, so up to 20 values are written
/// as one page. A page over a quarter of a segment (128 KiB) becomes a blob file, which sled never
/// syncs; 20 values of this size stay under 90 KiB.
const PART_BYTES: usize = 4 << 10;
/// Version of the frame around a part of a record.
const PART: u8 = 1;
/// Version of the frame around several whole records: one key of sled's costs as much as copying a page.
const BLOCK: u8 = 2;
/// Version, crc32c, number of parts or of records.
const FRAME_BYTES: usize = 1 + 4 + 2;
/// Deleting 20,000 keys in one batch blocked the engine for 195 to 370 ms, longer than a heartbeat.
const RECLAIM_KEYS: usize = 1024;
/// How long sled's own threads may take to let go of a log that was just closed.
const RELEASE: Duration = Duration::from_secs(5);
/// sled's default is 1 GiB.
const CACHE_BYTES: u64 = 64 << 20;

const VOTE: &[u8] = b"vote";
const COMMITTED: &[u8] = b"committed";
const PURGED: &[u8] = b"purged";
/// The number of the last checkpoint: what the journal holds of it came after.
const CHECKPOINT: &[u8] = b"group";
/// The file, outside of sled, that remembers how far the log went.
const WITNESS: &str = "witness";
/// Number of checkpoints, last index, crc32c.
const WITNESS_BYTES: usize = 8 + 8 + 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct SledEngine {
    db: sled::Db,
    log: sled::Tree,
    meta: sled::Tree,
    /// sled's `db` file, opened by us only to be synced.
    file: File,
    recovered: Recovered,
    journal: Journal,
    /// What the journal has and sled has not.
    pending: Pending,
    witness: Witness,
    /// Highest purged index; stored records at or below it are garbage.
    purged: Option<u64>,
}

impl SledEngine {
    /// Opens the log in `dir`, which must be held by the caller's lock file.
    ///
    /// # Errors
    /// If the directory cannot be read or the log in it is damaged. Nothing is cut off to make it
    /// open: a record that is missing may have been acknowledged.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        remove_half_written_snapshots(dir)?;
        let db = match open_sled(dir) {
            Ok(db) => db,
            // A snapshot of sled's that is newer than its log makes an otherwise whole log
            // unreadable; sled rebuilds it from the log.
            Err(first) => {
                move_snapshots_aside(dir)?;
                tracing::warn!(error = %first, "log index was unreadable and is being rebuilt");
                open_sled(dir)?
            }
        };
        refuse_blobs(dir)?;
        sync_everything(dir)?;
        let file = File::open(dir.join("db"))?;
        let log = db.open_tree("log").map_err(from_sled)?;
        let meta = db.open_tree("meta").map_err(from_sled)?;
        let (journal, witness) = (Journal::open(dir)?, Witness::open(dir)?);
        let recovered = Recovered::default();
        let checkpoints = read_checkpoint(&meta)?;
        let pending = Pending::new(journal.replay(checkpoints)?);
        let purged = None;
        let mut engine = Self { db, log, meta, file, recovered, journal, pending, witness, purged };
        engine.settle()?;
        engine.recovered = engine.recover()?;
        let last = engine.recovered.indices.as_ref().map(|indices| *indices.end());
        let found = Extent { checkpoints, last: last.max(engine.purged) };
        engine.witness.check(found)?;
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

    /// Returns when everything so far is on stable storage in sled, and the journal starts again.
    fn checkpoint(&mut self, last: Option<u64>) -> io::Result<()> {
        self.settle()?;
        let extent = Extent { checkpoints: self.witness.noted.checkpoints + 1, last };
        let number = extent.checkpoints.to_be_bytes();
        self.meta.insert(CHECKPOINT, &number).map_err(from_sled)?;
        self.db.flush().map_err(from_sled)?;
        self.file.sync_data()?;
        self.journal.restart(extent.checkpoints);
        self.witness.note(extent)
    }

    /// Hands sled what only the journal has. After a crash it has all of it or none.
    fn settle(&self) -> io::Result<()> {
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

    /// Makes records durable, by the journal if it has room for them.
    fn append(&mut self, records: Vec<(u64, Bytes)>, last: Option<u64>) -> io::Result<()> {
        if self.journal.append(&records)? == Journaled::NoRoom {
            self.checkpoint(self.witness.noted.last)?;
            if self.journal.append(&records)? == Journaled::NoRoom {
                self.pending.push(records);
                return self.checkpoint(last);
            }
        }
        self.pending.push(records);
        self.witness.note(Extent { last, ..self.witness.noted })
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

    /// The last index that stays when the records from this one on are forgotten; there are no holes.
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
        let mut last = self.witness.noted.last;
        let mut records = Vec::new();
        let mut appends_only = true;
        for op in ops {
            match op {
                Op::Append(more) => {
                    records.extend_from_slice(more);
                    last = more.last().map(|(index, _)| *index).max(last);
                    continue;
                }
                // May wait for the next checkpoint.
                Op::Committed(mark) => {
                    self.put_meta(COMMITTED, mark)?;
                    continue;
                }
                Op::TruncateFrom(from) => {
                    self.pending.push(std::mem::take(&mut records));
                    self.settle()?;
                    last = last.min(self.last_before(*from)?);
                    self.witness.lower(last)?;
                    self.truncate(*from)?;
                }
                // The records go later: once the mark is durable nobody reads them.
                Op::Purge { upto, mark } => {
                    self.put_meta(PURGED, mark)?;
                    self.purged = Some(*upto);
                }
                Op::Vote(vote) => self.put_meta(VOTE, vote)?,
            }
            appends_only = false;
        }
        // An append that is lost is missed by its index, anything else by the checkpoint's number.
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
            // The rest of it is wanted.
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
        // First, because what is handed over meanwhile is found in sled.
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

/// What a read has so far.
struct Read {
    range: RangeInclusive<u64>,
    max_bytes: usize,
    bytes: usize,
    records: Vec<(u64, Bytes)>,
}

/// Whether a read takes more.
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

/// Records that are in the journal and not in sled, for those who read. They are among the newest of
/// the log, and as many as the journal holds.
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

/// How far a log goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Extent {
    /// How many checkpoints there were.
    checkpoints: u64,
    /// The last index that was appended, or purged.
    last: Option<u64>,
}

/// Remembers, outside of sled, how far the log went when it was last durable.
///
/// sled takes damage in the middle of its file for a write that a crash cut short: it forgets all that
/// came after and opens. What is left looks whole, because a log may end anywhere; only somebody who
/// knows how far it went can tell. It is written after each group and not synced for itself: it survives
/// a killed process, after a power cut it may say less than the log holds, and it never says more.
#[derive(Debug)]
struct Witness {
    file: File,
    noted: Extent,
}

impl Witness {
    fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(WITNESS);
        let file =
            File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        let mut bytes = [0; WITNESS_BYTES];
        // A new file, and one that was cut short or damaged itself, know nothing.
        let noted = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => decode_witness(bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Extent::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { file, noted })
    }

    /// Refuses a log that ends before what was durable in it.
    fn check(&mut self, found: Extent) -> io::Result<()> {
        let Extent { checkpoints, last } = self.noted;
        if found.checkpoints < checkpoints || found.last < last {
            let message = format!("it ends at {found:?}, and went to {:?}", self.noted);
            return Err(codec::invalid(message));
        }
        self.noted = found;
        Ok(())
    }

    /// Says less, before the log does: on stable storage, for what it said may be there.
    fn lower(&mut self, last: Option<u64>) -> io::Result<()> {
        self.note(Extent { last, ..self.noted })?;
        self.file.sync_data()
    }

    fn note(&mut self, extent: Extent) -> io::Result<()> {
        self.noted = extent;
        self.file.write_all_at(&encode_witness(extent), 0)
    }
}

/// The last index is stored one higher, so that zero is none.
fn encode_witness(extent: Extent) -> [u8; WITNESS_BYTES] {
    let mut bytes = [0; WITNESS_BYTES];
    bytes[..8].copy_from_slice(&extent.checkpoints.to_be_bytes());
    let next = extent.last.map_or(0, |last| last.saturating_add(1));
    bytes[8..16].copy_from_slice(&next.to_be_bytes());
    let sum = crc32c::crc32c(&bytes[..16]);
    bytes[16..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn decode_witness(bytes: [u8; WITNESS_BYTES]) -> Option<Extent> {
    let number = |at: usize| Some(u64::from_be_bytes(bytes[at..at + 8].try_into().ok()?));
    let extent = Extent { checkpoints: number(0)?, last: number(8)?.checked_sub(1) };
    (encode_witness(extent) == bytes).then_some(extent)
}

fn read_checkpoint(meta: &sled::Tree) -> io::Result<u64> {
    let Some(stored) = meta.get(CHECKPOINT).map_err(from_sled)? else { return Ok(0) };
    let bytes = stored.as_ref().try_into();
    bytes.map(u64::from_be_bytes).map_err(|_| codec::invalid("checkpoint number".to_owned()))
}

/// A record of which not all parts have been read.
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

/// A value of sled's.
enum Stored<'v> {
    /// A part of a record.
    Part { index: u64, part: u16, parts: u16, data: &'v [u8] },
    /// Whole records at consecutive indices.
    Block { first: u64, records: Vec<Bytes> },
}

impl<'v> Stored<'v> {
    fn read(key: &[u8], value: &'v [u8]) -> io::Result<Self> {
        let (index, part) = (index_of(key)?, part_of(key)?);
        let (version, count, data) = unframe(index, part, value)?;
        if version == PART {
            return Ok(Self::Part { index, part, parts: count, data });
        }
        let mut rest = data;
        let records = std::iter::from_fn(|| {
            let (length, tail) = rest.split_first_chunk::<2>()?;
            let (record, tail) = tail.split_at_checked(u16::from_be_bytes(*length).into())?;
            rest = tail;
            Some(Bytes::copy_from_slice(record))
        });
        let records: Vec<_> = records.collect();
        if records.is_empty() || records.len() != usize::from(count) || !rest.is_empty() {
            return Err(codec::invalid(format!("the block at {index} is malformed")));
        }
        Ok(Self::Block { first: index, records })
    }

    /// The last index of which it holds something.
    fn last(&self) -> u64 {
        match self {
            Self::Part { index, .. } => *index,
            Self::Block { first, records } => first + records.len() as u64 - 1,
        }
    }
}

/// Where in sled the record at `index` begins, or would.
fn start_of(log: &sled::Tree, index: u64) -> io::Result<[u8; 10]> {
    let before = log.range(..key(index, 0)).next_back().transpose().map_err(from_sled)?;
    let Some((found, value)) = before else { return Ok(key(index, 0)) };
    let stored = Stored::read(&found, &value)?;
    let holds = matches!(stored, Stored::Block { .. }) && stored.last() >= index;
    Ok(if holds { key(index_of(&found)?, 0) } else { key(index, 0) })
}

/// Makes values of records: blocks of small ones, parts of large ones.
fn values_of(records: &[(u64, Bytes)]) -> io::Result<Vec<([u8; 10], BytesMut)>> {
    let mut values = Vec::new();
    let mut rest = records;
    while let Some((index, record)) = rest.first() {
        let taken = block_of(rest);
        if taken > 0 {
            let mut data = BytesMut::with_capacity(PART_BYTES);
            for (_, record) in &rest[..taken] {
                data.put_u16(u16::try_from(record.len()).expect("a block is shorter"));
                data.put_slice(record);
            }
            let count = u16::try_from(taken).expect("each takes two bytes of the block or more");
            values.push((key(*index, 0), frame(BLOCK, *index, 0, count, &data)));
            rest = &rest[taken..];
            continue;
        }
        let parts = record.len().div_ceil(PART_BYTES).max(1);
        let parts = u16::try_from(parts)
            .map_err(|_| codec::invalid(format!("record {index} is too large to store")))?;
        for part in 0..parts {
            let from = usize::from(part) * PART_BYTES;
            let to = record.len().min(from + PART_BYTES);
            let frame = frame(PART, *index, part, parts, &record[from..to]);
            values.push((key(*index, part), frame));
        }
        rest = &rest[1..];
    }
    Ok(values)
}

/// How many of the first records share a value.
fn block_of(records: &[(u64, Bytes)]) -> usize {
    let mut bytes = 0;
    let fits = records.iter().zip(records[0].0..).take_while(|((index, record), expected)| {
        bytes += 2 + record.len();
        index == expected && bytes <= PART_BYTES
    });
    fits.count()
}

/// Big-endian, so that sled's order is the log's.
fn key(index: u64, part: u16) -> [u8; 10] {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&index.to_be_bytes());
    key[8..].copy_from_slice(&part.to_be_bytes());
    key
}

fn index_of(key: &[u8]) -> io::Result<u64> {
    let bytes = key.get(..8).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_be_bytes).ok_or_else(|| codec::invalid("log key is short".to_owned()))
}

fn part_of(key: &[u8]) -> io::Result<u16> {
    let bytes = key.get(8..).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u16::from_be_bytes).ok_or_else(|| codec::invalid("log key is short".to_owned()))
}

/// Version, checksum over everything else, number of parts or records, data.
fn frame(version: u8, index: u64, part: u16, count: u16, data: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(FRAME_BYTES + data.len());
    frame.put_u8(version);
    frame.put_u32_le(checksum(version, index, part, count, data));
    frame.put_u16(count);
    frame.put_slice(data);
    frame
}

/// The version, the number of parts or records, and the data.
fn unframe(index: u64, part: u16, value: &[u8]) -> io::Result<(u8, u16, &[u8])> {
    let damaged = || codec::invalid(format!("record {index} fails its checksum"));
    let (head, data) = value.split_at_checked(FRAME_BYTES).ok_or_else(damaged)?;
    let version = head[0];
    if version != PART && version != BLOCK {
        return Err(codec::invalid(format!("record {index} has frame version {version}")));
    }
    let stored = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let count = u16::from_be_bytes([head[5], head[6]]);
    if stored != checksum(version, index, part, count, data) {
        return Err(damaged());
    }
    Ok((version, count, data))
}

fn checksum(version: u8, index: u64, part: u16, count: u16, data: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&[version]);
    let crc = crc32c::crc32c_append(crc, &key(index, part));
    let crc = crc32c::crc32c_append(crc, &count.to_be_bytes());
    crc32c::crc32c_append(crc, data)
}

/// Opens sled; a panic inside it is an error like any other.
fn open_sled(dir: &Path) -> io::Result<sled::Db> {
    let config = sled::Config::new()
        .path(dir)
        .cache_capacity(CACHE_BYTES)
        // Every commit flushes; sled's own timer would only keep an idle disk busy.
        .flush_every_ms(None);
    let patience = Instant::now() + RELEASE;
    loop {
        let Ok(opened) = catch_unwind(AssertUnwindSafe(|| config.open())) else {
            return Err(codec::invalid("sled panicked while opening the log".to_owned()));
        };
        match opened {
            // We hold the directory's own lock, so this is this very process: sled's background
            // threads release its lock a moment after the last handle is dropped.
            Err(sled::Error::Io(error))
                if error.to_string().contains("could not acquire lock")
                    && Instant::now() < patience =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.map_err(from_sled),
        }
    }
}

/// A crash while sled was writing its index leaves a file that makes the next open fail.
fn remove_half_written_snapshots(dir: &Path) -> io::Result<()> {
    for path in snapshots_of(dir)? {
        let unfinished = path.extension().is_some_and(|ext| ext == "generating");
        if unfinished || fs::metadata(&path)?.len() == 0 {
            fs::remove_file(&path)?;
        }
    }
    sync_dir(dir)
}

fn move_snapshots_aside(dir: &Path) -> io::Result<()> {
    for path in snapshots_of(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::rename(&path, dir.join(format!("aside.{name}")))?;
    }
    sync_dir(dir)
}

fn snapshots_of(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn refuse_blobs(dir: &Path) -> io::Result<()> {
    let blobs = dir.join("blobs");
    if blobs.is_dir() && fs::read_dir(&blobs)?.next().is_some() {
        return Err(codec::invalid("log holds blob files, which are never synced".to_owned()));
    }
    Ok(())
}

/// What sled repaired while opening is not durable until this returns.
fn sync_everything(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_dir(dir)
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn record(index: u64, size: usize) -> (u64, Bytes) {
        let byte = u8::try_from(index % 251).unwrap();
        (index, Bytes::from(vec![byte; size]))
    }

    fn mark(index: u64) -> Bytes {
        codec::encode_mark(Some(&crate::types::log_id(1, 1, index)), 7)
    }

    fn append_each(engine: &mut SledEngine, indices: RangeInclusive<u64>) {
        for index in indices {
            engine.commit(&[Op::Append(vec![record(index, 100)])]).unwrap();
        }
    }

    /// sled's files with what is in them.
    fn files_of_sled(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let paths = snapshots_of(dir).unwrap().into_iter().chain([dir.join("db")]);
        paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Makes sled's files what they were.
    fn restore(dir: &Path, files: &[(PathBuf, Vec<u8>)]) {
        for index in snapshots_of(dir).unwrap() {
            fs::remove_file(index).unwrap();
        }
        for (path, bytes) in files {
            fs::write(path, bytes).unwrap();
        }
    }

    /// Flips a bit of each place in the file that holds a record's bytes.
    fn damage(path: &Path, index: u8) {
        let mut bytes = fs::read(path).unwrap();
        let places = bytes.windows(100).enumerate();
        let places: Vec<_> =
            places.filter(|(_, part)| *part == [index; 100]).map(|(place, _)| place).collect();
        assert!(!places.is_empty(), "the record is in the file");
        for place in places {
            bytes[place] ^= 1;
        }
        fs::write(path, bytes).unwrap();
    }

    /// Damage in the middle of the journal ends it, in the middle of sled's file makes sled forget all that
    /// came after: both are refused.
    #[test]
    fn a_log_that_lost_its_end_is_refused() {
        for reopened in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut engine = SledEngine::open(dir.path()).unwrap();
            append_each(&mut engine, 1..=39);
            drop(engine);
            if reopened {
                drop(SledEngine::open(dir.path()).unwrap());
            }
            damage(&dir.path().join(if reopened { "db" } else { "journal" }), 20);
            let refused = SledEngine::open(dir.path()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{refused}");
        }
    }

    /// After a power cut sled's file may be as it was at the last checkpoint: what was confirmed since is
    /// in the journal. Without the journal it is missed.
    #[test]
    fn confirmed_appends_survive_the_loss_of_what_sled_did_not_sync() {
        for journal_lost in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut engine = SledEngine::open(dir.path()).unwrap();
            append_each(&mut engine, 1..=9);
            engine.commit(&[Op::TruncateFrom(6), Op::Append(vec![record(6, 100)])]).unwrap();
            let synced = files_of_sled(dir.path());
            append_each(&mut engine, 7..=39);
            engine.commit(&[Op::Append(vec![record(40, 9_000), record(41, 0)])]).unwrap();
            drop(engine);
            restore(dir.path(), &synced);
            if journal_lost {
                fs::write(dir.path().join("journal"), b"").unwrap();
                assert!(SledEngine::open(dir.path()).is_err(), "41 confirmed records, 6 are there");
                continue;
            }
            let engine = SledEngine::open(dir.path()).unwrap();
            assert_eq!(engine.recovered().indices, Some(1..=41));
            let read = engine.reader().read(1..=41, usize::MAX).unwrap();
            let written = (1..=39).map(|index| record(index, 100));
            let written = written.chain([record(40, 9_000), record(41, 0)]);
            assert_eq!(read, written.collect::<Vec<_>>());
        }
    }

    /// What the journal held before records were cut off must not bring them back.
    #[test]
    fn truncated_records_do_not_come_back_from_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        append_each(&mut engine, 1..=9);
        engine.commit(&[Op::TruncateFrom(4)]).unwrap();
        drop(engine);
        assert_eq!(SledEngine::open(dir.path()).unwrap().recovered().indices, Some(1..=3));
    }

    /// A full journal is emptied by a checkpoint, and a group that is larger than it goes past it.
    #[test]
    fn more_than_the_journal_holds_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        let first = engine.witness.noted.checkpoints;
        let sizes = (1..=200_u64).map(|index| if index == 50 { 600_000 } else { 5_000 });
        let records: Vec<_> = (1..=200).zip(sizes).map(|(i, size)| record(i, size)).collect();
        for one in &records {
            engine.commit(&[Op::Append(vec![one.clone()])]).unwrap();
        }
        let checkpoints = engine.witness.noted.checkpoints - first;
        assert!((2..=4).contains(&checkpoints), "{checkpoints}");
        drop(engine);
        let engine = SledEngine::open(dir.path()).unwrap();
        assert_eq!(engine.reader().read(1..=200, usize::MAX).unwrap(), records);
    }

    /// What was cut off on purpose is not missed, also when the log ends there and is closed.
    #[test]
    fn a_log_that_was_truncated_opens() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let mut engine = SledEngine::open(dir.path()).unwrap();
            engine.commit(&[Op::Append((1..=9).map(|i| record(i, 8)).collect())]).unwrap();
            engine.commit(&[Op::TruncateFrom(4), Op::Append(vec![record(4, 8)])]).unwrap();
            engine.commit(&[Op::TruncateFrom(3 - round)]).unwrap();
        }
        assert_eq!(SledEngine::open(dir.path()).unwrap().recovered().indices, None);
    }

    /// A vote that is lost would let a node vote twice in a term.
    #[test]
    fn a_lost_vote_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        engine.commit(&[Op::Vote(Bytes::from_static(b"v"))]).unwrap();
        engine.meta.insert(CHECKPOINT, &0_u64.to_be_bytes()).unwrap();
        engine.db.flush().unwrap();
        drop(engine);
        assert!(SledEngine::open(dir.path()).is_err());
    }

    #[test]
    fn what_was_committed_is_there_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let records = vec![record(1, 10), record(2, 200_000), record(3, 0)];
        {
            let mut engine = SledEngine::open(dir.path()).unwrap();
            let ops = [
                Op::Vote(Bytes::from_static(b"v")),
                Op::Append(records.clone()),
                Op::Committed(Bytes::from_static(b"c")),
            ];
            engine.commit(&ops).unwrap();
        }
        let engine = SledEngine::open(dir.path()).unwrap();
        let recovered = engine.recovered();
        assert_eq!(recovered.vote.as_deref(), Some(b"v".as_slice()));
        assert_eq!(recovered.committed.as_deref(), Some(b"c".as_slice()));
        assert_eq!(recovered.indices, Some(1..=3));
        assert_eq!(engine.reader().read(1..=3, usize::MAX).unwrap(), records);
    }

    /// Pages of large values must not grow into files that sled never syncs.
    #[test]
    fn no_size_of_record_makes_a_blob() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        let mut next = 1;
        for size in [3_900, 4_096, 4_097, 60_000, 65_536, 300_000, 2 << 20] {
            for _ in 0..40 {
                engine.commit(&[Op::Append(vec![record(next, size)])]).unwrap();
                next += 1;
            }
            engine.commit(&[Op::TruncateFrom(next - 10)]).unwrap();
            next -= 10;
            refuse_blobs(dir.path()).unwrap();
        }
        engine.commit(&[Op::Purge { upto: next / 2, mark: mark(next / 2) }]).unwrap();
        while engine.reclaim().unwrap() == Reclaim::More {}
        refuse_blobs(dir.path()).unwrap();
    }

    #[test]
    fn truncated_and_purged_records_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        engine.commit(&[Op::Append((1..=3000).map(|i| record(i, 8)).collect())]).unwrap();
        engine.commit(&[Op::TruncateFrom(2901)]).unwrap();
        engine.commit(&[Op::Purge { upto: 2500, mark: mark(2500) }]).unwrap();
        while engine.reclaim().unwrap() == Reclaim::More {}
        assert_eq!(engine.log.len(), 2, "409 of these records fill a block");
        drop(engine);
        let engine = SledEngine::open(dir.path()).unwrap();
        assert_eq!(engine.recovered().indices, Some(2501..=2900));
        let kept: Vec<_> = (2501..=2900).map(|index| record(index, 8)).collect();
        assert_eq!(engine.reader().read(2501..=2900, usize::MAX).unwrap(), kept);
    }

    #[test]
    fn records_purged_but_not_yet_deleted_do_not_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        engine.commit(&[Op::Append((1..=9).map(|i| record(i, 8)).collect())]).unwrap();
        engine.commit(&[Op::Purge { upto: 9, mark: mark(9) }]).unwrap();
        drop(engine);
        assert_eq!(SledEngine::open(dir.path()).unwrap().recovered().indices, None);
    }

    #[test]
    fn a_read_stops_at_the_byte_limit_but_never_before_the_first_record() {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        engine.commit(&[Op::Append((1..=9).map(|i| record(i, 100)).collect())]).unwrap();
        let reader = engine.reader();
        assert_eq!(reader.read(1..=9, 1).unwrap().len(), 1);
        assert_eq!(reader.read(1..=9, 250).unwrap().len(), 3);
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let frame = frame(PART, 7, 0, 1, b"payload");
        assert_eq!(unframe(7, 0, &frame).unwrap(), (PART, 1, b"payload".as_slice()));
        for at in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(unframe(7, 0, &damaged).is_err(), "bit {at}");
        }
        assert!(unframe(8, 0, &frame).is_err(), "a record at another index");
    }

    /// Both leftovers make sled refuse the next open if nobody removes them.
    #[test]
    fn leftovers_of_a_crash_in_sled_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        SledEngine::open(dir.path()).unwrap().commit(&[Op::Append(vec![record(1, 8)])]).unwrap();
        fs::write(dir.path().join("snap.00000000000000FF.generating"), b"half").unwrap();
        fs::write(dir.path().join("snap.00000000000000FF"), b"").unwrap();
        let engine = SledEngine::open(dir.path()).unwrap();
        assert_eq!(engine.recovered().indices, Some(1..=1));
    }

    #[test]
    fn an_unreadable_index_is_rebuilt_from_the_log() {
        let dir = tempfile::tempdir().unwrap();
        SledEngine::open(dir.path()).unwrap().commit(&[Op::Append(vec![record(1, 8)])]).unwrap();
        fs::write(dir.path().join("snap.7FFFFFFFFFFFFFFF"), b"not an index at all").unwrap();
        let engine = SledEngine::open(dir.path()).unwrap();
        assert_eq!(engine.recovered().indices, Some(1..=1));
    }

    /// What befalls a log.
    #[derive(Debug, Clone)]
    enum Step {
        Append(Vec<usize>),
        /// Truncates this many records off the end, and appends one in the same group or not.
        Truncate(u64, Option<usize>),
        /// Purges this many records off the front.
        Purge(u64),
        Reclaim,
        Reopen,
        /// What sled wrote since the last checkpoint is lost.
        PowerCut,
    }

    fn step() -> impl Strategy<Value = Step> {
        let size = prop_oneof![8 => 0..40_usize, 8 => 300..900_usize, 3 => 3_000..9_000_usize];
        let large = prop_oneof![40 => size, 1 => 530_000..540_000_usize];
        prop_oneof![
            12 => proptest::collection::vec(large, 1..12).prop_map(Step::Append),
            2 => (1..30_u64, proptest::option::of(0..400_usize))
                .prop_map(|(count, append)| Step::Truncate(count, append)),
            2 => (1..40_u64).prop_map(Step::Purge),
            1 => Just(Step::Reclaim),
            1 => Just(Step::Reopen),
            2 => Just(Step::PowerCut),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever happens, the log is what was confirmed, record by record.
        #[test]
        fn the_log_is_what_was_confirmed(steps in proptest::collection::vec(step(), 1..40)) {
            let dir = tempfile::tempdir().unwrap();
            let mut engine = SledEngine::open(dir.path()).unwrap();
            let mut synced = (engine.witness.noted.checkpoints, files_of_sled(dir.path()));
            let mut expected: VecDeque<(u64, Bytes)> = VecDeque::new();
            let mut next = 1;
            for step in steps {
                match step {
                    Step::Append(sizes) => {
                        let sizes = sizes.into_iter().zip(next..);
                        let records: Vec<_> = sizes.map(|(size, i)| record(i, size)).collect();
                        engine.commit(&[Op::Append(records.clone())]).unwrap();
                        next += records.len() as u64;
                        expected.extend(records);
                    }
                    Step::Truncate(count, append) => {
                        let count = count.min(expected.len() as u64);
                        next -= count;
                        expected.retain(|(index, _)| *index < next);
                        let mut ops = vec![Op::TruncateFrom(next)];
                        if let Some(size) = append {
                            expected.push_back(record(next, size));
                            ops.push(Op::Append(vec![record(next, size)]));
                            next += 1;
                        }
                        engine.commit(&ops).unwrap();
                    }
                    Step::Purge(count) => {
                        // One always stays.
                        let upto = (next.saturating_sub(1 + expected.len() as u64) + count).min(next.saturating_sub(2));
                        if upto > 0 && expected.front().is_some_and(|(first, _)| *first <= upto) {
                            engine.commit(&[Op::Purge { upto, mark: mark(upto) }]).unwrap();
                            expected.retain(|(index, _)| *index > upto);
                        }
                    }
                    Step::Reclaim => {
                        engine.reclaim().unwrap();
                    }
                    Step::Reopen | Step::PowerCut => {
                        drop(engine);
                        if matches!(step, Step::PowerCut) {
                            restore(dir.path(), &synced.1);
                        }
                        engine = SledEngine::open(dir.path()).unwrap();
                        let ends = expected.front().zip(expected.back());
                        let indices = ends.map(|((first, _), (last, _))| *first..=*last);
                        prop_assert_eq!(engine.recovered().indices, indices);
                    }
                }
                if engine.witness.noted.checkpoints != synced.0 {
                    synced = (engine.witness.noted.checkpoints, files_of_sled(dir.path()));
                }
                if let Some((first, _)) = expected.front() {
                    let read = engine.reader().read(*first..=next, usize::MAX).unwrap();
                    prop_assert_eq!(read, Vec::from(expected.clone()));
                }
            }
        }
    }

    #[test]
    fn bytes_on_disk_are_frozen() {
        let frame = frame(PART, 0x0102_0304, 1, 3, b"jaco");
        assert_eq!(hex::encode(key(0x0102_0304, 1)), "00000000010203040001");
        expect_test::expect!["018556f00400036a61636f"].assert_eq(&hex::encode(frame));
        let records = [(5, Bytes::from_static(b"ja")), (6, Bytes::new())];
        let values = values_of(&records).unwrap();
        assert_eq!(hex::encode(values[0].0), "00000000000000050000");
        expect_test::expect!["0235218315000200026a610000"].assert_eq(&hex::encode(&values[0].1));
    }
}
