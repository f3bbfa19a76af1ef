//! Images that users pushed.

use jaco_state::command::{ImagePush, ImageRemove, ImageTagSet, ImagesHeld, InUse};
use jaco_state::images::{ImageBlob, NamedImage, PushedImage};
use jaco_types::{BlobDigest, ImageTag};

use super::*;

/// One of each command.
pub(crate) fn image_commands() -> Vec<Command> {
    vec![
        ImagePush::new(image_id(), 1500, layers()).copies(3).keep_unused(Millis(86_400_000)).into(),
        ImageTagSet::new(image_name(), image_id()).into(),
        ImageRemove::new(image_name(), InUse::Refuse).into(),
        ImagesHeld::new(NodeId(7), [image_id()].into()).into(),
    ]
}

/// Commands of images with other values, and with all that is optional.
pub(crate) fn commands_of_images() -> Vec<Command> {
    vec![
        ImageRemove::new(image_name(), InUse::Remove).into(),
        ImagePush::new(image_id(), 1500, layers()).taken_by(Some(NodeId(7))).into(),
    ]
}

/// A state with pushed images, and nothing else.
pub(crate) fn state_of_images() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(42), ..ClusterState::default() };
    let unused = Some(Timestamp(1_700_000_000_456));
    for (number, unused_since, taken_by) in
        [(0x31, unused, None), (0x41, None, None), (0x51, None, Some(NodeId(7)))]
    {
        let image = PushedImage {
            config_bytes: 1500,
            layers: layers(),
            copies: 2,
            keep_unused: Millis(86_400_000),
            pushed_at: Timestamp(1_700_000_000_456),
            by: Identity::Local { uid: 1000 },
            unused_since,
            taken_by,
        };
        state.images.rows.insert(BlobDigest([number; 32]), image);
    }
    let named = NamedImage {
        id: image_id(),
        tagged_at: Timestamp(1_700_000_000_456),
        by: Identity::Operator { token: token_id("ops-1") },
    };
    state.images.names.insert(image_name(), named);
    state.images.held.insert(NodeId(7), [image_id()].into());
    state
}

fn image_id() -> BlobDigest {
    BlobDigest([0x31; 32])
}

fn image_name() -> ImageTag {
    ImageTag::new("team/app:1").unwrap()
}

fn layers() -> Arc<[ImageBlob]> {
    [0x32, 0x33].map(|number| ImageBlob { digest: BlobDigest([number; 32]), bytes: 4096 }).into()
}
