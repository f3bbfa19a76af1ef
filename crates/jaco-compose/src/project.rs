//! A loaded project: the merged tree with defaults, names and variables filled in.
//!
//! It equals what the official tool prints. What JACO makes of it is decided in `resolve`.

use std::collections::{BTreeMap, BTreeSet};

use crate::canonical;
use crate::complete::{complete_networks, complete_service, name_resources, take_section};
use crate::consistency;
use crate::from_json;
use crate::interpolate::{self, Env};
use crate::load::{Input, Loader};
use crate::node::{Map, Node, Value};
use crate::paths;
use crate::place::Path;
use crate::problem::{Code, Problems, Report};
use crate::resolve::CONSTRAINTS_EXTENSION;
use crate::shape::Checker;
use crate::shipping::SecretText;
use crate::source::{FileId, Sources};
use crate::support;
use crate::tidy;
use crate::usage::{collect_references, drop_unused};

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
    /// The folder that relative paths started from.
    pub(crate) dir: String,
    /// Contents of secrets that come from variables; no part of the model.
    pub(crate) secrets: BTreeMap<String, SecretText>,
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

    /// Lets every service ask `constraints` of its nodes, in the words of jaco.yaml; they go with the
    /// model.
    pub fn constrain(&mut self, constraints: &str) {
        let pos = self.root.pos;
        if let Some(map) = self.root.as_map_mut() {
            map.insert(CONSTRAINTS_EXTENSION, Node::new(Value::Str(constraints.into()), pos));
        }
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
    let (dir, secrets) = (".".to_owned(), BTreeMap::new());
    Some(Project { name, root, sources: Sources::default(), references, dir, secrets })
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
