//! The certificates of an edge, with their keys, from the state: those that users stored, those that were ordered, and
//! those that prove a domain to an authority.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use jaco_acme::challenge_certificate;
use jaco_edge::{CertificatePem, Certificates};
use jaco_state::acme::{AcmeChallenge, IssuedCertificate};
use jaco_state::edge::{Certificate, SealedKey};
use jaco_state::{ClusterState, Table};
use jaco_types::route::RouteDomain;
use jaco_types::{CertificateName, ChallengeKind};
use tracing::error;

/// Opens the private keys of certificates. Only the daemon can; an edge is given what it opened.
pub(crate) trait Keys: Send + Sync {
    /// The private key of a certificate that a user stored, as PEM.
    ///
    /// # Errors
    /// If it was sealed under another key, or for another name.
    fn open(&self, name: &CertificateName, key: &SealedKey) -> Result<Vec<u8>, String>;

    /// The private key of a certificate that was ordered, as PEM.
    ///
    /// # Errors
    /// If it was sealed under another key, or for another domain.
    fn open_issued(&self, domain: &RouteDomain, key: &SealedKey) -> Result<Vec<u8>, String>;
}

/// The certificates that an edge was given last: each key is opened once.
pub(super) struct CertificateBook {
    keys: Arc<dyn Keys>,
    rows: Option<Rows>,
    given: Arc<Certificates>,
}

/// What the certificates are from.
struct Rows {
    stored: Table<CertificateName, Certificate>,
    issued: Table<RouteDomain, IssuedCertificate>,
    challenges: Table<Arc<str>, AcmeChallenge>,
}

impl Rows {
    fn of(state: &ClusterState) -> Self {
        let acme = &state.edges.acme;
        Self {
            stored: state.edges.certificates.clone(),
            issued: acme.issued.clone(),
            challenges: acme.challenges.clone(),
        }
    }

    fn are_those_of(&self, state: &ClusterState) -> bool {
        let acme = &state.edges.acme;
        self.stored.is_same(&state.edges.certificates)
            && self.issued.is_same(&acme.issued)
            && self.challenges.is_same(&acme.challenges)
    }
}

impl CertificateBook {
    pub(super) fn new(keys: Arc<dyn Keys>) -> Self {
        Self { keys, rows: None, given: Arc::default() }
    }

    /// The certificates of a state. Those whose key cannot be opened are left out, and said in the log.
    pub(super) fn of(&mut self, state: &ClusterState) -> Arc<Certificates> {
        if self.rows.as_ref().is_some_and(|rows| rows.are_those_of(state)) {
            return Arc::clone(&self.given);
        }
        let (before, now) = (self.rows.take(), Rows::of(state));
        let of = |rows: fn(&Rows) -> &Table<_, _>| before.as_ref().map(rows);
        let by_name =
            renewed(&now.stored, of(|rows| &rows.stored), &self.given.by_name, |name, row| {
                pem(name, &row.chain, self.keys.open(name, &row.key))
            });
        let of = |rows: fn(&Rows) -> &Table<_, _>| before.as_ref().map(rows);
        let by_domain =
            renewed(&now.issued, of(|rows| &rows.issued), &self.given.by_domain, |domain, row| {
                pem(domain, &row.chain, self.keys.open_issued(domain, &row.key))
            });
        let challenges = challenges(&now.challenges);
        self.given = Arc::new(Certificates { by_name, by_domain, challenges });
        self.rows = Some(now);
        Arc::clone(&self.given)
    }
}

/// The certificates of rows; of those that are the same as before, what was given before.
fn renewed<K: Ord + Clone, V: PartialEq>(
    rows: &Table<K, V>,
    before: Option<&Table<K, V>>,
    given: &BTreeMap<K, Arc<CertificatePem>>,
    read: impl Fn(&K, &V) -> Option<Arc<CertificatePem>>,
) -> BTreeMap<K, Arc<CertificatePem>> {
    let certificates = rows.iter().filter_map(|(key, row)| {
        let is_same = before.and_then(|before| before.get(key)) == Some(row);
        let kept = given.get(key).filter(|_| is_same).cloned();
        Some((key.clone(), kept.or_else(|| read(key, row))?))
    });
    certificates.collect()
}

/// What answers TLS-ALPN-01. Each edge has its own.
fn challenges(rows: &Table<Arc<str>, AcmeChallenge>) -> BTreeMap<RouteDomain, Arc<CertificatePem>> {
    let asked = rows.values().filter(|row| row.kind == ChallengeKind::TlsAlpn01);
    let certificates =
        asked.filter_map(|row| match challenge_certificate(&row.domain, &row.key_authorization) {
            Ok(made) => {
                let (chain, key) = (made.chain.into_bytes(), made.key.into_bytes());
                Some((row.domain.clone(), Arc::new(CertificatePem { chain, key })))
            }
            Err(error) => {
                error!(domain = %row.domain, %error, "no certificate for a challenge can be made");
                None
            }
        });
    certificates.collect()
}

fn pem(
    name: &impl Display,
    chain: &str,
    key: Result<Vec<u8>, String>,
) -> Option<Arc<CertificatePem>> {
    match key {
        Ok(key) => Some(Arc::new(CertificatePem { chain: chain.as_bytes().to_vec(), key })),
        Err(error) => {
            error!(certificate = %name, error, "the key of a certificate cannot be opened");
            None
        }
    }
}
