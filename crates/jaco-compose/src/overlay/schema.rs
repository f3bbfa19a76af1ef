//! The JSON Schema of jaco.yaml, made from the same table that checks it.

use serde_json::{Map, Value as Json, json};

use crate::overlay::table;
use crate::support::shape::{Object, Shape};

pub(super) static FILE: Shape = Shape::Object(&table::FILE);

/// The JSON Schema (draft 7) of jaco.yaml.
#[must_use]
pub fn json_schema() -> String {
    let mut schema = object(&table::FILE);
    if let Json::Object(map) = &mut schema {
        map.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
        map.insert("title".to_owned(), json!("jaco.yaml"));
    }
    serde_json::to_string_pretty(&schema).expect("a JSON value can always be written")
}

fn object(object: &'static Object) -> Json {
    let mut properties = Map::new();
    for key in object.keys {
        let mut schema = by_name(key.name).unwrap_or_else(|| by_shape(&key.shape));
        if let Json::Object(map) = &mut schema {
            map.insert("description".to_owned(), json!(key.note));
        }
        properties.insert(key.name.to_owned(), schema);
    }
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !object.required.is_empty() {
        schema["required"] = json!(object.required);
    }
    if std::ptr::eq(object, &raw const table::ROUTE) {
        schema["anyOf"] =
            json!([{ "required": ["service", "port"] }, { "required": ["redirect"] }]);
    }
    schema
}

/// Keys with several notations, which the table leaves to their reader.
fn by_name(name: &str) -> Option<Json> {
    let rule = |extra: Option<(&str, Json)>| {
        let mut properties = json!({
            "attribute": { "type": "string" },
            "operator": { "type": "string" },
            "value": { "type": ["string", "number", "boolean"] },
        });
        if let Some((key, schema)) = extra {
            properties[key] = schema;
        }
        json!({
            "type": "object",
            "properties": properties,
            "required": ["attribute"],
            "additionalProperties": false,
        })
    };
    let weight = |least: i64| json!({ "type": "integer", "minimum": least, "maximum": 100 });
    match name {
        "acme" => {
            Some(json!({ "enum": ["on", "off", "On", "Off", "ON", "OFF", "", true, false, null] }))
        }
        "tls" => Some(json!({ "anyOf": [
            { "const": false },
            { "type": "string", "minLength": 1, "not": { "const": "on" } },
        ] })),
        "status" => Some(json!({ "enum": [301, 302, 307, 308] })),
        "basic_auth" | "set" => {
            Some(json!({ "type": "object", "additionalProperties": { "type": "string" } }))
        }
        "port" => Some(json!({ "type": ["integer", "string"], "minimum": 1, "maximum": 65_535 })),
        "replicas" | "min_allocations_count" | "parallelism" => {
            Some(json!({ "type": ["integer", "string"], "minimum": 0 }))
        }
        "constraints" => Some(constraints(&rule(None))),
        "roles" => Some(json!({
            "type": "object",
            "additionalProperties": constraints(&rule(None)),
        })),
        "affinities" => {
            Some(json!({ "type": "array", "items": rule(Some(("weight", weight(-100)))) }))
        }
        "max_files" => Some(json!({ "type": ["integer", "string"] })),
        "selectors" => Some(json!({ "anyOf": [
            { "const": "auto" },
            { "type": "array", "items": { "type": "string", "minLength": 1 } },
        ] })),
        "spread" => Some(spread(&weight(0))),
        "volumes" => Some(json!({
            "type": "object",
            "additionalProperties": object(&table::VOLUME),
        })),
        _ => None,
    }
}

fn constraints(rule: &Json) -> Json {
    json!({ "anyOf": [
        { "type": "string" },
        { "type": "object",
          "additionalProperties": { "type": ["string", "number", "boolean", "null"] } },
        { "type": "array", "items": { "anyOf": [{ "type": "string" }, rule] } },
    ] })
}

fn spread(weight: &Json) -> Json {
    let percent = json!({ "type": "integer", "minimum": 0, "maximum": 100 });
    let target = json!({
        "type": "object",
        "properties": { "value": { "type": ["string", "number", "boolean"] }, "percent": percent },
        "required": ["value", "percent"],
        "additionalProperties": false,
    });
    let criterion = json!({
        "type": "object",
        "properties": {
            "attribute": { "type": "string" },
            "weight": weight,
            "targets": { "anyOf": [
                { "type": "array", "items": target },
                { "type": "object", "additionalProperties": percent },
            ] },
        },
        "required": ["attribute"],
        "additionalProperties": false,
    });
    json!({ "anyOf": [criterion, { "type": "array", "items": criterion }] })
}

fn by_shape(shape: &'static Shape) -> Json {
    match shape {
        Shape::Str | Shape::Path | Shape::Duration | Shape::BytesText => {
            json!({ "type": "string" })
        }
        Shape::StrOrNum | Shape::Number | Shape::Bytes | Shape::Mode => {
            json!({ "type": ["string", "number"] })
        }
        Shape::Int | Shape::Count => json!({ "type": ["integer", "string"] }),
        Shape::Bool => json!({ "type": ["boolean", "string"] }),
        Shape::OneOf(known) => json!({ "enum": known }),
        Shape::List(item, _) => json!({ "type": "array", "items": by_shape(item) }),
        Shape::Object(inner) => object(inner),
        Shape::Any
        | Shape::OrNull(_)
        | Shape::Text
        | Shape::Label
        | Shape::OneOrList(..)
        | Shape::Command
        | Shape::Pairs(_)
        | Shape::Map(..)
        | Shape::MapOrNull(..)
        | Shape::Short(..)
        | Shape::IntOr(_) => json!({}),
    }
}
