//! Node certificates: verification and content. Pure: the time is an argument.

use std::fmt;

use rustls::CertificateError;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use jaco_types::{ClusterId, NodeId, Timestamp};

use crate::ca::{CERTIFICATE_BYTES_MAX, TrustBundle};
use crate::fingerprint::Fingerprint;
use crate::name::{NameError, NodeName, OperatorNameError};
use crate::provider::provider;
use crate::validity::Validity;
use crate::x509_time;

/// A node certificate that was verified against the cluster's CA.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeCertificate {
    der: CertificateDer<'static>,
    name: NodeName,
    key: Fingerprint,
    validity: Validity,
}

/// Why a certificate is not one of a node of this cluster.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum IdentityError {
    #[error("no certificate was presented")]
    Missing,
    #[error("certificate is not valid der")]
    Malformed,
    #[error("certificate does not name exactly one node")]
    Names,
    #[error("certificate has a malformed node name")]
    Name(#[source] NameError),
    #[error("certificate has a malformed operator name")]
    OperatorName(#[source] OperatorNameError),
    #[error("certificate belongs to cluster {0}")]
    WrongCluster(ClusterId),
    #[error("certificate is not yet valid")]
    NotYetValid,
    #[error("certificate has expired")]
    Expired,
    #[error("certificate is of a node that was removed from the cluster")]
    Removed,
    #[error("certificate is not signed by this cluster's ca")]
    ForeignAuthority,
    #[error("certificate cannot be verified")]
    Unverifiable(#[source] rustls::Error),
}

impl NodeCertificate {
    /// Verifies a chain, leaf first, against `trust` at `now`, and reads whom the leaf names.
    pub fn verify(
        chain: &[CertificateDer<'_>],
        trust: &TrustBundle,
        now: Timestamp,
    ) -> Result<Self, IdentityError> {
        let (leaf, intermediates) = chain.split_first().ok_or(IdentityError::Missing)?;
        if leaf.len() > CERTIFICATE_BYTES_MAX {
            return Err(IdentityError::Malformed);
        }
        let parsed = ParsedCertificate::try_from(leaf).map_err(IdentityError::from_rustls)?;
        let algorithms = provider().signature_verification_algorithms.all;
        let (roots, at) = (trust.roots(), x509_time::to_unix(now));
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, at, algorithms)
            .map_err(IdentityError::from_rustls)?;
        let certificate = Self::read(leaf)?;
        if certificate.name.cluster != *trust.cluster() {
            return Err(IdentityError::WrongCluster(certificate.name.cluster));
        }
        Ok(certificate)
    }

    /// Parses a certificate whose chain was verified before.
    pub(crate) fn read(leaf: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let parsed = parse(leaf)?;
        let name = NodeName::parse_uri(only_uri(&parsed)?).map_err(IdentityError::Name)?;
        let validity = Validity::of(&parsed).ok_or(IdentityError::Malformed)?;
        let key = Fingerprint::of(parsed.public_key().raw);
        Ok(Self { der: leaf.clone().into_owned(), name, key, validity })
    }

    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    #[must_use]
    pub fn node(&self) -> NodeId {
        self.name.node
    }

    #[must_use]
    pub fn key_fingerprint(&self) -> Fingerprint {
        self.key
    }

    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }
}

/// Parses a certificate and nothing after it.
pub(crate) fn parse<'l>(
    leaf: &'l CertificateDer<'_>,
) -> Result<X509Certificate<'l>, IdentityError> {
    if leaf.len() > CERTIFICATE_BYTES_MAX {
        return Err(IdentityError::Malformed);
    }
    let (rest, parsed) = X509Certificate::from_der(leaf).map_err(|_| IdentityError::Malformed)?;
    if rest.is_empty() { Ok(parsed) } else { Err(IdentityError::Malformed) }
}

/// The one name that carries identity.
pub(crate) fn only_uri<'l>(parsed: &X509Certificate<'l>) -> Result<&'l str, IdentityError> {
    let names = parsed.subject_alternative_name().map_err(|_| IdentityError::Malformed)?;
    let names = names.ok_or(IdentityError::Names)?;
    let mut uris = names
        .value
        .general_names
        .iter()
        .filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None });
    // With two names a reader could choose; only one is ever issued.
    match (uris.next(), uris.next()) {
        (Some(uri), None) => Ok(uri),
        (_, _) => Err(IdentityError::Names),
    }
}

impl IdentityError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "rustls may grow reasons; they stay sources"
    )]
    pub(crate) fn from_rustls(error: rustls::Error) -> Self {
        let rustls::Error::InvalidCertificate(reason) = &error else {
            return Self::Unverifiable(error);
        };
        match reason {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            // Another CA of the same name has another key: the signature is what fails then.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Self::ForeignAuthority
            }
            CertificateError::BadEncoding => Self::Malformed,
            CertificateError::Revoked => Self::Removed,
            CertificateError::Other(other) => match other.0.downcast_ref::<Self>() {
                Some(ours) => ours.clone(),
                None => Self::Unverifiable(error),
            },
            _ => Self::Unverifiable(error),
        }
    }

    pub(crate) fn into_rustls(self) -> rustls::Error {
        let other = rustls::OtherError(std::sync::Arc::new(self));
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
    }
}

impl fmt::Debug for NodeCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeCertificate")
            .field("name", &self.name)
            .field("key", &self.key)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}
