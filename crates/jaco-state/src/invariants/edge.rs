//! The laws about routes and certificates (NET-5, NET-16).

use std::collections::BTreeMap;

use jaco_types::route::{CLUSTER_ROUTES_MAX, DEPLOYMENT_ROUTES_MAX, RouteTls};
use jaco_types::{Route, RouteKey, ServiceName};

use super::{Law, Violations};
use crate::acme::{Acme, CHALLENGES_MAX, ISSUED_MAX};
use crate::deployment::Deployment;
use crate::edge::CERTIFICATES_MAX;
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    for deployment in state.deployments.values() {
        // One whose desired revision is not kept breaks another law.
        let Some(routes) = desired(deployment) else { continue };
        if routes.len() > DEPLOYMENT_ROUTES_MAX {
            found.add(Law::RouteOwned, format!("{} has {} routes", deployment.name, routes.len()));
        }
        for (key, route) in routes {
            check_route(state, deployment, (key, route), found);
        }
    }
    check_claims(state, found);
    check_orders(state, found);
    let (claims, certificates) = (state.edges.claims.len(), state.edges.certificates.len());
    if claims > CLUSTER_ROUTES_MAX || certificates > CERTIFICATES_MAX {
        let subject = format!("there are {claims} routes and {certificates} certificates");
        found.add(Law::RouteOwned, subject);
    }
    if state.edges.begun.is_none() && claims + certificates > 0 {
        let subject = "there are routes or certificates before all members know them";
        found.add(Law::RouteOwned, subject.to_owned());
    }
}

/// The routes of the desired spec.
fn desired(deployment: &Deployment) -> Option<&BTreeMap<RouteKey, Route>> {
    deployment.revisions.get(&deployment.revision).map(|record| &record.spec.routes)
}

fn has_service(deployment: &Deployment, service: &ServiceName) -> bool {
    let record = deployment.revisions.get(&deployment.revision);
    record.is_some_and(|record| record.spec.services.contains_key(service))
}

/// A route that is desired is its deployment's, and has what it names.
fn check_route(
    state: &ClusterState,
    deployment: &Deployment,
    (key, route): (&RouteKey, &Route),
    found: &mut Violations,
) {
    let name = &deployment.name;
    if state.edges.claims.get(key).is_none_or(|claim| claim.deployment != *name) {
        found.add(Law::RouteOwned, format!("{key} is desired by {name}, which does not have it"));
    }
    if let Some(upstream) = route.upstream()
        && !has_service(deployment, &upstream.service)
    {
        let subject = format!("{key} of {name} goes to {}, which is not there", upstream.service);
        found.add(Law::RouteOwned, subject);
    }
    if let RouteTls::Certificate(certificate) = &route.tls
        && !state.edges.certificates.contains(certificate)
    {
        let subject =
            format!("{key} of {name} names certificate {certificate}, which is not there");
        found.add(Law::RouteOwned, subject);
    }
    let others = state.edges.claims_of(&key.domain);
    let others = others.filter_map(|(other, claim)| {
        let owner = state.deployments.get(&claim.deployment)?;
        Some((other, desired(owner)?.get(other)?))
    });
    for (other, _) in others.filter(|(_, other)| other.tls != route.tls) {
        let subject = format!("{key} and {other} differ in how they are encrypted");
        found.add(Law::RouteOwned, subject);
    }
}

/// What a deployment has, its desired spec asks for.
fn check_claims(state: &ClusterState, found: &mut Violations) {
    for (key, claim) in state.edges.claims.iter() {
        let owner = state.deployments.get(&claim.deployment);
        let routes = owner.and_then(desired);
        if routes.is_none_or(|routes| !routes.contains_key(key)) {
            let subject = format!("{} has {key}, which it does not desire", claim.deployment);
            found.add(Law::RouteOwned, subject);
        }
    }
}

/// What is left of orders is of domains that a desired route orders a certificate for.
fn check_orders(state: &ClusterState, found: &mut Violations) {
    let acme = &state.edges.acme;
    if state.edges.begun.is_none() && *acme != Acme::default() {
        let subject = "certificates are ordered before all members know them".to_owned();
        found.add(Law::OrdersWanted, subject);
    }
    let challenged = acme.challenges.values().map(|challenge| &challenge.domain);
    for domain in challenged.chain(acme.attempts.keys()) {
        let mut routes = state.edges.claims_of(domain).filter_map(|(key, claim)| {
            desired(state.deployments.get(&claim.deployment)?)?.get(key)
        });
        if !routes.any(|route| route.tls == RouteTls::Auto) {
            let subject = format!("an order for {domain} is kept, which no route wants");
            found.add(Law::OrdersWanted, subject);
        }
    }
    let (challenges, issued) = (acme.challenges.len(), acme.issued.len());
    if challenges > CHALLENGES_MAX || issued > ISSUED_MAX {
        let subject = format!("there are {challenges} challenges and {issued} issued certificates");
        found.add(Law::OrdersWanted, subject);
    }
}
