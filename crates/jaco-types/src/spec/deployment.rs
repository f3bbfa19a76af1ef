//! What one revision of a deployment consists of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::dependency::DependencyCondition;
use super::network::NetworkSpec;
use super::privilege::Privilege;
use super::service::{ServiceMode, ServiceSpec};
use crate::content::{ContentId, NamedKey};
use crate::id::{NetworkName, ServiceName};
use crate::route::{Route, RouteKey};

/// The spec of one revision of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentSpec {
    /// Its services by name.
    pub services: BTreeMap<ServiceName, Arc<ServiceSpec>>,
    /// The networks that its services are attached to and that are its own, by key. Empty in a cluster
    /// whose networks are those of each node.
    pub networks: BTreeMap<NetworkName, NetworkSpec>,
    /// The routes to its services, by the requests that they are for. Empty in a cluster whose networks are those
    /// of each node, where no edge could reach an instance.
    pub routes: BTreeMap<RouteKey, Route>,
    /// The canonical compose model as the client sent it (JSON with sorted keys).
    pub compose: Arc<str>,
    /// The overlay (`jaco.yaml`) as the client sent it; empty when there is none.
    pub overlay: Arc<str>,
    /// The environment's `jaco.services.toml` as the client sent it; empty when there is none.
    pub environment: Arc<str>,
    /// The contents of files that its containers need, all of them.
    pub contents: BTreeSet<ContentId>,
    /// The configs and secrets that it takes from the cluster by name. Their contents are among
    /// `contents`, as they were when this was applied.
    pub named: BTreeSet<NamedKey>,
    /// What its services reach of the nodes that they run on, by service; those that reach nothing
    /// are not in it. For people who ask who let it in: it decides nothing, and a change of it alone
    /// is no new revision.
    pub privileges: BTreeMap<ServiceName, BTreeSet<Privilege>>,
}

impl DeploymentSpec {
    /// Whether it asks for the same as another one: what differs besides, such as the text of the manifest,
    /// is no new revision.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.services == other.services && self.routes == other.routes
    }

    /// Whether it asks for something that only members know that know of edges.
    #[must_use]
    pub fn needs_edges(&self) -> bool {
        let needs =
            |service: &ServiceSpec| service.drain.is_some() || !service.ingress_ports.is_empty();
        !self.routes.is_empty() || self.services.values().any(|service| needs(service))
    }

    /// Its jobs: the services that run to their end because they say so, or because others wait for them
    /// to complete (R-JOB-1).
    #[must_use]
    pub fn jobs(&self) -> BTreeSet<&ServiceName> {
        let services = self.services.values();
        let declared = services.clone().filter(|spec| spec.mode == ServiceMode::Job);
        let awaited = services.flat_map(|spec| &spec.depends_on).filter(|dependency| {
            dependency.condition == DependencyCondition::CompletedSuccessfully
        });
        let declared = declared.map(|spec| &spec.name);
        declared.chain(awaited.map(|dependency| &dependency.service)).collect()
    }
}
