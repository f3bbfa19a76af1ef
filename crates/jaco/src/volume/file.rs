//! Files of volumes: a tar archive that any `tar` unpacks, and behind its end a trailer of two blocks, which `tar` does not
//! read: lines of text that say what the archive is of, the last one its SHA-256, filled up with NUL.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use jaco_types::BlobDigest;
use sha2::{Digest, Sha256};

/// First line of a trailer. A format that was written once stays readable.
const MAGIC: &str = "jaco-volume 1";

/// Bytes of a trailer: two blocks of a tar archive.
const TRAILER_BYTES: usize = 1024;

/// Bytes of a block of a tar archive, and of the two empty ones that are its end.
const BLOCK_BYTES: u64 = 512;
const ARCHIVE_END_BYTES: usize = 1024;

/// Bytes of the names in a trailer at most; longer ones are cut.
const NAME_BYTES_MAX: usize = 250;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 512 << 10;

/// What an archive is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// DEPLOYMENT/VOLUME.
    pub(crate) volume: String,
    pub(crate) node: String,
    /// In RFC 3339.
    pub(crate) taken_at: String,
}

/// Why a file is no volume that can be restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error(
        "it does not end as `jaco volume backup` ends its files: it is of another program, or was cut off"
    )]
    Foreign,
    #[error("its contents are not those that were backed up: its SHA-256 is another one")]
    Altered,
    #[error(
        "it does not end as a tar archive does: it was cut off, is compressed, or is no archive"
    )]
    NoArchive,
}

/// Writes an archive and its trailer.
pub(crate) struct Writer<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, hash: Sha256::new(), bytes: 0 }
    }

    /// Adds a piece of the archive.
    pub(crate) fn piece(&mut self, piece: &[u8]) -> io::Result<()> {
        self.hash.update(piece);
        self.bytes += piece.len() as u64;
        self.out.write_all(piece)
    }

    /// Bytes of the archive so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Completes the file. Returns the SHA-256 of the archive and the lines before it.
    pub(crate) fn finish(mut self, facts: &Facts) -> io::Result<String> {
        let lines = format!(
            "{MAGIC}\nvolume {}\nnode {}\ntaken_at {}\nbytes {}\n",
            one_line(&facts.volume),
            one_line(&facts.node),
            one_line(&facts.taken_at),
            self.bytes
        );
        self.hash.update(&lines);
        let sum = BlobDigest(self.hash.finalize().into()).hex();
        let mut trailer = format!("{lines}sha256 {sum}\n").into_bytes();
        trailer.resize(TRAILER_BYTES, 0);
        self.out.write_all(&trailer)?;
        self.out.flush()?;
        Ok(sum)
    }
}

/// The text without line breaks and at most so long that a trailer has room for it.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars().filter(|character| !character.is_control()) {
        if line.len() + character.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        line.push(character);
    }
    line
}

/// A file whose archive is what was backed up.
#[derive(Debug)]
pub(crate) struct Verified {
    /// At the beginning of the archive.
    pub(crate) file: File,
    /// Bytes of the archive.
    pub(crate) bytes: u64,
    pub(crate) facts: Facts,
}

/// Reads a whole file and compares it with its trailer.
///
/// # Errors
/// Why it cannot be restored.
pub(crate) fn verify(mut file: File) -> Result<Verified, FileError> {
    let whole = file.seek(SeekFrom::End(0))?;
    let bytes = whole.checked_sub(TRAILER_BYTES as u64).ok_or(FileError::Foreign)?;
    file.seek(SeekFrom::Start(bytes))?;
    let mut trailer = Vec::new();
    (&file).take(TRAILER_BYTES as u64).read_to_end(&mut trailer)?;
    let trailer = Trailer::read(&trailer).ok_or(FileError::Foreign)?;
    if trailer.bytes != bytes {
        return Err(FileError::Altered);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut archive = (&file).take(bytes);
    loop {
        match archive.read(&mut piece)? {
            0 => break,
            length => hash.update(&piece[..length]),
        }
    }
    hash.update(&trailer.lines);
    if BlobDigest(hash.finalize().into()).hex() != trailer.sum {
        return Err(FileError::Altered);
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(Verified { file, bytes, facts: trailer.facts })
}

/// Takes a tar archive of another program. It has no checksum; that it ends as an archive does shows that it was not cut off.
///
/// # Errors
/// Why it cannot be restored.
pub(crate) fn plain_archive(mut file: File) -> Result<(File, u64), FileError> {
    let bytes = file.seek(SeekFrom::End(0))?;
    let end = bytes.checked_sub(ARCHIVE_END_BYTES as u64).ok_or(FileError::NoArchive)?;
    file.seek(SeekFrom::Start(end))?;
    let mut last = [0; ARCHIVE_END_BYTES];
    file.read_exact(&mut last)?;
    if last != [0; ARCHIVE_END_BYTES] || !bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(FileError::NoArchive);
    }
    file.seek(SeekFrom::Start(0))?;
    Ok((file, bytes))
}

/// A trailer, read.
struct Trailer {
    /// The lines before the last one.
    lines: String,
    facts: Facts,
    bytes: u64,
    sum: String,
}

impl Trailer {
    fn read(trailer: &[u8]) -> Option<Self> {
        let text = trailer.split(|byte| *byte == 0).next()?;
        let text = std::str::from_utf8(text).ok()?;
        let (lines, sum) = text.rsplit_once("sha256 ")?;
        let mut values = lines.strip_prefix(MAGIC)?.strip_prefix('\n')?.lines();
        let mut value = |key: &str| values.next()?.strip_prefix(key)?.strip_prefix(' ');
        let facts = Facts {
            volume: value("volume")?.to_owned(),
            node: value("node")?.to_owned(),
            taken_at: value("taken_at")?.to_owned(),
        };
        let bytes = value("bytes")?.parse().ok()?;
        let sum = sum.strip_suffix('\n')?.to_owned();
        Some(Self { lines: lines.to_owned(), facts, bytes, sum })
    }
}
