//! What an archive holds, and what can be wrong with it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

/// Bytes of a block: headers and contents begin at multiples of it.
pub(super) const BLOCK_BYTES: usize = 512;

/// One entry, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path as it is written: bytes without a NUL.
    pub(crate) path: Vec<u8>,
    pub(crate) content: Content,
    /// The permission bits.
    pub(crate) mode: u32,
    /// The time of its last change, in seconds since 1970.
    pub(crate) modified: u64,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// A regular file, with its size in bytes.
    File(u64),
    Folder,
    /// A symbolic link to this target, as it is written.
    Link(Vec<u8>),
    /// Another name of the file of an earlier entry.
    HardLink(Vec<u8>),
    /// A device or a pipe, with its type as it is written.
    Other(u8),
}

/// Why an archive cannot be read, or is not unpacked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// It is no tar archive, or one that was damaged.
    #[error("the archive is damaged: {0}")]
    Damaged(&'static str),
    /// An entry would be written to another place than the destination.
    #[error("the archive has the entry {path:?}, which {leads}: nothing of it is unpacked")]
    Outside {
        /// The path of the entry.
        path: String,
        /// Where it would lead.
        leads: &'static str,
    },
    /// An entry cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The path of the entry.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Its path.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The archive cannot be read or written.
    #[error(transparent)]
    Stream(#[from] io::Error),
}

impl ArchiveError {
    /// Whether the reader of the archive has gone, also while a file was put into it.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Stream(source) => {
                source.kind() == io::ErrorKind::BrokenPipe
            }
            Self::Damaged(_) | Self::Outside { .. } | Self::Write { .. } => false,
        }
    }
}

/// The names of a path, without those that lead nowhere.
///
/// # Errors
/// If it is absolute or leads up.
pub(super) fn names(path: &[u8]) -> Result<Vec<OsString>, ArchiveError> {
    let outside =
        |leads| ArchiveError::Outside { path: String::from_utf8_lossy(path).into_owned(), leads };
    if path.starts_with(b"/") {
        return Err(outside("is absolute"));
    }
    let mut names = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return Err(outside("leads out of the destination")),
            name => names.push(OsString::from_vec(name.to_vec())),
        }
    }
    Ok(names)
}
