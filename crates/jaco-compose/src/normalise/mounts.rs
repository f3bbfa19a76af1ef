//! Mounts of a service: the short form `SOURCE:TARGET:OPTIONS`.
//!
//! Only notation and paths; whether a named volume is declared is decided later.

use crate::diagnostics::path::Path;
use crate::diagnostics::source::Pos;
use crate::normalise::checker::Checker;
use crate::notation::paths;
use crate::yaml::access::map_of;
use crate::yaml::node::{Map, Node, Value};

const EXPECTED: &str = "`[SOURCE:]TARGET[:OPTIONS]`";

/// Turns a text into a long mount.
pub(crate) fn expand(checker: &mut Checker<'_>, node: &mut Node, path: Path<'_>) -> bool {
    let Value::Str(text) = &node.value else {
        return true;
    };
    match parse(text, node.pos) {
        Some(long) => {
            node.value = long.value;
            true
        }
        None => {
            checker.invalid(node.pos, path, text, EXPECTED);
            false
        }
    }
}

/// Resolves the paths of a checked mount.
pub(crate) fn finish(checker: &Checker<'_>, node: &mut Node) {
    let Some(map) = node.as_map_mut() else {
        return;
    };
    let bind = map.get("type").and_then(Node::as_str) == Some("bind");
    if let Some(Value::Str(source)) = map.get_mut("source").map(|node| &mut node.value)
        && bind
    {
        *source = paths::resolve(checker.dir, source, checker.home).into();
    }
    if let Some(Value::Str(target)) = map.get_mut("target").map(|node| &mut node.value)
        && !target.is_empty()
    {
        *target = paths::clean(target).into();
    }
}

fn parse(text: &str, pos: Pos) -> Option<Node> {
    let parts = split(text)?;
    let (source, target, options) = match parts.as_slice() {
        [target] => (None, *target, ""),
        [source, target] => (Some(*source), *target, ""),
        [source, target, options] => (Some(*source), *target, *options),
        _ => return None,
    };
    let bind = source.is_some_and(is_path);
    let mut pairs = vec![("target", Value::Str(target.into()))];
    if let Some(source) = source {
        pairs.push(("source", Value::Str(source.into())));
    }
    let (mut bind_details, mut volume_details) = (Map::default(), Map::default());
    if bind {
        bind_details.insert("create_host_path", Node::new(Value::Bool(true), Pos::default()));
    }
    for option in options.split(',') {
        match option {
            "ro" => pairs.push(("read_only", Value::Bool(true))),
            "nocopy" => volume_details.insert("nocopy", Node::new(Value::Bool(true), pos)),
            "z" | "Z" => bind_details.insert("selinux", Node::text(option, pos)),
            "rprivate" | "private" | "rshared" | "shared" | "rslave" | "slave" => {
                bind_details.insert("propagation", Node::text(option, pos));
            }
            // As the official tool: options it does not know change nothing.
            _ => {}
        }
    }
    for (key, details) in [("bind", bind_details), ("volume", volume_details)] {
        if !details.is_empty() {
            pairs.push((key, Value::Map(details)));
        }
    }
    let kind = if bind { "bind" } else { "volume" };
    pairs.push(("type", Value::Str(kind.into())));
    Some(map_of(pos, pairs))
}

/// Splits at colons, but not after the letter of a Windows drive.
fn split(text: &str) -> Option<Vec<&str>> {
    if text.is_empty() {
        return None;
    }
    if text.len() <= 2 {
        return Some(vec![text]);
    }
    if let Some(parts) = one_letter(text) {
        return Some(parts);
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(':') {
        let part = &text[start..at];
        let mut letters = part.chars();
        let drive = letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
        if !drive {
            parts.push(part);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    (!parts.iter().any(|part| part.is_empty())).then_some(parts)
}

/// A named volume of one letter, `v:/data` or `v:/data:ro`: behind the path of a drive there is the
/// path in the container.
fn one_letter(text: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = text.split(':').collect();
    let (name, target) = (parts[0], parts.get(1)?);
    let mut letters = name.chars();
    let is_letter = letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
    let has_target = parts.get(2).is_some_and(|part| part.starts_with('/'));
    (is_letter && target.starts_with('/') && parts.len() <= 3 && !has_target).then_some(parts)
}

fn is_path(source: &str) -> bool {
    source.starts_with(['.', '/', '~']) || paths::is_windows(source) || {
        let mut chars = source.chars();
        chars.next().is_some_and(char::is_alphabetic) && chars.next() == Some(':')
    }
}
