//! The short forms of the specification, each turned into its long form.
//!
//! Only the rewriting: the long form is checked afterwards by [`crate::shape`].

use compact_str::CompactString;

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::diagnostics::source::Pos;
use crate::normalise::checker::Checker;
use crate::normalise::{mounts, ports};
use crate::notation::paths;
use crate::support::shape::Short;
use crate::yaml::access::map_of;
use crate::yaml::node::{Entry, Map, Node, Value};

/// Rewrites `node` to the long form; `false` if it is wrong and was reported.
pub(crate) fn expand(
    form: Short,
    checker: &mut Checker<'_>,
    node: &mut Node,
    path: Path<'_>,
) -> bool {
    let pos = node.pos;
    match form {
        Short::Build => text_to(node, "context"),
        Short::Extends => text_to(node, "service"),
        Short::Include => text_to(node, "path"),
        Short::EnvFile => text_to(node, "path"),
        Short::FileMount => text_to(node, "source"),
        Short::DependsOn => return names_to_map(checker, node, path, dependency),
        Short::Networks | Short::Models => {
            return names_to_map(checker, node, path, |_| Value::Null);
        }
        Short::Device => return device(checker, node, path),
        Short::External => return external(checker, node, path),
        Short::ExtraHosts => return extra_hosts(checker, node, path),
        Short::Gpus => gpus(node),
        Short::Test => {
            if let Value::Str(line) = &mut node.value {
                let line = Node::text(std::mem::take(line), pos);
                node.value = Value::Seq(vec![Node::text("CMD-SHELL", pos), line]);
            }
        }
        Short::Ports => return ports::expand(checker, node, path),
        Short::Volume => return mounts::expand(checker, node, path),
    }
    true
}

/// Fills in what a long form leaves open, after it was checked.
pub(crate) fn finish(form: Short, checker: &Checker<'_>, node: &mut Node) {
    let pos = node.pos;
    match form {
        Short::DependsOn => {
            for entry in node.as_map_mut().into_iter().flat_map(Map::iter_mut) {
                if let Some(dependency) = entry.node.as_map_mut() {
                    dependency.insert_default("required", Value::Bool(true), pos);
                }
            }
        }
        Short::EnvFile => {
            if let Some(map) = node.as_map_mut() {
                map.insert_default("required", Value::Bool(true), pos);
            }
        }
        Short::Build => finish_build(checker, node),
        Short::Volume => mounts::finish(checker, node),
        Short::ExtraHosts
        | Short::Extends
        | Short::Include
        | Short::FileMount
        | Short::Networks
        | Short::Models
        | Short::Device
        | Short::External
        | Short::Gpus
        | Short::Test
        | Short::Ports => {}
    }
}

/// `external: {name: x}`; the name is lifted to the resource when it gets its names.
fn external(checker: &mut Checker<'_>, node: &mut Node, path: Path<'_>) -> bool {
    let Value::Map(map) = &node.value else {
        return true;
    };
    for entry in map.iter() {
        if entry.key != "name" && !entry.key.starts_with("x-") {
            let message = format!("`{path}` has no key `{}`", entry.key);
            checker.report.error(entry.key_pos, Code::UnknownKey, message);
        }
    }
    // The mapping stays until then; it cannot be checked as a truth value.
    false
}

fn text_to(node: &mut Node, key: &str) {
    if matches!(node.value, Value::Str(_)) {
        let text = Node::new(std::mem::take(&mut node.value), node.pos);
        node.value = one_entry(key, text);
    }
}

fn one_entry(key: &str, node: Node) -> Value {
    Value::Map(Map::from_entries(vec![Entry {
        key: key.to_owned().into(),
        key_pos: node.pos,
        node,
    }]))
}

fn dependency(pos: Pos) -> Value {
    map_of(
        pos,
        [("condition", Value::Str("service_started".into())), ("required", Value::Bool(true))],
    )
    .value
}

