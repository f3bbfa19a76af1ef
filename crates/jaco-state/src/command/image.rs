//! Commands about images that users push.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::{BlobDigest, ImageTag, Millis, NodeId};

use crate::images::ImageBlob;

/// How long a pushed image is kept while no revision runs it, unless its user asks for something else.
pub const KEEP_UNUSED: Millis = Millis(7 * 24 * 60 * 60 * 1000);

/// On how many nodes an image is kept, unless its user asks for something else.
pub const COPIES: u32 = 2;

/// Records an image whose blobs a node has, so that others copy them. It has no name yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePush {
    /// The SHA-256 of its configuration.
    pub id: BlobDigest,
    /// Bytes of its configuration.
    pub config_bytes: u64,
    /// Its layers, the lowest first.
    pub layers: Arc<[ImageBlob]>,
    /// On how many nodes it is kept.
    pub copies: u32,
    /// How long it is kept while no revision runs it.
    pub keep_unused: Millis,
    /// The node that took its blobs from the user.
    pub taken_by: Option<NodeId>,
}

impl ImagePush {
    /// Creates the command.
    #[must_use]
    pub fn new(id: BlobDigest, config_bytes: u64, layers: Arc<[ImageBlob]>) -> Self {
        Self { id, config_bytes, layers, copies: COPIES, keep_unused: KEEP_UNUSED, taken_by: None }
    }

    /// It is kept on so many nodes.
    #[must_use]
    pub fn copies(self, copies: u32) -> Self {
        Self { copies, ..self }
    }

    /// It is kept for so long while no revision runs it.
    #[must_use]
    pub fn keep_unused(self, keep_unused: Millis) -> Self {
        Self { keep_unused, ..self }
    }

    /// This node took its blobs from the user.
    #[must_use]
    pub fn taken_by(self, node: Option<NodeId>) -> Self {
        Self { taken_by: node, ..self }
    }
}

/// Has a name lead to a pushed image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageTagSet {
    /// The name.
    pub name: ImageTag,
    /// The image.
    pub id: BlobDigest,
}

impl ImageTagSet {
    /// Creates the command.
    #[must_use]
    pub fn new(name: ImageTag, id: BlobDigest) -> Self {
        Self { name, id }
    }
}

/// What becomes of a name that a deployment uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InUse {
    /// It stays, and the removal is refused.
    Refuse,
    /// It is removed. The image stays as long as a kept revision runs it.
    Remove,
}

/// Removes the name of a pushed image, and with its last name the image, unless a kept revision runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRemove {
    /// The name.
    pub name: ImageTag,
    /// What if a deployment uses it.
    pub in_use: InUse,
}

impl ImageRemove {
    /// Creates the command.
    #[must_use]
    pub fn new(name: ImageTag, in_use: InUse) -> Self {
        Self { name, in_use }
    }
}

/// A node says which pushed images it holds completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagesHeld {
    /// The node.
    pub node: NodeId,
    /// All that it holds.
    pub images: BTreeSet<BlobDigest>,
}

impl ImagesHeld {
    /// Creates the command.
    #[must_use]
    pub fn new(node: NodeId, images: BTreeSet<BlobDigest>) -> Self {
        Self { node, images }
    }
}
