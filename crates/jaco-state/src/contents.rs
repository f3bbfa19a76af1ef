//! Contents of files: what revisions refer to, so that the loss of a node loses no file (R-IN-4).
//!
//! A piece is put first and referred to by an apply a moment later. Until then it is staged, and goes
//! by itself. It is kept for as long as a kept revision refers to it, or the name that people gave it.
//! What the pieces are put together to is not looked at here.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jaco_types::{ContentId, DeploymentName, Millis, NamedKey, Timestamp};

use crate::state::{ClusterState, Deployment};
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
    /// What it is stored for.
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

/// A config or secret that people gave a name: what it is now. What it was before is kept by the
/// revisions that use it, and by nobody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedContent {
    /// Counts its contents, from 1.
    pub version: u64,
    /// The list of files that stands for it, as for a file that goes with a manifest.
    pub tree: ContentId,
    /// All pieces that it is made of, with the list.
    pub pieces: BTreeSet<ContentId>,
    /// How many bytes it has, as people count them.
    pub size: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
}

/// What a piece is stored for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hold {
    /// Nothing refers to it yet.
    Staged {
        /// When it was last put.
        since: Timestamp,
    },
    /// A kept revision refers to it, or people gave it a name.
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

/// Every piece that a kept revision refers to, or that has a name.
pub(crate) fn referred(state: &ClusterState) -> BTreeSet<ContentId> {
    let revisions = state.deployments.values().flat_map(|deployment| deployment.revisions.values());
    let of_revisions = revisions.flat_map(|record| record.spec.contents.iter());
    let of_names = state.named.values().flat_map(|named| named.pieces.iter());
    of_revisions.chain(of_names).copied().collect()
}

/// The deployments that take a config or secret by name now.
pub fn users<'s>(
    state: &'s ClusterState,
    key: &NamedKey,
) -> impl Iterator<Item = &'s DeploymentName> {
    let uses = |deployment: &&Deployment| deployment.spec().named.contains(key);
    state.deployments.values().filter(uses).map(|deployment| &deployment.name)
}

/// How ST-12 is broken: a piece is kept exactly if a kept revision refers to it or it has a name,
/// what these refer to is there, and the bounds hold.
pub(crate) fn violations(state: &ClusterState) -> Vec<String> {
    let referred = referred(state);
    let absent = referred.iter().filter(|id| !state.contents.contains(id));
    let mut found: Vec<String> = absent.map(|id| format!("content {id} is gone")).collect();
    for (id, content) in state.contents.iter() {
        if (content.hold == Hold::Kept) != referred.contains(id) {
            found.push(format!("content {id} is held as {:?}", content.hold));
        }
    }
    let staged = total(&state.contents, |content| content.hold != Hold::Kept);
    let all = total(&state.contents, |_| true);
    if staged > STAGED_BYTES_MAX || all > CONTENTS_BYTES_MAX {
        found.push(format!("contents take {all} bytes, {staged} of them staged"));
    }
    found
}
