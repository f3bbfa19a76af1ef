//! Commands about what edges serve.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::{CertificateName, Timestamp};

use crate::edge::SealedKey;

/// From now on there may be routes, drain times and certificates. Proposed once, when all members understand
/// them.
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
