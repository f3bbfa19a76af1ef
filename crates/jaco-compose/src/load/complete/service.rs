//! Defaults of a service, and the dependencies and networks that its keys imply.

use crate::diagnostics::source::Pos;
use crate::yaml::access::texts;
use crate::yaml::node::{Map, Node, Value};

/// Defaults that the specification gives to what was written, and what it implies.
pub(crate) fn complete_service(service: &mut Node) {
    let pos = service.pos;
    let Some(map) = service.as_map_mut() else {
        return;
    };
    for item in items_mut(map, "ports") {
        default_text(item, "mode", "ingress", Pos::default());
        default_text(item, "protocol", "tcp", Pos::default());
    }
    for item in items_mut(map, "secrets") {
        default_target(item, "/run/secrets/");
    }
    if let (Some(scale), Some(deploy)) =
        (map.get("scale").cloned(), map.get_mut("deploy").and_then(Node::as_map_mut))
    {
        deploy.insert_default("replicas", scale.value, scale.pos);
    }
    if let Some(build) = map.get_mut("build").and_then(Node::as_map_mut)
        && build.get("dockerfile_inline").and_then(Node::as_str).is_none_or(str::is_empty)
    {
        default_text(build, "dockerfile", "Dockerfile", pos);
    }
    if let Some(policy) = map.get_mut("pull_policy")
        && policy.as_str() == Some("if_not_present")
    {
        policy.value = Value::Str("missing".into());
    }
    complete_devices(map);
    imply_dependencies(map, pos);
    let has_network = map.get("networks").and_then(Node::as_map).is_some_and(|map| !map.is_empty());
    if !has_network && !map.contains("network_mode") && !map.contains("provider") {
        let mut networks = Map::default();
        networks.insert("default", Node::new(Value::Null, pos));
        map.insert("networks", Node::new(Value::Map(networks), pos));
    }
}

/// Gives a text that is absent or empty its default: an empty one is not printed, and would get it
/// when what was printed is loaded.
pub(super) fn default_text(map: &mut Map, key: &str, default: &str, pos: Pos) {
    if map.get(key).and_then(Node::as_str) == Some("") {
        map.remove(key);
    }
    map.insert_default(key, Value::Str(default.into()), pos);
}

fn items_mut<'m>(map: &'m mut Map, key: &str) -> impl Iterator<Item = &'m mut Map> + use<'m> {
    let items = map.get_mut(key).and_then(Node::as_seq_mut);
    items.into_iter().flatten().filter_map(Node::as_map_mut)
}

/// A mount without a target goes to the usual folder.
fn default_target(item: &mut Map, dir: &str) {
    let source = item.get("source").and_then(Node::as_str).map(str::to_owned);
    if let Some(source) = source
        && !item.contains("target")
    {
        item.insert("target", Node::text(format!("{dir}{source}"), Pos::default()));
    }
}

fn complete_devices(map: &mut Map) {
    let pos = Pos::default();
    let complete = |item: &mut Map| {
        if !item.contains("device_ids") {
            item.insert_default("count", Value::Int(-1), pos);
        }
    };
    items_mut(map, "gpus").for_each(complete);
    let reservations = map
        .get_mut("deploy")
        .and_then(|node| node.as_map_mut()?.get_mut("resources"))
        .and_then(|node| node.as_map_mut()?.get_mut("reservations"))
        .and_then(Node::as_map_mut);
    if let Some(reservations) = reservations {
        items_mut(reservations, "devices").for_each(complete);
    }
}

/// Links and shared namespaces need the other service to run.
fn imply_dependencies(map: &mut Map, pos: Pos) {
    let mut implied: Vec<(String, bool)> = Vec::new();
    for link in texts(map, "links") {
        implied.push((link.split(':').next().unwrap_or(link).to_owned(), true));
    }
    for key in ["network_mode", "ipc", "pid", "uts"] {
        let shared = map.get(key).and_then(Node::as_str);
        if let Some(name) = shared.and_then(|text| text.strip_prefix("service:")) {
            implied.push((name.to_owned(), true));
        }
    }
    for from in texts(map, "volumes_from") {
        if !from.starts_with("container:") {
            implied.push((from.split(':').next().unwrap_or(from).to_owned(), false));
        }
    }
    if implied.is_empty() {
        return;
    }
    map.insert_default("depends_on", Value::Map(Map::default()), pos);
    let Some(depends_on) = map.get_mut("depends_on").and_then(Node::as_map_mut) else {
        return;
    };
    for (name, restart) in implied {
        let mut dependency = Map::default();
        dependency.insert("condition", Node::text("service_started", pos));
        dependency.insert("required", Node::new(Value::Bool(true), pos));
        if restart {
            // The user did not write it, so there must be no warning about it.
            dependency.insert("restart", Node::new(Value::Bool(true), Pos::default()));
        }
        depends_on.insert_default(&name, Value::Map(dependency), pos);
    }
}
