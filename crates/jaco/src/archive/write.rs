//! Writes an archive entry by entry.

use std::io::{self, Read, Write};

use super::entry::{BLOCK_BYTES, Content, Entry};

/// The greatest size that a header has digits for; a larger one is in a pax header.
const SIZE_MAX: u64 = 0o77_777_777_777;

/// An archive that is being written.
#[derive(Debug)]
pub(super) struct Writer<W> {
    to: W,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to }
    }

    /// Writes an entry, and its content if it is a file.
    ///
    /// # Errors
    /// If the content is shorter than the entry says, or the archive cannot be written.
    pub(super) fn entry(&mut self, entry: &Entry, content: impl Read) -> io::Result<()> {
        let size = match entry.content {
            Content::File(size) => size,
            Content::Folder | Content::Link(_) | Content::HardLink(_) | Content::Other(_) => 0,
        };
        let (kind, target): (u8, &[u8]) = match &entry.content {
            Content::File(_) => (b'0', b""),
            Content::Folder => (b'5', b""),
            Content::Link(target) => (b'2', target),
            Content::HardLink(target) => (b'1', target),
            Content::Other(kind) => (*kind, b""),
        };
        let mut records = Vec::new();
        if entry.path.len() > 100 {
            record(&mut records, "path", &entry.path);
        }
        if target.len() > 100 {
            record(&mut records, "linkpath", target);
        }
        if size > SIZE_MAX {
            record(&mut records, "size", size.to_string().as_bytes());
        }
        if !records.is_empty() {
            let header = header(b"pax", b"", b'x', 0o644, records.len() as u64, 0);
            self.to.write_all(&header)?;
            self.to.write_all(&records)?;
            self.pad(records.len() as u64)?;
        }
        let mode = u64::from(entry.mode & 0o777);
        let header = header(&entry.path, target, kind, mode, size.min(SIZE_MAX), entry.modified);
        self.to.write_all(&header)?;
        let copied = io::copy(&mut content.take(size), &mut self.to)?;
        if copied < size {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it became shorter meanwhile",
            ));
        }
        self.pad(size)
    }

    /// Writes the end.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.to.write_all(&[0; 2 * BLOCK_BYTES])?;
        self.to.flush()
    }

    fn pad(&mut self, content: u64) -> io::Result<()> {
        let block = BLOCK_BYTES as u64;
        let padding = (block - content % block) % block;
        io::copy(&mut io::repeat(0).take(padding), &mut self.to).map(drop)
    }
}

/// A record of a pax header. Its length counts its own digits.
fn record(into: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    into.extend_from_slice(format!("{length} {key}=").as_bytes());
    into.extend_from_slice(value);
    into.push(b'\n');
}

fn header(
    path: &[u8],
    target: &[u8],
    kind: u8,
    mode: u64,
    size: u64,
    modified: u64,
) -> [u8; BLOCK_BYTES] {
    let mut header = [0; BLOCK_BYTES];
    text(&mut header[..100], path);
    octal(&mut header[100..108], mode);
    // User and group: root's.
    octal(&mut header[108..116], 0);
    octal(&mut header[116..124], 0);
    octal(&mut header[124..136], size);
    octal(&mut header[136..148], modified.min(SIZE_MAX));
    header[148..156].fill(b' ');
    header[156] = kind;
    text(&mut header[157..257], target);
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut header[148..155], sum);
    header
}

/// As much as fits: what is longer is in a pax header as well.
fn text(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text[..length]);
}

/// Octal digits with a NUL behind them.
fn octal(field: &mut [u8], number: u64) {
    let width = field.len() - 1;
    let digits = format!("{number:0width$o}");
    field[..width].copy_from_slice(digits.as_bytes());
    field[width] = 0;
}
