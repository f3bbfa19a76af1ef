//! What the edge of a site should do, from the replicated state: the routes and published ports of all deployments,
//! and the instances of the services that they go to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::ClusterState;
use jaco_state::edge::PortClaim;
use jaco_state::view::slots_of;
use jaco_types::route::{DrainTime, RouteTls};
use jaco_types::{ChallengeKind, InstanceId, NodeId, Revision, ServiceKey};

use crate::edge::{
    EdgeEndpoint, EdgePlan, EdgeService, EndpointReadiness, Forwarding, Listener, Locality,
    PlannedRoute, Target,
};
use crate::of_state::{instance_of, nodes};
use crate::served::{HTTP, HTTPS, listener_key, routes, targets};
use crate::topology::{Exposure, Instance, Node, Readiness};

/// What the edge of the site that `node` is in should do. Nothing listens as long as there are no routes and no
/// published ports.
///
/// An instance is reached at its address in its first network: that is the one that edges share with it. Who is
/// ready is read as for names; one that leaves is in the plan until it is told to stop.
pub fn plan_edge(state: &ClusterState, node: NodeId) -> EdgePlan {
    let nodes = nodes(state);
    let mut plan = EdgePlan::default();
    for deployment in state.deployments.values() {
        for (key, route) in routes(state, deployment) {
            let (deployment, route) = (deployment.name.clone(), route.clone());
            plan.routes.insert(key.clone(), PlannedRoute { deployment, route });
        }
        for service in targets(state, deployment) {
            if let Entry::Vacant(entry) = plan.services.entry(service) {
                let planned = service_of(state, &nodes, node, entry.key());
                entry.insert(Arc::new(planned));
            }
        }
    }
    let ports = state.edges.ports.iter();
    plan.listeners = ports.map(|(key, claim)| (listener_key(*key), forwarding(claim))).collect();
    put_route_listeners(&mut plan);
    plan.challenges = challenges(state);
    plan
}

/// What is done with what comes in at a published port.
pub(crate) fn forwarding(claim: &PortClaim) -> Listener {
    let target = Target { service: claim.service.clone(), port: claim.target.get() };
    Listener::Forward(Forwarding { target, proxy_protocol: claim.proxy_protocol })
}

/// Brings the sockets for HTTP up to the routes: none without a route, and none for TLS if no route is encrypted. A
/// published port that is there stays: the state has none of these two beside a route (NET-5).
pub(crate) fn put_route_listeners(plan: &mut EdgePlan) {
    let is_encrypted = plan.routes.values().any(|planned| planned.route.tls != RouteTls::Off);
    let wanted = [
        (HTTP, (!plan.routes.is_empty()).then_some(Listener::Http)),
        (HTTPS, is_encrypted.then_some(Listener::Https)),
    ];
    for (key, wanted) in wanted {
        match (plan.listeners.get(&key), wanted) {
            (Some(Listener::Forward(_)), _) | (None, None) => {}
            (Some(Listener::Http | Listener::Https), None) => drop(plan.listeners.remove(&key)),
            (_, Some(wanted)) => drop(plan.listeners.insert(key, wanted)),
        }
    }
}

/// What is answered to authorities that prove a domain by HTTP-01.
pub(crate) fn challenges(state: &ClusterState) -> BTreeMap<String, String> {
    let all = state.edges.acme.challenges.iter();
    let answered = all.filter(|(_, challenge)| challenge.kind == ChallengeKind::Http01);
    let answered = answered.map(|(token, challenge)| (token, &challenge.key_authorization));
    answered.map(|(token, answer)| (token.to_string(), answer.to_string())).collect()
}

/// The instances of a service, as the edge of the site that `node` is in reaches them.
pub(crate) fn service_of(
    state: &ClusterState,
    nodes: &BTreeMap<NodeId, Node>,
    node: NodeId,
    service: &ServiceKey,
) -> EdgeService {
    let own = site(nodes, node);
    let endpoints = instances(state, service).into_iter().filter_map(|(id, revision)| {
        let instance = instance_of(state, &id, |_| Exposure::Edges)?;
        Some((id, endpoint(nodes, own, &instance, revision)?))
    });
    let deployment = state.deployments.get(&service.deployment);
    let spec = deployment.and_then(|known| known.spec().services.get(&service.service));
    let drain = spec.and_then(|spec| spec.drain).unwrap_or(DrainTime::DEFAULT);
    EdgeService { endpoints: endpoints.collect(), drain: drain.length() }
}

/// The instances of a service that are in a slot, or out of the endpoints and not told to stop.
fn instances(state: &ClusterState, service: &ServiceKey) -> BTreeSet<(InstanceId, Revision)> {
    let slots = slots_of(state, &service.deployment).filter(|slot| slot.service == *service);
    let in_slots =
        slots.flat_map(|slot| slot.instances().map(|(id, instance)| (id, instance.revision)));
    let terminating = state.terminating.values().filter(|row| row.service == *service);
    in_slots.chain(terminating.map(|row| (row.id.clone(), row.revision))).collect()
}

/// `None`: it gets nothing yet, or its node is no member.
fn endpoint(
    nodes: &BTreeMap<NodeId, Node>,
    own: NodeId,
    instance: &Instance,
    revision: Revision,
) -> Option<EdgeEndpoint> {
    let readiness = match instance.readiness {
        Readiness::Ready => EndpointReadiness::Ready,
        Readiness::Terminating => EndpointReadiness::Leaving,
        Readiness::Starting => return None,
    };
    let is_here = nodes.get(&instance.node)?.site == own;
    let (_, address) = *instance.addresses.first()?;
    let locality = if is_here { Locality::Here } else { Locality::Elsewhere };
    Some(EdgeEndpoint { address, revision, locality, readiness })
}

/// The member that keeps the router and the edge of the site that `node` is in: the lowest of those that share them and
/// are not down.
pub fn keeper(state: &ClusterState, node: NodeId) -> NodeId {
    site(&nodes(state), node)
}

/// The member that keeps the site of a node; the node itself where it is no member.
pub(crate) fn site(nodes: &BTreeMap<NodeId, Node>, node: NodeId) -> NodeId {
    nodes.get(&node).map_or(node, |known| known.site)
}
