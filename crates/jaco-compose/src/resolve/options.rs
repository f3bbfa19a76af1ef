//! What a resolve is given beside the project and the overlay.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::NetworkOwner;

/// What a resolve is done with, besides the project and the overlay.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How services that have to be built are treated.
    pub images: Images,
    /// Versions of the contents of uploaded files.
    pub contents: Contents,
    /// Reservations of the chosen environment, by service.
    pub overrides: BTreeMap<String, Override>,
    /// Whose the networks are.
    pub networks: Networks,
}

/// Whose the networks of containers are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Networks {
    /// Those of each node. The engine chooses their addresses.
    #[default]
    Node,
    /// The cluster's: one subnet on all nodes. The text of a container says so, so that a container that
    /// was made for a network of its node is another one.
    Cluster {
        /// The names of the networks that the cluster has for all deployments.
        shared: BTreeSet<String>,
    },
}

impl Networks {
    /// The cluster's network that one of a deployment is; none where networks are those of each node. A
    /// network that a file gives a name of its own is the shared one of that name where there is one, and
    /// the deployment's otherwise.
    #[must_use]
    pub fn scope_of<'a>(&self, owner: &'a NetworkOwner) -> Option<NetworkIn<'a>> {
        let Self::Cluster { shared } = self else { return None };
        Some(match owner {
            NetworkOwner::Cluster(name) => NetworkIn::Shared(name),
            NetworkOwner::Name(name) if shared.contains(name) => NetworkIn::Shared(name),
            NetworkOwner::Name(_) | NetworkOwner::Deployment => NetworkIn::Deployment,
        })
    }
}

/// Among which networks of the cluster one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkIn<'a> {
    /// Those of its deployment, under its key.
    Deployment,
    /// Those for all deployments, under this name.
    Shared(&'a str),
}

/// The reservation of one service in the chosen environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Override {
    /// Memory, as in jaco.yaml: megabytes without a unit.
    pub memory: Option<String>,
    /// Processor time, as in jaco.yaml: megahertz without a unit.
    pub cpu: Option<String>,
}

/// How services with a `build` section are treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Images {
    /// They are accepted if they also name an image, which is pulled as any other.
    #[default]
    FromRegistry,
    /// The same, and the image must already be on every node.
    AllowLocal,
}

/// Versions of contents of files, so that a changed file is a changed container. The texts are
/// opaque: a digest, or the version of a secret, whose digest should not be stored in clear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// By name of the config.
    pub configs: BTreeMap<String, String>,
    /// By name of the secret.
    pub secrets: BTreeMap<String, String>,
    /// By path of the uploaded file or folder, as in the model.
    pub binds: BTreeMap<String, String>,
}
