//! The part of a service that its containers are made of, as canonical JSON, and its hash.
//!
//! Keys that only affect scheduling (how many, where, in which order) are left out: changing them must
//! never recreate a container. So are keys without effect.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::SpecHash;
use sha2::{Digest as _, Sha256};

use crate::resolve::network_owner::owner;
use crate::resolve::options::{NetworkIn, Networks, Options};
use crate::resolve::ports::{self, Publishing};
use crate::resolve::volumes::Classes;
use crate::support;
use crate::support::shape::{Class, Shape};
use crate::yaml::node::{Entry, Map, Node, Value};
use crate::yaml::write::Writer;

/// Keys of a service that affect its replicas and not their containers. `links` becomes aliases of the
/// service that it names.
const SCHEDULING: [&str; 9] = [
    "build",
    "depends_on",
    "extends",
    "links",
    "profiles",
    "pull_policy",
    "restart",
    "scale",
    "volumes_from",
];

/// The canonical text of a container and its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// JSON with sorted keys and without blanks: `service`, and the `networks`, `volumes`,
    /// `configs`, `secrets` that it uses.
    pub canonical: String,
    /// SHA-256 of the text.
    pub hash: SpecHash,
}

/// What a container is made of besides its service.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'s> {
    pub(crate) root: &'s Map,
    pub(crate) options: &'s Options,
    pub(crate) classes: &'s Classes<'s>,
    pub(crate) publishing: Publishing,
}

/// Describes the containers of a service whose networks and mounts are final.
pub(crate) fn container(
    deployment: &str,
    service: &Map,
    surroundings: Surroundings<'_>,
) -> Container {
    let Surroundings { root, options, classes, publishing } = surroundings;
    let (used, contents) = (used(service), &options.contents);
    let mut out = Writer::new();
    // Sorted by hand: the sections and the service in the order of their names.
    out.open('{');
    let versions = Written::Versions;
    resources(&mut out, "configs", &used[0], root, versions(&contents.configs));
    files(&mut out, service, &contents.binds);
    let networks = Written::Networks { deployment, networks: &options.networks };
    resources(&mut out, "networks", &used[1], root, networks);
    resources(&mut out, "secrets", &used[2], root, versions(&contents.secrets));
    out.key("service");
    service_object(&mut out, service, publishing);
    resources(&mut out, "volumes", &used[3], root, Written::Classes(classes));
    out.close('}');
    let canonical = out.finish();
    let hash = SpecHash(Sha256::digest(canonical.as_bytes()).into());
    Container { canonical, hash }
}

fn service_object(out: &mut Writer, service: &Map, publishing: Publishing) {
    out.open('{');
    for entry in service.iter() {
        let name = entry.key.as_str();
        let Some(key) = support::service_key(name).filter(|key| speaks(key.class)) else {
            continue;
        };
        if name == "deploy" {
            deploy(out, &entry.node);
        } else if name == "ports" {
            let ports = ports::of_container(&entry.node, publishing);
            if ports.as_seq().is_some_and(|ports| !ports.is_empty()) {
                out.key(name);
                effective(out, &key.shape, &ports);
            }
        } else if !SCHEDULING.contains(&name) {
            out.key(name);
            effective(out, &key.shape, &entry.node);
        }
    }
    out.close('}');
}

/// Of `deploy`, only resources that the engine knows reach the container.
fn deploy(out: &mut Writer, node: &Node) {
    let Some(resources) = node.get("resources").and_then(Node::as_map) else {
        return;
    };
    let reaches = |section: &Entry, entry: &Entry| {
        let planner = ["cpus", "generic_resources"].contains(&entry.key.as_str());
        !(section.key == "reservations" && planner)
    };
    let counts = |section: &Entry| {
        let map = section.node.as_map();
        map.into_iter().flat_map(Map::iter).any(|entry| reaches(section, entry))
    };
    if !resources.iter().any(counts) {
        return;
    }
    out.key("deploy");
    out.open('{');
    out.key("resources");
    out.open('{');
    for section in resources.iter().filter(|section| counts(section)) {
        out.key(&section.key);
        out.open('{');
        for entry in section.node.as_map().into_iter().flat_map(Map::iter) {
            if reaches(section, entry) {
                out.key(&entry.key);
                out.node(&entry.node);
            }
        }
        out.close('}');
    }
    out.close('}');
    out.close('}');
}

fn speaks(class: Class) -> bool {
    matches!(class, Class::Honoured | Class::Differently)
}

