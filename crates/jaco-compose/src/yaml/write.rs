//! The model as plain data and as text: JSON with sorted keys, and YAML that loads again.
//!
//! Writing only. Positions end here.

use serde_json::{Map, Number, Value as Json};

use crate::yaml::node::{Node, Value};

/// The tree as JSON; mappings are sorted.
pub(crate) fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::Number((*value).into()),
        // JSON has no infinity; nothing that means one is a valid value of any key.
        Value::Float(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
        Value::Str(text) => Json::String(text.to_string()),
        Value::Seq(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Map(map) => {
            let pairs = map.iter().map(|entry| (entry.key.to_string(), to_json(&entry.node)));
            Json::Object(pairs.collect())
        }
    }
}

/// Writes JSON without blanks straight from a tree. Callers have to write keys in order.
#[derive(Debug)]
pub(crate) struct Writer {
    out: String,
}

/// Bytes that the text of most services fits into.
const USUAL_BYTES: usize = 1024;

impl Writer {
    pub(crate) fn new() -> Self {
        Self { out: String::with_capacity(USUAL_BYTES) }
    }

    pub(crate) fn open(&mut self, bracket: char) {
        self.out.push(bracket);
    }

    pub(crate) fn close(&mut self, bracket: char) {
        self.out.push(bracket);
    }

    /// Begins an item of a list.
    pub(crate) fn item(&mut self) {
        // A text always ends in a quote, so these can only be brackets that were just opened.
        if !self.out.ends_with(['[', '{']) {
            self.out.push(',');
        }
    }

    /// Begins an entry of a mapping.
    pub(crate) fn key(&mut self, key: &str) {
        self.item();
        self.text(key);
        self.out.push(':');
    }

    pub(crate) fn text(&mut self, text: &str) {
        let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        if text.bytes().all(plain) {
            self.out.push('"');
            self.out.push_str(text);
            self.out.push('"');
        } else {
            self.out.push_str(&Json::String(text.to_owned()).to_string());
        }
    }

    pub(crate) fn node(&mut self, node: &Node) {
        match &node.value {
            Value::Str(text) => self.text(text),
            Value::Seq(items) => {
                self.open('[');
                for child in items {
                    self.item();
                    self.node(child);
                }
                self.close(']');
            }
            Value::Map(map) => {
                self.open('{');
                for entry in map.iter() {
                    self.key(&entry.key);
                    self.node(&entry.node);
                }
                self.close('}');
            }
            Value::Null => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Int(value) => self.out.push_str(&value.to_string()),
            Value::Float(_) => self.out.push_str(&to_json(node).to_string()),
        }
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.shrink_to_fit();
        self.out
    }
}

/// Doubles every dollar of every text, so that a model can be written as a file. Keys stay: nothing in a key is a
/// variable when it is loaded.
#[must_use]
pub fn escape_dollars(json: Json) -> Json {
    match json {
        Json::String(text) => Json::String(escape(text)),
        Json::Array(items) => Json::Array(items.into_iter().map(escape_dollars).collect()),
        Json::Object(map) => {
            map.into_iter().map(|(key, value)| (key, escape_dollars(value))).collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => json,
    }
}

fn escape(text: String) -> String {
    if text.contains('$') { text.replace('$', "$$") } else { text }
}

/// Takes out nulls, empty lists and empty mappings, from the inside out.
#[must_use]
pub fn without_empty(json: Json) -> Json {
    match json {
        Json::Array(items) => Json::Array(items.into_iter().map(without_empty).collect()),
        Json::Object(map) => {
            let full = |value: &Json| match value {
                Json::Null => false,
                Json::Array(items) => !items.is_empty(),
                Json::Object(map) => !map.is_empty(),
                Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
            };
            let kept: Map<String, Json> = map
                .into_iter()
                .map(|(key, value)| (key, without_empty(value)))
                .filter(|(_, value)| full(value))
                .collect();
            Json::Object(kept)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => json,
    }
}

/// Writes block YAML. Texts are quoted unless no YAML reader could take them for anything else.
pub(crate) fn to_yaml(json: &Json) -> String {
    let mut out = String::new();
    block(json, 0, &mut out);
    out
}

fn block(json: &Json, indent: usize, out: &mut String) {
    match json {
        Json::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                pad(indent, out);
                scalar_text(key, out);
                out.push(':');
                child(value, indent + 1, out);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                pad(indent, out);
                out.push('-');
                child(item, indent + 1, out);
            }
        }
        Json::Null
        | Json::Bool(_)
        | Json::Number(_)
        | Json::String(_)
        | Json::Array(_)
        | Json::Object(_) => {
            inline(json, out);
            out.push('\n');
        }
    }
}

fn child(json: &Json, indent: usize, out: &mut String) {
    let nested = match json {
        Json::Object(map) => !map.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    };
    if nested {
        out.push('\n');
        block(json, indent, out);
    } else {
        out.push(' ');
        inline(json, out);
        out.push('\n');
    }
}

fn inline(json: &Json, out: &mut String) {
    match json {
        Json::String(text) => scalar_text(text, out),
        Json::Object(_) => out.push_str("{}"),
        Json::Array(_) => out.push_str("[]"),
        Json::Null | Json::Bool(_) | Json::Number(_) => out.push_str(&json.to_string()),
    }
}

fn scalar_text(text: &str, out: &mut String) {
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/$".contains(&b));
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    if word && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        out.push_str(text);
    } else {
        // A JSON string is a YAML string.
        out.push_str(&Json::String(text.to_owned()).to_string());
    }
}

fn pad(indent: usize, out: &mut String) {
    for _ in 0..indent {
        out.push_str("  ");
    }
}
