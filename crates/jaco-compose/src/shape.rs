//! Checks a tree against the key table and turns every short form into its long one.
//!
//! One walk, driven by data: what a key takes is said in [`crate::support`], how a value of that
//! kind is written canonically is said here. It decides nothing about what JACO supports.

use compact_str::CompactString;
use std::collections::BTreeSet;

use crate::node::{Entry, Map, MergeTag, Node, Value};
use crate::place::Path;
use crate::problem::{Code, Finding, Report};
use crate::scalar;
use crate::shell;
use crate::short;
use crate::source::Pos;
use crate::support::{Extensions, Names, Object, Shape, Unique};
use crate::unique::dedup;
use crate::units;

/// What a walk needs beside the tree.
pub(crate) struct Checker<'c> {
    /// Takes what is wrong.
    pub(crate) report: &'c mut Report,
    /// Ports that ranges were expanded to so far.
    pub(crate) ports: &'c mut usize,
    /// What the file is, for messages about its top level.
    pub(crate) what: &'c str,
    /// The folder that relative paths of this file start from.
    pub(crate) dir: &'c str,
    /// The home folder for `~`, if the caller gave one.
    pub(crate) home: Option<&'c str>,
}

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

    /// Reports a value of the wrong type.
    pub(crate) fn wrong_type(
        &mut self,
        node: &Node,
        path: Path<'_>,
        expected: &str,
    ) -> &mut Finding {
        let message = format!("`{path}` is {}", node.kind());
        self.report.error(node.pos, Code::WrongType, message).expected(expected)
    }

    /// Reports a value of the right type that means nothing.
    pub(crate) fn invalid(
        &mut self,
        pos: Pos,
        path: Path<'_>,
        shown: &str,
        expected: &str,
    ) -> &mut Finding {
        let message = format!("`{path}` cannot be `{shown}`");
        self.report.error(pos, Code::InvalidValue, message).expected(expected)
    }

    fn text(&mut self, node: &Node, path: Path<'_>) {
        if !matches!(node.value, Value::Str(_)) {
            self.wrong_type(node, path, "a string").suggest("put the value in quotes");
        }
    }

    fn path(&mut self, node: &mut Node, path: Path<'_>) {
        match &mut node.value {
            Value::Str(text) => *text = crate::paths::resolve(self.dir, text, self.home).into(),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Seq(_)
            | Value::Map(_) => {
                self.wrong_type(node, path, "a path");
            }
        }
    }

    fn text_or_number(&mut self, node: &mut Node, path: Path<'_>) {
        match node.value {
            Value::Str(_) => {}
            Value::Int(_) | Value::Float(_) => self.scalar_text(node, path),
            Value::Null | Value::Bool(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a string or a number");
            }
        }
    }

    fn scalar_text(&mut self, node: &mut Node, path: Path<'_>) {
        let text = match &node.value {
            Value::Null | Value::Str(_) => return,
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => scalar::format_float(*value),
            Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a string, a number or a boolean");
                return;
            }
        };
        node.value = Value::Str(text.into());
    }

    fn boolean(&mut self, node: &mut Node, path: Path<'_>) {
        match &node.value {
            Value::Bool(_) => {}
            Value::Str(text) => match parse_bool(text) {
                Some(value) => node.value = Value::Bool(value),
                None => {
                    self.invalid(node.pos, path, text, "`true` or `false`");
                }
            },
            Value::Null | Value::Int(_) | Value::Float(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "`true` or `false`");
            }
        }
    }

    fn integer(&mut self, node: &mut Node, path: Path<'_>) {
        match &node.value {
            Value::Int(_) => {}
            Value::Str(text) => match text.parse() {
                Ok(number) => node.value = Value::Int(number),
                Err(_) => {
                    self.invalid(node.pos, path, text, "a whole number");
                }
            },
            Value::Float(number) if number.fract() == 0.0 => {
                if let Ok(number) = format!("{number:.0}").parse() {
                    node.value = Value::Int(number);
                }
            }
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a whole number");
            }
        }
    }

    fn number(&mut self, node: &mut Node, path: Path<'_>) {
        match &node.value {
            Value::Int(_) | Value::Float(_) => {}
            Value::Str(text) => match scalar::resolve_plain(text.trim()) {
                number @ (Value::Int(_) | Value::Float(_)) => node.value = number,
                Value::Null | Value::Bool(_) | Value::Str(_) | Value::Seq(_) | Value::Map(_) => {
                    self.invalid(node.pos, path, text, "a number");
                }
            },
            Value::Null | Value::Bool(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a number");
            }
        }
    }

    fn duration(&mut self, node: &mut Node, path: Path<'_>) {
        const EXPECTED: &str = "a length of time such as `30s` or `1m30s`";
        match &node.value {
            Value::Str(text) => match units::parse_duration_nanos(text) {
                Some(nanos) => node.value = Value::Str(units::format_duration_nanos(nanos).into()),
                None => {
                    self.invalid(node.pos, path, text, EXPECTED);
                }
            },
            Value::Int(number) => {
                let suggestion = format!("`{number}s`, if seconds are meant");
                self.wrong_type(node, path, EXPECTED).suggest(suggestion);
            }
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, EXPECTED);
            }
        }
    }

    fn bytes(&mut self, node: &mut Node, path: Path<'_>) {
        const EXPECTED: &str = "a number of bytes such as `512m` or `2g`";
        match &node.value {
            // Compose uses -1 for "without a limit".
            Value::Int(number) if *number >= -1 => {
                node.value = Value::Str(number.to_string().into());
            }
            Value::Float(number) if *number >= 0.0 => {
                node.value = Value::Str(format!("{:.0}", number.trunc()).into());
            }
            Value::Str(text) if text == "-1" => {}
            Value::Str(text) => match units::parse_bytes(text) {
                Some(bytes) => node.value = Value::Str(bytes.to_string().into()),
                None => {
                    self.invalid(node.pos, path, text, EXPECTED);
                }
            },
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Seq(_)
            | Value::Map(_) => {
                self.wrong_type(node, path, EXPECTED);
            }
        }
    }

    fn mode(&mut self, node: &mut Node, path: Path<'_>) {
        const EXPECTED: &str = "a file mode such as `0444`";
        let bits = match &node.value {
            Value::Int(bits) => Some(*bits),
            Value::Str(text) => {
                let digits = text.strip_prefix("0o").unwrap_or(text);
                i64::from_str_radix(digits, 8).ok()
            }
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, EXPECTED);
                return;
            }
        };
        match bits {
            Some(bits @ 0..=0o7777) => node.value = Value::Str(format!("0{bits:o}").into()),
            Some(_) | None => {
                self.report
                    .error(node.pos, Code::InvalidValue, format!("`{path}` is not a file mode"))
                    .expected(EXPECTED);
            }
        }
    }

    fn one_of(&mut self, known: &'static [&'static str], node: &Node, path: Path<'_>) {
        let Some(text) = node.as_str() else {
            self.wrong_type(node, path, &join_names(known));
            return;
        };
        if !known.contains(&text) {
            let message = format!("`{path}` cannot be `{text}`");
            self.report
                .error(node.pos, Code::InvalidValue, message)
                .expected(join_names(known))
                .nearest(text, known.iter().copied());
        }
    }

    fn count(&mut self, node: &mut Node, path: Path<'_>) {
        if node.as_str() == Some("all") {
            node.value = Value::Int(-1);
        } else {
            self.integer(node, path);
        }
    }

    fn list(&mut self, item: &'static Shape, unique: Unique, node: &mut Node, path: Path<'_>) {
        let Value::Seq(items) = &mut node.value else {
            self.wrong_type(node, path, "a list").suggest("write each item after a `- `");
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
                let message = format!("`{path}` has `{text}` twice");
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
                    let message = format!("`{path}` is not a command line");
                    self.report
                        .error(pos, Code::InvalidValue, message)
                        .expected("closed quotes, and no parentheses outside of them")
                        .suggest("write it as a list, for example [\"sh\", \"-c\", \"…\"]");
                    return;
                };
                if let Some(cut_off) = parts.cut_off {
                    let message = format!("`{path}` ends before `{cut_off}`");
                    self.report
                        .warning(pos, Code::NoEffect, message)
                        .expected("a command without operators of a shell, since none runs it")
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
                    .error(*key_pos, Code::InvalidKey, format!("`{key}` is not a name"))
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
            match object.key(key) {
                Some(known) => self.apply(&known.shape, node, path.key(key)),
                None if key.starts_with("x-") && object.extensions == Extensions::Kept => {}
                None => self.unknown_key(object, key, *key_pos, path),
            }
        }
    }

    fn unknown_key(&mut self, object: &'static Object, key: &str, pos: Pos, path: Path<'_>) {
        if let Some(modern) = legacy(key) {
            self.report
                .error(pos, Code::LegacyComposeField, format!("`{key}` is of an old version"))
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

fn join_names(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn wrap_in_list(node: &mut Node) {
    let item = Node::new(std::mem::take(&mut node.value), node.pos);
    node.value = Value::Seq(vec![item]);
}

/// Truth values as the official tool reads them from texts.
fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "t" | "y" | "yes" | "on" => Some(true),
        "false" | "0" | "f" | "n" | "no" | "off" => Some(false),
        _ => None,
    }
}
