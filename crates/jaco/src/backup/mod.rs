//! Backup files (ADR 0066): `jacobak\n`, the format, the parts with their lengths, a length of zero, and
//! the SHA-256 of all that. Files are read for ever: a format that was written once is never changed.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use read::{Backup, Damage, NamedAt};
pub(crate) use write::{Taken, Writer, store};

/// What every backup begins with.
const MAGIC: &[u8; 8] = b"jacobak\n";

/// The format that is written, and the newest that is read. The parts say theirs in the header.
const FORMAT: u32 = 1;

/// The most bytes of a part: the cluster's messages are no larger.
const PART_BYTES_MAX: usize = 8 << 20;
