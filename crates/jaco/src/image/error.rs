//! What can be wrong with the archive of an image.

use std::io;

use jaco_types::BlobDigest;

use crate::archive::ArchiveError;

/// Why an archive has no image that can be pushed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// It is no archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is beyond the bounds.
    #[error("the archive is no image that can be pushed: {0}")]
    TooLarge(&'static str),
    /// It is no image.
    #[error("the archive has no image that can be pushed: {0}")]
    Malformed(String),
    /// A content is not what its name says.
    #[error(
        "{what} of the image is not what it is named after: expected {expected}, found {found}"
    )]
    WrongDigest { what: String, expected: BlobDigest, found: BlobDigest },
    /// It has several, and none is named as asked for.
    #[error("the archive has {}, and no {asked}", images.join(", "))]
    Unnamed { asked: String, images: Vec<String> },
}
