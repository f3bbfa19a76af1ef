//! Images that users pushed. The replicated state has a record of each; their bytes are in the stores of the nodes
//! (ADR 0137).

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::{BlobDigest, Identity, ImageTag, Millis, NodeId, Timestamp};

use crate::table::Table;

/// The most pushed images: they are in each snapshot, and in each node's memory.
pub const IMAGES_MAX: usize = 512;

/// The most names of pushed images.
pub const IMAGE_NAMES_MAX: usize = 2048;

/// The most layers of an image: engines take no more.
pub const LAYERS_MAX: usize = 127;

/// The most bytes of an image's configuration.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The most nodes that are asked to keep a copy.
pub const COPIES_MAX: u32 = 16;

/// Pushed images, their names, and who holds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Images {
    /// The images, by id.
    pub rows: Table<BlobDigest, PushedImage>,
    /// What a name leads to.
    pub names: Table<ImageTag, NamedImage>,
    /// The images that each node has said that it holds completely.
    pub held: Table<NodeId, BTreeSet<BlobDigest>>,
}

/// A pushed image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedImage {
    /// Bytes of its configuration.
    pub config_bytes: u64,
    /// Its layers, the lowest first.
    pub layers: Arc<[ImageBlob]>,
    /// On how many nodes it is kept.
    pub copies: u32,
    /// How long it is kept while no revision runs it.
    pub keep_unused: Millis,
    /// When it was pushed last.
    pub pushed_at: Timestamp,
    /// Who did.
    pub by: Identity,
    /// Since when no kept revision has run it, or since when it is there; absent while one does.
    pub unused_since: Option<Timestamp>,
    /// The node that took its blobs from the user, which is the first to keep a copy.
    pub taken_by: Option<NodeId>,
}

impl PushedImage {
    /// All its blobs, the configuration first. A layer may be there twice.
    pub fn blobs(&self, id: BlobDigest) -> impl Iterator<Item = ImageBlob> + '_ {
        let config = ImageBlob { digest: id, bytes: self.config_bytes };
        std::iter::once(config).chain(self.layers.iter().copied())
    }

    /// Its size in bytes, each blob once.
    #[must_use]
    pub fn bytes(&self, id: BlobDigest) -> u64 {
        let distinct: BTreeSet<ImageBlob> = self.blobs(id).collect();
        distinct.iter().fold(0, |sum: u64, blob| sum.saturating_add(blob.bytes))
    }
}

/// A blob of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageBlob {
    /// The SHA-256 of its bytes.
    pub digest: BlobDigest,
    /// How many they are.
    pub bytes: u64,
}

/// What a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedImage {
    /// The image.
    pub id: BlobDigest,
    /// When the name was given to it.
    pub tagged_at: Timestamp,
    /// Who did.
    pub by: Identity,
}
