//! Completes a merged tree: defaults, implied dependencies and networks, env files, profiles, names.
//!
//! What was written stays as it is; this only adds what the specification says is meant, and leaves
//! out services of inactive profiles.

use std::collections::{BTreeMap, BTreeSet};

use crate::consistency;
use crate::dotenv::Format;
use crate::interpolate::Env;
use crate::load::{Input, Loader};
use crate::node::{Entry, Map, Node, Value};
use crate::parse::MAX_NODES;
use crate::paths;
use crate::problem::Code;
use crate::project::{Project, Reference, ReferenceKind};
use crate::shipping::SecretText;
use crate::source::{Pos, Sources};
use crate::tidy;
use crate::usage::collect_references;

/// Most services of a project; each costs a few kilobytes once it is resolved.
const MAX_SERVICES: usize = 10_000;

/// Completes a merged tree.
pub(crate) fn finish(
    loader: &mut Loader<'_>,
    mut root: Node,
    name: String,
    env: &Env,
    input: &Input,
) -> Option<Project> {
    let map = root.as_map_mut()?;
    map.remove("version");
    map.remove("include");
    map.insert("name", Node::text(name.clone(), Pos::default()));
    let mut references = BTreeSet::new();

    let mut services = take_section(map, "services");
    if services.len() > MAX_SERVICES {
        let message = format!("the project has {} services", services.len());
        let pos = services.iter().nth(MAX_SERVICES).map(|entry| entry.key_pos).unwrap_or_default();
        loader
            .report
            .error(pos, Code::TooLarge, message)
            .expected(format!("at most {MAX_SERVICES}"))
            .suggest("make several deployments of it");
        return None;
    }
    for entry in services.iter_mut() {
        complete_service(&mut entry.node);
    }
    consistency::check_cycles(&services, &mut loader.report);
    let disabled = drop_inactive(&mut services, env, input);
    for entry in services.iter_mut() {
        fold_env_files(loader, &entry.key, &mut entry.node, env, &mut references);
        fold_label_files(loader, &entry.key, &mut entry.node, env, &mut references);
    }
    map.insert("services", Node::new(Value::Map(services), Pos::default()));
    complete_networks(map);
    for section in ["networks", "volumes", "configs", "secrets"] {
        name_resources(map, section, &name);
    }
    bind_volume_devices(map, &input.project_dir);
    fill_configs(map, env);
    let secrets = secrets_of_variables(map, env);
    consistency::check(map, &disabled, &mut loader.report);
    tidy::tidy_project(map);
    collect_references(map, &input.project_dir, &mut references);
    Some(Project {
        name,
        root,
        sources: Sources::default(),
        references: references.into_iter().collect(),
        dir: input.project_dir.clone(),
        secrets,
    })
}

pub(crate) fn take_section(map: &mut Map, name: &str) -> Map {
    match map.remove(name).map(|node| node.value) {
        Some(Value::Map(section)) => section,
        Some(_) | None => Map::default(),
    }
}

/// Defaults that the specification gives to what was written, and what it implies.
pub(crate) fn complete_service(service: &mut Node) {
    let pos = service.pos;
    let Some(map) = service.as_map_mut() else {
        return;
    };
    for item in items_mut(map, "ports") {
        item.insert_default("mode", Value::Str("ingress".into()), Pos::default());
        item.insert_default("protocol", Value::Str("tcp".into()), Pos::default());
    }
    for (key, dir) in [("secrets", "/run/secrets/"), ("configs", "/")] {
        for item in items_mut(map, key) {
            default_target(item, dir);
        }
    }
    if let Some(build) = map.get_mut("build").and_then(Node::as_map_mut)
        && !build.contains("dockerfile_inline")
    {
        build.insert_default("dockerfile", Value::Str("Dockerfile".into()), pos);
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

fn items_mut<'m>(map: &'m mut Map, key: &str) -> impl Iterator<Item = &'m mut Map> + use<'m> {
    let items = map.get_mut(key).and_then(Node::as_seq_mut);
    items.into_iter().flatten().filter_map(Node::as_map_mut)
}

/// A mount without a target, or with a bare file name, goes to the usual folder.
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
    for key in ["network_mode", "ipc", "pid", "uts", "cgroup"] {
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
            // Nobody wrote it, so nobody is told what becomes of it.
            dependency.insert("restart", Node::new(Value::Bool(true), Pos::default()));
        }
        depends_on.insert_default(&name, Value::Map(dependency), pos);
    }
}

pub(crate) fn texts<'m>(map: &'m Map, key: &str) -> impl Iterator<Item = &'m str> + use<'m> {
    let items = map.get(key).and_then(Node::as_seq);
    items.into_iter().flatten().filter_map(Node::as_str)
}

