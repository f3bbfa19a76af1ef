//! Reads an archive entry by entry, in memory that does not grow with it.

use std::io::{self, Read};

use super::entry::{ArchiveError, BLOCK_BYTES, Content, Entry};

/// Bytes of a header that describes the next entry: a few paths fit.
const EXTENSION_BYTES_MAX: u64 = 64 << 10;

/// Headers that describe the same entry, one after another.
const EXTENSIONS_MAX: u32 = 16;

/// An archive that is being read.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    source: R,
    /// Bytes of the current entry's content that were not read.
    content: u64,
    /// Bytes after it up to the next header.
    padding: u64,
    ended: Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    No,
    Yes,
}

/// What earlier headers say about an entry.
#[derive(Debug, Default)]
struct Extension {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, content: 0, padding: 0, ended: Ended::No }
    }

    /// Where it reads from.
    pub(crate) fn source(&self) -> &R {
        &self.source
    }

    /// The next entry; what was not read of the one before is skipped. `None` at the end of the archive, after which the
    /// source is read to its end.
    ///
    /// # Errors
    /// If it is damaged.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, ArchiveError> {
        if self.ended == Ended::Yes {
            return Ok(None);
        }
        let mut extension = Extension::default();
        for _ in 0..EXTENSIONS_MAX {
            self.skip_rest()?;
            let Some(header) = self.header()? else {
                self.ended = Ended::Yes;
                io::copy(&mut self.source, &mut io::sink())?;
                return Ok(None);
            };
            let size = number(&header[124..136])?;
            let kind = header[156];
            match kind {
                b'x' => read_pax(&self.extension(size)?, &mut extension)?,
                b'L' => extension.path = Some(until_nul(&self.extension(size)?).to_vec()),
                b'K' => extension.target = Some(until_nul(&self.extension(size)?).to_vec()),
                // Of the whole archive: nothing of it is needed.
                b'g' => drop(self.extension(size)?),
                _ => return self.entry(&header, size, extension).map(Some),
            }
        }
        Err(ArchiveError::Damaged("too many headers describe one entry"))
    }

    fn entry(
        &mut self,
        header: &[u8; BLOCK_BYTES],
        size: u64,
        extension: Extension,
    ) -> Result<Entry, ArchiveError> {
        let size = extension.size.unwrap_or(size);
        let path = extension.path.unwrap_or_else(|| path(header));
        if path.is_empty() || path.contains(&0) {
            return Err(ArchiveError::Damaged("an entry has no name"));
        }
        let target = || extension.target.unwrap_or_else(|| until_nul(&header[157..257]).to_vec());
        let content = match header[156] {
            // Before POSIX, folders were files whose name ends with a slash.
            0 | b'0' if path.ends_with(b"/") => Content::Folder,
            0 | b'0' | b'7' => Content::File(size),
            b'1' => Content::HardLink(target()),
            b'2' => Content::Link(target()),
            b'5' => Content::Folder,
            other => Content::Other(other),
        };
        // Only what has a content is followed by one; what type it is of, whoever does not know it has to believe.
        let follows = match content {
            Content::File(_) | Content::Other(_) => size,
            Content::Folder | Content::Link(_) | Content::HardLink(_) => 0,
        };
        self.expect(follows);
        let mode = u32::try_from(number(&header[100..108])? & 0o7777).unwrap_or_default();
        Ok(Entry { path, content, mode, modified: number(&header[136..148]).unwrap_or_default() })
    }

    /// The content of a header that describes the next entry.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > EXTENSION_BYTES_MAX {
            return Err(ArchiveError::Damaged("a header is too large"));
        }
        self.expect(size);
        let mut content = Vec::new();
        self.read_to_end(&mut content)?;
        if content.len() as u64 != size {
            return Err(ArchiveError::Damaged("it ends within a header"));
        }
        Ok(content)
    }

    fn expect(&mut self, content: u64) {
        let block = BLOCK_BYTES as u64;
        self.content = content;
        self.padding = (block - content % block) % block;
    }

    fn skip_rest(&mut self) -> Result<(), ArchiveError> {
        let rest = self.content.saturating_add(self.padding);
        let skipped = io::copy(&mut (&mut self.source).take(rest), &mut io::sink())?;
        (self.content, self.padding) = (0, 0);
        if skipped == rest { Ok(()) } else { Err(ArchiveError::Damaged("it ends within an entry")) }
    }

    /// The next header; `None` at the end.
    fn header(&mut self) -> Result<Option<[u8; BLOCK_BYTES]>, ArchiveError> {
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.source.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(ArchiveError::Damaged("it ends within a header")),
                Ok(length) => filled += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u64 = (0..BLOCK_BYTES)
            .map(|at| u64::from(if (148..156).contains(&at) { b' ' } else { block[at] }))
            .sum();
        if number(&block[148..156])? != sum {
            return Err(ArchiveError::Damaged("the checksum of a header is wrong"));
        }
        Ok(Some(block))
    }
}

/// The content of the current entry.
impl<R: Read> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (&mut self.source).take(self.content).read(buffer)?;
        self.content -= length as u64;
        Ok(length)
    }
}

/// The path of an entry, with its prefix.
fn path(header: &[u8; BLOCK_BYTES]) -> Vec<u8> {
    let name = until_nul(&header[..100]);
    let prefix = until_nul(&header[345..500]);
    // GNU tar has other things there.
    let is_posix = &header[257..263] == b"ustar\0";
    match is_posix && !prefix.is_empty() {
        true => [prefix, b"/", name].concat(),
        false => name.to_vec(),
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number: octal digits, or with the highest bit set the bytes themselves.
fn number(field: &[u8]) -> Result<u64, ArchiveError> {
    const WRONG: ArchiveError = ArchiveError::Damaged("a header has no number where one belongs");
    if field[0] & 0x80 != 0 {
        let first = u64::from(field[0] & 0x7f);
        return field[1..].iter().try_fold(first, |sum, byte| {
            let sum = sum.checked_mul(256).ok_or(WRONG)?;
            Ok(sum + u64::from(*byte))
        });
    }
    let digits = field.iter().filter(|byte| ![b' ', 0].contains(byte));
    digits.copied().try_fold(0_u64, |sum, digit| match digit {
        b'0'..=b'7' => sum.checked_mul(8).map(|sum| sum + u64::from(digit - b'0')).ok_or(WRONG),
        _ => Err(WRONG),
    })
}

/// The records of a pax header: `LENGTH KEY=VALUE` and a line feed, each with its own length.
fn read_pax(mut records: &[u8], into: &mut Extension) -> Result<(), ArchiveError> {
    const WRONG: ArchiveError = ArchiveError::Damaged("a pax header is malformed");
    while !records.is_empty() {
        let space = records.iter().position(|byte| *byte == b' ').ok_or(WRONG)?;
        let length = decimal(&records[..space]).and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| (space + 2..=records.len()).contains(length));
        let (record, rest) = records.split_at(length.ok_or(WRONG)?);
        records = rest;
        let record = record[space + 1..].strip_suffix(b"\n").ok_or(WRONG)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or(WRONG)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => into.path = Some(value.to_vec()),
            b"linkpath" => into.target = Some(value.to_vec()),
            b"size" => into.size = Some(decimal(value).ok_or(WRONG)?),
            _ => {}
        }
    }
    Ok(())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
