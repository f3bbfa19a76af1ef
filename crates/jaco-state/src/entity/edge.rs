//! What edges serve: who has which route, and the certificates of users. A private key is here in sealed form
//! only; what opens it is not replicated.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jaco_types::route::RouteDomain;
use jaco_types::{CertificateName, DeploymentName, Identity, RouteKey, StateIndex, Timestamp};

use crate::table::Table;

/// The most certificates of users: they are in each snapshot, and in each node's memory.
pub const CERTIFICATES_MAX: usize = 1000;

/// The most bytes of a certificate with those of the authorities above it, as PEM.
pub const CHAIN_BYTES_MAX: usize = 64 << 10;

/// The most bytes of a private key, as PEM. An RSA key of 16,384 bits has 13 KiB.
pub const KEY_BYTES_MAX: usize = 16 << 10;

/// The most names of a certificate; authorities put in at most 100.
pub const CERTIFICATE_NAMES_MAX: usize = 256;

/// What sealing may add to a key.
const SEAL_BYTES_MAX: usize = 256;

/// All that the state knows of edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// The entry since which all members understand routes, drain times and certificates; absent before.
    pub begun: Option<StateIndex>,
    /// Who has each route: the deployment whose desired spec has it (NET-5).
    pub claims: Table<RouteKey, RouteClaim>,
    /// The certificates of users.
    pub certificates: Table<CertificateName, Certificate>,
}

/// Whose a route is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteClaim {
    /// The deployment.
    pub deployment: DeploymentName,
    /// When it got the route.
    pub since: Timestamp,
}

/// A certificate of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, and those of the authorities above it, as PEM.
    pub chain: Arc<str>,
    /// Its private key.
    pub key: SealedKey,
    /// The DNS names that it is for, in lower case, some of them wildcards.
    pub names: BTreeSet<Arc<str>>,
    /// From when on it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// SHA-256 of the certificate, without those above it.
    pub fingerprint: [u8; 32],
    /// When it was stored.
    pub stored_at: Timestamp,
    /// Who stored it.
    pub by: Identity,
}

/// A private key, sealed under the cluster's key for one certificate: cheap to copy, and not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedKey(pub Arc<[u8]>);

impl Edges {
    /// The claims for a domain, in the order of paths.
    pub fn claims_of<'a>(
        &'a self,
        domain: &'a RouteDomain,
    ) -> impl Iterator<Item = (&'a RouteKey, &'a RouteClaim)> {
        let first =
            RouteKey { domain: domain.clone(), path: jaco_types::route::RoutePath::default() };
        self.claims.range(first..).take_while(move |(key, _)| key.domain == *domain)
    }
}

impl Certificate {
    /// Whether clients that ask for any name of a domain take it.
    #[must_use]
    pub fn covers(&self, domain: &RouteDomain) -> bool {
        self.names.iter().any(|name| domain.is_covered_by(name))
    }
}

impl SealedKey {
    /// Whether a key of the allowed size can be in it.
    #[must_use]
    pub fn fits(&self) -> bool {
        (1..=KEY_BYTES_MAX + SEAL_BYTES_MAX).contains(&self.0.len())
    }
}

impl fmt::Debug for SealedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sealed bytes", self.0.len())
    }
}
