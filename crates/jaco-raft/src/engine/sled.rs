//! The log on sled 0.34.7, made as durable as it claims to be.
//!
//! sled's own `flush()` calls `sync_file_range`, which survives a killed process and not a power
//! cut, so every commit ends with one `fdatasync` of sled's `db` file. Must never hold a value over
//! 4 KiB (pages over 128 KiB go to blob files that sled does not sync), a snapshot, or a second
//! process.

use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};

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
/// Version of the frame around each part.
const FRAME: u8 = 1;
/// Version, crc32c, number of parts.
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
/// Number of the group that was committed last.
const GROUP: &[u8] = b"group";
/// The file, outside of sled, that remembers the same number.
const WITNESS: &str = "witness";
/// Number, crc32c.
const WITNESS_BYTES: usize = 8 + 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct SledEngine {
    db: sled::Db,
    log: sled::Tree,
    meta: sled::Tree,
    /// sled's `db` file, opened by us only to be synced.
    file: File,
    recovered: Recovered,
    /// Number of the group that was committed last.
    group: u64,
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
        let group = read_group(&meta)?;
        let witness = Witness::open(dir)?;
        witness.check(group)?;
        let recovered = Recovered::default();
        let mut engine = Self { db, log, meta, file, recovered, group, witness, purged: None };
        engine.recovered = engine.recover()?;
        engine.barrier()?;
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
        let first = self.log.range(key(first_kept, 0)..).keys().next();
        let last = self.log.last().map_err(from_sled)?;
        if let (Some(first), Some((last, _))) = (first, last) {
            let first = index_of(&first.map_err(from_sled)?)?;
            let last = index_of(&last)?;
            recovered.indices = Some(first..=last);
        }
        Ok(recovered)
    }

    /// Returns when everything written so far is on stable storage.
    fn barrier(&self) -> io::Result<()> {
        self.db.flush().map_err(from_sled)?;
        self.file.sync_data()
    }

    fn append(&self, records: &[(u64, Bytes)], batch: &mut sled::Batch) -> io::Result<()> {
        for (index, record) in records {
            let parts = record.len().div_ceil(PART_BYTES).max(1);
            let parts = u16::try_from(parts)
                .map_err(|_| codec::invalid(format!("record {index} is too large to store")))?;
            for part in 0..parts {
                let from = usize::from(part) * PART_BYTES;
                let to = record.len().min(from + PART_BYTES);
                let frame = frame(*index, part, parts, &record[from..to]);
                batch.insert(key(*index, part).as_slice(), frame.as_ref());
            }
        }
        Ok(())
    }

    /// Removes from the end backward, so that a reader never sees a hole.
    fn truncate(&self, from: u64, batch: &mut sled::Batch) -> io::Result<()> {
        for found in self.log.range(key(from, 0)..).keys().rev() {
            batch.remove(found.map_err(from_sled)?);
        }
        Ok(())
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
        let mut appends = sled::Batch::default();
        let mut pending = false;
        for op in ops {
            // Neighbouring appends share one batch; anything else must come after them.
            if pending && !matches!(op, Op::Append(_)) {
                self.log.apply_batch(std::mem::take(&mut appends)).map_err(from_sled)?;
                pending = false;
            }
            match op {
                Op::Append(records) => {
                    self.append(records, &mut appends)?;
                    pending = true;
                }
                Op::TruncateFrom(from) => {
                    let mut batch = sled::Batch::default();
                    self.truncate(*from, &mut batch)?;
                    self.log.apply_batch(batch).map_err(from_sled)?;
                }
                // The records go later: once the mark is durable nobody reads them.
                Op::Purge { upto, mark } => {
                    self.put_meta(PURGED, mark)?;
                    self.purged = Some(*upto);
                }
                Op::Vote(vote) => self.put_meta(VOTE, vote)?,
                Op::Committed(mark) => self.put_meta(COMMITTED, mark)?,
            }
        }
        if pending {
            self.log.apply_batch(appends).map_err(from_sled)?;
        }
        self.group += 1;
        self.meta.insert(GROUP, &self.group.to_be_bytes()).map_err(from_sled)?;
        self.barrier()?;
        self.witness.note(self.group)
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(SledReader { log: self.log.clone() })
    }

    fn reclaim(&mut self) -> io::Result<Reclaim> {
        let Some(purged) = self.purged else {
            return Ok(Reclaim::Done);
        };
        let mut batch = sled::Batch::default();
        let mut count = 0;
        for found in self.log.range(..key(purged + 1, 0)).keys().take(RECLAIM_KEYS) {
            batch.remove(found.map_err(from_sled)?);
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
}

impl LogReader for SledReader {
    fn read(&self, range: RangeInclusive<u64>, max_bytes: usize) -> io::Result<Vec<(u64, Bytes)>> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut open: Option<OpenRecord> = None;
        for item in self.log.range(key(*range.start(), 0)..=key(*range.end(), u16::MAX)) {
            let (found, value) = item.map_err(from_sled)?;
            let index = index_of(&found)?;
            let part = part_of(&found)?;
            let (parts, data) = unframe(index, part, &value)?;
            let record = match open.take() {
                None if part == 0 => OpenRecord { index, parts, next: 0, data: BytesMut::new() },
                Some(record) if record.index == index && record.next == part => record,
                None | Some(_) => return Err(codec::invalid(format!("record {index} has a hole"))),
            };
            let record = record.push(data);
            if record.next < record.parts {
                open = Some(record);
                continue;
            }
            bytes += record.data.len();
            records.push((index, record.data.freeze()));
            if bytes >= max_bytes {
                return Ok(records);
            }
        }
        match open {
            None => Ok(records),
            Some(record) => Err(codec::invalid(format!("record {} has no end", record.index))),
        }
    }
}

