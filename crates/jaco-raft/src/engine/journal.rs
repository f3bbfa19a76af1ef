//! A short write-ahead file in front of sled: its records are durable before sled has written them.
//!
//! A commit through sled alone costs a buffer, a hand-over to one of sled's threads (all of which
//! wake up for it), and a sync of a growing file. An append here is one write and one `fdatasync`
//! by the calling thread, of a file whose blocks are allocated. Must never be read with another
//! generation than the number of sled's last checkpoint: records of an older one may have been
//! truncated since.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::disk::sync_dir;

/// Name of the file.
pub(super) const JOURNAL: &str = "journal";
/// Length of the file, and thereby how much sled may have to write at a checkpoint: one of its
/// segments, so that it never reuses one before the data moved out of it is on stable storage.
pub(super) const JOURNAL_BYTES: usize = 512 << 10;
/// Length of the body, crc32c of all that follows it, generation.
const HEAD_BYTES: usize = 4 + 4 + 8;
/// Index and length of a record.
const RECORD_BYTES: usize = 8 + 4;

/// Whether a group of records was written to the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Journaled {
    /// Written and durable.
    Yes,
    /// No room; nothing was written.
    NoRoom,
}

/// What was read from a journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) records: Vec<(u64, Bytes)>,
    /// Offset of the first byte that is of no complete group of the generation.
    pub(super) end: usize,
}

/// The write-ahead file; see the module.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// Offset of the next group.
    end: usize,
    generation: u64,
    /// Reused to save allocations.
    buffer: BytesMut,
}

impl Journal {
    /// Opens or creates the file in `dir`. Call [`Self::restart`] before the first append.
    ///
    /// # Errors
    /// As the file system says.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(JOURNAL);
        let file =
            File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        // Written, not only reserved: otherwise the first write to each block changes the file's
        // metadata, and a sync waits for the file system's own journal.
        let present = file.metadata()?.len();
        if present < JOURNAL_BYTES as u64 {
            let missing = vec![0; JOURNAL_BYTES - usize::try_from(present).unwrap_or(0)];
            file.write_all_at(&missing, present)?;
            file.sync_all()?;
            sync_dir(dir)?;
        }
        Ok(Self { file, end: JOURNAL_BYTES, generation: 0, buffer: BytesMut::new() })
    }

    /// The records appended in this generation, in order. Reading ends at a truncated or damaged
    /// group: either it was never confirmed, or the recorded log extent reveals the loss.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn replay(&self, generation: u64) -> io::Result<Replayed> {
        let mut bytes = vec![0; JOURNAL_BYTES];
        self.file.read_exact_at(&mut bytes, 0)?;
        let mut rest = bytes.as_slice();
        let mut records = Vec::new();
        while let Some(body) = next_group(&mut rest, generation) {
            records.extend(records_of(body)?);
        }
        Ok(Replayed { records, end: JOURNAL_BYTES - rest.len() })
    }

    /// Discards the content, because sled has it on stable storage together with this generation.
    pub(super) fn restart(&mut self, generation: u64) {
        self.generation = generation;
        self.end = 0;
    }

    /// Appends a group; durable if this returns `Yes`. An empty group is a no-op.
    ///
    /// # Errors
    /// On an I/O error; the journal must not be used any more then.
    pub(super) fn append(&mut self, records: &[(u64, Bytes)]) -> io::Result<Journaled> {
        if records.is_empty() {
            return Ok(Journaled::Yes);
        }
        let body: usize = records.iter().map(|(_, record)| RECORD_BYTES + record.len()).sum();
        let (Ok(length), true) =
            (u32::try_from(body), self.end + HEAD_BYTES + body <= JOURNAL_BYTES)
        else {
            return Ok(Journaled::NoRoom);
        };
        let buffer = &mut self.buffer;
        buffer.clear();
        buffer.put_u32_le(length);
        buffer.put_u32_le(0);
        buffer.put_u64_le(self.generation);
        for (index, record) in records {
            buffer.put_u64_le(*index);
            buffer.put_u32_le(u32::try_from(record.len()).expect("it is shorter than the body"));
            buffer.put_slice(record);
        }
        let sum = crc32c::crc32c(&buffer[8..]);
        buffer[4..8].copy_from_slice(&sum.to_le_bytes());
        self.file.write_all_at(buffer, self.end as u64)?;
        self.file.sync_data()?;
        self.end += buffer.len();
        Ok(Journaled::Yes)
    }
}

/// Reads groups of generation 7 whose checksums are right, whatever else they hold; for mutations.
#[cfg(feature = "testing")]
pub(super) fn read_with_checksums(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let end =
            usize::try_from(length).ok().and_then(|length| (at + HEAD_BYTES).checked_add(length));
        let Some(rest) = end.and_then(|end| bytes.get(at + 8..end)) else { break };
        let sum = crc32c::crc32c(rest);
        bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        at = end.unwrap_or(bytes.len());
    }
    let mut rest = bytes.as_slice();
    while let Some(body) = next_group(&mut rest, 7) {
        drop(records_of(body));
    }
}

