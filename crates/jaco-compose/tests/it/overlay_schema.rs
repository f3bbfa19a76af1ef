//! The published JSON Schema of jaco.yaml and its reader, side by side: what one takes the other
//! takes, and each key that the schema knows is shown to be taken.

use std::collections::BTreeSet;

use jaco_compose::{JacoYaml, overlay};
use serde_json::{Value as Json, json};

/// What both take. Together they use every key.
const TAKEN: &[&str] = &[
    "{}",
    r#"{"services": [{"name": "web"}]}"#,
    r#"{"deployment":"shop"}"#,
    r#"{"deployment":"shop","acme":"on","acme_email":"a@b.c","environment":"a.env",
        "config_selector":"prod","scoring":"jaco","max_files":"64MB",
        "constraints":"cpu=2 ram=3G","spread":[{"attribute":"zone","weight":50}],
        "roles":{"fast":"cpu=4","big":{"ram":"8G"}}}"#,
    r#"{"deployment":"shop","acme":"off","scoring":"nomad","max_files":1048576,
        "roles":{"fast":"cpu=4","big":{"ram":"8G"}},"constraints":{"cpu":2,"ram":"3G","zone":null}}"#,
    r#"{"deployment":"shop","acme":false,"constraints":["cpu=2",
        {"attribute":"zone","operator":"=","value":"a"}]}"#,
    r#"{"deployment":"shop","routes":[{"domain":"a.b","path":"/x","port":80,"service":"web",
        "strip_path":true,"tls":"auto"},{"domain":"c.d","port":"81","service":"web","tls":"off"}]}"#,
    r#"{"deployment":"shop","routes":[{"domain":"*.b.c","port":80,"service":"web","tls":"own",
        "protocol":"h2c","sticky":"cookie","timeout":"30s","body_max":"10m","hsts":"8760h",
        "headers":{"request":{"set":{"X-A":"b"},"remove":["X-C"]},
            "response":{"set":{"X-A":"b"},"remove":["X-C"]}},
        "basic_auth":{"ann":"pbkdf2-sha256:10000:0001020304050607:0000000000000000000000000000000000000000000000000000000000000000"},
        "allow_from":["10.0.0.0/8","::1"]},
        {"domain":"www.b.c","redirect":{"to":"https://b.c","rest":"drop","status":301}}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","drain":"30s","replicas":2,"placement":"spread",
        "networks":["front"],"min_allocations_count":1,"selectors":"auto","scoring":"nomad",
        "on_node_loss":"stop_self after 30s",
        "affinities":[{"attribute":"zone","operator":"=","value":"a","weight":-100}],
        "constraints":"cpu=2","spread":{"attribute":"zone","targets":[{"value":"a","percent":50}]},
        "resources":{"cpu":{"min":"500 MHz","max":"2 GHz"},"memory":{"min":64,"max":"1 GB"}},
        "update":{"parallelism":2,"delay":"1s","monitor":"2s","step_timeout":"3s",
            "failure_action":"pause","max_failure_ratio":0.5,"order":"stop-first"},
        "rollback":{"parallelism":2,"delay":"1s","order":"start-first","monitor":"2s",
            "failure_action":"pause","max_failure_ratio":0.5}}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","placement":"hosts","hosts":["n1"],
        "selectors":["ssd"],"constraints":[{"attribute":"zone","operator":"=","value":"a"}],
        "spread":[{"attribute":"zone","weight":7,"targets":{"a":50,"b":50}}]}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","schedule":{"cron":"0 2 * * *",
        "time_zone":"Europe/Berlin","concurrency":"replace","deadline":"10m","history":3}}]}"#,
    r#"{"deployment":"shop","spread":{"attribute":"zone","targets":[{"value":"a","percent":50}]}}"#,
    r#"{"deployment":"shop","services":[{"name":"web","placement":"global"}]}"#,
    r#"{"deployment":"shop","volumes":{"data":{"class":"ssd","size":"10G"},"logs":{"class":"hdd"}}}"#,
];

