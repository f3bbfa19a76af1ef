//! Certificates of users, and those that are ordered (R-EDGE-2). A private key is sealed on the leader and
//! never returned.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use jaco_pki::sealed::Purpose;
use jaco_pki::served::ServedCertificate;
use jaco_proto::v1;
use jaco_state::command::{CertificateRemove, CertificateStore};
use jaco_state::edge::{CHAIN_BYTES_MAX, Certificate, KEY_BYTES_MAX, SealedKey};
use jaco_state::view::{ordered_domains, renew_at};
use jaco_state::{ClusterState, Deployment};
use jaco_types::route::{RouteDomain, RouteTls};
use jaco_types::{Author, CertificateName, ErrorCode, Rejection, Route, RouteKey, Timestamp};

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
pub(super) fn desired(
    state: &ClusterState,
) -> impl Iterator<Item = (&Deployment, &RouteKey, &Route)> {
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
