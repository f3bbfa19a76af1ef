//! Who has which route. A deployment has those of its desired spec, from the entry on that made it the desired
//! one; no other deployment can have the same meanwhile (NET-5).

use std::collections::BTreeSet;

use jaco_types::route::{CLUSTER_ROUTES_MAX, DEPLOYMENT_ROUTES_MAX, RouteAction, RouteTls};
use jaco_types::spec::DeploymentSpec;
use jaco_types::{DeploymentName, ErrorCode, Rejection, Route, RouteKey, Timestamp};

use super::{acme, certificate};
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::edge::RouteClaim;
use crate::state::ClusterState;

/// The rules of a spec's routes.
///
/// # Errors
/// The first that it breaks.
pub(super) fn check(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    check_count(state, name, spec)?;
    let mut before: Option<(&RouteKey, &Route)> = None;
    for (key, route) in &spec.routes {
        check_route(spec, key, route)?;
        check_domain(before.replace((key, route)), key, route)?;
        check_owner(state, name, key, route)?;
        if let RouteTls::Certificate(certificate) = &route.tls
            && !state.edges.certificates.contains(certificate)
        {
            return Err(certificate::unknown(certificate));
        }
    }
    Ok(())
}

fn check_count(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    let wanted = spec.routes.len();
    let others = state.edges.claims.values().filter(|claim| claim.deployment != *name).count();
    if wanted > DEPLOYMENT_ROUTES_MAX {
        let message = format!("{name} has {wanted} routes: use at most {DEPLOYMENT_ROUTES_MAX}");
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    if others + wanted > CLUSTER_ROUTES_MAX {
        let message = format!(
            "the cluster would have {} routes, and {CLUSTER_ROUTES_MAX} are the most: remove some that \
             are not used any more",
            others + wanted
        );
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    Ok(())
}

/// The rules of a route that depend on nothing but its deployment.
fn check_route(spec: &DeploymentSpec, key: &RouteKey, route: &Route) -> Result<(), Rejection> {
    let invalid = |message: String| Err(Rejection::new(ErrorCode::InvalidManifest, message));
    if let Err(problem) = route.check(key) {
        return invalid(format!("the route of {key} cannot be: {problem}"));
    }
    let Some(upstream) = route.upstream() else { return Ok(()) };
    let name = &upstream.service;
    match spec.services.get(name) {
        None => invalid(format!("the route of {key} goes to {name}, which does not exist")),
        Some(service) if service.networks.is_empty() => invalid(format!(
            "the route of {key} goes to {name}, which is attached to no network of the cluster"
        )),
        Some(_) => Ok(()),
    }
}

/// A domain has one kind of encryption; `before` is the route before this one in the order of keys.
fn check_domain(
    before: Option<(&RouteKey, &Route)>,
    key: &RouteKey,
    route: &Route,
) -> Result<(), Rejection> {
    let Some((other, theirs)) = before.filter(|(other, _)| other.domain == key.domain) else {
        return Ok(());
    };
    if theirs.tls == route.tls {
        return Ok(());
    }
    let message = format!(
        "the routes {other} and {key} have `tls: {}` and `tls: {}`: a domain has one of them",
        theirs.tls, route.tls
    );
    Err(Rejection::new(ErrorCode::InvalidManifest, message))
}

/// A route has one owner, and a domain one kind of encryption, whoever has its paths: a client is given its
/// certificate before it says which path it asks for.
fn check_owner(
    state: &ClusterState,
    name: &DeploymentName,
    key: &RouteKey,
    route: &Route,
) -> Result<(), Rejection> {
    let claims = state.edges.claims_of(&key.domain);
    for (other, claim) in claims.filter(|(_, claim)| claim.deployment != *name) {
        let owner = &claim.deployment;
        let conflict = |message: String| {
            let rejection = Rejection::new(ErrorCode::RouteConflict, message);
            Err(rejection.with("route", key.to_string()).with("owner", owner.to_string()))
        };
        if other == key {
            return conflict(format!("deployment {owner} has the route {key} already"));
        }
        let theirs = state.deployments.get(owner).and_then(|owner| owner.spec().routes.get(other));
        if let Some(theirs) = theirs.filter(|theirs| theirs.tls != route.tls) {
            return conflict(format!(
                "the route {key} has `tls: {}`, and deployment {owner} has {other} with `tls: {}`: a \
                 domain has one of them",
                route.tls, theirs.tls
            ));
        }
    }
    Ok(())
}

/// Gives a deployment the routes of its desired spec, and takes away all others that it has.
pub(super) fn settle(
    state: &mut ClusterState,
    now: Timestamp,
    name: &DeploymentName,
    audit: &mut Audit<'_>,
) {
    let desired = state.deployments.get(name).map(|deployment| deployment.spec().routes.clone());
    let desired = desired.unwrap_or_default();
    let held = state.edges.claims.iter().filter(|(_, claim)| claim.deployment == *name);
    let held: BTreeSet<RouteKey> = held.map(|(key, _)| key.clone()).collect();
    for key in held.iter().filter(|key| !desired.contains_key(*key)) {
        state.edges.claims.remove(key);
        let facts = [("deployment", name.to_string()), ("route", key.to_string())];
        audit.event(AuditKind::RouteRemoved, facts);
    }
    for (key, route) in desired.iter().filter(|(key, _)| !held.contains(*key)) {
        let claim = RouteClaim { deployment: name.clone(), since: now };
        state.edges.claims.insert(key.clone(), claim);
        let target = match &route.action {
            RouteAction::Forward(upstream) => format!("{}:{}", upstream.service, upstream.port),
            RouteAction::Redirect(redirect) => format!("redirect to {}", redirect.to),
        };
        let facts = [
            ("deployment", name.to_string()),
            ("route", key.to_string()),
            ("target", target),
            ("tls", route.tls.to_string()),
        ];
        audit.event(AuditKind::RouteAdded, facts);
    }
    // Also where a route stays and its certificate is not ordered any more.
    for key in &held {
        acme::forget(state, &key.domain);
    }
}
