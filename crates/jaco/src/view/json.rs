//! Parts of JSON and text that several views share.

use serde_json::{Map, Value};

/// A map as JSON, sorted by key: maps of messages have no order.
pub(crate) fn string_map<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> Value {
    let pairs = pairs.into_iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// Removes members of an object that are null.
pub(crate) fn without_null(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, member| !member.is_null());
    }
    value
}

/// An image with the beginning of its digest, if that is resolved.
pub(crate) fn image_with_digest(image: &str, digest: &str) -> String {
    match digest.split_once("@sha256:") {
        Some((_, digest)) => {
            let short: String = digest.chars().take(12).collect();
            format!("{image}@sha256:{short}")
        }
        None => image.to_owned(),
    }
}

/// An empty text stands for an absent one in messages.
pub(crate) fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
