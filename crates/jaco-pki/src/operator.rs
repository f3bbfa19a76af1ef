//! Client certificates of operators: what they name, how they are signed and read, and what their holder keeps.
//!
//! They are signed by the authority that signs the nodes' and can never be taken for one of those, nor the other way
//! round: the name has another form, and they are good for clients only. A certificate proves who asks; whether that one
//! may still ask is in the replicated state, and is looked up for each request.

use std::fmt;
use std::time::Duration;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType};
use rustls::pki_types::CertificateDer;

use jaco_types::{ClusterId, Timestamp, TokenId};

use crate::ca::{self, CaError, CertificateAuthority};
use crate::fingerprint::Fingerprint;
use crate::identity::{self, IdentityError, NodeCertificate};
use crate::key::{NodeCsr, NodeKey};
use crate::name::{OperatorNameError, SCHEME};
use crate::validity::Validity;

/// Default lifetime of an operator's certificate. Longer than a node's, because a user renews it.
pub const OPERATOR_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Whose certificate it is: an operator token's id, by which the replicated state knows its rights.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorName {
    pub cluster: ClusterId,
    pub operator: TokenId,
}

/// An operator's certificate. Its chain is verified elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub struct OperatorCertificate {
    der: CertificateDer<'static>,
    name: OperatorName,
    key: Fingerprint,
    validity: Validity,
}

/// What an operator connects with instead of a token: the key never leaves the operator's machine.
pub struct OperatorCredentials {
    pub(crate) key: NodeKey,
    certificate: OperatorCertificate,
}

/// Why key and certificate cannot be used together.
#[derive(Debug, thiserror::Error)]
pub enum OperatorCredentialsError {
    #[error("it holds no certificate in pem form")]
    Pem,
    #[error("it is no client certificate of an operator")]
    Certificate(#[from] IdentityError),
    #[error("the certificate belongs to another key")]
    KeyMismatch,
}

impl OperatorName {
    #[must_use]
    pub fn new(cluster: ClusterId, operator: TokenId) -> Self {
        Self { cluster, operator }
    }

    /// `cluster://<cluster>/operator/<id>`.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{SCHEME}{}/operator/{}", self.cluster, self.operator)
    }

    /// Reads the form of [`OperatorName::uri`].
    pub fn parse_uri(text: &str) -> Result<Self, OperatorNameError> {
        let rest = text.strip_prefix(SCHEME).ok_or(OperatorNameError::Form)?;
        let (cluster, rest) = rest.split_once('/').ok_or(OperatorNameError::Form)?;
        let operator = rest.strip_prefix("operator/").ok_or(OperatorNameError::Form)?;
        let cluster = ClusterId::new(cluster).map_err(OperatorNameError::Cluster)?;
        let operator = TokenId::new(operator).map_err(OperatorNameError::Id)?;
        Ok(Self { cluster, operator })
    }
}

impl CertificateAuthority {
    /// Signs the key of `csr` for an operator, from five minutes before `now` until `life` after it, or until the
    /// authority expires.
    pub fn sign_operator(
        &self,
        csr: &NodeCsr,
        operator: &TokenId,
        life: Duration,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, CaError> {
        let name = OperatorName::new(self.certificate().cluster().clone(), operator.clone());
        let mut params = CertificateParams::default();
        params.distinguished_name = ca::common_name(&format!("operator {operator}"));
        let uri = name.uri().try_into().map_err(CaError::Generate)?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        self.issue(csr, params, life, now)
    }
}

impl OperatorCertificate {
    /// Parses a certificate. Whether it is signed is for the handshake to say.
    pub fn read(leaf: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let parsed = identity::parse(leaf)?;
        let uri = identity::only_uri(&parsed)?;
        let name = OperatorName::parse_uri(uri).map_err(IdentityError::OperatorName)?;
        let validity = Validity::of(&parsed).ok_or(IdentityError::Malformed)?;
        let key = Fingerprint::of(parsed.public_key().raw);
        Ok(Self { der: leaf.clone().into_owned(), name, key, validity })
    }

    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    #[must_use]
    pub fn name(&self) -> &OperatorName {
        &self.name
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

impl OperatorCredentials {
    /// Reads a certificate in PEM form, and checks that it belongs to the key.
    pub fn new(key: NodeKey, certificate_pem: &str) -> Result<Self, OperatorCredentialsError> {
        let der = ca::certificate_from_pem(certificate_pem).ok_or(OperatorCredentialsError::Pem)?;
        let certificate = OperatorCertificate::read(&der)?;
        if certificate.key_fingerprint() != key.fingerprint() {
            return Err(OperatorCredentialsError::KeyMismatch);
        }
        Ok(Self { key, certificate })
    }

    #[must_use]
    pub fn key(&self) -> &NodeKey {
        &self.key
    }

    #[must_use]
    pub fn certificate(&self) -> &OperatorCertificate {
        &self.certificate
    }
}

/// Whose certificate a client shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientCertificate {
    Node(NodeCertificate),
    Operator(OperatorCertificate),
}

impl ClientCertificate {
    /// By the form of its name, of which there is one for each.
    pub(crate) fn read(leaf: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        match NodeCertificate::read(leaf) {
            Ok(node) => Ok(Self::Node(node)),
            Err(IdentityError::Name(error)) => match OperatorCertificate::read(leaf) {
                Ok(operator) => Ok(Self::Operator(operator)),
                Err(_) => Err(IdentityError::Name(error)),
            },
            Err(error) => Err(error),
        }
    }

    pub(crate) fn cluster(&self) -> &ClusterId {
        match self {
            Self::Node(node) => &node.name().cluster,
            Self::Operator(operator) => &operator.name().cluster,
        }
    }

    pub(crate) fn validity(&self) -> Validity {
        match self {
            Self::Node(node) => node.validity(),
            Self::Operator(operator) => operator.validity(),
        }
    }

    /// When its validity is checked at. Members admit each other's expired certificates, because a removal is what ends
    /// a membership; an operator's end with their date.
    pub(crate) fn checked_at(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Node(node) => node.validity().nearest(now),
            Self::Operator(_) => now,
        }
    }
}

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri())
    }
}

impl fmt::Debug for OperatorCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorCertificate")
            .field("name", &self.name)
            .field("key", &self.key)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for OperatorCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorCredentials")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}
