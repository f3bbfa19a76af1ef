//! The headers of tar archives, by POSIX.1-1988 (ustar).

use std::ops::Range;

/// Bytes of a block of a tar archive.
pub(crate) const BLOCK_BYTES: usize = 512;

/// An archive without entries: its end.
pub(crate) const EMPTY_ARCHIVE: [u8; 2 * BLOCK_BYTES] = [0; 2 * BLOCK_BYTES];

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const TIME: Range<usize> = 136..148;
const MAGIC: Range<usize> = 257..265;
const CHECKSUM: Range<usize> = 148..156;
const TYPE: usize = 156;
const FOLDER: u8 = b'5';
const FILE: u8 = b'0';
/// Of an extension: what follows is the name of the next entry.
const LONG_NAME: u8 = b'L';
const PREFIX: Range<usize> = 345..500;

/// Whether this header is of the root.
pub(crate) fn is_root(header: &[u8]) -> bool {
    let name = header[NAME].split(|byte| *byte == 0).next().unwrap_or_default();
    header[TYPE] == FOLDER && [&b"./"[..], b"."].contains(&name) && header[PREFIX.start] == 0
}

/// Gives the entry another name, of less than 99 bytes.
pub(crate) fn rename(header: &mut [u8], name: &str) {
    header[NAME].fill(0);
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[name.len()] = b'/';
    sum(header);
}

/// An archive of one empty folder, which is root's.
pub(crate) fn folder(name: &str) -> Vec<u8> {
    archive(&format!("{name}/"), FOLDER, "0000755")
}

/// An archive of one empty file, which is root's.
pub(crate) fn empty_file(name: &str) -> Vec<u8> {
    archive(name, FILE, "0000600")
}

fn archive(name: &str, kind: u8, mode: &str) -> Vec<u8> {
    let mut archive = Vec::new();
    if name.len() >= NAME.len() {
        archive.extend(header("././@LongLink", LONG_NAME, mode, name.len() + 1));
        archive.extend(name.as_bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(BLOCK_BYTES), 0);
    }
    archive.extend(header(name, kind, mode, 0));
    archive.extend(EMPTY_ARCHIVE);
    archive
}

/// A header; of a name that is too long, only its beginning.
fn header(name: &str, kind: u8, mode: &str, size: usize) -> [u8; BLOCK_BYTES] {
    let mut header = [0; BLOCK_BYTES];
    let name = &name.as_bytes()[..name.len().min(NAME.len() - 1)];
    header[..name.len()].copy_from_slice(name);
    header[TYPE] = kind;
    let mut put = |range: Range<usize>, text: &str| {
        header[range.start..range.start + text.len()].copy_from_slice(text.as_bytes());
    };
    put(MODE, mode);
    put(UID, "0000000");
    put(GID, "0000000");
    put(SIZE, &format!("{size:011o}"));
    put(TIME, "00000000000");
    put(MAGIC, "ustar  ");
    sum(&mut header);
    header
}

fn sum(header: &mut [u8]) {
    header[CHECKSUM].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let digits = format!("{sum:06o}\0 ");
    header[CHECKSUM].copy_from_slice(digits.as_bytes());
}
