//! A loaded project: the merged tree with defaults, names and variables filled in.
//!
//! It equals what the official tool prints. What JACO makes of it is decided in `resolve`.

pub(crate) mod containers;
pub(crate) mod reference;
pub(crate) mod secret_text;
pub(crate) mod usage;

use std::collections::BTreeMap;

use crate::diagnostics::problem::Problems;
use crate::diagnostics::source::Sources;
use crate::project::usage::{drop_read_contents, drop_unused};
use crate::yaml::node::{Map, Node, Value};
use crate::yaml::write;

pub use reference::{Reference, ReferenceKind};
pub use secret_text::SecretText;

/// The key at the top of a compose file with constraints of every service, in the notation of
/// `constraints` in jaco.yaml.
pub const CONSTRAINTS_EXTENSION: &str = "x-jaco-constraints";

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
        write::to_json(&self.root)
    }

    /// The model as the official tool prints it: dollars are doubled, so that it can be loaded
    /// again. Never holds the content of a secret.
    #[must_use]
    pub fn canonical_json(&self) -> serde_json::Value {
        let mut root = self.root.clone();
        if let Some(map) = root.as_map_mut() {
            drop_unused(map);
            drop_read_contents(map);
        }
        write::escape_dollars(write::to_json(&root))
    }

    /// [`Self::canonical_json`] as YAML; loading it again gives the same model.
    #[must_use]
    pub fn canonical_yaml(&self) -> String {
        write::to_yaml(&self.canonical_json())
    }

    /// Adds constraints to every service, in the notation of jaco.yaml; they are sent with the
    /// model.
    pub fn constrain(&mut self, constraints: &str) {
        let pos = self.root.pos;
        if let Some(map) = self.root.as_map_mut() {
            map.insert(CONSTRAINTS_EXTENSION, Node::new(Value::Str(constraints.into()), pos));
        }
    }

    /// Has a service run an image that was built for it, in place of its `build` section, `image` and `pull_policy`.
    pub fn run_built(&mut self, service: &str, image: &str) {
        let services = self.root.as_map_mut().and_then(|root| root.get_mut("services"));
        let service = services.and_then(Node::as_map_mut).and_then(|all| all.get_mut(service));
        let Some(service) = service.and_then(Node::as_map_mut) else { return };
        let pos = service.get("build").map(|build| build.pos).unwrap_or_default();
        for key in ["build", "image", "pull_policy"] {
            service.remove(key);
        }
        service.insert("image", Node::new(Value::Str(image.into()), pos));
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
