//! What edges serve: the services that a route goes to or that publish a port, whose instances edges of all sites reach,
//! and the sockets that this takes.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::{ClusterState, Deployment};
use jaco_types::port::ListenAddress;
use jaco_types::route::RouteTls;
use jaco_types::spec::DeploymentSpec;
use jaco_types::{DeploymentName, PortKey, Route, RouteKey, ServiceKey};

use crate::edge::{ListenerKey, Transport, service_key};
use crate::tables::Tables;
use crate::topology::Exposure;

/// Where HTTP is served in clear, and over TLS.
pub(crate) const HTTP: ListenerKey = on_all_addresses(80);
pub(crate) const HTTPS: ListenerKey = on_all_addresses(443);

const fn on_all_addresses(port: u16) -> ListenerKey {
    ListenerKey { transport: Transport::Tcp, address: None, port }
}

/// What edges serve, by deployment. One of which nothing is served is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Served(BTreeMap<DeploymentName, OfDeployment>);

/// What edges serve of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfDeployment {
    services: BTreeSet<ServiceKey>,
    /// The sockets that its routes need.
    for_routes: BTreeSet<ListenerKey>,
}

impl Served {
    /// What is served of a state.
    pub(crate) fn of(state: &ClusterState) -> Self {
        let mut served = Self::default();
        for deployment in state.deployments.values() {
            served.follow(state, &deployment.name);
        }
        served
    }

    /// Brings a deployment up to the state. Returns whether anything has changed.
    pub(crate) fn follow(&mut self, state: &ClusterState, name: &DeploymentName) -> bool {
        let deployment = state.deployments.get(name);
        let served = deployment.map_or_else(OfDeployment::default, |known| OfDeployment {
            services: exposed(known).collect(),
            for_routes: for_routes(routes(state, known).map(|(_, route)| route)),
        });
        let before = match served == OfDeployment::default() {
            true => self.0.remove(name),
            false => self.0.insert(name.clone(), served),
        };
        before.as_ref() != self.0.get(name)
    }

    /// Who reaches the instances of a service.
    pub(crate) fn exposure(&self, service: &ServiceKey) -> Exposure {
        let of_deployment = self.0.get(&service.deployment);
        match of_deployment.is_some_and(|served| served.services.contains(service)) {
            true => Exposure::Edges,
            false => Exposure::Members,
        }
    }

    /// The sockets that the edge of every site has: those that routes need, and published ports.
    pub(crate) fn listeners(&self, state: &ClusterState) -> BTreeSet<ListenerKey> {
        let for_routes = self.0.values().flat_map(|served| &served.for_routes).copied();
        for_routes.chain(state.edges.ports.keys().map(|key| listener_key(*key))).collect()
    }
}

/// The services whose instances edges reach: those that any kept revision has them send something to. A route that is taken
/// away gets nothing new from then on, and what is in flight to its service is not cut off.
fn exposed(deployment: &Deployment) -> impl Iterator<Item = ServiceKey> {
    let name = &deployment.name;
    deployment.revisions.values().flat_map(move |record| {
        let upstreams = record.spec.routes.values().filter_map(Route::upstream);
        upstreams.map(|upstream| service_key(name, upstream)).chain(publishing(name, &record.spec))
    })
}

/// The services of a deployment that publish ports.
fn publishing<'a>(
    deployment: &'a DeploymentName,
    spec: &'a DeploymentSpec,
) -> impl Iterator<Item = ServiceKey> {
    let services = spec.services.values().filter(|service| !service.ingress_ports.is_empty());
    services
        .map(|service| ServiceKey { deployment: deployment.clone(), service: service.name.clone() })
}

/// None without a route, and none for TLS if no route is encrypted.
fn for_routes<'a>(routes: impl Iterator<Item = &'a Route>) -> BTreeSet<ListenerKey> {
    let needed = routes.flat_map(|route| {
        let is_encrypted = route.tls != RouteTls::Off;
        [HTTP].into_iter().chain(is_encrypted.then_some(HTTPS))
    });
    needed.collect()
}

/// The socket of a published port.
pub(crate) fn listener_key(key: PortKey) -> ListenerKey {
    let PortKey { transport, port, address } = key;
    ListenerKey { transport, address: address.map(ListenAddress::get), port: port.get() }
}

/// The services of a deployment that its routes go to, or that publish ports. One can be there twice.
pub(crate) fn targets<'a>(
    state: &'a ClusterState,
    deployment: &'a Deployment,
) -> impl Iterator<Item = ServiceKey> {
    let name = &deployment.name;
    let upstreams = routes(state, deployment).filter_map(|(_, route)| route.upstream());
    upstreams.map(|upstream| service_key(name, upstream)).chain(publishing(name, deployment.spec()))
}

/// The routes that a deployment has.
pub(crate) fn routes<'a>(
    state: &'a ClusterState,
    deployment: &'a Deployment,
) -> impl Iterator<Item = (&'a RouteKey, &'a Route)> {
    let name = &deployment.name;
    let has = move |key: &RouteKey| {
        state.edges.claims.get(key).is_some_and(|claim| claim.deployment == *name)
    };
    deployment.spec().routes.iter().filter(move |(key, _)| has(key))
}

/// The deployments whose routes or revisions anything was written about.
pub(crate) fn changed_deployments(
    before: &Tables,
    state: &ClusterState,
) -> BTreeSet<DeploymentName> {
    let deployments = state.deployments.changed_since(&before.deployments);
    let mut names: BTreeSet<DeploymentName> =
        deployments.into_iter().map(|row| row.key.clone()).collect();
    for claim in state.edges.claims.changed_since(&before.claims) {
        let owners = [claim.old, claim.new].into_iter().flatten();
        names.extend(owners.map(|claim| claim.deployment.clone()));
    }
    names
}
