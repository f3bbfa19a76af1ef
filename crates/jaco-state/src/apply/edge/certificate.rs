//! Certificates of users. Must never look into a key.

use std::sync::Arc;

use jaco_types::route::RouteTls;
use jaco_types::{CertificateName, ErrorCode, Rejection};

use super::begin;
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{CertificateRemove, CertificateStore, Entry, Outcome};
use crate::edge::{
    CERTIFICATE_NAMES_MAX, CERTIFICATES_MAX, CHAIN_BYTES_MAX, Certificate, KEY_BYTES_MAX,
};
use crate::state::ClusterState;

/// Stores a certificate, or replaces the one of its name.
pub(in crate::apply) fn store(
    state: &mut ClusterState,
    entry: &Entry,
    command: &CertificateStore,
    audit: &mut Audit<'_>,
) -> Outcome {
    if let Err(rejection) = begin::check(state).and_then(|()| check_bounds(state, command)) {
        return Outcome::Rejected(rejection);
    }
    let CertificateStore { name, chain, key, names, not_before, not_after, fingerprint } = command;
    let before = state.edges.certificates.get(name);
    if before.is_some_and(|before| before.chain == *chain && before.key == *key) {
        return Outcome::Done;
    }
    let certificate = Certificate {
        chain: Arc::clone(chain),
        key: key.clone(),
        names: names.clone(),
        not_before: *not_before,
        not_after: *not_after,
        fingerprint: *fingerprint,
        stored_at: entry.at,
        by: entry.by.clone(),
    };
    audit.event(AuditKind::CertificateStored, facts(name, &certificate));
    state.edges.certificates.insert(name.clone(), certificate);
    Outcome::Done
}

fn check_bounds(state: &ClusterState, command: &CertificateStore) -> Result<(), Rejection> {
    let CertificateStore { name, chain, key, names, .. } = command;
    let too_large = |message: String| Err(Rejection::new(ErrorCode::TooLarge, message));
    if chain.is_empty() || chain.len() > CHAIN_BYTES_MAX {
        return too_large(format!("a certificate chain has 1 to {CHAIN_BYTES_MAX} bytes"));
    }
    if !key.fits() {
        return too_large(format!("a private key has 1 to {KEY_BYTES_MAX} bytes"));
    }
    if names.is_empty() || names.len() > CERTIFICATE_NAMES_MAX {
        return too_large(format!("a certificate has 1 to {CERTIFICATE_NAMES_MAX} names"));
    }
    let certificates = &state.edges.certificates;
    if certificates.len() >= CERTIFICATES_MAX && !certificates.contains(name) {
        return too_large(format!(
            "there are {CERTIFICATES_MAX} certificates, and these are the most: remove one that no \
             route names any more"
        ));
    }
    Ok(())
}

/// Deletes a certificate that no desired route names.
pub(in crate::apply) fn remove(
    state: &mut ClusterState,
    command: &CertificateRemove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let CertificateRemove { name } = command;
    let users = users(state, name);
    if !users.is_empty() {
        let message = format!("certificate {name} is named by routes: {}", users.join(", "));
        let rejection = Rejection::new(ErrorCode::CertificateInUse, message);
        return Outcome::Rejected(rejection.with("routes", users.join(" ")));
    }
    let Some(certificate) = state.edges.certificates.remove(name) else {
        return Outcome::Rejected(unknown(name));
    };
    audit.event(AuditKind::CertificateRemoved, facts(name, &certificate));
    Outcome::Done
}

/// The routes that name a certificate, with their deployments: `shop.example.com of shop`.
fn users(state: &ClusterState, name: &CertificateName) -> Vec<String> {
    let tls = RouteTls::Certificate(name.clone());
    let routes = state.deployments.values().flat_map(|deployment| {
        deployment.spec().routes.iter().map(move |(key, route)| (deployment, key, route))
    });
    let users = routes.filter(|(_, _, route)| route.tls == tls);
    users.map(|(deployment, key, _)| format!("{key} of {}", deployment.name)).collect()
}

pub(super) fn unknown(name: &CertificateName) -> Rejection {
    let message =
        format!("the cluster has no certificate {name}: run `jaco certificate set {name}`");
    Rejection::new(ErrorCode::CertificateNotFound, message).with("certificate", name.to_string())
}

fn facts(name: &CertificateName, certificate: &Certificate) -> [(&'static str, String); 4] {
    let names: Vec<&str> = certificate.names.iter().map(AsRef::as_ref).collect();
    [
        ("certificate", name.to_string()),
        ("names", names.join(" ")),
        ("not_after_ms", certificate.not_after.0.to_string()),
        ("fingerprint", hex(&certificate.fingerprint)),
    ]
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
