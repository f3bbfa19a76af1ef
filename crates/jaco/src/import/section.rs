//! A part of a compose file whose keys are in the order in which people write them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Keys with their values, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Section(Vec<(&'static str, Value)>);

impl Section {
    /// Adds a key, unless its value says nothing: an empty text, list or mapping.
    pub(super) fn put(&mut self, key: &'static str, value: impl Into<Value>) {
        let value = value.into();
        let says_nothing = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if !says_nothing {
            self.set(key, value);
        }
    }

    /// Adds a key, also one whose value is empty: that replaces what an image says.
    pub(super) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push((key, value.into()));
    }

    /// Adds a key that is true.
    pub(super) fn flag(&mut self, key: &'static str, is_set: bool) {
        if is_set {
            self.set(key, true);
        }
    }

    /// Adds a number that is not 0.
    pub(super) fn number(&mut self, key: &'static str, number: i64) {
        if number != 0 {
            self.set(key, number);
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }
}

impl From<Section> for Value {
    fn from(section: Section) -> Self {
        let pairs = section.0.into_iter().map(|(key, value)| (key.to_owned(), value));
        Self::Object(pairs.collect())
    }
}

/// A mapping of texts.
pub(super) fn pairs(map: &BTreeMap<String, String>) -> Value {
    let pairs = map.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Value::Object(pairs.collect::<Map<_, _>>())
}
