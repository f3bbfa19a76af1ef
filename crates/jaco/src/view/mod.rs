//! What the cluster says, as people and programs see it. Pure.

pub mod allocation;
pub mod audit;
pub mod cluster;
pub mod content;
pub mod deployment;
pub mod ending;
pub mod explain;
pub mod finding;
pub(crate) mod key_value;
pub mod machine;
pub mod node;
pub mod plan;
pub mod registry;
pub mod replica;
pub mod status;
pub mod token;
pub mod top;

use serde_json::{Map, Value};

use crate::ui::{Frame, Show};

/// A list of one kind of thing.
#[derive(Debug)]
pub struct List<'a, T> {
    /// The things.
    pub items: &'a [T],
    /// Each as JSON.
    pub json: fn(&T) -> Value,
    /// All as a table.
    pub text: fn(&[T], &Frame) -> String,
}

impl<T> Show for List<'_, T> {
    fn json(&self) -> Value {
        self.items.iter().map(self.json).collect()
    }

    fn text(&self, frame: &Frame) -> String {
        (self.text)(self.items, frame)
    }
}

/// A result that is one JSON object and one text.
#[derive(Debug)]
pub struct Said {
    /// For programs.
    pub json: Value,
    /// For people.
    pub text: String,
}

impl Show for Said {
    fn json(&self) -> Value {
        self.json.clone()
    }

    fn text(&self, _: &Frame) -> String {
        self.text.clone()
    }
}

/// Facts as JSON, sorted by name: the wire has no order.
#[must_use]
pub fn facts<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> Value {
    let pairs = pairs.into_iter().map(|(key, fact)| (key.clone(), Value::from(fact.as_str())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// An object without the members that say nothing.
#[must_use]
pub fn without_null(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, member| !member.is_null());
    }
    value
}

/// An image with the beginning of its digest, where it is settled what it is.
#[must_use]
pub fn named(image: &str, digest: &str) -> String {
    match digest.split_once("@sha256:") {
        Some((_, digest)) => {
            let short: String = digest.chars().take(12).collect();
            format!("{image}@sha256:{short}")
        }
        None => image.to_owned(),
    }
}

/// An empty text is an absent one.
#[must_use]
pub fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
