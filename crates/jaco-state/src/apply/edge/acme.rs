//! Certificates that the leader orders. What no desired route wants is refused and forgotten, but for certificates
//! that have not expired: a route that comes back has its certificate at once. Must never look into a key.

use std::sync::Arc;

use jaco_types::route::{RouteDomain, RouteTls};
use jaco_types::{ErrorCode, Rejection, RenewalWindow};

use super::begin;
use crate::acme::{
    ACME_URL_BYTES_MAX, AcmeAccount, AcmeChallenge, CHALLENGES_MAX, ISSUED_MAX, IssueAttempt,
    IssuedCertificate, KEY_AUTHORIZATION_BYTES_MAX, REASON_BYTES_MAX, TOKEN_BYTES_MAX,
};
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{AcmeNote, CertificateIssue, Entry, Outcome};
use crate::edge::{CHAIN_BYTES_MAX, SealedKey};
use crate::state::ClusterState;

/// Records a note of the leader.
pub(in crate::apply) fn record(
    state: &mut ClusterState,
    entry: &Entry,
    note: &AcmeNote,
    audit: &mut Audit<'_>,
) -> Outcome {
    if let Err(rejection) = begin::check(state) {
        return Outcome::Rejected(rejection);
    }
    state.edges.acme.challenges.retain(|_, challenge| challenge.expires > entry.at);
    let recorded = match note {
        AcmeNote::Account(account) => set_account(state, account, audit),
        AcmeNote::Challenge { token, challenge } => add_challenge(state, token, challenge),
        AcmeNote::Issued(issue) => add_certificate(state, entry, issue, audit),
        AcmeNote::Failed { domain, attempt } => set_attempt(state, domain, attempt, audit),
        AcmeNote::Window { domain, window } => set_window(state, domain, *window),
    };
    recorded.map_or_else(Outcome::Rejected, |()| Outcome::Done)
}

/// Forgets what is left of orders for a domain, if no desired route wants a certificate for it any more.
pub(super) fn forget(state: &mut ClusterState, domain: &RouteDomain) {
    if !is_wanted(state, domain) {
        remove_challenges(state, domain);
        state.edges.acme.attempts.remove(domain);
    }
}

/// Whether a desired route has `tls: auto` for a domain. All routes of a domain have the same.
fn is_wanted(state: &ClusterState, domain: &RouteDomain) -> bool {
    let Some((key, claim)) = state.edges.claims_of(domain).next() else { return false };
    let owner = state.deployments.get(&claim.deployment);
    let route = owner.and_then(|owner| owner.spec().routes.get(key));
    route.is_some_and(|route| route.tls == RouteTls::Auto)
}

fn check_wanted(state: &ClusterState, domain: &RouteDomain) -> Result<(), Rejection> {
    if is_wanted(state, domain) {
        return Ok(());
    }
    let message = format!("no route orders a certificate for {domain} any more");
    Err(Rejection::new(ErrorCode::InvalidRequest, message).with("domain", domain.to_string()))
}

fn set_account(
    state: &mut ClusterState,
    account: &AcmeAccount,
    audit: &mut Audit<'_>,
) -> Result<(), Rejection> {
    check_size("the address of an authority", account.directory.len(), ACME_URL_BYTES_MAX)?;
    check_size("the address of an account", account.url.len(), ACME_URL_BYTES_MAX)?;
    check_key(&account.key)?;
    if state.edges.acme.account.as_ref() == Some(account) {
        return Ok(());
    }
    let facts =
        [("directory", account.directory.to_string()), ("account", account.url.to_string())];
    audit.event(AuditKind::AcmeAccountMade, facts);
    state.edges.acme.account = Some(account.clone());
    Ok(())
}

