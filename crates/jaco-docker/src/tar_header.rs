//! The headers of tar archives, by POSIX.1-1988 (ustar) with the long names and large numbers of GNU tar.

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
const CHECKSUM: Range<usize> = 148..156;
const TYPE: usize = 156;
const LINK: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..265;
const DEVICE_MAJOR: Range<usize> = 329..337;
const DEVICE_MINOR: Range<usize> = 337..345;
const PREFIX: Range<usize> = 345..500;

const FOLDER: u8 = b'5';
/// Of an extension: what follows is the name of the next entry.
const LONG_NAME: u8 = b'L';
/// Of an extension: what follows is the target of the next entry, a link.
const LONG_LINK: u8 = b'K';
/// Of an extension: what follows are records about the next entry.
const RECORDS: u8 = b'x';

/// An entry of an archive, without its contents. Names and targets are bytes, as file systems have them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'e> {
    pub(crate) name: &'e [u8],
    pub(crate) content: Content<'e>,
    /// The permissions, without the type.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// In seconds since 1970.
    pub(crate) modified: u64,
}

/// What an entry is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'e> {
    /// A file of so many bytes, which follow in whole blocks.
    File(u64),
    Folder,
    /// Leads to this path.
    SymbolicLink(&'e [u8]),
    /// Another name of this entry of the archive.
    HardLink(&'e [u8]),
    Pipe,
    CharacterDevice {
        major: u32,
        minor: u32,
    },
    BlockDevice {
        major: u32,
        minor: u32,
    },
}

impl Entry<'_> {
    /// Appends the header, and before it what does not fit in it.
    pub(crate) fn put(&self, archive: &mut Vec<u8>) {
        if let Content::SymbolicLink(target) | Content::HardLink(target) = self.content {
            extension(archive, LONG_LINK, LINK.len(), target);
        }
        extension(archive, LONG_NAME, NAME.len(), self.name);
        archive.extend(self.header());
    }

    fn header(&self) -> [u8; BLOCK_BYTES] {
        let mut header = [0; BLOCK_BYTES];
        text(&mut header[NAME], self.name);
        number(&mut header[MODE], self.mode.into());
        number(&mut header[UID], self.uid.into());
        number(&mut header[GID], self.gid.into());
        number(&mut header[TIME], self.modified);
        let (kind, size, device) = match self.content {
            Content::File(size) => (b'0', size, None),
            Content::HardLink(_) => (b'1', 0, None),
            Content::SymbolicLink(_) => (b'2', 0, None),
            Content::CharacterDevice { major, minor } => (b'3', 0, Some((major, minor))),
            Content::BlockDevice { major, minor } => (b'4', 0, Some((major, minor))),
            Content::Folder => (FOLDER, 0, None),
            Content::Pipe => (b'6', 0, None),
        };
        header[TYPE] = kind;
        number(&mut header[SIZE], size);
        if let Content::SymbolicLink(target) | Content::HardLink(target) = self.content {
            text(&mut header[LINK], target);
        }
        if let Some((major, minor)) = device {
            number(&mut header[DEVICE_MAJOR], major.into());
            number(&mut header[DEVICE_MINOR], minor.into());
        }
        header[MAGIC].copy_from_slice(b"ustar  \0");
        sum(&mut header);
        header
    }
}

/// Appends a record about the next entry, such as an extended attribute (`SCHILY.xattr.NAME`), as POSIX.1-2001 (pax) has it.
pub(crate) fn put_record(archive: &mut Vec<u8>, key: &str, value: &[u8]) {
    // The length at the beginning counts itself: ` key=value` and a line feed, and its own digits.
    let rest = key.len() + value.len() + 3;
    let digits = |length: usize| length.to_string().len();
    let mut length = rest + digits(rest);
    length = rest + digits(length);
    let mut record = format!("{length} {key}=").into_bytes();
    record.extend(value);
    record.push(b'\n');
    put_extension(archive, RECORDS, &record);
}

/// Appends a text that does not fit into its field of the next header.
fn extension(archive: &mut Vec<u8>, kind: u8, room: usize, text: &[u8]) {
    if text.len() >= room {
        put_extension(archive, kind, &[text, &[0]].concat());
    }
}

fn put_extension(archive: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let entry = Entry {
        name: b"././@LongLink",
        content: Content::File(content.len() as u64),
        mode: 0o644,
        uid: 0,
        gid: 0,
        modified: 0,
    };
    let mut header = entry.header();
    header[TYPE] = kind;
    sum(&mut header);
    archive.extend(header);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(BLOCK_BYTES), 0);
}

/// Of a text that is too long, its beginning.
fn text(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len() - 1);
    field[..length].copy_from_slice(&text[..length]);
}

/// Octal digits and a zero; of what is too large, all bits behind a mark, as GNU tar has them.
fn number(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let octal = format!("{value:0digits$o}");
    if octal.len() <= digits {
        field[..digits].copy_from_slice(octal.as_bytes());
        return;
    }
    let bytes = value.to_be_bytes();
    // A field of eight bytes has numbers of 32 bits, of which the mark's byte is none.
    let (mark, low) = field.split_at_mut(field.len().saturating_sub(bytes.len()).max(1));
    mark[0] = 0x80;
    low.copy_from_slice(&bytes[bytes.len() - low.len()..]);
}

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
    archive(&format!("{name}/"), Content::Folder, 0o755)
}

/// An archive of one empty file, which is root's.
pub(crate) fn empty_file(name: &str) -> Vec<u8> {
    archive(name, Content::File(0), 0o600)
}

fn archive(name: &str, content: Content<'_>, mode: u32) -> Vec<u8> {
    let mut archive = Vec::new();
    Entry { name: name.as_bytes(), content, mode, uid: 0, gid: 0, modified: 0 }.put(&mut archive);
    archive.extend(EMPTY_ARCHIVE);
    archive
}

fn sum(header: &mut [u8]) {
    header[CHECKSUM].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let digits = format!("{sum:06o}\0 ");
    header[CHECKSUM].copy_from_slice(digits.as_bytes());
}