/// Takes out services whose profiles are not active and returns their names.
fn drop_inactive(services: &mut Map, env: &Env, input: &Input) -> BTreeSet<String> {
    let from_env = env.get("COMPOSE_PROFILES").map_or("", String::as_str);
    let active: BTreeSet<&str> = input
        .profiles
        .iter()
        .map(String::as_str)
        .chain(from_env.split(',').map(str::trim))
        .filter(|name| !name.is_empty())
        .collect();
    let mut dropped = BTreeSet::new();
    services.retain(|entry| {
        let Some(map) = entry.node.as_map() else {
            return true;
        };
        let mut profiles = texts(map, "profiles").peekable();
        let wanted = profiles.peek().is_none()
            || active.contains("*")
            || profiles.any(|profile| active.contains(profile));
        if !wanted {
            dropped.insert(entry.key.to_string());
        }
        wanted
    });
    dropped
}

/// Fills variables that have a name only, and lays `environment` over the env files.
fn fold_env_files(
    loader: &mut Loader<'_>,
    name: &str,
    service: &mut Node,
    env: &Env,
    references: &mut BTreeSet<Reference>,
) {
    let Some(map) = service.as_map_mut() else {
        return;
    };
    let mut own = Map::default();
    if let Some(Value::Map(environment)) = map.remove("environment").map(|node| node.value) {
        own = environment;
    }
    for entry in own.iter_mut() {
        if let (true, Some(value)) = (entry.node.is_null(), env.get(entry.key.as_str())) {
            entry.node.value = Value::Str(value.as_str().into());
        }
    }
    let files = map.remove("env_file");
    let mut all: BTreeMap<String, (String, Pos)> = BTreeMap::new();
    for file in files.as_ref().and_then(Node::as_seq).unwrap_or_default() {
        let Some(path) = file.get_str("path") else {
            continue;
        };
        references.insert(Reference {
            kind: ReferenceKind::EnvFile,
            path: path.to_owned(),
            owner: name.to_owned(),
        });
        let mut outer: Env =
            all.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        let texts =
            own.iter().filter_map(|e| Some((e.key.to_string(), e.node.as_str()?.to_owned())));
        outer.extend(texts);
        outer.extend(env.clone());
        let format =
            if file.get_str("format") == Some("raw") { Format::Raw } else { Format::Compose };
        let required = file.get("required").and_then(Node::as_bool) != Some(false);
        if let Some(values) = loader.env_file(path, format, &outer, required, Some(file.pos)) {
            all.extend(values.into_iter().map(|(key, value)| (key, (value, file.pos))));
        }
    }
    loader.expanded += all.len();
    if loader.expanded > MAX_NODES {
        let pos = files.map(|node| node.pos).unwrap_or_default();
        loader.report.error(pos, Code::TooLarge, "the env files give too many variables");
        return;
    }
    for (key, (value, pos)) in all {
        own.insert_default(&key, Value::Str(value.into()), pos);
    }
    if !own.is_empty() {
        map.insert("environment", Node::new(Value::Map(own), Pos::default()));
    }
}

fn fold_label_files(
    loader: &mut Loader<'_>,
    name: &str,
    service: &mut Node,
    env: &Env,
    references: &mut BTreeSet<Reference>,
) {
    let Some(map) = service.as_map_mut() else {
        return;
    };
    let Some(files) = map.remove("label_file") else {
        return;
    };
    let mut all = Env::new();
    for file in files.as_seq().unwrap_or_default() {
        let Some(path) = file.as_str() else {
            continue;
        };
        references.insert(Reference {
            kind: ReferenceKind::LabelFile,
            path: path.to_owned(),
            owner: name.to_owned(),
        });
        if let Some(values) = loader.env_file(path, Format::Compose, env, true, Some(file.pos)) {
            all.extend(values);
        }
    }
    map.insert_default("labels", Value::Map(Map::default()), files.pos);
    if let Some(labels) = map.get_mut("labels").and_then(Node::as_map_mut) {
        for (key, value) in all {
            labels.insert_default(&key, Value::Str(value.into()), files.pos);
        }
    }
}

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
            if external { entry.key.clone() } else { format!("{project}_{}", entry.key).into() };
        resource.insert_default("name", Value::Str(name.into_text()), pos);
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
fn bind_volume_devices(map: &mut Map, dir: &str) {
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
fn fill_configs(map: &mut Map, env: &Env) {
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
fn secrets_of_variables(map: &Map, env: &Env) -> BTreeMap<String, SecretText> {
    let secrets = map.get("secrets").and_then(Node::as_map);
    let text = |entry: &Entry| {
        let value = env.get(entry.node.get_str("environment")?)?;
        Some((entry.key.to_string(), SecretText::new(value.clone())))
    };
    secrets.into_iter().flat_map(Map::iter).filter_map(text).collect()
}
