//! The certificate that answers a TLS-ALPN-01 challenge (RFC 8737). Each edge makes its own: it is for one connection
//! of the authority, and its key opens nothing else.

use jaco_types::route::RouteDomain;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use ring::digest::{SHA256, digest};

/// A certificate with its private key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ChallengeCertificate {
    /// The certificate.
    pub chain: String,
    /// Its private key.
    pub key: String,
}

/// Makes the certificate that proves a domain by this key authorization.
///
/// # Errors
/// If no key can be made: the machine has no random numbers.
pub fn challenge_certificate(
    domain: &RouteDomain,
    key_authorization: &str,
) -> Result<ChallengeCertificate, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([domain.as_str().to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    let digest = digest(&SHA256, key_authorization.as_bytes());
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
    let chain = params.self_signed(&key)?.pem();
    Ok(ChallengeCertificate { chain, key: key.serialize_pem() })
}

/// Whoever prints it sees no key.
impl std::fmt::Debug for ChallengeCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChallengeCertificate").finish_non_exhaustive()
    }
}
