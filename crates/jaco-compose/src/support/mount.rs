//! The keys of mounts: volumes, configs and secrets of a service.

use super::shape::Class::{Differently, Honoured, Ignored};
use crate::support::shape::{Extensions, Object, Shape, key, object};

pub(crate) static FILE_MOUNT: Object = object(&[
    key("gid", Honoured, Shape::Str, "The group of the file."),
    key("mode", Honoured, Shape::Mode, "The mode of the file."),
    key("source", Honoured, Shape::Str, "The name of the config or secret."),
    key("target", Honoured, Shape::Str, "The path of the file in the container."),
    key("uid", Honoured, Shape::Str, "The owner of the file."),
]);

pub(super) static BIND: Object = object(&[
    key(
        "create_host_path",
        Differently,
        Shape::Bool,
        "A missing host path is created on the node; an uploaded path always exists.",
    ),
    key("propagation", Honoured, Shape::Str, "Passed to the engine."),
    key(
        "recursive",
        Honoured,
        Shape::OneOf(&["enabled", "disabled", "writable", "readonly"]),
        "Passed to the engine if its version supports it.",
    ),
    key("selinux", Honoured, Shape::OneOf(&["z", "Z"]), "Passed to the engine."),
]);

pub(crate) static VOLUME_MOUNT: Object = Object {
    keys: &[
        key("bind", Honoured, Shape::Object(&BIND), "See the keys below it."),
        key("consistency", Ignored, Shape::Str, "Docker Desktop only."),
        key("image", Honoured, Shape::Object(&MOUNT_IMAGE), "See the keys below it."),
        key("read_only", Honoured, Shape::Bool, "Passed to the engine."),
        key("source", Honoured, Shape::Str, "A volume, a path, or an image."),
        key("target", Honoured, Shape::Str, "The path in the container."),
        key("tmpfs", Honoured, Shape::Object(&MOUNT_TMPFS), "See the keys below it."),
        key(
            "type",
            Honoured,
            Shape::OneOf(&["bind", "volume", "tmpfs", "cluster", "npipe", "image"]),
            "`cluster` and `npipe` are refused.",
        ),
        key("volume", Honoured, Shape::Object(&MOUNT_VOLUME), "See the keys below it."),
    ],
    extensions: Extensions::Kept,
    required: &["type"],
};

static MOUNT_IMAGE: Object = object(&[key(
    "subpath",
    Honoured,
    Shape::Str,
    "Passed to the engine if its version supports it.",
)]);

static MOUNT_TMPFS: Object = object(&[
    key("mode", Honoured, Shape::Int, "Passed to the engine."),
    key("size", Honoured, Shape::Bytes, "Passed to the engine."),
]);

static MOUNT_VOLUME: Object = object(&[
    key("labels", Honoured, Shape::Pairs(&Shape::Label), "Set on the volume."),
    key("nocopy", Honoured, Shape::Bool, "Passed to the engine."),
    key("subpath", Honoured, Shape::Str, "Passed to the engine."),
]);
