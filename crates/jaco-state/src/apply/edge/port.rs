//! Who has which published port. A service has those that the desired spec of its deployment asks for, from the entry
//! on that made it the desired one (NET-5). Every node answers on a port, so that nothing else can have it.
//!
//! A port that the spec leaves open is chosen here: the one that the same service has already for the same port of its
//! containers, else the lowest that is free. Who checks a spec and who carries it out choose the same.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use jaco_types::port::{CLUSTER_PORTS_MAX, DEPLOYMENT_PORTS_MAX, ROUTE_PORTS, Transport};
use jaco_types::spec::DeploymentSpec;
use jaco_types::{
    DeploymentName, ErrorCode, Hostname, IngressPort, PortKey, Rejection, RouteKey, ServiceKey,
    Timestamp,
};

use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::edge::PortClaim;
use crate::state::ClusterState;

/// The claims of a deployment.
type Claims = BTreeMap<PortKey, PortClaim>;

/// The rules of a spec's ports, those of its nodes included.
///
/// # Errors
/// The first that it breaks.
pub(super) fn check(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    check_host_ports(state, name, spec)?;
    if !spec.routes.is_empty() {
        check_route_ports(state, name)?;
    }
    for service in spec.services.values() {
        if !service.ingress_ports.is_empty() && service.networks.is_empty() {
            let message = format!(
                "service {} publishes ports and is attached to no network of the cluster",
                service.name
            );
            return Err(Rejection::new(ErrorCode::InvalidManifest, message));
        }
    }
    let wanted = claims(state, name, spec)?.len();
    check_count(state, name, wanted)
}

fn check_count(
    state: &ClusterState,
    name: &DeploymentName,
    wanted: usize,
) -> Result<(), Rejection> {
    let too_large = |message: String| Err(Rejection::new(ErrorCode::TooLarge, message));
    if wanted > DEPLOYMENT_PORTS_MAX {
        return too_large(format!(
            "{name} publishes {wanted} ports on every node: use at most {DEPLOYMENT_PORTS_MAX}, and `mode: \
             host` for others"
        ));
    }
    let held = state.edges.ports.values();
    let others = held.filter(|claim| claim.service.deployment != *name).count();
    if wanted > 0 && others + wanted > CLUSTER_PORTS_MAX {
        return too_large(format!(
            "the cluster would publish {} ports, and {CLUSTER_PORTS_MAX} are the most: remove some that are \
             not used any more",
            others + wanted
        ));
    }
    Ok(())
}

/// A port of a node cannot be one that all nodes answer for another deployment.
fn check_host_ports(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    for (key, service) in host_ports(name, spec) {
        let others = state.edges.claims_on(key.0, key.1);
        let mut others = others.filter(|(_, claim)| claim.service.deployment != *name);
        if let Some((port, claim)) = others.next() {
            let owner = &claim.service.deployment;
            let message = format!(
                "deployment {owner} publishes port {port} on every node, so {} cannot take it on its nodes: \
                 use another port",
                service.service
            );
            return Err(conflict(message, port, owner));
        }
    }
    Ok(())
}

/// Edges answer on two ports as soon as there are routes.
fn check_route_ports(state: &ClusterState, name: &DeploymentName) -> Result<(), Rejection> {
    let ports = ROUTE_PORTS.into_iter().filter_map(NonZeroU16::new);
    let claims = ports.flat_map(|port| state.edges.claims_on(Transport::Tcp, port));
    let mut others = claims.filter(|(_, claim)| claim.service.deployment != *name);
    let Some((port, claim)) = others.next() else { return Ok(()) };
    let owner = &claim.service.deployment;
    let message = format!(
        "ports 80 and 443 are those of routes, and deployment {owner} publishes {port}: let it publish another \
         port, or give it a route"
    );
    Err(conflict(message, port, owner))
}

fn conflict(message: String, port: PortKey, owner: &DeploymentName) -> Rejection {
    let rejection = Rejection::new(ErrorCode::PortConflict, message);
    rejection.with("port", port.to_string()).with("owner", owner.to_string())
}

