//! The cluster's certificate authority: creation, sealing of its key, signing of nodes, trust.
//!
//! The CA never copies names: a request contributes only a public key. Path length 0 means that no
//! node certificate can sign another one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use jaco_types::{ClusterId, NodeId, Timestamp};

use crate::fingerprint::Fingerprint;
use crate::key::NodeCsr;
use crate::name::NodeName;
use crate::pem;
use crate::random;
use crate::sealed::{self, KeyEncryptionKey, OpenError, Purpose};
use crate::validity::Validity;
use crate::x509_time;

/// Default lifetime of a node certificate. Short, because there is no revocation list; long enough
/// to survive a long weekend without a quorum.
pub const NODE_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Lifetime of the CA. It is rotated manually, with both generations trusted for a while.
pub const CA_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How far certificates are backdated, so that a node with a slow clock accepts a fresh one.
pub const BACKDATING: Duration = Duration::from_secs(5 * 60);

/// The largest certificate that is parsed. Ours have about 600 bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 16 * 1024;

/// Maximum of trusted CAs: the old and the new one of a rotation, with room for an abandoned one.
pub const BUNDLE_MAX: usize = 4;

const COMMON_NAME_PREFIX: &str = "jaco-ca ";

/// A cluster CA with its private key. `Debug` does not show the key.
pub struct CertificateAuthority {
    certificate: CaCertificate,
    issuer: Issuer<'static, KeyPair>,
}

/// The public half of a cluster CA.
#[derive(Clone, PartialEq, Eq)]
pub struct CaCertificate {
    der: CertificateDer<'static>,
    cluster: ClusterId,
    validity: Validity,
    key: Fingerprint,
}

/// The CAs that a node or an operator trusts: one, or two during a rotation. Never empty, and all
/// of one cluster.
#[derive(Clone)]
pub struct TrustBundle {
    authorities: Vec<CaCertificate>,
    roots: Arc<RootCertStore>,
}

/// Why a certificate cannot be trusted as a cluster CA.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("trust bundle is not valid pem")]
    Pem(#[source] rustls::pki_types::pem::Error),
    #[error("trust bundle holds {0} certificates, 1 to {BUNDLE_MAX} are possible")]
    Count(usize),
    #[error("trust bundle mixes clusters {0} and {1}")]
    Mixed(ClusterId, ClusterId),
    #[error("certificate is not valid der")]
    Malformed,
    #[error("certificate is not a jaco cluster ca")]
    NotAuthority,
}