fn add_challenge(
    state: &mut ClusterState,
    token: &Arc<str>,
    challenge: &AcmeChallenge,
) -> Result<(), Rejection> {
    check_wanted(state, &challenge.domain)?;
    check_size("the token of a challenge", token.len(), TOKEN_BYTES_MAX)?;
    let answer = challenge.key_authorization.len();
    check_size("the answer of a challenge", answer, KEY_AUTHORIZATION_BYTES_MAX)?;
    // It becomes part of a path, which no authority makes of anything else (RFC 8555, section 8).
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !token.bytes().all(is_allowed) {
        let message = "the token of a challenge has letters, digits, - and _ only";
        return Err(Rejection::new(ErrorCode::InvalidRequest, message));
    }
    let challenges = &mut state.edges.acme.challenges;
    if challenges.len() >= CHALLENGES_MAX && !challenges.contains(token) {
        let message = format!("there are {CHALLENGES_MAX} challenges, and these are the most");
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    challenges.insert(Arc::clone(token), challenge.clone());
    Ok(())
}

fn add_certificate(
    state: &mut ClusterState,
    entry: &Entry,
    issue: &CertificateIssue,
    audit: &mut Audit<'_>,
) -> Result<(), Rejection> {
    let domain = &issue.domain;
    check_wanted(state, domain)?;
    check_size("a certificate chain", issue.chain.len(), CHAIN_BYTES_MAX)?;
    check_size("the address of an authority", issue.directory.len(), ACME_URL_BYTES_MAX)?;
    check_key(&issue.key)?;
    forget_expired(state, entry);
    let issued = &state.edges.acme.issued;
    if issued.len() >= ISSUED_MAX && !issued.contains(domain) {
        let message = format!("there are {ISSUED_MAX} issued certificates, and these are the most");
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    remove_challenges(state, domain);
    state.edges.acme.attempts.remove(domain);
    let before = state.edges.acme.issued.get(domain);
    if before.is_some_and(|before| before.fingerprint == issue.fingerprint) {
        return Ok(());
    }
    let kind = match before {
        Some(_) => AuditKind::DomainCertificateRenewed,
        None => AuditKind::DomainCertificateIssued,
    };
    audit.event(kind, facts(issue));
    state.edges.acme.issued.insert(domain.clone(), certificate(issue, entry));
    Ok(())
}

fn certificate(issue: &CertificateIssue, entry: &Entry) -> IssuedCertificate {
    let CertificateIssue { domain: _, directory, chain, key, not_before, not_after, fingerprint } =
        issue;
    IssuedCertificate {
        directory: Arc::clone(directory),
        chain: Arc::clone(chain),
        key: key.clone(),
        not_before: *not_before,
        not_after: *not_after,
        fingerprint: *fingerprint,
        issued_at: entry.at,
        window: None,
    }
}

/// Removes the certificates that have expired and that no desired route wants.
fn forget_expired(state: &mut ClusterState, entry: &Entry) {
    let issued = state.edges.acme.issued.iter();
    let expired = issued.filter(|(_, issued)| issued.not_after <= entry.at);
    let expired: Vec<RouteDomain> = expired
        .map(|(domain, _)| domain)
        .filter(|domain| !is_wanted(state, domain))
        .cloned()
        .collect();
    for domain in expired {
        state.edges.acme.issued.remove(&domain);
    }
}

fn set_attempt(
    state: &mut ClusterState,
    domain: &RouteDomain,
    attempt: &IssueAttempt,
    audit: &mut Audit<'_>,
) -> Result<(), Rejection> {
    check_wanted(state, domain)?;
    check_size("the reason of a failed order", attempt.reason.len(), REASON_BYTES_MAX)?;
    remove_challenges(state, domain);
    let attempts = &mut state.edges.acme.attempts;
    if attempts.get(domain) == Some(attempt) {
        return Ok(());
    }
    // Once for each row of failures: a domain that stays wrong is not to fill the log.
    if attempts.insert(domain.clone(), attempt.clone()).is_none() {
        let facts = [("domain", domain.to_string()), ("reason", attempt.reason.to_string())];
        audit.event(AuditKind::DomainCertificateFailed, facts);
    }
    Ok(())
}

fn set_window(
    state: &mut ClusterState,
    domain: &RouteDomain,
    window: Option<RenewalWindow>,
) -> Result<(), Rejection> {
    let issued = &mut state.edges.acme.issued;
    match issued.get(domain) {
        None => {
            let message = format!("no certificate was issued for {domain}");
            let rejection = Rejection::new(ErrorCode::CertificateNotFound, message);
            return Err(rejection.with("domain", domain.to_string()));
        }
        Some(before) if before.window == window => {}
        Some(before) => {
            let after = IssuedCertificate { window, ..before.clone() };
            issued.insert(domain.clone(), after);
        }
    }
    Ok(())
}

fn remove_challenges(state: &mut ClusterState, domain: &RouteDomain) {
    state.edges.acme.challenges.retain(|_, challenge| challenge.domain != *domain);
}

fn check_size(what: &str, bytes: usize, most: usize) -> Result<(), Rejection> {
    if (1..=most).contains(&bytes) {
        return Ok(());
    }
    let message = format!("{what} has 1 to {most} bytes, not {bytes}");
    Err(Rejection::new(ErrorCode::TooLarge, message))
}

fn check_key(key: &SealedKey) -> Result<(), Rejection> {
    let message = "a sealed key is empty or too long";
    if key.fits() { Ok(()) } else { Err(Rejection::new(ErrorCode::TooLarge, message)) }
}

fn facts(issue: &CertificateIssue) -> [(&'static str, String); 4] {
    [
        ("domain", issue.domain.to_string()),
        ("directory", issue.directory.to_string()),
        ("not_after_ms", issue.not_after.0.to_string()),
        ("fingerprint", super::certificate::hex(&issue.fingerprint)),
    ]
}
