//! Names and contents of networks, volumes, configs and secrets.

use std::collections::BTreeMap;

use crate::diagnostics::source::Pos;
use crate::load::complete::service::default_text;
use crate::load::interpolate::Env;
use crate::notation::paths;
use crate::project::secret_text::SecretText;
use crate::yaml::node::{Entry, Map, Node, Value};

pub(crate) fn complete_networks(map: &mut Map) {
    map.insert_default("networks", Value::Map(Map::default()), Pos::default());
    if let Some(networks) = map.get_mut("networks").and_then(Node::as_map_mut) {
        networks.insert_default("default", Value::Map(Map::default()), Pos::default());
    }
}

/// Gives every resource the name it has on the nodes: `external` ones their own, the others the
/// project's in front.
pub(crate) fn name_resources(map: &mut Map, section: &str, project: &str) {
    let Some(resources) = map.get_mut(section).and_then(Node::as_map_mut) else {
        return;
    };
    for entry in resources.iter_mut() {
        if entry.node.is_null() {
            entry.node.value = Value::Map(Map::default());
        }
        let pos = entry.node.pos;
        let Some(resource) = entry.node.as_map_mut() else {
            continue;
        };
        if let Some(name) = old_external_name(resource) {
            resource.insert_default("name", Value::Str(name.into()), pos);
        }
        let external = resource.get("external").and_then(Node::as_bool) == Some(true);
        let name =
            if external { entry.key.to_string() } else { format!("{project}_{}", entry.key) };
        default_text(resource, "name", &name, pos);
    }
}

/// `external: {name: x}` of old files means `external: true` and `name: x`.
fn old_external_name(resource: &mut Map) -> Option<String> {
    let external = resource.get_mut("external")?;
    let name = external.as_map()?.get("name").and_then(Node::as_str).map(str::to_owned);
    external.value = Value::Bool(true);
    name
}

/// A local volume that binds a path names it relative to the project.
pub(crate) fn bind_volume_devices(map: &mut Map, dir: &str) {
    let Some(volumes) = map.get_mut("volumes").and_then(Node::as_map_mut) else {
        return;
    };
    for entry in volumes.iter_mut() {
        let Some(volume) = entry.node.as_map_mut() else {
            continue;
        };
        let local = volume.get("driver").and_then(Node::as_str).unwrap_or("local") == "local";
        let Some(options) = volume.get_mut("driver_opts").and_then(Node::as_map_mut) else {
            continue;
        };
        let bind = options.get("o").and_then(Node::as_str) == Some("bind");
        if let (true, true, Some(Value::Str(device))) =
            (local, bind, options.get_mut("device").map(|node| &mut node.value))
        {
            *device = paths::join(dir, device).into();
        }
    }
}

/// A config whose content is a variable.
pub(crate) fn fill_configs(map: &mut Map, env: &Env) {
    let Some(configs) = map.get_mut("configs").and_then(Node::as_map_mut) else {
        return;
    };
    for entry in configs.iter_mut() {
        let pos = entry.node.pos;
        let Some(config) = entry.node.as_map_mut() else {
            continue;
        };
        let value = config.get("environment").and_then(Node::as_str).and_then(|name| env.get(name));
        if let Some(value) = value.cloned() {
            config.insert_default("content", Value::Str(value.into()), pos);
        }
    }
}

/// The contents of secrets that are variables: kept beside the model, which is printed and sent.
pub(crate) fn secrets_of_variables(map: &Map, env: &Env) -> BTreeMap<String, SecretText> {
    let secrets = map.get("secrets").and_then(Node::as_map);
    let text = |entry: &Entry| {
        let value = env.get(entry.node.get_str("environment")?)?;
        Some((entry.key.to_string(), SecretText::new(value.clone())))
    };
    secrets.into_iter().flat_map(Map::iter).filter_map(text).collect()
}
