//! What the tags of the specification and of YAML do with a value.

use std::borrow::Cow;

use saphyr_parser::Tag;

use crate::yaml::node::{MergeTag, Value};
use crate::yaml::scalar;

pub(super) fn merge_tag(tag: Option<&Tag>) -> MergeTag {
    match tag {
        Some(tag) if tag.handle == "!" && tag.suffix == "reset" => MergeTag::Reset,
        Some(tag) if tag.handle == "!" && tag.suffix == "override" => MergeTag::Override,
        Some(_) | None => MergeTag::None,
    }
}

pub(super) fn resolve(text: Cow<'_, str>, plain: bool, tag: Option<&Tag>) -> Value {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() => resolve_tagged(text, &tag.suffix),
        // An unknown tag makes a text; the two merge tags leave the reading alone.
        Some(tag) if merge_tag(Some(tag)) == MergeTag::None => Value::Str(text.into_owned().into()),
        Some(_) | None if plain => scalar::resolve_plain(&text),
        Some(_) | None => Value::Str(text.into_owned().into()),
    }
}

fn resolve_tagged(text: Cow<'_, str>, kind: &str) -> Value {
    match (kind, scalar::resolve_plain(&text)) {
        ("null", _) => Value::Null,
        ("int" | "float" | "bool", value @ (Value::Int(_) | Value::Float(_) | Value::Bool(_))) => {
            value
        }
        _ => Value::Str(text.into_owned().into()),
    }
}
