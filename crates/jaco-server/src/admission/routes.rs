//! Routes in a spec: whose they are, which certificates they name, and what is to be said of both.

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::{Networks, Resolved};
use jaco_state::edge::{Certificate, Edges};
use jaco_types::route::{RouteDomain, RouteTls};
use jaco_types::{
    CertificateName, DeploymentName, ErrorCode, Millis, Rejection, Route, RouteKey, Timestamp,
};

use super::Stored;

/// How long before its end a certificate is warned about.
const EXPIRY_WARNING: Millis = Millis::from_secs(14 * 24 * 3600);

/// The routes of a deployment. None where networks are those of each node: no edge could reach an instance,
/// which a warning says.
///
/// # Errors
/// `route_conflict` with every route that another deployment has, `certificate_not_found` with every
/// certificate that is missing.
pub(super) fn routes(
    resolved: &Resolved,
    networks: &Networks,
    (name, stored): (&DeploymentName, &Stored),
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<RouteKey, Route>, Rejection> {
    let routes = &resolved.routes;
    if routes.is_empty() {
        return Ok(BTreeMap::new());
    }
    if *networks == Networks::Node {
        let warning = "the routes of this deployment are not kept: the networks of this cluster are those of \
                       each node, where no edge reaches a replica; run `jaco network enable` first";
        warnings.push(warning.to_owned());
        return Ok(BTreeMap::new());
    }
    check_owners(name, routes, &stored.edges)?;
    for (certificate, domains) in certificates(routes, &stored.edges)? {
        if let Some(row) = stored.edges.certificates.get(certificate) {
            warnings.extend(certificate_warnings(
                certificate,
                row,
                domains.into_iter(),
                stored.now,
            ));
        }
    }
    Ok(routes.clone())
}

/// All routes that others have, in one refusal.
fn check_owners(
    name: &DeploymentName,
    routes: &BTreeMap<RouteKey, Route>,
    edges: &Edges,
) -> Result<(), Rejection> {
    let taken: Vec<(&RouteKey, &DeploymentName)> = routes
        .keys()
        .filter_map(|key| Some((key, &edges.claims.get(key)?.deployment)))
        .filter(|(_, owner)| *owner != name)
        .collect();
    let Some((first, owner)) = taken.first() else { return Ok(()) };
    let named: Vec<String> =
        taken.iter().map(|(key, owner)| format!("{key} (deployment {owner})")).collect();
    let message = format!(
        "routes that other deployments have: {}; remove them there first, or use other domains or paths",
        named.join(", ")
    );
    let rejection = Rejection::new(ErrorCode::RouteConflict, message);
    Err(rejection.with("route", first.to_string()).with("owner", owner.to_string()))
}

/// The certificates that routes name, each with the domains it is for.
fn certificates<'a>(
    routes: &'a BTreeMap<RouteKey, Route>,
    edges: &Edges,
) -> Result<BTreeMap<&'a CertificateName, BTreeSet<&'a RouteDomain>>, Rejection> {
    let mut named: BTreeMap<&CertificateName, BTreeSet<&RouteDomain>> = BTreeMap::new();
    for (key, route) in routes {
        if let RouteTls::Certificate(name) = &route.tls {
            named.entry(name).or_default().insert(&key.domain);
        }
    }
    let missing = named.keys().filter(|name| !edges.certificates.contains(name));
    let missing: Vec<&str> = missing.map(|name| name.as_str()).collect();
    if missing.is_empty() {
        return Ok(named);
    }
    let commands: Vec<String> =
        missing.iter().map(|name| format!("`jaco certificate set {name}`")).collect();
    let message = format!(
        "the cluster has no certificate {}: run {}",
        missing.join(", "),
        commands.join(" and ")
    );
    let rejection = Rejection::new(ErrorCode::CertificateNotFound, message);
    Err(rejection.with("certificates", missing.join(",")))
}

/// What is to be said of a certificate: that it ends soon, and which domains it is not for.
pub(crate) fn certificate_warnings<'a>(
    name: &CertificateName,
    certificate: &Certificate,
    domains: impl Iterator<Item = &'a RouteDomain>,
    now: Timestamp,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let left = certificate.not_after.since(now);
    if certificate.not_after < now {
        warnings.push(format!(
            "certificate {name} has expired: replace it with `jaco certificate set {name}`"
        ));
    } else if left < EXPIRY_WARNING {
        let days = left.0 / (24 * 3_600_000);
        warnings.push(format!(
            "certificate {name} expires in {days} days: replace it with `jaco certificate set {name}`"
        ));
    }
    let uncovered: BTreeSet<&RouteDomain> =
        domains.filter(|domain| !certificate.covers(domain)).collect();
    if !uncovered.is_empty() {
        let domains: Vec<&str> = uncovered.iter().map(|domain| domain.as_str()).collect();
        let names: Vec<&str> = certificate.names.iter().map(AsRef::as_ref).collect();
        warnings.push(format!(
            "certificate {name} is not for {}, so clients will refuse it there: it is for {}",
            domains.join(", "),
            names.join(", ")
        ));
    }
    warnings
}
