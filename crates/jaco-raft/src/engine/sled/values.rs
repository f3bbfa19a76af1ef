//! Encoding of log records as sled keys and values. Existing logs must stay readable for ever.

use std::io;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::from_sled;
use crate::codec;

/// Bytes of a record that go into one sled value.
///
/// Not the value but the page must stay small: a leaf is split when it holds more than 16 values
/// and merged with a sibling when it holds fewer than 4, so up to 20 values are written as one
/// page. A page over a quarter of a segment (128 KiB) becomes a blob file, which sled never syncs;
/// 20 values of this size stay under 90 KiB.
const PART_BYTES: usize = 4 << 10;
/// Version of the frame around a part of a record.
const PART: u8 = 1;
/// Version of the frame around several whole records: each key costs sled as much as copying a
/// page.
const BLOCK: u8 = 2;
/// Version, crc32c, number of parts or of records.
const FRAME_BYTES: usize = 1 + 4 + 2;

/// A decoded value.
pub(super) enum Stored<'v> {
    /// A part of a record.
    Part { index: u64, part: u16, parts: u16, data: &'v [u8] },
    /// Whole records at consecutive indices.
    Block { first: u64, records: Vec<Bytes> },
}

impl<'v> Stored<'v> {
    pub(super) fn read(key: &[u8], value: &'v [u8]) -> io::Result<Self> {
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

    /// The last index it holds.
    pub(super) fn last(&self) -> u64 {
        match self {
            Self::Part { index, .. } => *index,
            // The key is what a disk says: it may be any.
            Self::Block { first, records } => first.saturating_add(records.len() as u64 - 1),
        }
    }
}

/// Key at which the record at `index` begins, or would.
pub(super) fn start_of(log: &sled::Tree, index: u64) -> io::Result<[u8; 10]> {
    let before = log.range(..key(index, 0)).next_back().transpose().map_err(from_sled)?;
    let Some((found, value)) = before else { return Ok(key(index, 0)) };
    let stored = Stored::read(&found, &value)?;
    let holds = matches!(stored, Stored::Block { .. }) && stored.last() >= index;
    Ok(if holds { key(index_of(&found)?, 0) } else { key(index, 0) })
}

/// Encodes records as values: blocks of small ones, parts of large ones.
pub(super) fn values_of(records: &[(u64, Bytes)]) -> io::Result<Vec<([u8; 10], BytesMut)>> {
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

/// Number of leading records that share a value.
fn block_of(records: &[(u64, Bytes)]) -> usize {
    let mut bytes = 0;
    let fits = records.iter().zip(records[0].0..).take_while(|((index, record), expected)| {
        bytes += 2 + record.len();
        index == expected && bytes <= PART_BYTES
    });
    fits.count()
}

/// Big-endian, so that sled's order is the log's.
pub(super) fn key(index: u64, part: u16) -> [u8; 10] {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&index.to_be_bytes());
    key[8..].copy_from_slice(&part.to_be_bytes());
    key
}

pub(super) fn index_of(key: &[u8]) -> io::Result<u64> {
    let bytes = key.get(..8).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_be_bytes).ok_or_else(|| codec::invalid("log key is short".to_owned()))
}

fn part_of(key: &[u8]) -> io::Result<u16> {
    let bytes = key.get(8..).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u16::from_be_bytes).ok_or_else(|| codec::invalid("log key is short".to_owned()))
}

/// Reads a key and a value with the right checksum, whatever else they hold; for mutations.
#[cfg(feature = "testing")]
pub(super) fn read_with_checksum(bytes: &[u8]) {
    let (key, value) = bytes.split_at(bytes.len().min(10));
    let mut value = value.to_vec();
    if let (Ok(index), Ok(part), Some(head)) =
        (index_of(key), part_of(key), value.get(..FRAME_BYTES))
    {
        let count = u16::from_be_bytes([head[5], head[6]]);
        let sum = checksum(head[0], index, part, count, &value[FRAME_BYTES..]);
        value[1..5].copy_from_slice(&sum.to_le_bytes());
    }
    if let Ok(stored) = Stored::read(key, &value) {
        stored.last();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipped_bit_is_detected() {
        let frame = frame(PART, 7, 0, 1, b"payload");
        assert_eq!(unframe(7, 0, &frame).unwrap(), (PART, 1, b"payload".as_slice()));
        for at in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(unframe(7, 0, &damaged).is_err(), "bit {at}");
        }
        assert!(unframe(8, 0, &frame).is_err(), "a record at another index");
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
