//! What edges serve: who has which route and which published port, and the certificates of users. A private key is
//! here in sealed form only; what opens it is not replicated.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

use jaco_types::port::{ProxyProtocol, Transport};
use jaco_types::route::RouteDomain;
use jaco_types::{
    CertificateName, DeploymentName, Identity, PortKey, RouteKey, ServiceKey, StateIndex, Timestamp,
};

use crate::acme::Acme;
pub use crate::entity::sealed_key::{KEY_BYTES_MAX, SealedKey};
use crate::table::Table;

/// The most certificates of users: they are in each snapshot, and in each node's memory.
pub const CERTIFICATES_MAX: usize = 1000;

/// The most bytes of a certificate with those of the authorities above it, as PEM.
pub const CHAIN_BYTES_MAX: usize = 64 << 10;

/// The most names of a certificate; authorities put in at most 100.
pub const CERTIFICATE_NAMES_MAX: usize = 256;

/// All that the state knows of edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// The entry since which all members understand routes, drain times, published ports and certificates; absent
    /// before.
    pub begun: Option<StateIndex>,
    /// Who has each route: the deployment whose desired spec has it (NET-5).
    pub claims: Table<RouteKey, RouteClaim>,
    /// The certificates of users.
    pub certificates: Table<CertificateName, Certificate>,
    /// Who has each published port: a service of the deployment whose desired spec asks for it (NET-5).
    pub ports: Table<PortKey, PortClaim>,
    /// The certificates that the cluster orders.
    pub acme: Acme,
}

/// Whose a route is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteClaim {
    /// The deployment.
    pub deployment: DeploymentName,
    /// When it got the route.
    pub since: Timestamp,
}

/// Whose a published port is, and what is done with what comes in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortClaim {
    /// The service.
    pub service: ServiceKey,
    /// The port in its containers.
    pub target: NonZeroU16,
    /// Whether a container is told who the client is.
    pub proxy_protocol: ProxyProtocol,
    /// When it got the port.
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

impl Edges {
    /// The claims of a port, whatever address it is on.
    pub fn claims_on(
        &self,
        transport: Transport,
        port: NonZeroU16,
    ) -> impl Iterator<Item = (PortKey, &PortClaim)> {
        let first = PortKey { transport, port, address: None };
        let rows = self.ports.range(first..).map(|(key, claim)| (*key, claim));
        rows.take_while(move |(key, _)| key.transport == transport && key.port == port)
    }

    /// The published ports of a service.
    pub fn ports_of<'a>(
        &'a self,
        service: &'a ServiceKey,
    ) -> impl Iterator<Item = (PortKey, &'a PortClaim)> {
        let rows = self.ports.iter().map(|(key, claim)| (*key, claim));
        rows.filter(move |(_, claim)| claim.service == *service)
    }
}

impl Certificate {
    /// Whether clients that ask for any name of a domain take it.
    #[must_use]
    pub fn covers(&self, domain: &RouteDomain) -> bool {
        self.names.iter().any(|name| domain.is_covered_by(name))
    }
}
