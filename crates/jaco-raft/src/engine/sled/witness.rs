//! How far the log went, outside of sled. Must never say more than the log holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::codec;

/// The file, outside of sled, that remembers how far the log went.
const WITNESS: &str = "witness";
/// Number of checkpoints, last index, crc32c.
const WITNESS_BYTES: usize = 8 + 8 + 4;

/// How far a log goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// How many checkpoints there were.
    pub(super) checkpoints: u64,
    /// The last index that was appended, or purged.
    pub(super) last: Option<u64>,
}

/// Remembers, outside of sled, how far the log went when it was last durable.
///
/// sled takes damage in the middle of its file for a write that a crash cut short: it forgets all that
/// came after and opens. What is left looks whole, because a log may end anywhere; only somebody who
/// knows how far it went can tell. It is written after each group and not synced for itself: it survives
/// a killed process, after a power cut it may say less than the log holds, and it never says more.
#[derive(Debug)]
pub(super) struct Witness {
    file: File,
    pub(super) noted: Extent,
}

impl Witness {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
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
    pub(super) fn check(&mut self, found: Extent) -> io::Result<()> {
        let Extent { checkpoints, last } = self.noted;
        if found.checkpoints < checkpoints || found.last < last {
            let message = format!("it ends at {found:?}, and went to {:?}", self.noted);
            return Err(codec::invalid(message));
        }
        self.noted = found;
        Ok(())
    }

    /// Says less, before the log does: on stable storage, for what it said may be there.
    pub(super) fn lower(&mut self, last: Option<u64>) -> io::Result<()> {
        self.note(Extent { last, ..self.noted })?;
        self.file.sync_data()
    }

    pub(super) fn note(&mut self, extent: Extent) -> io::Result<()> {
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