/// Writes the value without keys that have no effect.
fn effective(out: &mut Writer, shape: &'static Shape, node: &Node) {
    match (shape, &node.value) {
        (Shape::Short(_, inner) | Shape::OrNull(inner), _) => effective(out, inner, node),
        (Shape::List(item, _) | Shape::OneOrList(item, _), Value::Seq(items)) => {
            out.open('[');
            for child in items {
                out.item();
                effective(out, item, child);
            }
            out.close(']');
        }
        (Shape::Map(value, _) | Shape::MapOrNull(value, _), Value::Map(map)) => {
            out.open('{');
            for entry in map.iter() {
                out.key(&entry.key);
                if entry.node.is_null() && matches!(shape, Shape::MapOrNull(..)) {
                    // Left empty is the same as empty, and stays: its name matters.
                    out.open('{');
                    out.close('}');
                } else {
                    effective(out, value, &entry.node);
                }
            }
            out.close('}');
        }
        (Shape::Object(object) | Shape::IntOr(object), Value::Map(map)) => {
            out.open('{');
            for entry in map.iter() {
                if let Some(key) =
                    object.search((&entry.key).into()).filter(|key| speaks(key.class))
                {
                    out.key(&entry.key);
                    effective(out, &key.shape, &entry.node);
                }
            }
            out.close('}');
        }
        _ => out.node(node),
    }
}

/// What is written of resources besides what the file says.
#[derive(Clone, Copy)]
enum Written<'a> {
    /// The versions of their contents, by name.
    Versions(&'a BTreeMap<String, String>),
    /// Which networks of the cluster they are.
    Networks { deployment: &'a str, networks: &'a Networks },
    /// Which class of storage they are on.
    Classes(&'a Classes<'a>),
}

fn resources(
    out: &mut Writer,
    section: &str,
    used: &BTreeSet<&str>,
    root: &Map,
    written: Written<'_>,
) {
    if used.is_empty() {
        return;
    }
    let declared = root.get(section).and_then(Node::as_map);
    let mut opened = false;
    for name in used {
        let Some(resource) = declared.and_then(|map| map.get(name)) else {
            continue;
        };
        if !opened {
            out.key(section);
            out.open('{');
            opened = true;
        }
        out.key(name);
        let written = match written {
            Written::Versions(versions) => versions.get(*name).map(Mark::Version),
            Written::Classes(classes) => {
                classes.get(name).map(|volume| Mark::Class(volume.class.as_str()))
            }
            Written::Networks { deployment, networks } => {
                networks.scope_of(&owner(deployment, name, resource)).map(|within| match within {
                    NetworkIn::Deployment => Mark::OfCluster("deployment"),
                    NetworkIn::Shared(_) => Mark::OfCluster("shared"),
                })
            }
        };
        resource_object(out, section, resource, written);
    }
    if opened {
        out.close('}');
    }
}

/// What is written of one resource besides what the file says.
#[derive(Clone, Copy)]
enum Mark<'a> {
    Version(&'a String),
    OfCluster(&'static str),
    Class(&'a str),
}

fn resource_object(out: &mut Writer, section: &str, resource: &Node, mark: Option<Mark<'_>>) {
    let kept: &[&str] = match section {
        "networks" => &["external", "internal", "name"],
        "volumes" => &["driver", "driver_opts", "external", "labels", "name"],
        // Where a content came from does not matter once it is known.
        _ if mark.is_some() => &["external", "name"],
        _ => &["content", "environment", "external", "file", "name"],
    };
    out.open('{');
    // Keys are sorted, and each of these is before all that are kept.
    if let Some(Mark::OfCluster(within)) = mark {
        out.key("cluster");
        out.text(within);
    }
    if let Some(Mark::Class(class)) = mark {
        out.key("class");
        out.text(class);
    }
    for entry in resource.as_map().into_iter().flat_map(Map::iter) {
        if kept.contains(&entry.key.as_str()) {
            out.key(&entry.key);
            out.node(&entry.node);
        }
    }
    if let Some(Mark::Version(version)) = mark {
        out.key("version");
        out.text(version);
    }
    out.close('}');
}

/// The versions of the uploaded files that a service mounts, by path.
fn files(out: &mut Writer, service: &Map, binds: &BTreeMap<String, String>) {
    let mounts = service.get("volumes").and_then(Node::as_seq).unwrap_or_default();
    let bound = mounts.iter().filter(|mount| mount.get_str("type") == Some("bind"));
    let mounted: BTreeMap<&str, &String> = bound
        .filter_map(|mount| mount.get_str("source"))
        .filter_map(|path| Some((path, binds.get(path)?)))
        .collect();
    if mounted.is_empty() {
        return;
    }
    out.key("files");
    out.open('{');
    for (path, version) in mounted {
        out.key(path);
        out.text(version);
    }
    out.close('}');
}

/// The configs, networks, secrets and volumes that a service names.
fn used(service: &Map) -> [BTreeSet<&str>; 4] {
    let networks = service.get("networks").and_then(Node::as_map);
    let networks = networks.into_iter().flat_map(Map::keys).collect();
    let sources = |section: &str, kind: Option<&str>| {
        let items = service.get(section).and_then(Node::as_seq).unwrap_or_default();
        let of_kind = items.iter().filter(|item| kind.is_none() || item.get_str("type") == kind);
        of_kind.filter_map(|item| item.get_str("source")).collect()
    };
    [
        sources("configs", None),
        networks,
        sources("secrets", None),
        sources("volumes", Some("volume")),
    ]
}
