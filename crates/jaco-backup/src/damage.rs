//! Why a file cannot be restored.

use std::io;

use crate::format::FORMAT;

/// Why a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
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
    /// It is encrypted, and there is no key to look into it. That is no damage.
    #[error("it is encrypted, and no identity was given")]
    Encrypted,
    /// It is encrypted for others.
    #[error("it is encrypted, and none of the identities opens it")]
    OtherKey,
    /// Its encryption is not that of what was written.
    #[error("its encryption does not verify: it was altered or truncated")]
    Unauthentic,
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Damage {
    /// The damage that a reader met, or that it could not read.
    pub(crate) fn of(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(damage) => damage,
            Err(error) => Self::Io(error),
        }
    }

    /// As an error that [`Damage::of`] takes apart.
    pub(crate) fn into_io(self) -> io::Error {
        if let Self::Io(error) = self { error } else { io::Error::other(self) }
    }

    /// Whether the file was not looked into, for want of a key.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        matches!(self, Self::Encrypted | Self::OtherKey)
    }
}
