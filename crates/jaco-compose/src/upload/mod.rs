//! Files beside the compose file that are uploaded with it: relative bind mounts, the contents of
//! configs and secrets (R-IN-4, R-IN-5). Lists what is needed; the caller reads it.

pub mod tree;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::diagnostics::code::Code;
use crate::diagnostics::problem::Problems;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::notation::paths;
use crate::project::Project;
use crate::project::reference::ReferenceKind;
use crate::project::secret_text::SecretText;
use crate::project::usage::used_resources;
use crate::yaml::node::{Map, Node};
use crate::yaml::write;

/// Content that is uploaded with the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadItem {
    /// Its use in the project.
    pub kind: UploadKind,
    /// Its key in [`crate::Contents`]: the path in [`Project::sent_model`], or the name of the config
    /// or secret.
    pub name: String,
    /// Where the content comes from.
    pub source: UploadSource,
    /// The position of the mount, config or secret.
    pos: Pos,
}

/// The use of uploaded content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UploadKind {
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

/// Where uploaded content comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadSource {
    /// A file or folder, as the project folder was given.
    Path(String),
    /// A variable, with its value if it is set.
    Variable(String, Option<SecretText>),
    /// The cluster, which stores it under this name: nothing is uploaded.
    External(String),
}

/// A problem of an upload item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadProblem {
    /// Whether it stops the apply.
    pub kind: UploadProblemKind,
    /// The message.
    pub message: String,
    /// The suggestion.
    pub suggestion: String,
}

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UploadProblemKind {
    /// The content does not exist or cannot be read.
    Missing,
    /// The content cannot be uploaded.
    Refused,
    /// It is uploaded, but works differently than on a single host.
    Warning,
}

impl Project {
    /// All content that has to be uploaded with the project: bind mounts by path, then configs and secrets.
    #[must_use]
    pub fn upload_items(&self) -> Vec<UploadItem> {
        let Some(root) = self.root.as_map() else { return Vec::new() };
        let mut items = self.bind_items(root);
        for (section, kind) in [("configs", UploadKind::Config), ("secrets", UploadKind::Secret)] {
            let resources = root.get(section).and_then(Node::as_map);
            let used = used_resources(root, section);
            for entry in resources.into_iter().flat_map(Map::iter) {
                if !used.contains(entry.key.as_str()) {
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
                    (UploadSource::Path(path.to_owned()), pos)
                } else if let Some((variable, pos)) = text("environment") {
                    let value = self.secrets.get(entry.key.as_str()).cloned();
                    (UploadSource::Variable(variable.to_owned(), value), pos)
                } else {
                    let named = entry.node.get_str("name").unwrap_or(entry.key.as_str());
                    (UploadSource::External(named.to_owned()), entry.key_pos)
                };
                items.push(UploadItem { kind, name: entry.key.to_string(), source, pos });
            }
        }
        items
    }

    fn bind_items(&self, root: &Map) -> Vec<UploadItem> {
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
        let item = |(path, (access, pos)): (&str, (Access, Pos))| UploadItem {
            kind: UploadKind::Bind(access),
            name: relative(&self.dir, path),
            source: UploadSource::Path(path.to_owned()),
            pos,
        };
        binds.into_iter().map(item).collect()
    }

    /// The model as it is sent: what lies below the project folder is named from there, so that the
    /// folder's own place counts for nothing.
    #[must_use]
    pub fn sent_model(&self) -> Json {
        let mut model = write::to_json(&self.root);
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

    /// Adds positions to problems of upload items.
    #[must_use]
    pub fn upload_problems(&self, problems: &[(UploadItem, UploadProblem)]) -> Problems {
        let mut report = Report::default();
        for (item, problem) in problems {
            let UploadProblem { kind, message, suggestion } = problem;
            let finding = match kind {
                UploadProblemKind::Missing => report.error(item.pos, Code::FileNotFound, message),
                UploadProblemKind::Refused => report.error(item.pos, Code::Unsupported, message),
                UploadProblemKind::Warning => {
                    report.warning(item.pos, Code::HonouredDifferently, message)
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
