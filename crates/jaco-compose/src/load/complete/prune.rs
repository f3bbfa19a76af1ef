//! Removes values without meaning: `x-` keys below the top level, and values that are the default.
//!
//! `privileged: false` and no `privileged` are the same service; after this they are the same tree.

use crate::support;
use crate::support::shape::{Inside, Object, Shape};
use crate::yaml::node::{Map, Node, Value};

/// Keys whose zero, `false` or empty list differs from leaving them out. An empty `entrypoint`
/// takes the image's away. What the table requires is never left out either.
const MEANINGFUL_ZEROS: [&str; 15] = [
    "attach",
    "command",
    "content",
    "count",
    "device_ids",
    "enable_ipv4",
    "enable_ipv6",
    "entrypoint",
    "init",
    "max_attempts",
    "parallelism",
    "replicas",
    "required",
    "retries",
    "scale",
];

/// Prunes a whole project; `x-` keys at the top stay, because users read them back.
pub(crate) fn prune_project(root: &mut Map) {
    for entry in root.iter_mut() {
        if let Some(key) = support::TOP_LEVEL.key(&entry.key) {
            prune(&key.shape, &mut entry.node);
        }
    }
}

fn prune(shape: &'static Shape, node: &mut Node) {
    match shape.inside() {
        Inside::Nothing => {}
        Inside::Itself(inner) => prune(inner, node),
        Inside::Items(item) => {
            for child in node.as_seq_mut().into_iter().flatten() {
                prune(item, child);
            }
        }
        Inside::Values(value) => {
            for entry in node.as_map_mut().into_iter().flat_map(Map::iter_mut) {
                prune(value, &mut entry.node);
            }
        }
        Inside::Keys(object) => {
            if let Some(map) = node.as_map_mut() {
                prune_object(object, map);
            }
        }
    }
}

fn prune_object(object: &'static Object, map: &mut Map) {
    map.retain_mut(|entry| {
        let Some(key) = object.search((&entry.key).into()) else {
            return false;
        };
        prune(&key.shape, &mut entry.node);
        let value = &entry.node.value;
        !is_default(value)
            || object.required.contains(&entry.key.as_str())
            || (!entry.node.is_null() && MEANINGFUL_ZEROS.contains(&entry.key.as_str()))
    });
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Float(value) => *value == 0.0,
        Value::Str(text) => text.is_empty(),
        Value::Null => true,
        Value::Seq(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
    }
}
