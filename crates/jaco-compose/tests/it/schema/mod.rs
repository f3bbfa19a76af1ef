//! A generator of compose files: driven by the key tables, so that every key of the specification
//! occurs, in each of its forms, with values that the loader takes.

pub(crate) mod meanings;
pub(crate) mod values;

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::support::{Inside, Object, Shape, TOP_LEVEL};
use jaco_compose::{EnvFiles, Input};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use self::values::{Keys, Scope, object};

/// The services of a generated file, each with those that it may depend on.
const SERVICES: [(&str, &[&str]); 3] =
    [("web", &["db", "job", "base"]), ("db", &["job", "base"]), ("job", &["base"])];

/// Files that a generated file names.
pub(crate) const FILES: [(&str, &str); 3] = [
    ("a.env", "FROM_FILE=1\nTEXT='a $x'\n"),
    ("more.yaml", "services: {more: {image: m, command: [a, \"b\"]}}\n"),
    ("other.yaml", "services: {base: {image: other, environment: {OTHER: x}}}\n"),
];

/// The texts, variables and profiles of a load; the same for what is printed.
pub(crate) fn input(file: &str) -> Input {
    Input {
        project_dir: ".".to_owned(),
        name: Some("shop".to_owned()),
        env: BTreeMap::from([("SET".to_owned(), "a value $ of it".to_owned())]),
        env_files: EnvFiles::Nothing,
        profiles: vec!["*".to_owned()],
        ..Input::file(file)
    }
}

/// A compose file without variables: a dollar in it is a dollar.
pub(crate) fn compose_file(keys: Keys) -> BoxedStrategy<Json> {
    let top = |name: &'static str| TOP_LEVEL.key(name).expect("the key is in the table");
    let entries = move |section: &'static str, names: &'static [&'static str], scope: Scope| {
        let (Inside::Values(shape), path) = (top(section).shape.inside(), format!("{section}.*"))
        else {
            panic!("{section} has entries with names");
        };
        let Inside::Keys(keys) = shape.inside() else { panic!("an entry has keys") };
        let entry = |name: &&'static str| {
            let name = *name;
            (Just(name), object(keys, &path, scope))
                .prop_map(move |(name, node)| (name.to_owned(), node))
        };
        names.iter().map(entry).collect::<Vec<_>>()
    };
    let none = Scope { keys, targets: &[] };
    let services: Vec<_> = SERVICES
        .iter()
        .flat_map(|(name, targets)| {
            entries("services", std::slice::from_ref(name), Scope { keys, targets })
        })
        .collect();
    let include = values::value(&top("include").shape, "include", none);
    let include = prop_oneof![
        3 => Just(Json::Null),
        1 => include,
        1 => Just(json!([{"path": ["more.yaml"], "env_file": "a.env", "project_directory": "."}])),
    ];
    let models = if keys == Keys::All { entries("models", &["llm", "tiny"], none) } else { vec![] };
    (
        services,
        entries("networks", &["m", "n"], none),
        entries("volumes", &["data", "v"], none),
        entries("configs", &["c", "d"], none),
        entries("secrets", &["s", "t"], none),
        models,
        include,
        any::<bool>(),
    )
        .prop_map(|(services, networks, volumes, configs, secrets, models, include, extra)| {
            let map = |list: Vec<(String, Json)>| list.into_iter().collect::<Json>();
            let mut root = json!({
                "services": map(services),
                "networks": map(networks),
                "volumes": map(volumes),
                "configs": map(configs),
                "secrets": map(secrets),
            });
            root["services"]["base"] = json!({"image": "base:1", "labels": {"base": "yes"}});
            if models.iter().len() > 0 {
                root["models"] = map(models);
            }
            if !include.is_null() {
                root["include"] = include;
            }
            if extra {
                root["x-top"] = json!({"kept": [1, "a", null]});
                root["version"] = json!("3.8");
                root["name"] = json!("shop");
            }
            agree(&mut root);
            root
        })
        .boxed()
}

/// Takes out what contradicts itself: the generator draws each key alone.
fn agree(root: &mut Json) {
    let members = |node: &mut Json| node.as_object_mut().map(std::mem::take).unwrap_or_default();
    let mut services = members(&mut root["services"]);
    for (name, service) in &mut services {
        agree_service(name, service);
    }
    root["services"] = Json::Object(services);
    for (section, sources) in [
        ("configs", &["content", "environment", "file"][..]),
        ("secrets", &["environment", "file"]),
    ] {
        for resource in root[section].as_object_mut().into_iter().flatten().map(|(_, node)| node) {
            one_source(resource, sources);
        }
    }
    for section in ["networks", "volumes"] {
        for resource in root[section].as_object_mut().into_iter().flatten().map(|(_, node)| node) {
            only_external(resource);
        }
    }
}

