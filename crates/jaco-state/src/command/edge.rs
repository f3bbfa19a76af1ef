//! Commands about what edges serve.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::route::RouteDomain;
use jaco_types::{CertificateName, RenewalWindow, Timestamp};

use crate::acme::{AcmeAccount, AcmeChallenge, IssueAttempt};
use crate::edge::SealedKey;

/// From now on there may be routes, drain times, published ports and certificates. Proposed once, when all members
/// understand them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeBegin;

/// Stores a certificate of a user, or replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateStore {
    /// The name that routes have for it.
    pub name: CertificateName,
    /// The certificate, and those of the authorities above it, as PEM.
    pub chain: Arc<str>,
    /// Its private key, sealed for this name.
    pub key: SealedKey,
    /// The DNS names that it is for, in lower case.
    pub names: BTreeSet<Arc<str>>,
    /// From when on it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// SHA-256 of the certificate, without those above it.
    pub fingerprint: [u8; 32],
}

/// Deletes a certificate that no route names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRemove {
    /// Its name.
    pub name: CertificateName,
}

impl CertificateRemove {
    /// Creates the command.
    #[must_use]
    pub fn new(name: CertificateName) -> Self {
        Self { name }
    }
}

/// What came of ordering certificates. The leader's alone; the same note again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcmeNote {
    /// This is the account from now on.
    Account(AcmeAccount),
    /// Every edge answers this to whoever asks for the token.
    Challenge {
        /// What is asked for.
        token: Arc<str>,
        /// What is answered.
        challenge: AcmeChallenge,
    },
    /// The certificate of a domain. Its challenges and failures are removed.
    Issued(CertificateIssue),
    /// The last order of a domain failed. Its challenges are removed.
    Failed {
        /// The domain.
        domain: RouteDomain,
        /// Why, and when the next one is made.
        attempt: IssueAttempt,
    },
    /// When the authority wants the certificate of a domain to be renewed.
    Window {
        /// The domain.
        domain: RouteDomain,
        /// Absent: it does not say so.
        window: Option<RenewalWindow>,
    },
}

/// A certificate that was issued for a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateIssue {
    /// The domain.
    pub domain: RouteDomain,
    /// The address of the directory of the authority.
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
}
