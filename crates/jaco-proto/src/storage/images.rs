//! Images that users pushed.

use std::collections::BTreeSet;

use bytes::Bytes;
use jaco_state::images::{ImageBlob, NamedImage, PushedImage};
use jaco_types::{BlobDigest, ImageTag, Millis, NodeId, Timestamp};

use super::convert::{Wire, ascending, list, required, to_list};
use super::error::Problem;
use super::wire;

impl Wire for BlobDigest {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        self.0.to_wire()
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        Wire::from_wire(bytes).map(Self)
    }
}

impl Wire for ImageBlob {
    type Message = wire::ImageBlob;

    fn to_wire(&self) -> wire::ImageBlob {
        let Self { digest, bytes } = self;
        wire::ImageBlob { digest: digest.to_wire(), bytes: *bytes }
    }

    fn from_wire(message: wire::ImageBlob) -> Result<Self, Problem> {
        Ok(Self { digest: Wire::from_wire(message.digest)?, bytes: message.bytes })
    }
}

impl Wire for BTreeSet<BlobDigest> {
    type Message = Vec<Bytes>;

    fn to_wire(&self) -> Vec<Bytes> {
        self.iter().map(Wire::to_wire).collect()
    }

    fn from_wire(ids: Vec<Bytes>) -> Result<Self, Problem> {
        let ids = ids.into_iter().map(|id| Ok((Wire::from_wire(id)?, ())));
        Ok(ascending("images", ids)?.into_keys().collect())
    }
}

pub(super) fn from_image(id: BlobDigest, image: &PushedImage) -> wire::PushedImage {
    let PushedImage {
        config_bytes,
        layers,
        copies,
        keep_unused,
        pushed_at,
        by,
        unused_since,
        taken_by,
    } = image;
    wire::PushedImage {
        id: id.to_wire(),
        config_bytes: *config_bytes,
        layers: to_list(layers),
        copies: *copies,
        keep_unused_ms: keep_unused.0,
        pushed_at_ms: pushed_at.0,
        by: Some(by.to_wire()),
        unused_since_ms: unused_since.map(|since| since.0),
        taken_by: taken_by.map(|node| node.0),
    }
}

pub(super) fn to_image(message: wire::PushedImage) -> Result<(BlobDigest, PushedImage), Problem> {
    let image = PushedImage {
        config_bytes: message.config_bytes,
        layers: list(message.layers)?.into(),
        copies: message.copies,
        keep_unused: Millis(message.keep_unused_ms),
        pushed_at: Timestamp(message.pushed_at_ms),
        by: required("author", message.by)?,
        unused_since: message.unused_since_ms.map(Timestamp),
        taken_by: message.taken_by.map(NodeId),
    };
    Ok((Wire::from_wire(message.id)?, image))
}

pub(super) fn from_name(name: &ImageTag, named: &NamedImage) -> wire::ImageName {
    let NamedImage { id, tagged_at, by } = named;
    wire::ImageName {
        name: name.to_wire(),
        id: id.to_wire(),
        tagged_at_ms: tagged_at.0,
        by: Some(by.to_wire()),
    }
}

pub(super) fn to_name(message: wire::ImageName) -> Result<(ImageTag, NamedImage), Problem> {
    let named = NamedImage {
        id: Wire::from_wire(message.id)?,
        tagged_at: Timestamp(message.tagged_at_ms),
        by: required("author", message.by)?,
    };
    Ok((Wire::from_wire(message.name)?, named))
}

pub(super) fn from_held(node: NodeId, images: &BTreeSet<BlobDigest>) -> wire::HeldImages {
    wire::HeldImages { node: node.0, images: images.to_wire() }
}

pub(super) fn to_held(
    message: wire::HeldImages,
) -> Result<(NodeId, BTreeSet<BlobDigest>), Problem> {
    Ok((NodeId(message.node), Wire::from_wire(message.images)?))
}
