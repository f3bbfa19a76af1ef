//! Short ways to read and build common shapes of nodes.

use crate::diagnostics::source::Pos;
use crate::yaml::node::{Entry, Map, Node, Value};

/// A mapping of texts and whatever else is given.
pub(crate) fn map_of(pos: Pos, pairs: impl IntoIterator<Item = (&'static str, Value)>) -> Node {
    let entry = |(key, value): (&str, Value)| Entry {
        key: key.to_owned().into(),
        key_pos: pos,
        node: Node::new(value, pos),
    };
    let entries = pairs.into_iter().map(entry).collect();
    Node::new(Value::Map(Map::from_entries(entries)), pos)
}

pub(crate) fn texts<'m>(map: &'m Map, key: &str) -> impl Iterator<Item = &'m str> + use<'m> {
    let items = map.get(key).and_then(Node::as_seq);
    items.into_iter().flatten().filter_map(Node::as_str)
}

pub(crate) fn take_section(map: &mut Map, name: &str) -> Map {
    match map.remove(name).map(|node| node.value) {
        Some(Value::Map(section)) => section,
        Some(_) | None => Map::default(),
    }
}

pub(crate) fn items<'m>(map: &'m Map, key: &str) -> &'m [Node] {
    map.get(key).and_then(Node::as_seq).unwrap_or_default()
}
