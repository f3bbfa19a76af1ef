//! The part of a service that its containers are made of, as canonical JSON, and its hash.
//!
//! What only schedules (how many, where, in which order) is left out: changing it must never
//! recreate a container. What has no effect is left out too. Everything else is in.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::SpecHash;
use serde_json::{Map as JsonMap, Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::canonical;
use crate::node::{Map, Node, Value};
use crate::support::{self, Class, Object, Shape};

/// Keys of a service that decide about replicas, not about their content.
const SCHEDULING: [&str; 10] = [
    "build",
    "depends_on",
    "deploy",
    "extends",
    "platform",
    "profiles",
    "pull_policy",
    "restart",
    "scale",
    "volumes_from",
];

/// The key of `deploy.resources.reservations` that only the planner reads: engines can reserve
/// memory, but no processor time.
const RESERVED_CPU: &str = "cpus";

/// The canonical text of a container and its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// JSON with sorted keys and without blanks: `service`, and the `networks`, `volumes`,
    /// `configs`, `secrets` that it uses.
    pub canonical: String,
    /// SHA-256 of the text.
    pub hash: SpecHash,
}

/// Stands for the contents of files, so that a changed file is a changed container. The texts are
/// opaque: a digest, or the version of a secret, whose digest should not be stored in clear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// By name of the config.
    pub configs: BTreeMap<String, String>,
    /// By name of the secret.
    pub secrets: BTreeMap<String, String>,
    /// By path of the shipped file or folder, as in the model.
    pub binds: BTreeMap<String, String>,
}

/// Describes the containers of a service whose networks and mounts are final.
pub(crate) fn container(service: &Map, root: &Map, contents: &Contents) -> Container {
    let mut sections = JsonMap::new();
    sections.insert("service".to_owned(), Json::Object(service_json(service)));
    for (name, used) in used(service) {
        let declared = root.get(name).and_then(Node::as_map);
        let mut resources = JsonMap::new();
        for key in used {
            let Some(resource) = declared.and_then(|map| map.get(&key)) else {
                continue;
            };
            let content = match name {
                "configs" => contents.configs.get(&key),
                "secrets" => contents.secrets.get(&key),
                _ => None,
            };
            resources.insert(key, resource_json(name, resource, content));
        }
        if !resources.is_empty() {
            sections.insert(name.to_owned(), Json::Object(resources));
        }
    }
    let files = shipped(service, contents);
    if !files.is_empty() {
        sections.insert("files".to_owned(), Json::Object(files));
    }
    let canonical = Json::Object(sections).to_string();
    let hash = SpecHash(Sha256::digest(canonical.as_bytes()).into());
    Container { canonical, hash }
}

fn service_json(service: &Map) -> JsonMap<String, Json> {
    let Shape::Object(object) = &support::SERVICE else {
        unreachable!("a service is a mapping with known keys");
    };
    let mut json = JsonMap::new();
    for entry in service.iter() {
        let wanted = object.key(&entry.key).is_some_and(|key| speaks(key.class));
        if wanted && !SCHEDULING.contains(&entry.key.as_str()) {
            let key = object.key(&entry.key);
            let value = key.map_or(Json::Null, |key| effective(&key.shape, &entry.node));
            json.insert(entry.key.clone(), value);
        }
    }
    if let Some(platform) = service.get("platform") {
        // The same image of another platform is another container.
        json.insert("platform".to_owned(), canonical::to_json(platform));
    }
    if let Some(resources) = service.get("deploy").and_then(|deploy| deploy.get("resources")) {
        let mut resources = canonical::to_json(resources);
        if let Some(reserved) = resources.get_mut("reservations").and_then(Json::as_object_mut) {
            reserved.remove(RESERVED_CPU);
            reserved.remove("generic_resources");
        }
        let resources = canonical::without_empty(resources);
        if resources.as_object().is_some_and(|map| !map.is_empty()) {
            json.insert("deploy".to_owned(), json!({ "resources": resources }));
        }
    }
    json
}

fn speaks(class: Class) -> bool {
    matches!(class, Class::Honoured | Class::Differently)
}

/// The value without keys that have no effect.
fn effective(shape: &'static Shape, node: &Node) -> Json {
    let inner = match (shape, &node.value) {
        (Shape::Short(_, inner) | Shape::OrNull(inner), value) if !matches!(value, Value::Null) => {
            Some(effective(inner, node))
        }
        (Shape::List(item, _) | Shape::OneOrList(item, _), Value::Seq(items)) => {
            Some(items.iter().map(|child| effective(item, child)).collect())
        }
        (Shape::Map(value, _) | Shape::MapOrNull(value, _), Value::Map(map)) => {
            let pairs = map.iter().map(|entry| (entry.key.clone(), nullable(value, &entry.node)));
            Some(Json::Object(pairs.collect()))
        }
        (Shape::Object(object) | Shape::IntOr(object), Value::Map(map)) => {
            Some(effective_object(object, map))
        }
        _ => None,
    };
    inner.unwrap_or_else(|| canonical::to_json(node))
}

/// An entry that was left empty is the same as an empty one, and stays: its name matters.
fn nullable(shape: &'static Shape, node: &Node) -> Json {
    if node.is_null() { json!({}) } else { effective(shape, node) }
}

fn effective_object(object: &'static Object, map: &Map) -> Json {
    let pairs = map.iter().filter_map(|entry| {
        let key = object.key(&entry.key).filter(|key| speaks(key.class))?;
        Some((entry.key.clone(), effective(&key.shape, &entry.node)))
    });
    Json::Object(pairs.collect())
}

fn resource_json(section: &str, resource: &Node, content: Option<&String>) -> Json {
    let mut json = canonical::to_json(resource);
    let Some(map) = json.as_object_mut() else {
        return json;
    };
    let kept: &[&str] = match section {
        "networks" => &["name", "internal", "external"],
        "volumes" => &["name", "external", "driver", "driver_opts", "labels"],
        // Where a content came from does not matter once it is known.
        _ if content.is_some() => &["name", "external"],
        _ => &["name", "external", "content", "file", "environment"],
    };
    map.retain(|key, _| kept.contains(&key.as_str()));
    if let Some(content) = content {
        map.insert("version".to_owned(), json!(content));
    }
    json
}

/// The contents of the shipped files that a service mounts, by path.
fn shipped(service: &Map, contents: &Contents) -> JsonMap<String, Json> {
    let mounts = service.get("volumes").and_then(Node::as_seq).unwrap_or_default();
    mounts
        .iter()
        .filter(|mount| mount.get_str("type") == Some("bind"))
        .filter_map(|mount| mount.get_str("source"))
        .filter_map(|path| Some((path.to_owned(), json!(contents.binds.get(path)?))))
        .collect()
}

/// The resources a service names, by section.
pub(crate) fn used(service: &Map) -> [(&'static str, BTreeSet<String>); 4] {
    let networks = service.get("networks").and_then(Node::as_map);
    let networks = networks.into_iter().flat_map(Map::keys).map(str::to_owned).collect();
    let sources = |section: &str, kind: Option<&str>| -> BTreeSet<String> {
        let items = service.get(section).and_then(Node::as_seq).unwrap_or_default();
        let of_kind = items.iter().filter(|item| kind.is_none() || item.get_str("type") == kind);
        of_kind.filter_map(|item| item.get_str("source")).map(str::to_owned).collect()
    };
    [
        ("configs", sources("configs", None)),
        ("networks", networks),
        ("secrets", sources("secrets", None)),
        ("volumes", sources("volumes", Some("volume"))),
    ]
}
