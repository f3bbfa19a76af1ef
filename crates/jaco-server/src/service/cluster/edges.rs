//! Routes as they are listed, certificates of users and those that are ordered (R-EDGE-2). A private key is sealed on the leader and
//! never returned.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use jaco_pki::sealed::Purpose;
use jaco_pki::served::ServedCertificate;
use jaco_proto::v1;
use jaco_state::command::{CertificateRemove, CertificateStore};
use jaco_state::edge::{CHAIN_BYTES_MAX, Certificate, KEY_BYTES_MAX, SealedKey};
use jaco_state::view::{in_routing, ordered_domains, renew_at};
use jaco_state::{ClusterState, Deployment};
use jaco_types::route::{RouteAction, RouteDomain, RouteTls};
use jaco_types::{
    Author, CertificateName, DeploymentName, ErrorCode, NodeStatus, Rejection, Route, RouteKey,
    ServiceKey, Timestamp,
};

use crate::admission::certificate_warnings;
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::invalid;
use crate::view::millis;

#[async_trait]
impl Write for v1::StoreCertificateRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::StoreCertificateResponse, Rejection> {
        let name = CertificateName::new(&self.name).map_err(invalid)?;
        check_sizes(&self)?;
        let now = member.clock.now();
        let served = ServedCertificate::check(&self.chain, &self.key, now).map_err(|problem| {
            Rejection::new(ErrorCode::CertificateUnusable, problem.to_string())
        })?;
        upgraded::begin_edges(member, by.clone()).await?;
        let sealer = member.sealer().await?;
        let purpose = Purpose::ServedKey { name: name.as_str() };
        let known = member.store.read(|state| state.edges.certificates.get(&name).cloned());
        let holds = |known: &Certificate| {
            *known.chain == *served.chain && sealer.holds(purpose, &known.key.0, &self.key)
        };
        let change = match &known {
            None => "created",
            Some(known) if holds(known) => "unchanged",
            Some(_) => "updated",
        };
        if change != "unchanged" {
            let sealed = SealedKey(sealer.seal(purpose, &self.key).into());
            let command = command(name.clone(), served, sealed).into();
            member.commit(by, &self.request_id, command).await?;
        }
        drop(sealer);
        let (certificate, warnings) = member.store.read(|state| {
            let stored = state.edges.certificates.get(&name);
            let info = stored.map(|stored| info(state, &name, stored));
            (info, warnings_of(state, &name, now))
        });
        Ok(v1::StoreCertificateResponse { certificate, change: change.to_owned(), warnings })
    }
}

fn check_sizes(request: &v1::StoreCertificateRequest) -> Result<(), Rejection> {
    let sizes = [
        ("chain", request.chain.len(), CHAIN_BYTES_MAX),
        ("private key", request.key.len(), KEY_BYTES_MAX),
    ];
    for (what, size, most) in sizes {
        if size > most {
            let message = format!("the {what} has {size} bytes, more than the maximum of {most}");
            return Err(Rejection::new(ErrorCode::TooLarge, message));
        }
    }
    Ok(())
}

fn command(name: CertificateName, served: ServedCertificate, key: SealedKey) -> CertificateStore {
    let names: BTreeSet<Arc<str>> = served.names.into_iter().map(Into::into).collect();
    CertificateStore {
        name,
        chain: served.chain.into(),
        key,
        names,
        not_before: served.validity.not_before,
        not_after: served.validity.not_after,
        fingerprint: *served.fingerprint.as_bytes(),
    }
}

#[async_trait]
impl Write for v1::RemoveCertificateRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveCertificateResponse, Rejection> {
        let name = CertificateName::new(&self.name).map_err(invalid)?;
        // One that is there shows that all members know the command.
        if member.store.read(|state| state.edges.begun.is_none()) {
            let message = format!("the cluster has no certificate {name}");
            return Err(Rejection::new(ErrorCode::CertificateNotFound, message));
        }
        member.commit(by, &self.request_id, CertificateRemove::new(name).into()).await?;
        Ok(v1::RemoveCertificateResponse {})
    }
}

