//! Which resources and files the services of a project use.

use std::collections::BTreeSet;

use crate::project::reference::{Reference, ReferenceKind};
use crate::yaml::node::{Entry, Map, Node};

/// Keeps the resources that an active service names.
pub(crate) fn drop_unused(map: &mut Map) {
    for section in ["networks", "volumes", "secrets", "configs"] {
        drop_unused_of(map, section);
    }
}

/// Keeps the models that an active service names: unlike other resources, jaco.yaml cannot name one.
pub(crate) fn drop_unused_models(map: &mut Map) {
    drop_unused_of(map, "models");
}

fn drop_unused_of(map: &mut Map, section: &str) {
    if !map.contains(section) {
        return;
    }
    let used: BTreeSet<String> =
        used_resources(map, section).into_iter().map(str::to_owned).collect();
    let Some(resources) = map.get_mut(section).and_then(Node::as_map_mut) else { return };
    resources.retain(|entry| used.contains(entry.key.as_str()));
    if resources.is_empty() {
        map.remove(section);
    }
}

/// Takes out the content of each config that was read from a variable: the variable is its source.
pub(crate) fn drop_read_contents(map: &mut Map) {
    let configs = map.get_mut("configs").and_then(Node::as_map_mut);
    for config in configs.into_iter().flat_map(Map::iter_mut) {
        if let Some(config) = config.node.as_map_mut().filter(|map| map.contains("environment")) {
            config.remove("content");
        }
    }
}

/// The names that active services use of `section`, and their builds, which mount secrets too.
pub(crate) fn used_resources<'m>(map: &'m Map, section: &str) -> BTreeSet<&'m str> {
    let services = map.get("services").and_then(Node::as_map);
    let services = services.into_iter().flat_map(Map::iter).filter_map(|entry| entry.node.as_map());
    if matches!(section, "networks" | "models") {
        let named = services.filter_map(|service| service.get(section)?.as_map());
        return named.flat_map(Map::keys).collect();
    }
    let built = |service: &'m Map| service.get("build").and_then(Node::as_map);
    let mounting = services.flat_map(|service| [Some(service), built(service)]).flatten();
    mounting.flat_map(|map| sources(map, section)).collect()
}

/// The sources of the mounts below `section`; for volumes, of named ones.
fn sources<'m>(map: &'m Map, section: &str) -> impl Iterator<Item = &'m str> + use<'m> {
    let items = map.get(section).and_then(Node::as_seq);
    items
        .into_iter()
        .flatten()
        .filter(|item| item.get_str("type") != Some("bind"))
        .filter_map(|item| item.get_str("source"))
}

/// Lists the files that the services of a model need.
pub(crate) fn collect_references(map: &Map, dir: &str, references: &mut BTreeSet<Reference>) {
    let services = map.get("services").and_then(Node::as_map);
    for entry in services.into_iter().flat_map(Map::iter) {
        for mount in entry.node.get("volumes").and_then(Node::as_seq).unwrap_or_default() {
            let Some(path) = mount.get_str("source") else {
                continue;
            };
            if mount.get_str("type") == Some("bind") {
                let kind = bind_kind(path, dir);
                let owner = entry.key.to_string();
                references.insert(Reference { kind, path: path.to_owned(), owner });
            }
        }
    }
    for (section, kind) in [("configs", ReferenceKind::Config), ("secrets", ReferenceKind::Secret)]
    {
        let Some(resources) = map.get(section).and_then(Node::as_map) else { continue };
        let used = used_resources(map, section);
        let is_used = |entry: &&Entry| used.contains(entry.key.as_str());
        for entry in resources.iter().filter(is_used) {
            if let Some(path) = entry.node.get_str("file") {
                let owner = entry.key.to_string();
                references.insert(Reference { kind, path: path.to_owned(), owner });
            }
        }
    }
}

/// A path below the project folder is part of the project; any other belongs to a node.
fn bind_kind(path: &str, dir: &str) -> ReferenceKind {
    let below = path == dir || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
    if below || !path.starts_with('/') {
        ReferenceKind::ProjectBind
    } else {
        ReferenceKind::HostBind
    }
}
