//! What the edge of a site should do, from the replicated state: the routes of all deployments, and the
//! instances of the services that they go to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::view::slots_of;
use jaco_state::{ClusterState, Deployment};
use jaco_types::route::{
    AllowedUsers, DrainTime, ForwardedPath, HeaderRules, RedirectRest, RedirectStatus, RouteAction,
    RouteProtocol, RouteTls, SessionAffinity,
};
use jaco_types::{InstanceId, NodeId, Revision, Route, RouteKey, ServiceKey};

use crate::edge::{
    Action, BasicAuth, Domain, EdgeEndpoint, EdgePlan, EdgeService, EndpointReadiness, HeaderEdits,
    Hsts, HstsScope, Listener, ListenerKey, Locality, PasswordHash, PathHandling, PathPrefix,
    SourceRange, StickyCookie, Target, TlsMode, Transport, Upstream, UpstreamProtocol,
};
use crate::edge::{Redirect as EdgeRedirect, RedirectRest as Rest, RedirectStatus as Status};
use crate::edge::{Route as EdgeRoute, RouteKey as EdgeKey};
use crate::of_state::{instance_of, nodes};
use crate::topology::{Instance, Node, Readiness};

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// The cookie of a sticky route.
const COOKIE: &str = "jaco-instance";

/// What a browser shows when it asks for the password of a route.
const REALM: &str = "restricted";

/// What the edge of the site that `node` is in should do. Nothing listens as long as there are no routes.
///
/// An instance is reached at its address in its first network: that is the one that edges share with it. Who is
/// ready is read as for names; one that leaves is in the plan until it is told to stop.
pub fn plan_edge(state: &ClusterState, node: NodeId) -> EdgePlan {
    let nodes = nodes(state);
    let mut plan = EdgePlan::default();
    for deployment in state.deployments.values() {
        for (key, route) in routes(state, deployment) {
            if let RouteAction::Forward(upstream) = &route.action {
                let entry = plan.services.entry(service_key(deployment, upstream));
                if let Entry::Vacant(entry) = entry {
                    let planned = service_of(state, &nodes, node, entry.key());
                    entry.insert(Arc::new(planned));
                }
            }
            plan.routes.extend(route_of(deployment, key, route));
        }
    }
    plan.listeners = listeners(&plan.routes);
    plan
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

/// The service that a route goes to.
pub(crate) fn service_key(
    deployment: &Deployment,
    upstream: &jaco_types::route::Upstream,
) -> ServiceKey {
    ServiceKey { deployment: deployment.name.clone(), service: upstream.service.clone() }
}

/// The key that a route has at an edge. The rules of both sides agree, so that there always is one.
pub(crate) fn edge_key(key: &RouteKey) -> Option<EdgeKey> {
    let domain = Domain::new(key.domain.as_str()).ok()?;
    Some(EdgeKey { domain, path: PathPrefix::new(&key.path.to_string()).ok()? })
}

/// A route as an edge carries it out.
pub(crate) fn route_of(
    deployment: &Deployment,
    key: &RouteKey,
    route: &Route,
) -> Option<(EdgeKey, Arc<EdgeRoute>)> {
    let action = match &route.action {
        RouteAction::Forward(upstream) => Action::Forward(upstream_of(deployment, upstream)),
        RouteAction::Redirect(redirect) => Action::Redirect(EdgeRedirect {
            location: redirect.to.to_string(),
            rest: match redirect.rest {
                RedirectRest::Append => Rest::Append,
                RedirectRest::Drop => Rest::Drop,
            },
            status: match redirect.status {
                RedirectStatus::MovedPermanently => Status::MovedPermanently,
                RedirectStatus::Found => Status::Found,
                RedirectStatus::Temporary => Status::Temporary,
                RedirectStatus::Permanent => Status::Permanent,
            },
        }),
    };
    let sources = route.sources.as_set().iter();
    let sources = sources.filter_map(|range| SourceRange::new(range.first(), range.length()).ok());
    let planned = EdgeRoute {
        tls: match &route.tls {
            RouteTls::Auto => TlsMode::Auto,
            RouteTls::Off => TlsMode::Off,
            RouteTls::Certificate(name) => TlsMode::Certificate(name.to_string()),
        },
        hsts: route
            .hsts
            .map(|age| Hsts { max_age_secs: age.secs().into(), scope: HstsScope::Host }),
        body_max: route.body_max.map(|limit| limit.size().0),
        request_headers: edits(&route.headers.request),
        response_headers: edits(&route.headers.response),
        basic_auth: users(&route.users),
        allowed_sources: sources.collect(),
        ..EdgeRoute::with(action)
    };
    Some((edge_key(key)?, Arc::new(planned)))
}

fn upstream_of(deployment: &Deployment, upstream: &jaco_types::route::Upstream) -> Upstream {
    let sticky = StickyCookie { name: COOKIE.to_owned() };
    let weights = upstream.weights.as_map().iter();
    Upstream {
        target: Target { service: service_key(deployment, upstream), port: upstream.port.get() },
        protocol: match upstream.protocol {
            RouteProtocol::Http => UpstreamProtocol::Http,
            RouteProtocol::H2c => UpstreamProtocol::H2c,
            RouteProtocol::Https => UpstreamProtocol::Https,
        },
        path: match upstream.forwarded_path {
            ForwardedPath::Whole => PathHandling::Keep,
            ForwardedPath::Rest => PathHandling::Strip,
        },
        timeout: upstream.timeout.map(|timeout| timeout.length()),
        sticky: (upstream.affinity == SessionAffinity::Cookie).then_some(sticky),
        weights: weights.map(|(revision, weight)| (*revision, u32::from(*weight))).collect(),
    }
}

fn edits(rules: &HeaderRules) -> HeaderEdits {
    let set = rules.set().iter();
    HeaderEdits {
        set: set.map(|(name, value)| (name.to_string(), value.as_str().to_owned())).collect(),
        remove: rules.remove().iter().map(ToString::to_string).collect(),
    }
}

fn users(users: &AllowedUsers) -> Option<BasicAuth> {
    let hashed = users.as_map().iter().map(|(name, password)| {
        let hash = PasswordHash {
            salt: password.salt().to_vec(),
            iterations: password.rounds(),
            hash: password.hash(),
        };
        (name.to_string(), hash)
    });
    (!users.is_empty()).then(|| BasicAuth { realm: REALM.to_owned(), users: hashed.collect() })
}

/// Nothing listens without a route, and nothing on the port for TLS if no route is encrypted.
pub(crate) fn listeners(
    routes: &BTreeMap<EdgeKey, Arc<EdgeRoute>>,
) -> BTreeMap<ListenerKey, Listener> {
    let mut listeners = BTreeMap::new();
    let key = |port| ListenerKey { transport: Transport::Tcp, address: None, port };
    if !routes.is_empty() {
        listeners.insert(key(HTTP), Listener::Http);
    }
    if routes.values().any(|route| route.tls != TlsMode::Off) {
        listeners.insert(key(HTTPS), Listener::Https);
    }
    listeners
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
        let instance = instance_of(state, &id)?;
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

/// The member that keeps the site of a node; the node itself where it is no member.
fn site(nodes: &BTreeMap<NodeId, Node>, node: NodeId) -> NodeId {
    nodes.get(&node).map_or(node, |known| known.site)
}
