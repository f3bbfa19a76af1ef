//! Mappings of a text: duplicates are refused, and what `<<` names is laid below what is written.

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::yaml::node::{Entry, Map, Node, Value};

/// Sorts, refuses duplicates, and lays merged mappings below the written entries.
pub(super) fn mapping(mut entries: Vec<Entry>, merged: Vec<Node>, report: &mut Report) -> Map {
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let mut unique = true;
    for pair in entries.windows(2) {
        if pair[0].key == pair[1].key {
            unique = false;
            let (key, first) = (&pair[1].key, pair[0].key_pos.line);
            report
                .error(pair[1].key_pos, Code::DuplicateKey, format!("`{key}` is declared twice"))
                .suggest(format!("first declared on line {first}"));
        }
    }
    let mut map = if unique { Map::from_sorted(entries) } else { Map::from_entries(entries) };
    if let Some(second) = merged.get(1) {
        report.error(second.pos, Code::DuplicateKey, "`<<` is declared twice");
    }
    for node in merged {
        merge_below(&mut map, node, report);
    }
    map
}

fn merge_below(map: &mut Map, node: Node, report: &mut Report) {
    let pos = node.pos;
    match node.value {
        Value::Map(below) => merge_missing(map, below),
        Value::Seq(list) if list.iter().all(|item| item.as_map().is_some()) => {
            for item in list {
                merge_below(map, item, report);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::Seq(_) => {
            report
                .error(pos, Code::WrongType, "`<<` can only merge mappings")
                .expected("an alias of a mapping, or a list of such aliases");
        }
    }
}

/// Adds what `map` does not have yet; both are sorted, so one pass is enough.
fn merge_missing(map: &mut Map, below: Map) {
    let mut all = std::mem::take(map).into_entries();
    let known = all.len();
    for entry in below.into_entries() {
        let here = all[..known].binary_search_by(|own| own.key.cmp(&entry.key));
        if here.is_err() {
            all.push(entry);
        }
    }
    all.sort_by(|a, b| a.key.cmp(&b.key));
    *map = Map::from_sorted(all);
}
