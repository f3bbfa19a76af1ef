//! What lies beside the compose file and has to go with it: relative binds, the contents of configs
//! and of secrets (R-IN-4, R-IN-5). Says what is needed; reading it is the caller's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value as Json;

use crate::canonical;
use crate::node::{Map, Node};
use crate::paths;
use crate::problem::{Code, Problems, Report};
use crate::project::{Project, ReferenceKind};
use crate::source::Pos;
use crate::usage::used_resources;

/// Something that has to be sent with the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipment {
    /// What it is for.
    pub kind: ShipmentKind,
    /// What [`crate::Contents`] knows it by: the path in [`Project::sent_model`], or the key of the
    /// config or secret.
    pub name: String,
    /// Where it is read.
    pub source: ShipmentSource,
    /// Where the manifest asks for it.
    pos: Pos,
}

/// What a shipment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShipmentKind {
    /// A path below the project folder, mounted into services.
    Bind(Access),
    /// The content of a config.
    Config,
    /// The content of a secret.
    Secret,
}

/// What containers may do with a bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Each mount of it is read-only.
    Read,
    /// At least one is not.
    Write,
}

/// Where a shipment is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShipmentSource {
    /// A file or folder, as the project folder was given.
    Path(String),
    /// A variable, with its value if it is set.
    Variable(String, Option<SecretText>),
    /// Nowhere: the cluster keeps it, under this name.
    External(String),
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for whoever has to send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// What is wrong with a shipment, or worth a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Whether it stops the apply.
    pub kind: FaultKind,
    /// What is wrong.
    pub message: String,
    /// What to write or do instead.
    pub suggestion: String,
}

/// What kind of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// It is not there, or cannot be read.
    Absent,
    /// It cannot be sent.
    Refused,
    /// It is sent, and means something else than on one host.
    Differs,
}

impl Project {
    /// All that has to be sent with the project: binds by path, then configs and secrets by key.
    #[must_use]
    pub fn shipments(&self) -> Vec<Shipment> {
        let Some(root) = self.root.as_map() else { return Vec::new() };
        let mut shipments = self.bind_shipments(root);
        let used = used_resources(root);
        for (section, kind) in
            [("configs", ShipmentKind::Config), ("secrets", ShipmentKind::Secret)]
        {
            let resources = root.get(section).and_then(Node::as_map);
            let used = used.get(section);
            for entry in resources.into_iter().flat_map(Map::iter) {
                if !used.is_some_and(|used| used.contains(entry.key.as_str())) {
                    continue;
                }
                // What a config says in the file itself is part of the model.
                if entry.node.get("content").is_some() {
                    continue;
                }
                let text = |key: &str| {
                    entry.node.get(key).and_then(|node| Some((node.as_str()?, node.pos)))
                };
                let (source, pos) = if let Some((path, pos)) = text("file") {
                    (ShipmentSource::Path(path.to_owned()), pos)
                } else if let Some((variable, pos)) = text("environment") {
                    let value = self.secrets.get(entry.key.as_str()).cloned();
                    (ShipmentSource::Variable(variable.to_owned(), value), pos)
                } else {
                    let named = entry.node.get_str("name").unwrap_or(entry.key.as_str());
                    (ShipmentSource::External(named.to_owned()), entry.key_pos)
                };
                shipments.push(Shipment { kind, name: entry.key.to_string(), source, pos });
            }
        }
        shipments
    }

    fn bind_shipments(&self, root: &Map) -> Vec<Shipment> {
        let references = self.references.iter();
        let below = references.filter(|reference| reference.kind == ReferenceKind::ProjectBind);
        let below: BTreeSet<&str> = below.map(|reference| reference.path.as_str()).collect();
        let mut binds: BTreeMap<&str, (Access, Pos)> = BTreeMap::new();
        let services = root.get("services").and_then(Node::as_map);
        for service in services.into_iter().flat_map(Map::iter) {
            for mount in service.node.get("volumes").and_then(Node::as_seq).unwrap_or_default() {
                let path = mount.get_str("source").unwrap_or_default();
                if mount.get_str("type") != Some("bind") || !below.contains(path) {
                    continue;
                }
                let read_only = mount.get("read_only").and_then(Node::as_bool) == Some(true);
                let access = if read_only { Access::Read } else { Access::Write };
                let found = binds.entry(path).or_insert((access, mount.pos));
                found.0 = found.0.max(access);
            }
        }
        let shipment = |(path, (access, pos)): (&str, (Access, Pos))| Shipment {
            kind: ShipmentKind::Bind(access),
            name: relative(&self.dir, path),
            source: ShipmentSource::Path(path.to_owned()),
            pos,
        };
        binds.into_iter().map(shipment).collect()
    }

    /// The model as it is sent: what lies below the project folder is named from there, so that the
    /// folder's own place counts for nothing.
    #[must_use]
    pub fn sent_model(&self) -> Json {
        let mut model = canonical::to_json(&self.root);
        let dir = self.dir.as_str();
        let services = model.get_mut("services").and_then(Json::as_object_mut);
        for (_, service) in services.into_iter().flatten() {
            let mounts = service.get_mut("volumes").and_then(Json::as_array_mut);
            for mount in mounts.into_iter().flatten() {
                if mount["type"] == "bind" && shorten(dir, mount.get_mut("source")) {
                    forget_default(mount);
                }
            }
        }
        for section in ["configs", "secrets"] {
            let resources = model.get_mut(section).and_then(Json::as_object_mut);
            for (_, resource) in resources.into_iter().flatten() {
                shorten(dir, resource.get_mut("file"));
            }
        }
        model
    }

    /// Faults of shipments as problems, at the places that ask for them.
    #[must_use]
    pub fn shipping_problems(&self, faults: &[(Shipment, Fault)]) -> Problems {
        let mut report = Report::default();
        for (shipment, fault) in faults {
            let Fault { kind, message, suggestion } = fault;
            let finding = match kind {
                FaultKind::Absent => report.error(shipment.pos, Code::FileNotFound, message),
                FaultKind::Refused => report.error(shipment.pos, Code::Unsupported, message),
                FaultKind::Differs => {
                    report.warning(shipment.pos, Code::HonouredDifferently, message)
                }
            };
            finding.suggest(suggestion);
        }
        report.finish(&self.sources)
    }
}

/// Whether it is below.
fn shorten(dir: &str, path: Option<&mut Json>) -> bool {
    let Some(Json::String(text)) = path else { return false };
    let short = relative(dir, text);
    let below = short != *text;
    *text = short;
    below
}

/// A short form implies it, and for what is sent it decides nothing: it would only be warned about as
/// if its user had written it.
fn forget_default(mount: &mut Json) {
    let Some(bind) = mount.get_mut("bind").and_then(Json::as_object_mut) else { return };
    if bind.get("create_host_path") == Some(&Json::Bool(true)) {
        bind.remove("create_host_path");
    }
}

/// `path` from `dir`, if it is below.
fn relative(dir: &str, path: &str) -> String {
    if path == dir {
        return ".".to_owned();
    }
    let below = path.strip_prefix(dir).and_then(|rest| rest.strip_prefix('/'));
    below.map_or_else(|| path.to_owned(), paths::clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_the_project_folder() {
        for (path, expected) in
            [("/p", "."), ("/p/a/b", "a/b"), ("/pq/a", "/pq/a"), ("/etc", "/etc"), ("a", "a")]
        {
            assert_eq!(relative("/p", path), expected);
        }
    }
}
