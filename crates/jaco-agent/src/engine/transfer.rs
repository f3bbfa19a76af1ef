//! Files of a container as archives, and connections to its ports.

use std::io;

use bytes::Bytes;
use futures::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};

use super::error::EngineError;

/// What is at a path of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathStat {
    /// What it is.
    pub kind: PathKind,
    /// Where it is, once links are followed.
    pub path: String,
    /// Its size in bytes, of a file.
    pub bytes: u64,
}

/// What can be at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A device, a pipe or a socket.
    Other,
}

impl PathKind {
    /// As the API names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Other => "other",
        }
    }
}

/// A tar archive that an engine makes.
pub type Archive = BoxStream<'static, Result<Bytes, EngineError>>;

/// A tar archive for an engine. After an error nothing more of it is unpacked.
pub type ArchiveInput = BoxStream<'static, io::Result<Bytes>>;

/// A TCP connection, or what takes its place in tests.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A connection of any engine.
pub type BoxConnection = Box<dyn Connection>;