/// What neither takes.
const REFUSED: &[&str] = &[
    "[]",
    r#"{"deployment":["shop"]}"#,
    r#"{"deployment":"shop","compose_service":"web"}"#,
    r#"{"deployment":"shop","acme":"maybe"}"#,
    r#"{"deployment":"shop","max_files":["64MB"]}"#,
    r#"{"deployment":"shop","scoring":"swarm"}"#,
    r#"{"deployment":"shop","constraints":7}"#,
    r#"{"deployment":"shop","roles":"fast"}"#,
    r#"{"deployment":"shop","services":[{"name":"web","schedule":{"history":3}}]}"#,
    r#"{"deployment":"shop","roles":{"fast":7}}"#,
    r#"{"deployment":"shop","constraints":[{"operator":"="}]}"#,
    r#"{"deployment":"shop","spread":[{"weight":50}]}"#,
    r#"{"deployment":"shop","spread":[{"attribute":"zone","weight":101}]}"#,
    r#"{"deployment":"shop","spread":[{"attribute":"zone","targets":[{"value":"a"}]}]}"#,
    r#"{"deployment":"shop","volumes":["data"]}"#,
    r#"{"deployment":"shop","volumes":{"data":{"size":"10G"}}}"#,
    r#"{"deployment":"shop","volumes":{"data":{"class":"ssd","path":"/mnt"}}}"#,
    r#"{"deployment":"shop","routes":{}}"#,
    r#"{"deployment":"shop","routes":[{"domain":"a.b","service":"web"}]}"#,
    r#"{"deployment":"shop","routes":[{"domain":"a.b","service":"web","port":0}]}"#,
    r#"{"deployment":"shop","routes":[{"domain":"a.b","service":"web","port":80,"tls":"on"}]}"#,
    r#"{"deployment":"shop","routes":[{"domain":"a.b","redirect":{"rest":"drop"}}]}"#,
    r#"{"deployment":"shop","routes":[{"domain":"a.b","redirect":{"to":"/","status":303}}]}"#,
    r#"{"deployment":"shop","routes":[{"domain":"a.b","service":"web","port":80,"protocol":"grpc"}]}"#,
    r#"{"deployment":"shop","services":[{"replicas":1}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","replicas":-1}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","replicas":[1]}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","placement":"somewhere"}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","hosts":"n1"}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","selectors":"some"}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","affinities":[{"attribute":"a","weight":101}]}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","update":{"failure_action":"stop"}}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","rollback":{"failure_action":"rollback"}}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","update":{"order":"both"}}]}"#,
    r#"{"deployment":"shop","services":[{"name":"web","resources":{"disk":{"min":1}}}]}"#,
];

fn schema() -> Json {
    serde_json::from_str(&overlay::json_schema()).expect("the schema is JSON")
}

/// As much of JSON Schema as ours uses; a word that is not known here fails.
fn takes(schema: &Json, value: &Json) -> bool {
    let Some(words) = schema.as_object() else { panic!("{schema} is no schema") };
    words.iter().all(|(word, rule)| match word.as_str() {
        "description" | "title" | "$schema" => true,
        "type" => {
            let names = rule.as_array().map_or(vec![rule], |names| names.iter().collect());
            names.into_iter().any(|name| is(name.as_str().expect("a name"), value))
        }
        "enum" => rule.as_array().is_some_and(|known| known.contains(value)),
        "const" => rule == value,
        "anyOf" => rule.as_array().is_some_and(|any| any.iter().any(|one| takes(one, value))),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| takes(rule, item))),
        "required" => value.as_object().is_none_or(|map| {
            let names = rule.as_array().into_iter().flatten().filter_map(Json::as_str);
            names.into_iter().all(|name| map.contains_key(name))
        }),
        "properties" => value.as_object().is_none_or(|map| {
            map.iter().all(|(key, value)| rule.get(key).is_none_or(|rule| takes(rule, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = |key: &str| words.get("properties").is_some_and(|p| p.get(key).is_some());
            let others = map.iter().filter(|(key, _)| !known(key)).map(|(_, value)| value);
            others.into_iter().all(|value| rule.as_bool().unwrap_or_else(|| takes(rule, value)))
        }),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().expect("a number")),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().expect("a number")),
        "not" => !takes(rule, value),
        "minLength" => {
            value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap())
        }
        other => panic!("the schema uses {other}, which this test does not know"),
    })
}

