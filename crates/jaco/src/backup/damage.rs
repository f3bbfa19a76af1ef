//! Why a file cannot be restored.

use std::io;

use super::format::FORMAT;

/// Why a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    /// It does not start with the magic bytes.
    #[error("it is not a backup")]
    Foreign,
    /// A newer version wrote it.
    #[error("it has format {0} of a newer jaco; this jaco reads format {FORMAT}")]
    Newer(u32),
    /// It is intact, and has parts or fields that this version does not know.
    #[error("it has parts of a newer jaco that this jaco does not know")]
    NewerPart,
    /// It ends too early.
    #[error("it is truncated after {0} bytes")]
    Truncated(u64),
    /// Its checksum is wrong.
    #[error("its checksum is wrong: it was altered")]
    Altered,
    /// The checksum is right, and the contents are inconsistent.
    #[error("it is inconsistent: {0}")]
    Contradiction(String),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}
