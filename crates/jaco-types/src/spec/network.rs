//! The networks that a deployment has and its services are attached to.

use std::sync::Arc;

use crate::id::{DeploymentName, NetworkName};
use crate::network::{NetworkReach, NetworkScope};

/// A network of a deployment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkSpec {
    /// What its members reach besides each other. A network of another reach is another network.
    pub reach: NetworkReach,
    /// The prefix length that is asked for when it is created; without, the replicas decide.
    pub length: Option<u8>,
}

/// The attachment of a service to a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The network.
    pub network: NetworkRef,
    /// Names that its replicas have there besides those of service and replica.
    pub aliases: Vec<Arc<str>>,
}

/// A network as a spec names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkRef {
    /// The network of the same deployment with this key.
    Own(NetworkName),
    /// The shared network of this name.
    Shared(NetworkName),
}

impl NetworkRef {
    /// The network that it is in a spec of `deployment`.
    #[must_use]
    pub fn scope(&self, deployment: &DeploymentName) -> NetworkScope {
        match self {
            Self::Own(key) => {
                NetworkScope::Deployment { deployment: deployment.clone(), key: key.clone() }
            }
            Self::Shared(name) => NetworkScope::Shared(name.clone()),
        }
    }
}
