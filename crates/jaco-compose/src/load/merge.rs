//! Lays one tree over another by the rules of the specification.
//!
//! Works on checked trees, so that every list and mapping has its long form, and is driven by the
//! key table: mappings merge, lists append and drop repeated items, commands and scalars replace.

use crate::normalise::unique::dedup;
use crate::support;
use crate::support::shape::{Key, Object, Shape, Short, Unique};
use crate::yaml::node::{Map, MergeTag, Node, Value};

/// Lays `over` over `base`, both of `shape`.
pub(crate) fn merge(shape: &'static Shape, base: &mut Node, over: Node) {
    if over.tag == MergeTag::Override || base.tag == MergeTag::Reset {
        *base = over;
        return;
    }
    match shape {
        Shape::Command | Shape::Short(Short::Test, _) => *base = over,
        Shape::Short(_, long) | Shape::OrNull(long) => merge(long, base, over),
        Shape::List(_, unique) | Shape::OneOrList(_, unique) => merge_list(*unique, base, over),
        Shape::Pairs(value) => merge_map(base, over, |_| Some(value)),
        Shape::Map(value, _) | Shape::MapOrNull(value, _) => {
            merge_map(base, over, |_| Some(value));
        }
        Shape::Object(object) | Shape::IntOr(object) => merge_object(object, base, over),
        Shape::Any
        | Shape::Str
        | Shape::Path
        | Shape::StrOrNum
        | Shape::Text
        | Shape::Label
        | Shape::Bool
        | Shape::Int
        | Shape::Number
        | Shape::Duration
        | Shape::Bytes
        | Shape::BytesText
        | Shape::Mode
        | Shape::OneOf(_)
        | Shape::Count => *base = over,
    }
}

fn merge_object(object: &'static Object, base: &mut Node, over: Node) {
    let other_driver = support::is_logging(object)
        && matches!((base.get_str("driver"), over.get_str("driver")), (Some(a), Some(b)) if a != b);
    if other_driver {
        // Options of one logging driver mean nothing to another.
        *base = over;
        return;
    }
    merge_map(base, over, |key| object.key(key).map(|Key { shape, .. }| shape));
}

fn merge_map(base: &mut Node, over: Node, shape_of: impl Fn(&str) -> Option<&'static Shape>) {
    if over.is_null() {
        return;
    }
    let (Value::Map(map), Value::Map(_)) = (&mut base.value, &over.value) else {
        *base = over;
        return;
    };
    let Value::Map(over) = over.value else {
        return;
    };
    let mut added = Vec::new();
    for entry in over.into_entries() {
        if entry.node.tag == MergeTag::Reset {
            map.remove(&entry.key);
            continue;
        }
        match (map.get_mut(&entry.key), shape_of(&entry.key)) {
            (Some(base), Some(shape)) => merge(shape, base, entry.node),
            (Some(base), None) => *base = entry.node,
            (None, _) => added.push(entry),
        }
    }
    if !added.is_empty() {
        let mut all = std::mem::take(map).into_entries();
        all.extend(added);
        all.sort_by(|a, b| a.key.cmp(&b.key));
        *map = Map::from_sorted(all);
    }
}

fn merge_list(unique: Unique, base: &mut Node, over: Node) {
    let (Value::Seq(items), Value::Seq(_)) = (&mut base.value, &over.value) else {
        if !over.is_null() {
            *base = over;
        }
        return;
    };
    if let Value::Seq(more) = over.value {
        items.extend(more);
    }
    // A list that refuses repetition in one file may repeat itself over two.
    let unique = if unique == Unique::Strict { Unique::Once } else { unique };
    dedup(items, unique);
}

/// Takes out what is still marked as reset, and forgets the marks.
pub(crate) fn settle(node: &mut Node) {
    node.tag = MergeTag::None;
    match &mut node.value {
        Value::Seq(items) => {
            items.retain(|item| item.tag != MergeTag::Reset);
            items.iter_mut().for_each(settle);
        }
        Value::Map(map) => {
            map.retain(|entry| entry.node.tag != MergeTag::Reset);
            map.iter_mut().for_each(|entry| settle(&mut entry.node));
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => {}
    }
}
