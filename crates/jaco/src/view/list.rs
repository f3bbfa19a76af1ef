//! Results that need no type of their own.

use serde_json::Value;

use crate::output::{Frame, Show};

/// A list of objects of one kind.
#[derive(Debug)]
pub(crate) struct List<'a, T> {
    pub(crate) items: &'a [T],
    /// The JSON of one object.
    pub(crate) json: fn(&T) -> Value,
    /// The table of all objects.
    pub(crate) text: fn(&[T], &Frame) -> String,
}

impl<T> Show for List<'_, T> {
    fn json(&self) -> Value {
        self.items.iter().map(self.json).collect()
    }

    fn text(&self, frame: &Frame) -> String {
        (self.text)(self.items, frame)
    }
}

/// A result with the JSON and the text computed in advance.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) json: Value,
    pub(crate) text: String,
}

impl Show for Summary {
    fn json(&self) -> Value {
        self.json.clone()
    }

    fn text(&self, _: &Frame) -> String {
        self.text.clone()
    }
}
