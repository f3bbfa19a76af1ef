//! What a node certificate says, and until when. Pure: the time is an argument.

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
use crate::moment;
use crate::name::{NameError, NodeName};
use crate::tls::provider;

/// A node certificate that was verified against the cluster's CA.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeCertificate {
    der: CertificateDer<'static>,
    name: NodeName,
    key: Fingerprint,
    validity: Validity,
}

/// When a certificate is valid; both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// How a certificate stands at some moment, and so what its holder has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// This machine's clock is behind by more than the backdating.
    NotYetValid,
    Fresh,
    /// Half of the life has passed: renew.
    RenewalDue,
    /// A quarter of the life is left, so renewals have failed for days: tell a person.
    Alarming,
    Expired,
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
    #[error("certificate belongs to cluster {0}")]
    WrongCluster(ClusterId),
    #[error("certificate is not yet valid")]
    NotYetValid,
    #[error("certificate has expired")]
    Expired,
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
        let (roots, at) = (trust.roots(), moment::to_unix(now));
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, at, algorithms)
            .map_err(IdentityError::from_rustls)?;
        let certificate = Self::read(leaf)?;
        if certificate.name.cluster != *trust.cluster() {
            return Err(IdentityError::WrongCluster(certificate.name.cluster));
        }
        Ok(certificate)
    }

    /// Reads a certificate whose chain somebody else has verified.
    pub(crate) fn read(leaf: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        if leaf.len() > CERTIFICATE_BYTES_MAX {
            return Err(IdentityError::Malformed);
        }
        let (rest, parsed) =
            X509Certificate::from_der(leaf).map_err(|_| IdentityError::Malformed)?;
        if !rest.is_empty() {
            return Err(IdentityError::Malformed);
        }
        let names = parsed.subject_alternative_name().map_err(|_| IdentityError::Malformed)?;
        let names = names.ok_or(IdentityError::Names)?;
        let mut uris =
            names.value.general_names.iter().filter_map(|name| {
                if let GeneralName::URI(uri) = name { Some(*uri) } else { None }
            });
        // Two names would let a reader pick the one it likes; only one is ever stamped.
        let (Some(uri), None) = (uris.next(), uris.next()) else {
            return Err(IdentityError::Names);
        };
        let name = NodeName::parse_uri(uri).map_err(IdentityError::Name)?;
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

impl Validity {
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        // X.509 counts in seconds: the whole last second belongs to the life.
        moment::secs(self.not_before) <= moment::secs(now)
            && moment::secs(now) <= moment::secs(self.not_after)
    }

    /// How a certificate with this validity stands at `now`.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        let (start, end) = (moment::secs(self.not_before), moment::secs(self.not_after));
        let at = moment::secs(now);
        if at < start {
            return Standing::NotYetValid;
        }
        if at > end {
            return Standing::Expired;
        }
        let left = end - at;
        let life = end - start;
        if left <= life / 4 {
            Standing::Alarming
        } else if left <= life / 2 {
            Standing::RenewalDue
        } else {
            Standing::Fresh
        }
    }

    /// When `node` should renew: after half of the life and up to a tenth of it more. The node's
    /// number decides how much, so that nodes that joined together do not renew together.
    #[must_use]
    pub fn renew_at(&self, node: NodeId) -> Timestamp {
        let (start, end) = (moment::secs(self.not_before), moment::secs(self.not_after));
        let life = end.saturating_sub(start);
        // Multiplying by the golden ratio of 2^64 sends neighbouring numbers far apart.
        let permille = (node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 100;
        let offset = life / 2 + life / 1000 * permille;
        moment::from_secs(start.saturating_add(offset))
    }

    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Option<Self> {
        let at = |seconds: i64| {
            let seconds = u64::try_from(seconds).ok()?;
            Some(moment::from_secs(seconds))
        };
        let validity = certificate.validity();
        let not_before = at(validity.not_before.timestamp())?;
        let not_after = at(validity.not_after.timestamp())?;
        (not_before <= not_after).then_some(Self { not_before, not_after })
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
