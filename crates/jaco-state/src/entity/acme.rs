//! Certificates that the cluster orders from an ACME authority. The leader writes all of it, by [`AcmeNote`]; keys are
//! here in sealed form only.
//!
//! [`AcmeNote`]: crate::command::AcmeNote

use std::sync::Arc;

use jaco_types::route::{CLUSTER_ROUTES_MAX, RouteDomain};
use jaco_types::{ChallengeKind, RenewalWindow, Timestamp};

use crate::entity::sealed_key::SealedKey;
use crate::table::Table;

/// The most challenges: an order has one, and few orders are in progress.
pub const CHALLENGES_MAX: usize = 256;

/// The most issued certificates: as many as there can be domains, and those of before that have not expired.
pub const ISSUED_MAX: usize = 2 * CLUSTER_ROUTES_MAX;

/// The most bytes of a challenge's token.
pub const TOKEN_BYTES_MAX: usize = 256;

/// The most bytes of what is answered to a token.
pub const KEY_AUTHORIZATION_BYTES_MAX: usize = 512;

/// The most bytes of the reason of a failed order.
pub const REASON_BYTES_MAX: usize = 2048;

/// The most bytes of an address of an authority.
pub const ACME_URL_BYTES_MAX: usize = 1024;

/// All that the state knows of ordered certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acme {
    /// The account at the authority.
    pub account: Option<AcmeAccount>,
    /// The certificates that were issued.
    pub issued: Table<RouteDomain, IssuedCertificate>,
    /// What every edge answers to an authority that asks for a token (NET-16).
    pub challenges: Table<Arc<str>, AcmeChallenge>,
    /// The domains whose last order failed (NET-16).
    pub attempts: Table<RouteDomain, IssueAttempt>,
}

/// The account at an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeAccount {
    /// The address of the authority's directory.
    pub directory: Arc<str>,
    /// The address by which the authority knows the account.
    pub url: Arc<str>,
    /// Its private key, as PKCS#8, sealed for the directory.
    pub key: SealedKey,
}

/// A certificate that was issued for one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The address of the directory of the authority that issued it.
    pub directory: Arc<str>,
    /// The certificate, and those of the authorities above it, as PEM.
    pub chain: Arc<str>,
    /// Its private key, as PEM, sealed for the domain.
    pub key: SealedKey,
    /// From when on it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// SHA-256 of the certificate, without those above it.
    pub fingerprint: [u8; 32],
    /// When it was recorded.
    pub issued_at: Timestamp,
    /// When the authority wants it to be renewed, if it has said so.
    pub window: Option<RenewalWindow>,
}

/// What proves a domain to an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeChallenge {
    /// The domain.
    pub domain: RouteDomain,
    /// How it is proven.
    pub kind: ChallengeKind,
    /// What is answered. It proves nothing to anybody else, and is no secret.
    pub key_authorization: Arc<str>,
    /// When nobody asks any more.
    pub expires: Timestamp,
}

/// What is left of orders that failed since the last certificate of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueAttempt {
    /// How many failed in a row; none if nothing could be ordered.
    pub failures: u32,
    /// Why the last one did, and what to do.
    pub reason: Arc<str>,
    /// Before this nothing is ordered for the domain.
    pub next_try: Timestamp,
    /// How the next order proves the domain.
    pub kind: ChallengeKind,
}