fn agree_service(name: &str, service: &mut Json) {
    let map = service.as_object_mut().expect("a service is a mapping");
    map.entry("image").or_insert_with(|| json!("web"));
    if map.contains_key("network_mode") {
        map.remove("networks");
    }
    if map.contains_key("container_name") {
        map.insert("container_name".to_owned(), json!(format!("{name}-container")));
        map.remove("scale");
        if let Some(deploy) = map.get_mut("deploy").and_then(Json::as_object_mut) {
            deploy.remove("replicas");
        }
    }
    // The old keys and the new ones would have to be equal.
    if map.get("deploy").is_some_and(|deploy| deploy.get("replicas").is_some()) {
        map.remove("scale");
    }
    if map.get("deploy").is_some_and(|deploy| deploy.get("resources").is_some()) {
        for old in ["cpus", "mem_limit", "mem_reservation", "pids_limit"] {
            map.remove(old);
        }
    }
    if let Some(build) = map.get_mut("build").and_then(Json::as_object_mut)
        && build.contains_key("dockerfile_inline")
    {
        build.remove("dockerfile");
    }
    let asks = map.contains_key("privileged") || map.contains_key("security_opt");
    if asks {
        let label = ("jaco.io/allow-privileged".to_owned(), json!("true"));
        match map.entry("labels").or_insert_with(|| json!({})) {
            Json::Object(labels) => drop(labels.insert(label.0, label.1)),
            Json::Array(lines) => lines.push(json!("jaco.io/allow-privileged=true")),
            other @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_)) => {
                *other = Json::from_iter([label]);
            }
        }
    }
    let reserved = service.pointer_mut("/deploy/resources/reservations/devices");
    drop_counts(reserved);
    drop_counts(service.get_mut("gpus"));
}

/// A device is asked for by number or by id.
fn drop_counts(requests: Option<&mut Json>) {
    for request in requests.and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(request) = request.as_object_mut()
            && request.contains_key("device_ids")
        {
            request.remove("count");
        }
    }
}

fn only_external(resource: &mut Json) -> bool {
    let is_external = match &resource["external"] {
        Json::Object(_) => true,
        Json::Bool(external) => *external,
        Json::String(text) => ["true", "yes", "on"].contains(&text.as_str()),
        Json::Null | Json::Number(_) | Json::Array(_) => false,
    };
    if let (true, Some(map)) = (is_external, resource.as_object_mut()) {
        let lifted = map["external"].is_object();
        map.retain(|key, _| key == "external" || (key == "name" && !lifted));
    } else if let Some(map) = resource.as_object_mut() {
        map.remove("external");
    }
    is_external
}

/// A config or secret has one source, unless it exists already.
fn one_source(resource: &mut Json, sources: &[&str]) {
    if only_external(resource) {
        return;
    }
    let map = resource.as_object_mut().expect("a resource is a mapping");
    let given: Vec<&&str> = sources.iter().filter(|key| map.contains_key(**key)).collect();
    match given.split_first() {
        None => drop(map.insert("file".to_owned(), json!("./file"))),
        Some((_, more)) => {
            for key in more {
                map.remove(**key);
            }
        }
    }
}

/// The paths of all keys in `node`, as the tables name them: `services.*.ports.target`.
pub(crate) fn paths_of(node: &Json) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    note_object(&TOP_LEVEL, node, "", &mut found);
    found
}

/// The paths of all keys of the tables.
pub(crate) fn all_paths() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    list_object(&TOP_LEVEL, "", &mut found);
    found
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn list_object(object: &'static Object, path: &str, found: &mut BTreeSet<String>) {
    for key in object.keys {
        let path = below(path, key.name);
        list_shape(&key.shape, &path, found);
        found.insert(path);
    }
}

fn list_shape(shape: &'static Shape, path: &str, found: &mut BTreeSet<String>) {
    match shape.inside() {
        Inside::Nothing => {}
        Inside::Itself(inner) | Inside::Items(inner) => list_shape(inner, path, found),
        Inside::Values(inner) => list_shape(inner, &format!("{path}.*"), found),
        Inside::Keys(object) => list_object(object, path, found),
    }
}

fn note_object(object: &'static Object, node: &Json, path: &str, found: &mut BTreeSet<String>) {
    for (name, node) in node.as_object().into_iter().flatten() {
        if let Some(key) = object.key(name) {
            let path = below(path, name);
            note_shape(&key.shape, node, &path, found);
            found.insert(path);
        }
    }
}

fn note_shape(shape: &'static Shape, node: &Json, path: &str, found: &mut BTreeSet<String>) {
    match shape.inside() {
        Inside::Nothing => {}
        Inside::Itself(inner) => note_shape(inner, node, path, found),
        Inside::Items(inner) => {
            let items = node.as_array().map_or(std::slice::from_ref(node), Vec::as_slice);
            items.iter().for_each(|item| note_shape(inner, item, path, found));
        }
        Inside::Values(inner) => {
            let path = format!("{path}.*");
            let values = node.as_object().into_iter().flatten();
            values.for_each(|(_, value)| note_shape(inner, value, &path, found));
        }
        Inside::Keys(object) => note_object(object, node, path, found),
    }
}
