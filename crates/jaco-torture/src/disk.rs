//! What changed on a disk, in order.

use std::fmt;

use crate::folder::Node;

/// A file or folder, whatever its name.
pub(crate) type Inode = usize;

/// The folder that is recorded.
pub(crate) const ROOT: Inode = 0;

/// One change, sync or mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub kind: StepKind,
    /// Where in the trace the call began.
    pub begin: usize,
    /// Where it ended.
    pub end: usize,
}

/// What a step does.
#[derive(Clone, PartialEq, Eq)]
pub enum StepKind {
    Create {
        folder: Inode,
        name: String,
        inode: Inode,
        node: Node,
    },
    Remove {
        folder: Inode,
        name: String,
    },
    Rename {
        from: (Inode, String),
        to: (Inode, String),
        inode: Inode,
    },
    Write {
        inode: Inode,
        offset: usize,
        data: Vec<u8>,
    },
    Truncate {
        inode: Inode,
        length: usize,
    },
    Sync {
        inode: Inode,
    },
    /// What it did not write may be forgotten, and a later sync succeeds all the same.
    SyncFailed {
        inode: Inode,
    },
    Mark(String),
}

impl StepKind {
    /// Whether it is about what is durable.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::SyncFailed { .. })
    }
}

impl fmt::Debug for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { folder, name, inode, .. } => {
                write!(f, "create {folder}/{name} = {inode}")
            }
            Self::Remove { folder, name } => write!(f, "remove {folder}/{name}"),
            Self::Rename { from, to, .. } => {
                write!(f, "rename {}/{} to {}/{}", from.0, from.1, to.0, to.1)
            }
            Self::Write { inode, offset, data } => {
                write!(f, "write {inode} at {offset}, {} bytes", data.len())
            }
            Self::Truncate { inode, length } => write!(f, "truncate {inode} to {length}"),
            Self::Sync { inode } => write!(f, "sync {inode}"),
            Self::SyncFailed { inode } => write!(f, "sync {inode} fails"),
            Self::Mark(text) => write!(f, "mark {text:?}"),
        }
    }
}

/// What a file system promises of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Names and lengths become durable in their order, as those of ext4 with `data=ordered` do: a sync of one makes all
    /// earlier ones durable. Bytes become durable in any order.
    Ordered,
    /// Each change by itself. A name is durable once its folder is synced, and not by a sync of the file.
    Weak,
}
