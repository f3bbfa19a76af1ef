//! Contents of files: what revisions refer to, so that the loss of a node loses no file (R-IN-4).
//!
//! A content chunk is uploaded first and referred to by an apply a moment later. Until then it is staged,
//! and expires. It is kept as long as a kept revision or a named config or secret refers to it. How
//! chunks make up files is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jaco_types::{ContentId, DeploymentName, Millis, Timestamp};

use crate::table::Table;

/// The most bytes of one piece: large enough that most files are one piece, small enough that an
/// entry with one does not hold up those behind it.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// What sealing may add to a piece.
const SEAL_BYTES_MAX: usize = 256;

/// The most that all contents may take, in memory and in each snapshot of each node.
pub const CONTENTS_BYTES_MAX: usize = 256 << 20;

/// The most that contents may take to which nothing refers yet: a few applies at the same time.
pub const STAGED_BYTES_MAX: usize = 64 << 20;

/// How long a piece waits for something to refer to it, by the time of the log.
pub const STAGED_LIFE: Millis = Millis::from_secs(3600);

/// What a piece costs besides its bytes, so that empty pieces without end are bounded, too.
const ROW_BYTES: usize = 256;

/// A piece of content, stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its bytes.
    pub bytes: PieceBytes,
    /// Whether they can be read as they are.
    pub form: Form,
    /// Why it is stored.
    pub hold: Hold,
}

/// A piece of content on its way into the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its name.
    pub id: ContentId,
    /// Whether its bytes can be read as they are.
    pub form: Form,
    /// Its bytes.
    pub bytes: PieceBytes,
}

/// Bytes of a piece: cheap to copy, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PieceBytes(pub Arc<[u8]>);

impl fmt::Debug for PieceBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Whether the bytes of a piece can be read as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// They can.
    Plain,
    /// They are sealed under the cluster's key (R-IN-5).
    Sealed,
}

/// The current content of a named config or secret. Revisions that use an earlier content keep that
/// themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedContent {
    /// Counts its contents, from 1.
    pub version: u64,
    /// The chunk that lists its files, as for an uploaded file.
    pub tree: ContentId,
    /// All pieces that it is made of, with the list.
    pub pieces: BTreeSet<ContentId>,
    /// Its size in bytes, without the list.
    pub size: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// Which deployments may use it.
    pub users: ContentUsers,
    /// Until when it is good; for ever if `None`. Nothing ends at it: people are warned.
    pub expires_at: Option<Timestamp>,
    /// Its earlier versions that kept revisions have: each content once, under its last number.
    pub former: BTreeMap<u64, FormerContent>,
}

/// An earlier version of a named content: what tells which version a revision has. Its pieces are the revision's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormerContent {
    /// The chunk that lists its files.
    pub tree: ContentId,
    /// When it was stored.
    pub stored_at: Timestamp,
}

impl NamedContent {
    /// The version with this list of files, if it is the present one or a remembered one.
    #[must_use]
    pub fn version_of(&self, tree: ContentId) -> Option<u64> {
        if self.tree == tree {
            return Some(self.version);
        }
        self.former.iter().find(|(_, former)| former.tree == tree).map(|(version, _)| *version)
    }
}

/// What a version of a named content is stored with, beside its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContentTerms {
    /// The version that the content must have before; any if `None`.
    pub based_on: Option<u64>,
    /// Until when it is good. If `None`, the same content keeps what it has, and another one has none.
    pub expiry: Option<Expiry>,
}

/// Until when a version of a named content is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// For ever.
    Never,
    /// Until then.
    At(Timestamp),
}

impl Expiry {
    /// When it ends, if it does.
    #[must_use]
    pub const fn at(self) -> Option<Timestamp> {
        match self {
            Self::Never => None,
            Self::At(at) => Some(at),
        }
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::At(at) => at.0.fmt(f),
        }
    }
}

/// Which deployments may use a named content. Those that have a revision with it go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ContentUsers {
    /// All of them: configs, what earlier versions stored, and what an operator says.
    #[default]
    All,
    /// These, which need not exist.
    Listed(BTreeSet<DeploymentName>),
}

impl ContentUsers {
    /// Whether a deployment is among them.
    #[must_use]
    pub fn include(&self, deployment: &DeploymentName) -> bool {
        match self {
            Self::All => true,
            Self::Listed(listed) => listed.contains(deployment),
        }
    }
}

impl fmt::Display for ContentUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Listed(listed) if listed.is_empty() => f.write_str("none"),
            Self::Listed(listed) => {
                let names: Vec<&str> = listed.iter().map(DeploymentName::as_str).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}

/// Why a chunk is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hold {
    /// Nothing refers to it yet.
    Staged {
        /// When it was last put.
        since: Timestamp,
    },
    /// A kept revision or a named config or secret refers to it.
    Kept,
}

impl Content {
    /// What it counts for in the bounds.
    fn cost(&self) -> usize {
        cost(&self.bytes)
    }
}

/// What bytes count for in the bounds, once they are stored.
pub(crate) fn cost(bytes: &PieceBytes) -> usize {
    bytes.0.len() + ROW_BYTES
}

/// Whether a piece is no larger than one may be.
pub(crate) fn fits(piece: &Piece) -> bool {
    let seal = match piece.form {
        Form::Plain => 0,
        Form::Sealed => SEAL_BYTES_MAX,
    };
    piece.bytes.0.len() <= PIECE_BYTES_MAX + seal
}

/// What the rows of one kind of hold cost together.
pub(crate) fn total(
    contents: &Table<ContentId, Content>,
    counts: impl Fn(&Content) -> bool,
) -> usize {
    contents.values().filter(|content| counts(content)).map(Content::cost).sum()
}