/// The ports that services of a spec take on their nodes, as far as edges could listen there.
fn host_ports(
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> BTreeMap<(Transport, NonZeroU16), ServiceKey> {
    let ports = spec.services.iter().flat_map(|(service, spec)| {
        let key = ServiceKey { deployment: name.clone(), service: service.clone() };
        let ports = spec.host_ports.iter();
        let ports = ports
            .filter_map(|port| Some((port.protocol.transport()?, NonZeroU16::new(port.port)?)));
        ports.map(move |port| (port, key.clone()))
    });
    ports.collect()
}

/// The ports on which daemons and routers of members listen, and of each the first member.
fn member_ports(state: &ClusterState) -> BTreeMap<(Transport, NonZeroU16), MemberPort> {
    let mut ports = BTreeMap::new();
    for member in state.nodes.values() {
        let daemon = member.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let link = member.facts.router.as_ref().and_then(|router| router.link);
        let router = link.and_then(|link| NonZeroU16::new(link.port));
        let daemon = daemon.map(|port| ((Transport::Tcp, port), "jacod"));
        let router = router.map(|port| ((Transport::Udp, port), "jacod net"));
        for (port, process) in daemon.into_iter().chain(router) {
            let node = member.hostname.clone();
            ports.entry(port).or_insert(MemberPort { node, process });
        }
    }
    ports
}

/// What a deployment has with this desired spec; when each claim began is left open.
///
/// # Errors
/// `port_conflict` for the first port that something else has, or if none of a range is free.
fn claims(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<Claims, Rejection> {
    let wanted: Vec<(ServiceKey, IngressPort)> = spec
        .services
        .iter()
        .flat_map(|(service, spec)| {
            let key = ServiceKey { deployment: name.clone(), service: service.clone() };
            spec.ingress_ports.iter().map(move |port| (key.clone(), *port))
        })
        .collect();
    if wanted.is_empty() {
        return Ok(Claims::new());
    }
    let mut ground = Ground::of(state, name, spec);
    let mut open = Vec::new();
    for (service, port) in &wanted {
        match port.fixed() {
            Some(key) => ground.take(service, *port, key)?,
            None => open.push((service, *port)),
        }
    }
    // What a service has already, no other port of the deployment is to take from it.
    let mut new = Vec::new();
    for (service, port) in open {
        match ground.held(service, port) {
            Some(key) => ground.take(service, port, key)?,
            None => new.push((service, port)),
        }
    }
    for (service, port) in new {
        let key = ground.free(service, port)?;
        ground.take(service, port, key)?;
    }
    Ok(ground.claims)
}

/// What else there is beside the ports of a deployment, and those that it has been given so far.
struct Ground<'a> {
    state: &'a ClusterState,
    name: &'a DeploymentName,
    host_ports: BTreeMap<(Transport, NonZeroU16), ServiceKey>,
    member_ports: BTreeMap<(Transport, NonZeroU16), MemberPort>,
    /// A route of the deployment or of another one, and whose it is.
    route: Option<(RouteKey, DeploymentName)>,
    claims: Claims,
}

/// A port on which a node is reached by the others.
#[derive(Clone)]
struct MemberPort {
    node: Hostname,
    process: &'static str,
}

/// Why a port cannot be given.
enum Taken {
    /// It is published by this service.
    Published(PortKey, ServiceKey),
    /// This service takes it on its nodes.
    OnNodes(ServiceKey),
    /// A node needs it for the cluster.
    OfMember(MemberPort),
    /// It is one of those on which routes are answered, and there is this one.
    ForRoutes(RouteKey, DeploymentName),
}

impl<'a> Ground<'a> {
    fn of(state: &'a ClusterState, name: &'a DeploymentName, spec: &DeploymentSpec) -> Self {
        let others = state.deployments.values().filter(|other| other.name != *name);
        let mut ports = host_ports(name, spec);
        for other in others {
            ports.extend(host_ports(&other.name, other.spec()));
        }
        let own = spec.routes.keys().next().map(|key| (key.clone(), name.clone()));
        let mut others = state.edges.claims.iter().filter(|(_, claim)| claim.deployment != *name);
        let route = own
            .or_else(|| others.next().map(|(key, claim)| (key.clone(), claim.deployment.clone())));
        let member_ports = member_ports(state);
        Self { state, name, host_ports: ports, member_ports, route, claims: Claims::new() }
    }

    fn taken(&self, key: PortKey) -> Option<Taken> {
        let others = self.state.edges.claims_on(key.transport, key.port);
        let others = others.filter(|(_, claim)| claim.service.deployment != *self.name);
        let own = self.claims.range(PortKey { address: None, ..key }..);
        let own = own.map(|(key, claim)| (*key, claim));
        let own = own.take_while(|(other, _)| other.port == key.port);
        let mut published = others.chain(own).filter(|(other, _)| key.overlaps(*other));
        if let Some((other, claim)) = published.next() {
            return Some(Taken::Published(other, claim.service.clone()));
        }
        if let Some(service) = self.host_ports.get(&(key.transport, key.port)) {
            return Some(Taken::OnNodes(service.clone()));
        }
        if let Some(port) = self.member_ports.get(&(key.transport, key.port)) {
            return Some(Taken::OfMember(port.clone()));
        }
        let (route, owner) = self.route.as_ref().filter(|_| is_for_routes(key))?;
        Some(Taken::ForRoutes(route.clone(), owner.clone()))
    }

    fn take(
        &mut self,
        service: &ServiceKey,
        port: IngressPort,
        key: PortKey,
    ) -> Result<(), Rejection> {
        if let Some(taken) = self.taken(key) {
            return Err(taken.refuse(key, service));
        }
        let claim = PortClaim {
            service: service.clone(),
            target: port.target,
            proxy_protocol: port.proxy_protocol,
            since: Timestamp(0),
        };
        self.claims.insert(key, claim);
        Ok(())
    }

    /// The port that a service has already for what it asks for.
    fn held(&self, service: &ServiceKey, port: IngressPort) -> Option<PortKey> {
        let mut held = self.state.edges.ports_of(service).filter(|(key, claim)| {
            claim.target == port.target
                && *key == port.key(key.port)
                && port.published.contains(key.port)
                && self.taken(*key).is_none()
        });
        held.next().map(|(key, _)| key)
    }

    /// The lowest port of those asked for that nothing has, and that is not kept for routes.
    fn free(&self, service: &ServiceKey, port: IngressPort) -> Result<PortKey, Rejection> {
        let mut keys = port.published.iter().map(|number| port.key(number));
        let free = keys.find(|key| !is_for_routes(*key) && self.taken(*key).is_none());
        free.ok_or_else(|| {
            let message = format!(
                "no port of {}/{} is free for port {} of {service}: each of them is published, or taken on \
                 some node; publish another one",
                port.published, port.transport, port.target
            );
            Rejection::new(ErrorCode::PortConflict, message)
                .with("ports", port.published.to_string())
                .with("service", service.to_string())
        })
    }
}

fn is_for_routes(key: PortKey) -> bool {
    key.transport == Transport::Tcp && ROUTE_PORTS.contains(&key.port.get())
}

impl Taken {
    fn refuse(self, key: PortKey, service: &ServiceKey) -> Rejection {
        match self {
            Self::Published(_, other) if other == *service => {
                let message = format!("service {service} publishes port {key} twice");
                conflict(message, key, &other.deployment)
            }
            Self::Published(_, other) if other.deployment == service.deployment => {
                let (other, owner) = (&other.service, &other.deployment);
                let service = &service.service;
                let message =
                    format!("services {other} and {service} of {owner} both publish port {key}");
                conflict(message, key, owner)
            }
            Self::Published(port, other) => {
                let owner = &other.deployment;
                let message = format!("deployment {owner} publishes port {port} already");
                conflict(message, key, owner)
            }
            Self::OnNodes(other) => {
                let message = format!(
                    "port {key} is answered on every node for {service}, and {other} takes it on its nodes \
                     (`mode: host`): use another port"
                );
                conflict(message, key, &other.deployment)
            }
            Self::OfMember(MemberPort { node, process }) => {
                let message = format!(
                    "port {key} is that of `{process}` on node {node}: publish another port for {service}"
                );
                let rejection = Rejection::new(ErrorCode::PortConflict, message);
                rejection.with("port", key.to_string()).with("owner", process)
            }
            Self::ForRoutes(route, owner) => {
                let message = format!(
                    "ports 80 and 443 are those of routes, and deployment {owner} has the route {route}: publish \
                     another port than {key}, or use a route"
                );
                conflict(message, key, &owner)
            }
        }
    }
}

/// Gives the services of a deployment the ports of its desired spec, and takes away all others that they have.
pub(super) fn settle(
    state: &mut ClusterState,
    now: Timestamp,
    name: &DeploymentName,
    audit: &mut Audit<'_>,
) {
    let desired = state.deployments.get(name).map(|deployment| deployment.spec());
    // A spec that could not have its ports was refused before.
    let desired = desired.and_then(|spec| claims(state, name, spec).ok()).unwrap_or_default();
    let held = state.edges.ports.iter().filter(|(_, claim)| claim.service.deployment == *name);
    let held: Claims = held.map(|(key, claim)| (*key, claim.clone())).collect();
    let is_same = |one: &PortClaim, other: &PortClaim| {
        let same_use = one.proxy_protocol == other.proxy_protocol;
        one.service == other.service && one.target == other.target && same_use
    };
    let keeps = |key: &PortKey, claim: &PortClaim, all: &Claims| {
        all.get(key).is_some_and(|other| is_same(claim, other))
    };
    for (key, claim) in held.iter().filter(|(key, claim)| !keeps(key, claim, &desired)) {
        state.edges.ports.remove(key);
        audit.event(AuditKind::PortRemoved, facts(*key, claim));
    }
    for (key, claim) in desired.iter().filter(|(key, claim)| !keeps(key, claim, &held)) {
        state.edges.ports.insert(*key, PortClaim { since: now, ..claim.clone() });
        audit.event(AuditKind::PortAdded, facts(*key, claim));
    }
}

fn facts(key: PortKey, claim: &PortClaim) -> [(&'static str, String); 3] {
    let service = &claim.service;
    [
        ("deployment", service.deployment.to_string()),
        ("port", key.to_string()),
        ("target", format!("{}:{}", service.service, claim.target)),
    ]
}
