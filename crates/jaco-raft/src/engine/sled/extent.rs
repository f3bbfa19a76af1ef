//! Records the extent of the log outside of sled, to detect lost records. Must never exceed the
//! real extent.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::codec;

/// Name of the file.
const FILE_NAME: &str = "witness";
/// Number of checkpoints, last index, crc32c.
const EXTENT_BYTES: usize = 8 + 8 + 4;

/// Extent of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Number of checkpoints.
    pub(super) checkpoints: u64,
    /// Last index appended, or purged.
    pub(super) last: Option<u64>,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) => write!(f, "at index {last} of checkpoint {}", self.checkpoints),
            None => write!(f, "before its first entry, at checkpoint {}", self.checkpoints),
        }
    }
}

/// What the file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readable {
    Yes,
    No,
}

/// Whether the file in `dir` holds an extent. Without one nothing tells whether a log is complete.
///
/// # Errors
/// As the file system says; `NotFound` if there is no file.
pub(crate) fn examine(dir: &Path) -> io::Result<(PathBuf, Readable)> {
    let path = dir.join(FILE_NAME);
    let bytes = std::fs::read(&path)?;
    let readable = <[u8; EXTENT_BYTES]>::try_from(bytes.as_slice()).ok().and_then(decode);
    Ok((path, if readable.is_some() { Readable::Yes } else { Readable::No }))
}

/// The last durable extent of the log, stored outside of sled.
///
/// sled treats damage in the middle of its file as a write cut short by a crash: it drops
/// everything behind it and opens. The rest looks complete, because a log may end anywhere; only a
/// separate record of the extent reveals the loss. The file is written after each group without a
/// sync of its own: it survives a killed process; after a power cut it may be behind the log, and
/// it never exceeds it.
#[derive(Debug)]
pub(super) struct ExtentFile {
    file: File,
    pub(super) recorded: Extent,
}

impl ExtentFile {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(FILE_NAME);
        let file =
            File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        let mut bytes = [0; EXTENT_BYTES];
        // A new, truncated or damaged file contains no extent.
        let recorded = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => decode(bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Extent::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { file, recorded })
    }

    /// Refuses a log that ends before its last durable extent.
    pub(super) fn check(&mut self, found: Extent) -> io::Result<()> {
        let Extent { checkpoints, last } = self.recorded;
        if found.checkpoints < checkpoints || found.last < last {
            let message = format!("the log ends {found}, and once ended {}", self.recorded);
            return Err(codec::invalid(message));
        }
        self.recorded = found;
        Ok(())
    }

    /// Lowers the extent on stable storage before the log is truncated.
    pub(super) fn lower(&mut self, last: Option<u64>) -> io::Result<()> {
        self.record(Extent { last, ..self.recorded })?;
        self.file.sync_data()
    }

    pub(super) fn record(&mut self, extent: Extent) -> io::Result<()> {
        self.recorded = extent;
        self.file.write_all_at(&encode(extent), 0)
    }
}

/// The last index is stored incremented, so that zero means none.
fn encode(extent: Extent) -> [u8; EXTENT_BYTES] {
    let mut bytes = [0; EXTENT_BYTES];
    bytes[..8].copy_from_slice(&extent.checkpoints.to_be_bytes());
    let next = extent.last.map_or(0, |last| last.saturating_add(1));
    bytes[8..16].copy_from_slice(&next.to_be_bytes());
    let sum = crc32c::crc32c(&bytes[..16]);
    bytes[16..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Reads an extent with the right checksum; for mutations.
#[cfg(feature = "testing")]
pub(super) fn read_with_checksum(bytes: &[u8]) {
    let Some(body) = bytes.first_chunk::<16>() else { return };
    let mut whole = [0; EXTENT_BYTES];
    whole[..16].copy_from_slice(body);
    whole[16..].copy_from_slice(&crc32c::crc32c(body).to_be_bytes());
    if let Some(extent) = decode(whole) {
        assert_eq!(encode(extent), whole, "what is read is written as itself");
    }
}

fn decode(bytes: [u8; EXTENT_BYTES]) -> Option<Extent> {
    let number = |at: usize| Some(u64::from_be_bytes(bytes[at..at + 8].try_into().ok()?));
    let extent = Extent { checkpoints: number(0)?, last: number(8)?.checked_sub(1) };
    (encode(extent) == bytes).then_some(extent)
}