fn is(name: &str, value: &Json) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        other => panic!("the schema knows a type {other}"),
    }
}

/// R-IN-1: the schema and the reader agree, in each direction.
#[test]
fn the_schema_takes_what_the_reader_takes() {
    let schema = schema();
    for (texts, expected) in [(TAKEN, true), (REFUSED, false)] {
        for text in texts {
            let value: Json = serde_json::from_str(text).expect("a case is JSON");
            let read = JacoYaml::parse("jaco.yaml", text.as_bytes());
            let said = read.as_ref().map(|_| ()).map_err(ToString::to_string);
            assert_eq!(said.is_ok(), expected, "the reader, of {text}: {said:?}");
            assert_eq!(takes(&schema, &value), expected, "the schema, of {text}");
        }
    }
}

/// Every path of keys that a schema knows; free names are `*`, what is repeated is `[]`.
fn known(schema: &Json, path: &str, paths: &mut BTreeSet<String>) {
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        known(inner, &path, paths);
        paths.insert(path);
    }
    if schema["items"].is_object() {
        known(&schema["items"], path, paths);
    }
    for inner in schema["anyOf"].as_array().into_iter().flatten() {
        known(inner, path, paths);
    }
}

fn used(value: &Json, path: &str, paths: &mut BTreeSet<String>) {
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                let path = format!("{path}.{key}");
                used(value, &path, paths);
                paths.insert(path);
            }
        }
        Json::Array(items) => items.iter().for_each(|item| used(item, path, paths)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Puts a key that nobody knows into every mapping whose keys are closed, one after another.
fn with_strangers(schema: &Json, value: &Json) -> Vec<Json> {
    let mut all = Vec::new();
    match value {
        Json::Object(map) => {
            for (key, inner) in map {
                for changed in with_strangers(&schema["properties"][key], inner) {
                    let mut map = map.clone();
                    map.insert(key.clone(), changed);
                    all.push(Json::Object(map));
                }
            }
            if schema["additionalProperties"] == json!(false) {
                let mut map = map.clone();
                map.insert("stranger".to_owned(), json!("x"));
                all.push(Json::Object(map));
            }
        }
        Json::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                for changed in with_strangers(&schema["items"], inner) {
                    let mut items = items.clone();
                    items[at] = changed;
                    all.push(Json::Array(items));
                }
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
    all
}

/// R-IN-1: every key that the schema knows is taken by the reader, and the reader knows no other: a
/// key that is added to one alone fails here.
#[test]
fn the_schema_knows_the_keys_of_the_reader() {
    let schema = schema();
    let (mut in_schema, mut taken) = (BTreeSet::new(), BTreeSet::new());
    known(&schema, "", &mut in_schema);
    let mut strangers = 0;
    for text in TAKEN {
        let value: Json = serde_json::from_str(text).expect("a case is JSON");
        used(&value, "", &mut taken);
        for strange in with_strangers(&schema, &value) {
            strangers += 1;
            let refused = JacoYaml::parse("jaco.yaml", strange.to_string().as_bytes());
            assert!(refused.is_err() && !takes(&schema, &strange), "{strange}");
        }
    }
    assert!(strangers >= 15, "{strangers} mappings are closed");
    // Free names of constraints, of roles, of shares, of headers, of users and of volumes.
    let free = [".constraints.", ".roles.", ".targets.", ".set.", ".basic_auth.", ".volumes."];
    taken.retain(|path| in_schema.contains(path) || !free.iter().any(|part| path.contains(part)));
    assert_eq!(taken, in_schema);
}