/// Remembers, outside of sled, how many groups were durable.
///
/// sled takes damage in the middle of its file for a write that a crash cut short: it forgets all that
/// came after and opens. What is left looks whole, because a log may end anywhere; only somebody who
/// knows how far it went can tell. The number is written after each group and not synced for itself:
/// it survives a killed process, after a power cut it may be older than the log, and it is never newer.
#[derive(Debug)]
struct Witness {
    file: File,
    noted: u64,
}

impl Witness {
    fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(WITNESS);
        let file =
            File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        let mut bytes = [0; WITNESS_BYTES];
        // A new file, and one that was cut short or damaged itself, know nothing.
        let noted = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => decode_witness(bytes).unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        Ok(Self { file, noted })
    }

    /// Refuses a log that ends before what was durable in it.
    fn check(&self, group: u64) -> io::Result<()> {
        if group < self.noted {
            let noted = self.noted;
            return Err(codec::invalid(format!("it ends at group {group} of {noted}")));
        }
        Ok(())
    }

    fn note(&mut self, group: u64) -> io::Result<()> {
        self.noted = group;
        self.file.write_all_at(&encode_witness(group), 0)
    }
}

fn encode_witness(group: u64) -> [u8; WITNESS_BYTES] {
    let mut bytes = [0; WITNESS_BYTES];
    bytes[..8].copy_from_slice(&group.to_be_bytes());
    bytes[8..].copy_from_slice(&crc32c::crc32c(&group.to_be_bytes()).to_be_bytes());
    bytes
}

fn decode_witness(bytes: [u8; WITNESS_BYTES]) -> Option<u64> {
    let group = u64::from_be_bytes(bytes[..8].try_into().ok()?);
    (encode_witness(group) == bytes).then_some(group)
}

fn read_group(meta: &sled::Tree) -> io::Result<u64> {
    let Some(stored) = meta.get(GROUP).map_err(from_sled)? else { return Ok(0) };
    let bytes = stored.as_ref().try_into();
    bytes.map(u64::from_be_bytes).map_err(|_| codec::invalid("group number".to_owned()))
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

/// Version, checksum over everything else, number of parts, data.
fn frame(index: u64, part: u16, parts: u16, data: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(FRAME_BYTES + data.len());
    frame.put_u8(FRAME);
    frame.put_u32_le(checksum(index, part, parts, data));
    frame.put_u16(parts);
    frame.put_slice(data);
    frame
}

fn unframe(index: u64, part: u16, value: &[u8]) -> io::Result<(u16, &[u8])> {
    let damaged = || codec::invalid(format!("record {index} fails its checksum"));
    let (head, data) = value.split_at_checked(FRAME_BYTES).ok_or_else(damaged)?;
    if head[0] != FRAME {
        return Err(codec::invalid(format!("record {index} has frame version {}", head[0])));
    }
    let stored = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let parts = u16::from_be_bytes([head[5], head[6]]);
    if stored != checksum(index, part, parts, data) {
        return Err(damaged());
    }
    Ok((parts, data))
}

fn checksum(index: u64, part: u16, parts: u16, data: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&[FRAME]);
    let crc = crc32c::crc32c_append(crc, &key(index, part));
    let crc = crc32c::crc32c_append(crc, &parts.to_be_bytes());
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
    use super::*;

    fn record(index: u64, size: usize) -> (u64, Bytes) {
        let byte = u8::try_from(index % 251).unwrap();
        (index, Bytes::from(vec![byte; size]))
    }

    fn mark(index: u64) -> Bytes {
        codec::encode_mark(Some(&crate::types::log_id(1, 1, index)), 7)
    }

    /// Damage in the middle makes sled forget all that came after; that is refused, with sled's index
    /// of the file and without.
    #[test]
    fn a_log_that_lost_its_end_is_refused() {
        for reopened in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut engine = SledEngine::open(dir.path()).unwrap();
            for index in 1..40 {
                engine.commit(&[Op::Append(vec![record(index, 100)])]).unwrap();
            }
            drop(engine);
            if reopened {
                drop(SledEngine::open(dir.path()).unwrap());
            }
            let path = dir.path().join("db");
            let mut bytes = fs::read(&path).unwrap();
            let places = bytes.windows(100).enumerate();
            let places: Vec<_> =
                places.filter(|(_, part)| *part == [20; 100]).map(|(place, _)| place).collect();
            assert!(!places.is_empty(), "the record is in the file");
            for place in places {
                bytes[place] ^= 1;
            }
            fs::write(&path, bytes).unwrap();
            let refused = SledEngine::open(dir.path()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{refused}");
        }
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
        assert_eq!(engine.log.len(), 400);
        drop(engine);
        let engine = SledEngine::open(dir.path()).unwrap();
        assert_eq!(engine.recovered().indices, Some(2501..=2900));
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
        let frame = frame(7, 0, 1, b"payload");
        assert_eq!(unframe(7, 0, &frame).unwrap(), (1, b"payload".as_slice()));
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

    #[test]
    fn bytes_on_disk_are_frozen() {
        let frame = frame(0x0102_0304, 1, 3, b"jaco");
        assert_eq!(hex::encode(key(0x0102_0304, 1)), "00000000010203040001");
        expect_test::expect!["018556f00400036a61636f"].assert_eq(&hex::encode(frame));
    }
}
