//! The keys at the top of a compose file, of `include` and of `models`.

use super::shape::Class::{Honoured, Ignored, Rejected};
use crate::support::common::STR;
use crate::support::resource::{CONFIG, NETWORK, SECRET, VOLUME};
use crate::support::service::SERVICE;
use crate::support::shape::{Extensions, Names, Object, Shape, Short, Unique, key, object};

/// The keys of a compose file.
pub static TOP_LEVEL: Object = object(&[
    key(
        "configs",
        Honoured,
        Shape::Map(&Shape::Object(&CONFIG), Names::Plain),
        "Stored in the cluster with each revision.",
    ),
    key(
        "include",
        Honoured,
        Shape::List(&Shape::Short(Short::Include, &Shape::Object(&INCLUDE)), Unique::Free),
        "Resolved by the client.",
    ),
    key(
        "models",
        Rejected,
        Shape::Map(&Shape::Object(&MODEL), Names::Plain),
        "Needs a plugin of a local Docker. Run the model server as a service.",
    ),
    key("name", Honoured, Shape::Str, "The name of the deployment, unless jaco.yaml sets it."),
    key(
        "networks",
        Honoured,
        Shape::MapOrNull(&Shape::Object(&NETWORK), Names::Plain),
        "One network of the cluster; where the cluster has none of its own, a separate bridge network on each node.",
    ),
    key(
        "secrets",
        Honoured,
        Shape::Map(&Shape::Object(&SECRET), Names::Plain),
        "Stored encrypted in the cluster with each revision; never printed.",
    ),
    key("services", Honoured, Shape::Map(&Shape::Object(&SERVICE), Names::Plain), "See below."),
    key("version", Ignored, Shape::Str, "Obsolete: the specification has no versions."),
    key(
        "volumes",
        Honoured,
        Shape::MapOrNull(&Shape::Object(&VOLUME), Names::Plain),
        "Created on the nodes that run a replica that mounts them.",
    ),
]);

static INCLUDE: Object = Object {
    keys: &[
        key("env_file", Honoured, Shape::OneOrList(&STR, Unique::Free), "Resolved by the client."),
        key("path", Honoured, Shape::OneOrList(&STR, Unique::Free), "Resolved by the client."),
        key("project_directory", Honoured, Shape::Str, "Resolved by the client."),
    ],
    extensions: Extensions::Refused,
    required: &[],
};

static MODEL: Object = Object {
    keys: &[
        key("context_size", Rejected, Shape::Int, "See `models`."),
        key("model", Rejected, Shape::Str, "See `models`."),
        key("name", Rejected, Shape::Str, "See `models`."),
        key("runtime_flags", Rejected, Shape::List(&STR, Unique::Free), "See `models`."),
    ],
    extensions: Extensions::Kept,
    required: &["model"],
};
