//! A loaded project: the merged tree with defaults, names and variables filled in, services of
//! inactive profiles left out, and everything unused dropped.
//!
//! It equals what the official tool prints. What JACO makes of it is decided in `resolve`.

use std::collections::{BTreeMap, BTreeSet};

use crate::canonical;
use crate::consistency;
use crate::dotenv::Format;
use crate::from_json;
use crate::interpolate::{self, Env};
use crate::load::{Input, Loader};
use crate::node::{Entry, Map, Node, Value};
use crate::parse::MAX_NODES;
use crate::paths;
use crate::problem::{Code, Problems, Report};
use crate::shape::{Checker, Path};
use crate::source::{FileId, Pos, Sources};
use crate::support;
use crate::tidy;

/// A project and what was worth a warning on the way.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The project.
    pub project: Project,
    /// Warnings, no errors.
    pub warnings: Problems,
}

/// A complete, checked project.
#[derive(Debug, Clone)]
pub struct Project {
    pub(crate) name: String,
    pub(crate) root: Node,
    pub(crate) sources: Sources,
    pub(crate) references: Vec<Reference>,
}

/// A file beside the compose file that a node will need, or that was read on the way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// What it is for.
    pub kind: ReferenceKind,
    /// The path, clean, as the project folder was given.
    pub path: String,
    /// Who needs it: a service, or the name of a config or secret.
    pub owner: String,
}

/// What a referenced file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// A file or folder below the project folder, mounted into a service.
    ProjectBind,
    /// A path of the node itself, which is not shipped.
    HostBind,
    /// The content of a config.
    Config,
    /// The content of a secret.
    Secret,
    /// Variables of a service; folded into its environment already.
    EnvFile,
    /// Labels of a service; folded into its labels already.
    LabelFile,
}

impl Project {
    /// The project's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the services, sorted.
    pub fn service_names(&self) -> impl Iterator<Item = &str> {
        let services = self.root.get("services").and_then(Node::as_map);
        services.into_iter().flat_map(Map::keys)
    }

    /// The files beside the compose file, sorted.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The model with positions.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The model as plain data: what a client sends. It keeps declared resources that no service
    /// uses, because jaco.yaml may name them.
    #[must_use]
    pub fn model(&self) -> serde_json::Value {
        canonical::to_json(&self.root)
    }

    /// The model as the official tool prints it: dollars are doubled, so that it can be loaded
    /// again. Never holds the content of a secret.
    #[must_use]
    pub fn canonical_json(&self) -> serde_json::Value {
        let mut root = self.root.clone();
        if let Some(map) = root.as_map_mut() {
            drop_unused(map);
        }
        canonical::escape_dollars(canonical::to_json(&root))
    }

    /// [`Self::canonical_json`] as YAML; loading it again gives the same model.
    #[must_use]
    pub fn canonical_yaml(&self) -> String {
        canonical::to_yaml(&self.canonical_json())
    }

    /// A service of the model.
    pub(crate) fn service(&self, name: &str) -> Option<&Node> {
        self.root.get("services")?.get(name)
    }

    pub(crate) fn with_sources(mut self, sources: Sources) -> Self {
        self.sources = sources;
        self
    }
}

/// Takes a model as a client sent it: checked like a file, but without variables, env files,
/// includes and extends, so that no file is read.
///
/// # Errors
///
/// Every problem of the model.
pub fn from_model(json: &[u8]) -> Result<Project, Problems> {
    let mut report = Report::default();
    let mut sources = Sources::default();
    let file = sources.add("the sent model", "".into());
    let project = parse_model(json, file, &mut report);
    match project {
        Some(mut project) if !report.has_errors() => {
            project.sources = sources;
            Ok(project)
        }
        Some(_) | None => Err(report.finish(&sources)),
    }
}

fn parse_model(json: &[u8], file: FileId, report: &mut Report) -> Option<Project> {
    let mut root = from_json::parse(json, file, report)?;
    let mut ports = 0;
    let mut checker =
        Checker { what: "the model", report, ports: &mut ports, dir: ".", home: None };
    checker.apply(&support::FILE, &mut root, Path::root(""));
    let pos = root.pos;
    let map = root.as_map_mut()?;
    for entry in map.get("services").and_then(Node::as_map).into_iter().flat_map(Map::iter) {
        for key in ["extends", "env_file", "label_file"] {
            if let Some(node) = entry.node.get(key) {
                let message =
                    format!("`services.{}.{key}` must be resolved by the client", entry.key);
                report.error(node.pos, Code::InvalidValue, message);
            }
        }
    }
    if map.contains("include") {
        report.error(pos, Code::InvalidValue, "`include` must be resolved by the client");
    }
    let name = map.get("name").and_then(Node::as_str).unwrap_or_default().to_owned();
    if name.is_empty() || normalise_name(&name) != name {
        report.error(pos, Code::InvalidName, format!("`{name}` is not a project name"));
    }
    if report.has_errors() {
        return None;
    }
    let mut services = take_section(map, "services");
    for entry in services.iter_mut() {
        complete_service(&mut entry.node);
    }
    consistency::check_cycles(&services, report);
    map.insert("services", Node::new(Value::Map(services), pos));
    complete_networks(map);
    for section in ["networks", "volumes", "configs", "secrets"] {
        name_resources(map, section, &name);
    }
    consistency::check(map, &BTreeSet::new(), report);
    tidy::tidy_project(map);
    let mut references = BTreeSet::new();
    collect_references(map, ".", &mut references);
    let references = references.into_iter().collect();
    Some(Project { name, root, sources: Sources::default(), references })
}

