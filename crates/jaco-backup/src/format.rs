//! Constants of the file format.

/// The first bytes of every backup.
pub(super) const MAGIC: &[u8; 8] = b"jacobak\n";

/// The format that is written, and the newest that is read. The header of the parts repeats it.
pub(super) const FORMAT: u32 = 1;

/// The maximum size of a part, which is that of a message of the cluster.
pub(super) const PART_BYTES_MAX: usize = 8 << 20;
