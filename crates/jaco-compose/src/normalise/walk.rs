//! Checks a tree against the key table and turns every short form into its long one.
//!
//! One walk, driven by data: [`crate::support`] defines what a key takes, and this module how a value
//! of that kind is written canonically. It does not decide what JACO supports.

use std::collections::BTreeSet;

use compact_str::CompactString;

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::source::Pos;
use crate::normalise::checker::Checker;
use crate::normalise::short;
use crate::normalise::unique::dedup;
use crate::notation::shell;
use crate::support::shape::{Extensions, Names, Object, Shape, Unique};
use crate::yaml::node::{Entry, Map, MergeTag, Node, Value};

impl Checker<'_> {
    /// Checks and rewrites `node` in place.
    pub(crate) fn apply(&mut self, shape: &'static Shape, node: &mut Node, path: Path<'_>) {
        if node.tag == MergeTag::Reset {
            // What is taken away needs no value.
            return;
        }
        match shape {
            Shape::Any => {}
            Shape::OrNull(inner) => {
                if !node.is_null() {
                    self.apply(inner, node, path);
                }
            }
            Shape::Str => self.text(node, path),
            Shape::Path => self.path(node, path),
            Shape::StrOrNum => self.text_or_number(node, path),
            Shape::Text => self.scalar_text(node, path),
            Shape::Label => {
                self.scalar_text(node, path);
                if node.is_null() {
                    node.value = Value::Str(CompactString::default());
                }
            }
            Shape::Bool => self.boolean(node, path),
            Shape::Int => self.integer(node, path),
            Shape::Number => self.number(node, path),
            Shape::Duration => self.duration(node, path),
            Shape::Bytes => self.bytes(node, path),
            Shape::BytesText => {
                if matches!(node.value, Value::Str(_)) {
                    self.bytes(node, path);
                } else {
                    self.wrong_type(node, path, "a text such as `512m`");
                }
            }
            Shape::Mode => self.mode(node, path),
            Shape::OneOf(known) => self.one_of(known, node, path),
            Shape::Count => self.count(node, path),
            Shape::List(item, unique) => self.list(item, *unique, node, path),
            Shape::OneOrList(item, unique) => {
                if !matches!(node.value, Value::Seq(_)) {
                    wrap_in_list(node);
                }
                self.list(item, *unique, node, path);
            }
            Shape::Command => self.command(node, path),
            Shape::Pairs(value) => self.pairs(value, node, path),
            Shape::Map(value, names) => self.user_map(value, *names, false, node, path),
            Shape::MapOrNull(value, names) => self.user_map(value, *names, true, node, path),
            Shape::Object(object) => self.object(object, node, path),
            Shape::Short(form, long) => {
                if short::expand(*form, self, node, path) {
                    self.apply(long, node, path);
                    short::finish(*form, self, node);
                }
            }
            Shape::IntOr(object) => {
                if matches!(node.value, Value::Map(_)) {
                    self.object(object, node, path);
                } else {
                    self.integer(node, path);
                }
            }
        }
    }

    fn list(&mut self, item: &'static Shape, unique: Unique, node: &mut Node, path: Path<'_>) {
        let Value::Seq(items) = &mut node.value else {
            self.wrong_type(node, path, "a list").suggest("start each item with `- `");
            return;
        };
        for (index, child) in items.iter_mut().enumerate() {
            self.apply(item, child, path.index(index));
        }
        if unique == Unique::Strict {
            self.refuse_repeated(items, path);
        } else {
            dedup(items, unique);
        }
    }

    fn refuse_repeated(&mut self, items: &[Node], path: Path<'_>) {
        let mut seen = BTreeSet::new();
        for item in items {
            if let Some(text) = item.as_str()
                && !seen.insert(text)
            {
                let message = format!("`{path}` contains `{text}` twice");
                self.report.error(item.pos, Code::DuplicateValue, message);
            }
        }
    }

    fn command(&mut self, node: &mut Node, path: Path<'_>) {
        let pos = node.pos;
        match &node.value {
            Value::Null => {}
            Value::Str(line) => {
                let Some(parts) = shell::split(line) else {
                    let message = format!("`{path}` is not a valid command line");
                    self.report
                        .error(pos, Code::InvalidValue, message)
                        .expected("balanced quotes, and no parentheses outside of quotes")
                        .suggest("write it as a list, for example [\"sh\", \"-c\", \"…\"]");
                    return;
                };
                if let Some(cut_off) = parts.cut_off {
                    let message = format!("`{path}` is cut off at `{cut_off}`");
                    self.report
                        .warning(pos, Code::NoEffect, message)
                        .expected("a command without shell operators: no shell runs it")
                        .suggest("write [\"sh\", \"-c\", \"…\"]");
                }
                let words = parts.words.into_iter().map(|word| Node::text(word, pos));
                node.value = Value::Seq(words.collect());
            }
            Value::Seq(_) => self.list(&Shape::Str, Unique::Free, node, path),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a command line as a string or a list");
            }
        }
    }

    fn pairs(&mut self, value: &'static Shape, node: &mut Node, path: Path<'_>) {
        match &mut node.value {
            Value::Map(map) => {
                for Entry { key, node, .. } in map.iter_mut() {
                    self.apply(value, node, path.key(key));
                }
            }
            Value::Seq(items) => {
                let mut entries = Vec::with_capacity(items.len());
                for item in std::mem::take(items) {
                    let pos = item.pos;
                    let tag = item.tag;
                    let Value::Str(text) = item.value else {
                        self.wrong_type(&item, path, "`KEY=value` as a string")
                            .suggest("put the value in quotes");
                        continue;
                    };
                    let (key, text) = match text.split_once('=') {
                        Some((key, text)) => (key.into(), Value::Str(text.into())),
                        None => (text, Value::Null),
                    };
                    let mut child = Node { value: text, pos, tag };
                    self.apply(value, &mut child, path.key(&key));
                    entries.push(Entry { key: key.into(), key_pos: pos, node: child });
                }
                node.value = Value::Map(Map::from_entries(entries));
            }
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => {
                self.wrong_type(node, path, "a mapping, or a list of `KEY=value`");
            }
        }
    }

    fn user_map(
        &mut self,
        value: &'static Shape,
        names: Names,
        null_allowed: bool,
        node: &mut Node,
        path: Path<'_>,
    ) {
        let Value::Map(map) = &mut node.value else {
            self.wrong_type(node, path, "a mapping");
            return;
        };
        for Entry { key, key_pos, node } in map.iter_mut() {
            if names == Names::Plain && !is_plain_name(key) {
                self.report
                    .error(*key_pos, Code::InvalidKey, format!("`{key}` is not a valid name"))
                    .expected("letters, digits, `.`, `_` and `-`");
            }
            if !(null_allowed && node.is_null()) {
                self.apply(value, node, path.key(key));
            }
        }
    }

    fn object(&mut self, object: &'static Object, node: &mut Node, path: Path<'_>) {
        let pos = node.pos;
        let Value::Map(map) = &mut node.value else {
            self.wrong_type(node, path, "a mapping");
            return;
        };
        for name in object.required {
            if !map.contains(name) {
                let message = if path.is_root() {
                    format!("{} has no `{name}`", self.what)
                } else {
                    format!("`{path}` has no `{name}`")
                };
                self.report.error(pos, Code::MissingKey, message);
            }
        }
        for Entry { key, key_pos, node } in map.iter_mut() {
            match object.search((&*key).into()) {
                Some(known) => self.apply(&known.shape, node, path.key(key)),
                None if key.starts_with("x-") && object.extensions == Extensions::Kept => {}
                None => self.unknown_key(object, key, *key_pos, path),
            }
        }
    }

    fn unknown_key(&mut self, object: &'static Object, key: &str, pos: Pos, path: Path<'_>) {
        if let Some(modern) = legacy(key) {
            self.report
                .error(
                    pos,
                    Code::LegacyComposeField,
                    format!("`{key}` belongs to an obsolete version of the compose format"),
                )
                .suggest(format!("write `{modern}`"));
            return;
        }
        let message = if path.is_root() {
            format!("{} has no key `{key}`", self.what)
        } else {
            format!("`{path}` has no key `{key}`")
        };
        self.report
            .error(pos, Code::UnknownKey, message)
            .nearest(key, object.keys.iter().map(|key| key.name));
    }
}

/// Keys of the first file versions and what replaced them.
fn legacy(key: &str) -> Option<&'static str> {
    match key {
        "log_driver" => Some("logging.driver"),
        "log_opt" => Some("logging.options"),
        "net" => Some("network_mode"),
        "dockerfile" => Some("build.dockerfile"),
        "volume_driver" => Some("volumes.<name>.driver"),
        "compose_service" => Some("name"),
        _ => None,
    }
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn wrap_in_list(node: &mut Node) {
    let item = Node::new(std::mem::take(&mut node.value), node.pos);
    node.value = Value::Seq(vec![item]);
}