/// Why the CA cannot be made, opened or used.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    #[error("certificate could not be made")]
    Generate(#[source] rcgen::Error),
    #[error("ca key does not open")]
    Sealed(#[from] OpenError),
    #[error("ca key is not a private key")]
    Key(#[source] rcgen::Error),
    #[error("ca key belongs to another certificate")]
    KeyMismatch,
    #[error("ca is not valid now")]
    NotValid,
    #[error("time is outside the range of certificates")]
    Time,
}

impl CertificateAuthority {
    /// Creates the CA of a new cluster, valid from `now` for [`CA_LIFE`].
    pub fn create(cluster: &ClusterId, now: Timestamp) -> Result<Self, CaError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(CaError::Generate)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(&format!("{COMMON_NAME_PREFIX}{cluster}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, window(now, CA_LIFE))?;
        params.serial_number = Some(random_serial());
        let der = params.self_signed(&key).map_err(CaError::Generate)?.der().clone();
        let certificate = CaCertificate::from_der(der).map_err(|_| CaError::Time)?;
        Self::assemble(certificate, key)
    }

    /// Opens a CA from its certificate and the key that [`CertificateAuthority::seal_key`] sealed.
    pub fn open(
        certificate: CaCertificate,
        sealed_key: &[u8],
        kek: &KeyEncryptionKey,
    ) -> Result<Self, CaError> {
        let pkcs8 = sealed::open(kek, &certificate.cluster, Purpose::CaKey, sealed_key)?;
        let der = PrivatePkcs8KeyDer::from(pkcs8.as_slice());
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256)
            .map_err(CaError::Key)?;
        Self::assemble(certificate, key)
    }

    /// The private key, sealed: the only form in which it leaves this process.
    #[must_use]
    pub fn seal_key(&self, kek: &KeyEncryptionKey) -> Vec<u8> {
        let pkcs8 = Zeroizing::new(self.issuer.key().serialize_der());
        sealed::seal(kek, &self.certificate.cluster, Purpose::CaKey, &pkcs8)
    }

    /// Signs the key of `csr` for `node`, from five minutes before `now` until `life` after it, or
    /// until the CA expires.
    pub fn sign(
        &self,
        csr: &NodeCsr,
        node: NodeId,
        life: Duration,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, CaError> {
        let name = NodeName::new(self.certificate.cluster.clone(), node);
        self.issue(csr, node_params(&name)?, life, now)
    }

    /// Signs the key of `csr` with what `params` say, for as long as both `life` and the CA last.
    pub(crate) fn issue(
        &self,
        csr: &NodeCsr,
        mut params: CertificateParams,
        life: Duration,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, CaError> {
        if !self.certificate.validity.contains(now) {
            return Err(CaError::NotValid);
        }
        let ours = self.certificate.validity;
        let wanted = window(now, life);
        let validity = Validity {
            not_before: wanted.not_before.max(ours.not_before),
            not_after: wanted.not_after.min(ours.not_after),
        };
        set_validity(&mut params, validity)?;
        params.serial_number = Some(random_serial());
        let certificate =
            params.signed_by(&csr.public_key, &self.issuer).map_err(CaError::Generate)?;
        Ok(certificate.der().clone())
    }

    #[must_use]
    pub fn certificate(&self) -> &CaCertificate {
        &self.certificate
    }

    fn assemble(certificate: CaCertificate, key: KeyPair) -> Result<Self, CaError> {
        if Fingerprint::of(&key.subject_public_key_info()) != certificate.key {
            return Err(CaError::KeyMismatch);
        }
        let issuer = Issuer::from_ca_cert_der(&certificate.der, key).map_err(CaError::Generate)?;
        Ok(Self { certificate, issuer })
    }
}

impl CaCertificate {
    /// Checks the form of a cluster CA, not its identity: compare the
    /// [`CaCertificate::fingerprint`].
    pub fn from_der(der: CertificateDer<'static>) -> Result<Self, TrustError> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return Err(TrustError::Malformed);
        }
        let bytes = der.clone();
        let (rest, parsed) =
            X509Certificate::from_der(&bytes).map_err(|_| TrustError::Malformed)?;
        if !rest.is_empty() {
            return Err(TrustError::Malformed);
        }
        let constraints = parsed.basic_constraints().ok().flatten();
        let authority = constraints
            .is_some_and(|found| found.value.ca && found.value.path_len_constraint == Some(0));
        let mut names = parsed.subject().iter_common_name();
        let cluster = match (names.next(), names.next()) {
            (Some(name), None) => name
                .as_str()
                .ok()
                .and_then(|name| name.strip_prefix(COMMON_NAME_PREFIX))
                .and_then(|cluster| ClusterId::new(cluster).ok()),
            (_, _) => None,
        };
        let cluster = cluster.filter(|_| authority).ok_or(TrustError::NotAuthority)?;
        let validity = Validity::of(&parsed).ok_or(TrustError::Malformed)?;
        let key = Fingerprint::of(parsed.public_key().raw);
        // Chains are verified by another parser than ours: it has to accept this anchor as well.
        RootCertStore::empty().add(der.clone()).map_err(|_| TrustError::Malformed)?;
        Ok(Self { cluster, validity, key, der })
    }

    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The SHA-256 of the whole certificate: what a join token carries.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.der)
    }
}

impl TrustBundle {
    /// Trusts these CAs.
    pub fn new(authorities: Vec<CaCertificate>) -> Result<Self, TrustError> {
        if authorities.is_empty() || authorities.len() > BUNDLE_MAX {
            return Err(TrustError::Count(authorities.len()));
        }
        let first = &authorities[0].cluster;
        if let Some(other) = authorities.iter().find(|other| other.cluster != *first) {
            return Err(TrustError::Mixed(first.clone(), other.cluster.clone()));
        }
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.der.clone()).map_err(|_| TrustError::Malformed)?;
        }
        Ok(Self { authorities, roots: Arc::new(roots) })
    }

    /// Reads one or more certificates in PEM: the file that operators pin.
    pub fn from_pem(pem: &str) -> Result<Self, TrustError> {
        let mut authorities = Vec::new();
        for der in CertificateDer::pem_slice_iter(pem.as_bytes()).take(BUNDLE_MAX + 1) {
            authorities.push(CaCertificate::from_der(der.map_err(TrustError::Pem)?)?);
        }
        Self::new(authorities)
    }

    #[must_use]
    pub fn to_pem(&self) -> String {
        self.authorities.iter().map(|authority| certificate_pem(&authority.der)).collect()
    }

    #[must_use]
    pub fn authorities(&self) -> &[CaCertificate] {
        &self.authorities
    }

    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.authorities[0].cluster
    }

    /// Whether the authority with this fingerprint is one of them.
    #[must_use]
    pub fn contains(&self, authority: Fingerprint) -> bool {
        self.authorities.iter().any(|known| known.fingerprint() == authority)
    }

    /// A name for what is trusted, whatever its order: 32 hex digits, the same for the same authorities.
    #[must_use]
    pub fn digest(&self) -> String {
        let all: BTreeSet<_> =
            self.authorities.iter().map(|known| *known.fingerprint().as_bytes()).collect();
        let all: Vec<u8> = all.into_iter().flatten().collect();
        Fingerprint::of(&all).to_string().chars().take(32).collect()
    }

    pub(crate) fn roots(&self) -> &Arc<RootCertStore> {
        &self.roots
    }
}

