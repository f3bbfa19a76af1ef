//! What an import has made of a project or a stack.

use std::collections::BTreeMap;

use super::section::Section;

/// What the services were started by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Docker Compose, on one engine.
    Project,
    /// Docker Swarm.
    Stack,
}

impl Origin {
    /// As it is called in JSON and in sentences.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Stack => "stack",
        }
    }
}

/// A compose file, and what has to be known about it.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) services: BTreeMap<String, Section>,
    pub(crate) networks: BTreeMap<String, Section>,
    pub(crate) volumes: BTreeMap<String, Section>,
    pub(crate) configs: BTreeMap<String, Section>,
    pub(crate) secrets: BTreeMap<String, Section>,
    /// Contents of configs, by their paths in the folder.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) findings: Findings,
}

/// What a user has to know or to do.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) differences: Vec<Difference>,
    pub(crate) local_images: Vec<LocalImage>,
    pub(crate) secret_values: Vec<SecretValue>,
    pub(crate) stored_secrets: Vec<StoredSecret>,
    pub(crate) data: Vec<Data>,
    /// Commands that stop what runs, in order.
    pub(crate) stop: Vec<String>,
}

impl Findings {
    /// Something of a service that does not carry over, as a sentence with its reason.
    pub(super) fn differs(&mut self, service: &str, sentence: impl Into<String>) {
        let (service, sentence) = (service.to_owned(), sentence.into());
        let difference = Difference { service, sentence };
        if !self.differences.contains(&difference) {
            self.differences.push(difference);
        }
    }
}

/// What does not carry over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The service; empty if it is about the whole.
    pub(crate) service: String,
    pub(crate) sentence: String,
}

/// An image that no registry has under the name that the service runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalImage {
    pub(crate) service: String,
    pub(crate) image: String,
}

/// A value of the written file that looks like a secret. Never holds the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretValue {
    pub(crate) service: String,
    /// Such as `environment.DB_PASSWORD`.
    pub(crate) key: String,
}

/// A secret whose content the cluster has to be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredSecret {
    pub(crate) name: String,
    /// The file of this machine that has the content, if it is known.
    pub(crate) file: Option<String>,
}

/// Data in a named volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Data {
    /// The key in the compose file.
    pub(crate) volume: String,
    /// The engine's name.
    pub(crate) engine_volume: String,
    /// The services that mount it.
    pub(crate) services: Vec<String>,
    /// A container that mounts it; of a stack, none is known.
    pub(crate) container: Option<String>,
    /// Where it is in the container.
    pub(crate) target: String,
    /// What the volume is of, if its driver keeps the data elsewhere.
    pub(crate) elsewhere: Option<String>,
}
