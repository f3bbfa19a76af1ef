//! What the containers of a project refer to: images, networks, volumes, and each other.

use std::collections::BTreeMap;

use super::inspected::{Container, Image, Network, Volume};
use super::label;

/// A project as the engine says it is.
#[derive(Debug, Default)]
pub(crate) struct ProjectSnapshot {
    pub(crate) name: String,
    pub(crate) containers: Vec<Container>,
    pub(crate) images: Vec<Image>,
    pub(crate) networks: Vec<Network>,
    pub(crate) volumes: Vec<Volume>,
}

/// A snapshot by names.
pub(super) struct Scene<'s> {
    pub(super) project: &'s str,
    images: BTreeMap<&'s str, &'s Image>,
    networks: BTreeMap<&'s str, &'s Network>,
    volumes: BTreeMap<&'s str, &'s Volume>,
    /// Services by the ids and the names of their containers.
    services: BTreeMap<&'s str, &'s str>,
}

/// Where a network or a volume comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The project made it.
    Project,
    /// It was there before.
    Other,
}

impl<'s> Scene<'s> {
    pub(super) fn of(snapshot: &'s ProjectSnapshot) -> Self {
        let mut services = BTreeMap::new();
        for container in &snapshot.containers {
            if let Some(service) = container.config.labels.get(label::SERVICE) {
                services.insert(container.id.as_str(), service.as_str());
                services.insert(container.name.trim_start_matches('/'), service.as_str());
            }
        }
        Self {
            project: &snapshot.name,
            images: snapshot.images.iter().map(|image| (image.id.as_str(), image)).collect(),
            networks: snapshot.networks.iter().map(|one| (one.name.as_str(), one)).collect(),
            volumes: snapshot.volumes.iter().map(|one| (one.name.as_str(), one)).collect(),
            services,
        }
    }

    pub(super) fn image(&self, id: &str) -> Option<&'s Image> {
        self.images.get(id).copied()
    }

    pub(super) fn network(&self, name: &str) -> Option<&'s Network> {
        self.networks.get(name).copied()
    }

    pub(super) fn volume(&self, name: &str) -> Option<&'s Volume> {
        self.volumes.get(name).copied()
    }

    /// The service of a container, by its id or its name.
    pub(super) fn service(&self, container: &str) -> Option<&'s str> {
        self.services.get(container.trim_start_matches('/')).copied()
    }

    /// The key of a network in the compose file, and whose it is.
    pub(super) fn network_key(&self, name: &str) -> (String, Owner) {
        let labels = self.network(name).map(|network| &network.labels);
        self.key(name, labels, label::NETWORK)
    }

    /// The key of a volume in the compose file, and whose it is.
    pub(super) fn volume_key(&self, name: &str) -> (String, Owner) {
        let labels = self.volume(name).map(|volume| &volume.labels);
        self.key(name, labels, label::VOLUME)
    }

    fn key(
        &self,
        name: &str,
        labels: Option<&BTreeMap<String, String>>,
        label: &str,
    ) -> (String, Owner) {
        let labels = labels.filter(|labels| {
            labels.get(label::PROJECT).is_some_and(|project| project == self.project)
        });
        match labels.and_then(|labels| labels.get(label)) {
            Some(key) => (key.clone(), Owner::Project),
            None => (name.to_owned(), Owner::Other),
        }
    }
}
