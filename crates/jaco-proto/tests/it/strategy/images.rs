//! Images that users pushed.

use jaco_state::command::{ImagePush, ImageRemove, ImageTagSet, ImagesHeld, InUse};
use jaco_state::images::{ImageBlob, Images, NamedImage, PushedImage};
use jaco_types::{BlobDigest, ImageTag};

use super::*;

fn blob_digest() -> impl Strategy<Value = BlobDigest> {
    any::<[u8; 32]>().prop_map(BlobDigest)
}

fn image_tag() -> impl Strategy<Value = ImageTag> {
    "[a-z]{1,8}(/[a-z]{1,8})?:[a-z0-9]{1,8}"
        .prop_filter_map("one spelling", |name| ImageTag::new(&name).ok())
}

fn layers() -> impl Strategy<Value = Arc<[ImageBlob]>> {
    let blob = (blob_digest(), any::<u64>());
    vec(blob.prop_map(|(digest, bytes)| ImageBlob { digest, bytes }), 0..4).prop_map(Into::into)
}

pub(crate) fn image_command() -> impl Strategy<Value = Command> {
    let in_use = select(vec![InUse::Refuse, InUse::Remove]);
    prop_oneof![
        (blob_digest(), any::<u64>(), layers(), any::<u32>(), millis(), option::of(node_id()))
            .prop_map(|(id, config, layers, copies, keep, node)| {
                let push = ImagePush::new(id, config, layers).copies(copies);
                push.keep_unused(keep).taken_by(node).into()
            }),
        (image_tag(), blob_digest()).prop_map(|(name, id)| ImageTagSet::new(name, id).into()),
        (image_tag(), in_use).prop_map(|(name, in_use)| ImageRemove::new(name, in_use).into()),
        (node_id(), btree_set(blob_digest(), 0..3))
            .prop_map(|(node, images)| ImagesHeld::new(node, images).into()),
    ]
}

pub(crate) fn images() -> impl Strategy<Value = Images> {
    let image = (
        any::<u64>(),
        layers(),
        any::<u32>(),
        millis(),
        moment(),
        identity(),
        option::of(moment()),
        option::of(node_id()),
    );
    let image = image.prop_map(
        |(config_bytes, layers, copies, keep_unused, pushed_at, by, unused_since, taken_by)| {
            PushedImage {
                config_bytes,
                layers,
                copies,
                keep_unused,
                pushed_at,
                by,
                unused_since,
                taken_by,
            }
        },
    );
    let named = (blob_digest(), moment(), identity()).prop_map(|(id, tagged_at, by)| NamedImage {
        id,
        tagged_at,
        by,
    });
    let rows = btree_map(blob_digest(), image, 0..3);
    let names = btree_map(image_tag(), named, 0..3);
    let held = btree_map(node_id(), btree_set(blob_digest(), 0..3), 0..3);
    (rows, names, held).prop_map(|(rows, names, held)| Images {
        rows: rows.into_iter().collect(),
        names: names.into_iter().collect(),
        held: held.into_iter().collect(),
    })
}