/// The certificates of users by name, and then those that are ordered by domain, also where there is none yet.
pub(super) fn list_certificates(state: &ClusterState) -> Vec<v1::CertificateInfo> {
    let stored = state.edges.certificates.iter().map(|(name, row)| info(state, name, row));
    let domains: BTreeSet<&RouteDomain> =
        state.edges.acme.issued.keys().chain(ordered_domains(state)).collect();
    stored.chain(domains.into_iter().map(|domain| ordered_info(state, domain))).collect()
}

/// The certificate that the cluster orders for a domain.
fn ordered_info(state: &ClusterState, domain: &RouteDomain) -> v1::CertificateInfo {
    let acme = &state.edges.acme;
    let routes = desired(state)
        .filter(|(_, key, route)| key.domain == *domain && route.tls == RouteTls::Auto);
    let mut info = v1::CertificateInfo {
        name: domain.to_string(),
        names: vec![domain.to_string()],
        routes: routes.map(|(_, key, _)| key.to_string()).collect(),
        source: "ordered".to_owned(),
        ..v1::CertificateInfo::default()
    };
    if let Some(issued) = acme.issued.get(domain) {
        info.not_before_ms = millis(issued.not_before);
        info.not_after_ms = millis(issued.not_after);
        info.fingerprint = issued.fingerprint.to_vec().into();
        info.stored_at_ms = millis(issued.issued_at);
        info.by = host_of(&issued.directory).to_owned();
        if !info.routes.is_empty() {
            info.renew_at_ms = millis(renew_at(domain, issued));
        }
    }
    if let Some(attempt) = acme.attempts.get(domain) {
        info.problem = attempt.reason.to_string();
        info.next_try_ms = millis(attempt.next_try);
    }
    info
}

/// The host of an address.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

fn info(state: &ClusterState, name: &CertificateName, row: &Certificate) -> v1::CertificateInfo {
    v1::CertificateInfo {
        name: name.to_string(),
        names: row.names.iter().map(ToString::to_string).collect(),
        not_before_ms: millis(row.not_before),
        not_after_ms: millis(row.not_after),
        fingerprint: row.fingerprint.to_vec().into(),
        stored_at_ms: millis(row.stored_at),
        by: row.by.to_string(),
        routes: routes_by(state, name).map(|(_, key, _)| key.to_string()).collect(),
        source: "stored".to_owned(),
        ..v1::CertificateInfo::default()
    }
}

/// The desired routes that name a certificate.
fn routes_by<'a>(
    state: &'a ClusterState,
    name: &CertificateName,
) -> impl Iterator<Item = (&'a Deployment, &'a RouteKey, &'a Route)> {
    let tls = RouteTls::Certificate(name.clone());
    desired(state).filter(move |(_, _, route)| route.tls == tls)
}

/// The routes of all deployments, in the order of their keys.
fn desired(state: &ClusterState) -> impl Iterator<Item = (&Deployment, &RouteKey, &Route)> {
    state.edges.claims.iter().filter_map(|(key, claim)| {
        let deployment = state.deployments.get(&claim.deployment)?;
        Some((deployment, key, deployment.spec().routes.get(key)?))
    })
}

/// What is to be said of a certificate and the routes that name it.
fn warnings_of(state: &ClusterState, name: &CertificateName, now: Timestamp) -> Vec<String> {
    let Some(certificate) = state.edges.certificates.get(name) else { return Vec::new() };
    let domains = routes_by(state, name).map(|(_, key, _)| &key.domain);
    certificate_warnings(name, certificate, domains, now)
}

/// The routes of a deployment, or of all.
///
/// # Errors
/// `deployment_not_found`.
pub(super) fn list_routes(
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
    Ok(v1::ListRoutesResponse { routes: routes.collect(), edges })
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
