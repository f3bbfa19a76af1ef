//! The keys of `build`.

use super::shape::Class::Rejected;
use crate::support::common::{LABELS, STR};
use crate::support::mount::FILE_MOUNT;
use crate::support::shape::{Extensions, Names, Object, Shape, Short, Unique, key, object};

const BUILD_NOTE: &str = "See `build`; refused by `jaco apply --build`.";
const PASSED_NOTE: &str = "See `build`; passed to the engine by `jaco apply --build`.";

pub(crate) static BUILD: Object = object(&[
    key("additional_contexts", Rejected, LABELS, BUILD_NOTE),
    key("args", Rejected, Shape::Pairs(&Shape::Text), PASSED_NOTE),
    key("cache_from", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key("cache_to", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key("context", Rejected, Shape::Str, PASSED_NOTE),
    key("dockerfile", Rejected, Shape::Str, PASSED_NOTE),
    key("dockerfile_inline", Rejected, Shape::Str, PASSED_NOTE),
    key("entitlements", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key(
        "extra_hosts",
        Rejected,
        Shape::Short(Short::ExtraHosts, &Shape::List(&STR, Unique::Once)),
        BUILD_NOTE,
    ),
    key("isolation", Rejected, Shape::Str, BUILD_NOTE),
    key("labels", Rejected, LABELS, PASSED_NOTE),
    key("network", Rejected, Shape::Str, PASSED_NOTE),
    key("no_cache", Rejected, Shape::Bool, PASSED_NOTE),
    key("platforms", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key("privileged", Rejected, Shape::Bool, BUILD_NOTE),
    key("provenance", Rejected, Shape::Label, BUILD_NOTE),
    key("pull", Rejected, Shape::Bool, PASSED_NOTE),
    key("sbom", Rejected, Shape::Label, BUILD_NOTE),
    key(
        "secrets",
        Rejected,
        Shape::List(
            &Shape::Short(Short::FileMount, &Shape::Object(&FILE_MOUNT)),
            Unique::ByMount("/run/secrets"),
        ),
        BUILD_NOTE,
    ),
    key("shm_size", Rejected, Shape::Bytes, BUILD_NOTE),
    key("ssh", Rejected, LABELS, BUILD_NOTE),
    key("tags", Rejected, Shape::List(&STR, Unique::Free), BUILD_NOTE),
    key("target", Rejected, Shape::Str, PASSED_NOTE),
    key("ulimits", Rejected, Shape::Map(&Shape::IntOr(&BUILD_ULIMIT), Names::Any), BUILD_NOTE),
]);

static BUILD_ULIMIT: Object = Object {
    keys: &[
        key("hard", Rejected, Shape::Int, BUILD_NOTE),
        key("soft", Rejected, Shape::Int, BUILD_NOTE),
    ],
    extensions: Extensions::Kept,
    required: &["soft", "hard"],
};