/// Makes a name usable the way the official tool does: small letters, digits, `-`, `_`.
#[must_use]
pub fn normalise_name(text: &str) -> String {
    let kept: String = text
        .chars()
        .flat_map(char::to_lowercase)
        .filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
        .collect();
    kept.trim_start_matches(['-', '_']).to_owned()
}

/// The project's name: the caller's, `COMPOSE_PROJECT_NAME`, `name:`, or the folder's.
pub(crate) fn project_name(
    loader: &mut Loader<'_>,
    input: &Input,
    env: &Env,
    documents: &[Option<Vec<Node>>],
) -> Option<String> {
    let chosen = input.name.as_ref().or_else(|| env.get("COMPOSE_PROJECT_NAME"));
    if let Some(name) = chosen.filter(|name| !name.is_empty()) {
        if normalise_name(name) == *name {
            return Some(name.clone());
        }
        loader
            .report
            .error_nowhere(Code::InvalidName, format!("`{name}` is not a project name"))
            .expected("small letters, digits, `-` and `_`, beginning with a letter or digit");
        return None;
    }
    let written =
        documents.iter().flatten().flatten().filter_map(|node| node.get("name")).next_back();
    if let Some(text) = written.and_then(Node::as_str) {
        let lookup = |name: &str| env.get(name).map(String::as_str);
        // A broken form is reported when the document itself is interpolated.
        let text = interpolate::expand(text, &lookup).map_or_else(|_| String::new(), |e| e.text);
        let name = normalise_name(&text);
        if !name.is_empty() {
            return Some(name);
        }
    }
    let name = normalise_name(paths::file_name(&input.project_dir));
    if name.is_empty() {
        loader
            .report
            .error_nowhere(Code::InvalidName, "the project has no name")
            .suggest("add `name:` to the compose file");
        return None;
    }
    Some(name)
}

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
    consistency::check(map, &disabled, &mut loader.report);
    tidy::tidy_project(map);
    collect_references(map, &input.project_dir, &mut references);
    Some(Project {
        name,
        root,
        sources: Sources::default(),
        references: references.into_iter().collect(),
    })
}

fn take_section(map: &mut Map, name: &str) -> Map {
    match map.remove(name).map(|node| node.value) {
        Some(Value::Map(section)) => section,
        Some(_) | None => Map::default(),
    }
}

/// Defaults that the specification gives to what was written, and what it implies.
fn complete_service(service: &mut Node) {
    let pos = service.pos;
    let Some(map) = service.as_map_mut() else {
        return;
    };
    for item in items_mut(map, "ports") {
        item.insert_default("mode", Value::Str("ingress".into()), pos);
        item.insert_default("protocol", Value::Str("tcp".into()), pos);
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
            dependency.insert("restart", Node::new(Value::Bool(true), pos));
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

fn complete_networks(map: &mut Map) {
    map.insert_default("networks", Value::Map(Map::default()), Pos::default());
    if let Some(networks) = map.get_mut("networks").and_then(Node::as_map_mut) {
        networks.insert_default("default", Value::Map(Map::default()), Pos::default());
    }
}

/// Gives every resource the name it has on the nodes: `external` ones their own, the others the
/// project's in front.
fn name_resources(map: &mut Map, section: &str, project: &str) {
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
        resource.insert_default("name", Value::Str(name), pos);
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

/// Keeps the resources that an active service names.
fn drop_unused(map: &mut Map) {
    let used = used_resources(map);
    for section in ["networks", "volumes", "secrets", "configs"] {
        if let Some(resources) = map.get_mut(section).and_then(Node::as_map_mut) {
            resources.retain(|entry| {
                used.get(section).is_some_and(|set| set.contains(entry.key.as_str()))
            });
            if resources.is_empty() {
                map.remove(section);
            }
        }
    }
}

fn used_resources(map: &Map) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let services = map.get("services").and_then(Node::as_map);
    for entry in services.into_iter().flat_map(Map::iter) {
        let Some(service) = entry.node.as_map() else {
            continue;
        };
        let networks = service.get("networks").and_then(Node::as_map);
        let names = networks.into_iter().flat_map(Map::keys).map(str::to_owned);
        used.entry("networks").or_default().extend(names);
        let build = service.get("build").and_then(Node::as_map);
        for section in ["secrets", "configs", "volumes"] {
            let own = sources(service, section);
            let built = build.into_iter().flat_map(|build| sources(build, section));
            used.entry(section).or_default().extend(own.chain(built).map(str::to_owned));
        }
    }
    used
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

fn collect_references(map: &Map, dir: &str, references: &mut BTreeSet<Reference>) {
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
    let used = used_resources(map);
    for (section, kind) in [("configs", ReferenceKind::Config), ("secrets", ReferenceKind::Secret)]
    {
        let resources = map.get(section).and_then(Node::as_map);
        let is_used =
            |entry: &&Entry| used.get(section).is_some_and(|set| set.contains(entry.key.as_str()));
        for entry in resources.into_iter().flat_map(Map::iter).filter(is_used) {
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
