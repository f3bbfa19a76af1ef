//! The key table against the specification's JSON schema: every key is in it exactly once.

#![expect(clippy::disallowed_methods, reason = "the schema lies on a disk")]

use std::collections::BTreeSet;
use std::fs;

use jaco_compose::support::{Inside, Object, Shape, TOP_LEVEL};
use serde_json::Value as Json;

use crate::corpus;

/// Paths of all keys of the table; user-chosen names are `*`.
fn table_keys(object: &'static Object, path: &str, keys: &mut BTreeSet<String>) {
    assert!(object.keys.is_sorted_by(|a, b| a.name < b.name), "{path}: keys must be sorted");
    for key in object.keys {
        let path = format!("{path}.{}", key.name);
        assert!(!key.note.is_empty() && key.note.ends_with('.'), "{path}: needs a sentence");
        shape_keys(&key.shape, &path, keys);
        assert!(keys.insert(path.clone()), "{path} is there twice");
    }
}

fn shape_keys(shape: &'static Shape, path: &str, keys: &mut BTreeSet<String>) {
    match shape.inside() {
        Inside::Nothing => {}
        Inside::Itself(inner) | Inside::Items(inner) => shape_keys(inner, path, keys),
        Inside::Values(value) => shape_keys(value, &format!("{path}.*"), keys),
        Inside::Keys(object) => table_keys(object, path, keys),
    }
}

/// Paths of all keys of the schema.
fn schema_keys(root: &Json, schema: &Json, path: &str, keys: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.trim_start_matches("#/definitions/");
        return schema_keys(root, &root["definitions"][name], path, keys);
    }
    for key in ["oneOf", "anyOf"] {
        for option in schema[key].as_array().into_iter().flatten() {
            schema_keys(root, option, path, keys);
        }
    }
    if schema["items"].is_object() {
        schema_keys(root, &schema["items"], path, keys);
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        schema_keys(root, schema, &path, keys);
        keys.insert(path);
    }
    for (pattern, schema) in schema["patternProperties"].as_object().into_iter().flatten() {
        if pattern != "^x-" {
            schema_keys(root, schema, &format!("{path}.*"), keys);
        }
    }
}

/// R-IN-2: nothing is in none of the four lists.
#[test]
fn every_key_of_the_specification_is_in_the_table() {
    let mut table = BTreeSet::new();
    table_keys(&TOP_LEVEL, "", &mut table);
    let Some(folder) = corpus::folder() else { return };
    let text = fs::read(folder.join("schema/compose-spec.json")).unwrap();
    let schema: Json = serde_json::from_slice(&text).unwrap();
    let mut wanted = BTreeSet::new();
    schema_keys(&schema, &schema, "", &mut wanted);
    // `external: {name: …}` is an old form that becomes `external` and `name`.
    wanted.retain(|path| !path.ends_with(".external.name"));
    // Extensions of ours are no part of the specification.
    table.retain(|path| !path.contains(".x-jaco"));
    let missing: Vec<_> = wanted.difference(&table).collect();
    let unknown: Vec<_> = table.difference(&wanted).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:#?}, unknown {unknown:#?}");
}