/// Splits off the next group of this generation, if it is complete.
fn next_group<'b>(rest: &mut &'b [u8], generation: u64) -> Option<&'b [u8]> {
    let (mut head, tail) = rest.split_at_checked(HEAD_BYTES)?;
    let length = usize::try_from(head.get_u32_le()).ok()?;
    let sum = head.get_u32_le();
    let (body, after) = tail.split_at_checked(length)?;
    let found = crc32c::crc32c(&rest[8..HEAD_BYTES + length]);
    if head.get_u64_le() != generation || sum != found || length == 0 {
        return None;
    }
    *rest = after;
    Some(body)
}

fn records_of(mut body: &[u8]) -> io::Result<Vec<(u64, Bytes)>> {
    let malformed = || crate::codec::invalid("a group of the journal is malformed".to_owned());
    let mut records = Vec::new();
    while !body.is_empty() {
        let (mut head, tail) = body.split_at_checked(RECORD_BYTES).ok_or_else(malformed)?;
        let index = head.get_u64_le();
        let length = usize::try_from(head.get_u32_le()).map_err(|_| malformed())?;
        let (record, tail) = tail.split_at_checked(length).ok_or_else(malformed)?;
        records.push((index, Bytes::copy_from_slice(record)));
        body = tail;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(index: u8, size: usize) -> (u64, Bytes) {
        (index.into(), Bytes::from(vec![index; size]))
    }

    fn groups() -> [Vec<(u64, Bytes)>; 3] {
        [vec![value(1, 10)], vec![value(2, 0), value(3, 300)], vec![value(4, 77)]]
    }

    /// A journal of generation 7 that holds `groups`, and where each of them ends.
    fn written(dir: &Path) -> (Journal, Vec<usize>) {
        let mut journal = Journal::open(dir).unwrap();
        journal.restart(7);
        let mut ends = Vec::new();
        for group in groups() {
            assert_eq!(journal.append(&group).unwrap(), Journaled::Yes);
            ends.push(journal.end);
        }
        (journal, ends)
    }

    /// After a flip of any byte the groups before it are read, and nothing that was not written.
    #[test]
    fn reading_ends_at_damage() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, ends) = written(dir.path());
        assert_eq!(journal.replay(7).unwrap().records, groups().concat());
        for at in 0..*ends.last().unwrap() {
            let mut byte = [0];
            journal.file.read_exact_at(&mut byte, at as u64).unwrap();
            journal.file.write_all_at(&[byte[0] ^ 0x10], at as u64).unwrap();
            let whole = ends.iter().take_while(|end| **end <= at).count();
            let replayed = journal.replay(7).unwrap();
            assert_eq!(replayed.records, groups()[..whole].concat(), "byte {at}");
            assert_eq!(replayed.end, ends[..whole].last().copied().unwrap_or(0), "byte {at}");
            journal.file.write_all_at(&byte, at as u64).unwrap();
        }
    }

    /// Groups of another generation are not read, also behind complete ones of this generation.
    #[test]
    fn older_generation_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = written(dir.path());
        journal.restart(8);
        assert_eq!(journal.replay(8).unwrap().records, []);
        // As long as the first group before, so that the second one remains complete behind it.
        journal.append(&[value(9, 10)]).unwrap();
        assert_eq!(journal.replay(8).unwrap().records, [value(9, 10)]);
        assert_eq!(journal.replay(7).unwrap().records, []);
    }

    #[test]
    fn full_journal_is_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = written(dir.path());
        let large = [value(5, JOURNAL_BYTES - 100)];
        assert_eq!(journal.append(&large).unwrap(), Journaled::NoRoom);
        assert_eq!(journal.replay(7).unwrap().records, groups().concat());
        assert_eq!(journal.append(&[value(6, 5)]).unwrap(), Journaled::Yes);
        assert_eq!(journal.append(&[]).unwrap(), Journaled::Yes);
        assert_eq!(journal.replay(7).unwrap().records.len(), 5);
        assert_eq!(journal.file.metadata().unwrap().len(), JOURNAL_BYTES as u64);
    }

    #[test]
    fn bytes_on_disk_are_frozen() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path()).unwrap();
        journal.restart(7);
        journal.append(&[value(1, 3), value(2, 0)]).unwrap();
        let mut bytes = vec![0; journal.end];
        journal.file.read_exact_at(&mut bytes, 0).unwrap();
        expect_test::expect![
            "1b00000019940d200700000000000000010000000000000003000000010101020000000000000000000000"
        ]
        .assert_eq(&hex::encode(bytes));
    }
}
