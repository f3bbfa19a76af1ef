//! The law about published ports (NET-5).

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use jaco_types::port::{CLUSTER_PORTS_MAX, DEPLOYMENT_PORTS_MAX, ROUTE_PORTS, Transport};
use jaco_types::spec::DeploymentSpec;
use jaco_types::{IngressPort, PortKey, ServiceKey};

use super::{Law, Violations};
use crate::deployment::Deployment;
use crate::edge::PortClaim;
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let ports = &state.edges.ports;
    if ports.len() > CLUSTER_PORTS_MAX {
        found.add(Law::RouteOwned, format!("there are {} published ports", ports.len()));
    }
    if state.edges.begun.is_none() && !ports.is_empty() {
        let subject = "there are published ports before all members know them";
        found.add(Law::RouteOwned, subject.to_owned());
    }
    for (key, claim) in ports.iter() {
        check_claim(state, *key, claim, found);
    }
    for deployment in state.deployments.values() {
        // One whose desired revision is not kept breaks another law.
        let Some(spec) = desired(deployment) else { continue };
        check_desired(state, deployment, spec, found);
        check_host_ports(state, deployment, spec, found);
    }
}

/// The desired spec.
fn desired(deployment: &Deployment) -> Option<&DeploymentSpec> {
    deployment.revisions.get(&deployment.revision).map(|record| &record.spec)
}

/// A socket has one owner, whose desired spec asks for it, and is not one of those that routes have.
fn check_claim(state: &ClusterState, key: PortKey, claim: &PortClaim, found: &mut Violations) {
    let ServiceKey { deployment, service } = &claim.service;
    let owner = state.deployments.get(deployment).and_then(desired);
    let spec = owner.and_then(|spec| spec.services.get(service));
    if spec.is_none_or(|spec| !spec.ingress_ports.iter().any(|port| answers(*port, key, claim))) {
        let subject = format!("{} has port {key}, which it does not desire", claim.service);
        found.add(Law::RouteOwned, subject);
    }
    if spec.is_some_and(|spec| spec.networks.is_empty()) {
        let subject = format!("{} has port {key} and no network", claim.service);
        found.add(Law::RouteOwned, subject);
    }
    let others = state.edges.claims_on(key.transport, key.port);
    for (other, _) in others.filter(|(other, _)| *other > key && other.overlaps(key)) {
        found.add(Law::RouteOwned, format!("ports {key} and {other} are one socket"));
    }
    let is_for_routes = key.transport == Transport::Tcp && ROUTE_PORTS.contains(&key.port.get());
    if is_for_routes && !state.edges.claims.is_empty() {
        let subject = format!("port {key} of {} is one of those of routes", claim.service);
        found.add(Law::RouteOwned, subject);
    }
}

/// Whether a claim is what a service asks for.
fn answers(port: IngressPort, key: PortKey, claim: &PortClaim) -> bool {
    port.key(key.port) == key
        && port.published.contains(key.port)
        && port.target == claim.target
        && port.proxy_protocol == claim.proxy_protocol
}

/// What is asked for, a service has: as many ports as it asks for, and for each one that answers it.
fn check_desired(
    state: &ClusterState,
    deployment: &Deployment,
    spec: &DeploymentSpec,
    found: &mut Violations,
) {
    let mut all = 0;
    for (service, spec) in &spec.services {
        all += spec.ingress_ports.len();
        let key = ServiceKey { deployment: deployment.name.clone(), service: service.clone() };
        let held: Vec<_> = state.edges.ports_of(&key).collect();
        for port in &spec.ingress_ports {
            if !held.iter().any(|(key, claim)| answers(*port, *key, claim)) {
                let (published, transport) = (port.published, port.transport);
                let subject =
                    format!("{published}/{transport} is desired by {key}, which does not have it");
                found.add(Law::RouteOwned, subject);
            }
        }
        if held.len() != spec.ingress_ports.len() {
            let wanted = spec.ingress_ports.len();
            let subject = format!("{key} has {} ports and asks for {wanted}", held.len());
            found.add(Law::RouteOwned, subject);
        }
    }
    if all > DEPLOYMENT_PORTS_MAX {
        found.add(Law::RouteOwned, format!("{} publishes {all} ports", deployment.name));
    }
}

/// What all nodes answer, no replica takes on its node.
fn check_host_ports(
    state: &ClusterState,
    deployment: &Deployment,
    spec: &DeploymentSpec,
    found: &mut Violations,
) {
    let ports = spec.services.values().flat_map(|service| &service.host_ports);
    let ports: BTreeSet<(Transport, NonZeroU16)> = ports
        .filter_map(|port| Some((port.protocol.transport()?, NonZeroU16::new(port.port)?)))
        .collect();
    for (transport, port) in ports {
        for (key, claim) in state.edges.claims_on(transport, port) {
            let (name, owner) = (&deployment.name, &claim.service);
            let subject = format!("port {key} of {owner} is one that {name} takes on its nodes");
            found.add(Law::RouteOwned, subject);
        }
    }
}