impl From<CaCertificate> for TrustBundle {
    fn from(authority: CaCertificate) -> Self {
        Self::new(vec![authority]).expect("one certificate that parsed is a bundle")
    }
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CaCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaCertificate")
            .field("cluster", &self.cluster)
            .field("fingerprint", &self.fingerprint())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TrustBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.authorities).finish()
    }
}

/// Reads the certificate that [`certificate_pem`] wrote. `None` if the text holds none.
#[must_use]
pub fn certificate_from_pem(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

/// One certificate as text.
#[must_use]
pub fn certificate_pem(der: &CertificateDer<'_>) -> String {
    pem::block("CERTIFICATE", der)
}

fn node_params(name: &NodeName) -> Result<CertificateParams, CaError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(&format!("node {}", name.node));
    params.subject_alt_names = vec![
        SanType::URI(name.uri().try_into().map_err(CaError::Generate)?),
        SanType::DnsName(name.dns().try_into().map_err(CaError::Generate)?),
        SanType::DnsName(name.any_node_dns().try_into().map_err(CaError::Generate)?),
    ];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

pub(crate) fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// 127 random bits: unguessable, positive, and of constant length.
fn random_serial() -> SerialNumber {
    let mut bytes: [u8; 16] = random::bytes();
    bytes[0] = (bytes[0] & 0x7f) | 0x40;
    SerialNumber::from_slice(&bytes)
}

fn window(now: Timestamp, life: Duration) -> Validity {
    let seconds = x509_time::secs(now);
    Validity {
        not_before: x509_time::from_secs(seconds.saturating_sub(BACKDATING.as_secs())),
        not_after: x509_time::from_secs(seconds.saturating_add(life.as_secs())),
    }
}

fn set_validity(params: &mut CertificateParams, validity: Validity) -> Result<(), CaError> {
    let date = |moment: Timestamp| {
        let seconds = i64::try_from(x509_time::secs(moment)).map_err(|_| CaError::Time)?;
        OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| CaError::Time)
    };
    params.not_before = date(validity.not_before)?;
    params.not_after = date(validity.not_after)?;
    Ok(())
}
