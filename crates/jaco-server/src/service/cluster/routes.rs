//! Routes as they are listed: what is desired, and what of it is so.

use jaco_proto::v1;
use jaco_state::view::in_routing;
use jaco_state::{ClusterState, Deployment};
use jaco_types::route::{RouteAction, RouteDomain, RouteTls};
use jaco_types::{
    DeploymentName, ErrorCode, NodeStatus, Rejection, Route, RouteKey, ServiceKey, Timestamp,
};

use super::edges::desired;
use crate::admission::certificate_warnings;
use crate::member::Member;
use crate::status::invalid;
use crate::view::millis;

/// The routes of a deployment, or of all: those of now, or as they were at an index.
///
/// # Errors
/// `deployment_not_found`; of an earlier moment also those of [`Member::state_at`].
pub(super) async fn list(
    member: &Member,
    request: v1::ListRoutesRequest,
) -> Result<v1::ListRoutesResponse, Rejection> {
    let now = member.clock.now();
    if request.at_index == 0 {
        member.caught_up().await?;
        return member.store.read(|state| routes(state, &request, now));
    }
    let then = member.state_at(request.at_index).await?;
    let past = then.info();
    let turn = member.gate.turn().await?;
    let listed = turn.run(move || routes(&then.state, &request, then.at.unwrap_or(now))).await??;
    Ok(v1::ListRoutesResponse { past: Some(past), ..listed })
}

fn routes(
    state: &ClusterState,
    request: &v1::ListRoutesRequest,
    now: Timestamp,
) -> Result<v1::ListRoutesResponse, Rejection> {
    let name = match request.deployment.as_str() {
        "" => None,
        text => Some(DeploymentName::new(text).map_err(invalid)?),
    };
    if let Some(name) = name.as_ref().filter(|name| !state.deployments.contains(name)) {
        let message = format!("there is no deployment {name}");
        return Err(Rejection::new(ErrorCode::DeploymentNotFound, message));
    }
    let is_meant = |one: &Deployment| name.as_ref().is_none_or(|name| one.name == *name);
    let routes = desired(state).filter(|(deployment, _, _)| is_meant(deployment));
    let edges = edges(state);
    let serving = count(edges.iter().filter(|edge| edge.problem.is_empty()).count());
    let routes = routes.map(|(deployment, key, route)| {
        let info = route_info(state, deployment, (key, route), now);
        v1::RouteInfo { edges: serving, nodes: count(edges.len()), ..info }
    });
    Ok(v1::ListRoutesResponse { routes: routes.collect(), edges, past: None })
}

/// The edges of all nodes.
fn edges(state: &ClusterState) -> Vec<v1::EdgeInfo> {
    let nodes = state.nodes.values().map(|node| v1::EdgeInfo {
        hostname: node.hostname.to_string(),
        problem: match &node.facts.edge {
            _ if node.status == NodeStatus::Down => "its node is down".to_owned(),
            None => "it does not run yet".to_owned(),
            Some(edge) => edge.problem.clone().unwrap_or_default(),
        },
    });
    nodes.collect()
}

fn route_info(
    state: &ClusterState,
    deployment: &Deployment,
    (key, route): (&RouteKey, &Route),
    now: Timestamp,
) -> v1::RouteInfo {
    let (expires, warning) = match &route.tls {
        RouteTls::Certificate(name) => state.edges.certificates.get(name).map(|certificate| {
            let domains = std::iter::once(&key.domain);
            let warnings = certificate_warnings(name, certificate, domains, now);
            (certificate.not_after, warnings.join("; "))
        }),
        RouteTls::Auto => Some(ordered(state, &key.domain)),
        RouteTls::Off => None,
    }
    .unwrap_or_default();
    let since = state.edges.claims.get(key).map(|claim| millis(claim.since));
    let mut info = v1::RouteInfo {
        domain: key.domain.to_string(),
        path: key.path.to_string(),
        deployment: deployment.name.to_string(),
        tls: route.tls.to_string(),
        expires_at_ms: millis(expires),
        warning,
        since_ms: since.unwrap_or_default(),
        ..v1::RouteInfo::default()
    };
    match &route.action {
        RouteAction::Redirect(redirect) => info.redirect = redirect.to.to_string(),
        RouteAction::Forward(upstream) => {
            let (name, service) = (deployment.name.clone(), upstream.service.clone());
            let key = ServiceKey { deployment: name, service };
            (info.endpoints, info.wanted) = endpoints(state, &key);
            info.service = key.service.to_string();
            info.port = upstream.port.get().into();
        }
    }
    info
}

/// When the certificate that was ordered for a domain expires, and why there is none or no newer one.
fn ordered(state: &ClusterState, domain: &RouteDomain) -> (Timestamp, String) {
    let acme = &state.edges.acme;
    let expires = acme.issued.get(domain).map(|issued| issued.not_after);
    let problem = acme.attempts.get(domain).map(|attempt| attempt.reason.to_string());
    (expires.unwrap_or_default(), problem.unwrap_or_default())
}

/// How many instances of a service are ready, and how many slots it has.
fn endpoints(state: &ClusterState, service: &ServiceKey) -> (u32, u32) {
    let slots = jaco_state::view::slots_of(state, &service.deployment);
    let slots: Vec<_> = slots.filter(|slot| slot.service == *service).collect();
    let instances = slots.iter().flat_map(|slot| slot.instances());
    let ready = instances.filter(|(id, _)| in_routing(state, id)).count();
    (count(ready), count(slots.len()))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
