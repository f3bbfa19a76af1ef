//! Parts of JSON that several objects share.

use serde_json::{Map, Value};

/// A map as JSON, sorted by key: maps of messages have no order.
#[must_use]
pub fn string_map<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> Value {
    let pairs = pairs.into_iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// Removes members of an object that are null.
#[must_use]
pub fn without_null(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, member| !member.is_null());
    }
    value
}

/// An empty text stands for an absent one in messages.
#[must_use]
pub fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