fn names_to_map(
    checker: &mut Checker<'_>,
    node: &mut Node,
    path: Path<'_>,
    value: fn(Pos) -> Value,
) -> bool {
    let Value::Seq(items) = &mut node.value else {
        return true;
    };
    let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
    let mut fine = true;
    for item in std::mem::take(items) {
        let pos = item.pos;
        let tag = item.tag;
        let Value::Str(key) = item.value else {
            checker.wrong_type(&item, path, "a list of names");
            fine = false;
            continue;
        };
        entries.push(Entry {
            key: key.into(),
            key_pos: pos,
            node: Node { value: value(pos), pos, tag },
        });
    }
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    for pair in entries.windows(2) {
        if pair[0].key == pair[1].key {
            let message = format!("`{path}` contains `{}` twice", pair[1].key);
            checker.report.error(pair[1].key_pos, Code::DuplicateValue, message);
            fine = false;
        }
    }
    node.value = Value::Map(Map::from_entries(entries));
    fine
}

fn device(checker: &mut Checker<'_>, node: &mut Node, path: Path<'_>) -> bool {
    let Value::Str(text) = &node.value else {
        return true;
    };
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, permissions) = match parts.as_slice() {
        [source] => (*source, *source, "rwm"),
        [source, target] => (*source, *target, "rwm"),
        [source, target, permissions] => (*source, *target, *permissions),
        _ => {
            checker.invalid(node.pos, path, text, "`SOURCE[:TARGET[:PERMISSIONS]]`");
            return false;
        }
    };
    let target = if target.is_empty() { source } else { target };
    let long = map_of(
        node.pos,
        [
            ("source", Value::Str(source.into())),
            ("target", Value::Str(target.into())),
            ("permissions", Value::Str(permissions.into())),
        ],
    );
    node.value = long.value;
    true
}

/// Both forms become a sorted list of `host=address`.
fn extra_hosts(checker: &mut Checker<'_>, node: &mut Node, path: Path<'_>) -> bool {
    const EXPECTED: &str = "`HOST=ADDRESS`";
    let mut lines = Vec::new();
    match &mut node.value {
        Value::Seq(items) => {
            for item in std::mem::take(items) {
                let Some(text) = item.as_str() else {
                    checker.wrong_type(&item, path, EXPECTED);
                    return false;
                };
                let Some((host, address)) = text.split_once('=').or_else(|| text.split_once(':'))
                else {
                    checker.invalid(item.pos, path, text, EXPECTED);
                    return false;
                };
                lines.push(host_line(host, address, item.pos));
            }
        }
        Value::Map(map) => {
            for Entry { key, node, .. } in map.iter() {
                let addresses = match &node.value {
                    Value::Seq(items) => items.iter().collect(),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Int(_)
                    | Value::Float(_)
                    | Value::Str(_)
                    | Value::Map(_) => vec![node],
                };
                for address in addresses {
                    let Some(text) = address.as_str() else {
                        checker.wrong_type(address, path, "an address");
                        return false;
                    };
                    lines.push(host_line(key, text, address.pos));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => {
            checker.wrong_type(node, path, "a mapping, or a list of `HOST=ADDRESS`");
            return false;
        }
    }
    for line in &lines {
        let text = line.as_str().unwrap_or_default();
        if text.starts_with('=') || text.ends_with('=') {
            checker.invalid(line.pos, path, text, EXPECTED);
            return false;
        }
    }
    lines.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    node.value = Value::Seq(lines);
    true
}

fn host_line(host: &str, address: &str, pos: Pos) -> Node {
    let address = address.trim();
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    Node::text(format!("{}={}", host.trim(), bare.unwrap_or(address)), pos)
}

fn gpus(node: &mut Node) {
    if node.as_str() == Some("all") {
        let request = map_of(node.pos, [("count", Value::Int(-1))]);
        node.value = Value::Seq(vec![request]);
    }
}

fn finish_build(checker: &Checker<'_>, node: &mut Node) {
    let pos = node.pos;
    let Some(map) = node.as_map_mut() else {
        return;
    };
    for key in ["context", "additional_contexts"] {
        match map.get_mut(key).map(|node| &mut node.value) {
            Some(Value::Str(text)) => resolve_context(checker, text),
            Some(Value::Map(named)) => {
                for entry in named.iter_mut() {
                    if let Value::Str(text) = &mut entry.node.value {
                        resolve_context(checker, text);
                    }
                }
            }
            Some(_) | None => {}
        }
    }
    // The folder of the file is what `build: {}` means wherever it was written.
    map.insert_default("context", Value::Str(checker.dir.to_owned().into()), pos);
}

fn resolve_context(checker: &Checker<'_>, text: &mut CompactString) {
    if !paths::is_remote(text) {
        *text = paths::resolve(checker.dir, text, checker.home).into();
    }
}
