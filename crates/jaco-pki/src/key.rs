//! A node's private key and the request to have it certified.
//!
//! The key is made on the node and leaves this process only for the node's own key file. A request
//! proves possession of the key and says nothing else: whatever names it asks for are ignored.

use std::fmt;

use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SubjectPublicKeyInfo,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;
use zeroize::Zeroizing;

use crate::fingerprint::Fingerprint;
use crate::pem;

/// The largest request that is looked at. An honest one has about 220 bytes.
pub const CSR_BYTES_MAX: usize = 4096;

/// An uncompressed point on P-256: a tag and two coordinates.
const P256_POINT_BYTES: usize = 65;

/// The private key of one node, ECDSA P-256. `Debug` shows the fingerprint only.
pub struct NodeKey {
    pub(crate) pair: KeyPair,
}

/// A certificate request whose signature has been verified: whoever sent it held the key.
pub struct NodeCsr {
    pub(crate) public_key: SubjectPublicKeyInfo,
    fingerprint: Fingerprint,
}

/// Why a text is not a usable private key.
#[derive(Debug, thiserror::Error)]
#[error("not an ecdsa p-256 private key in pkcs#8 form")]
pub struct KeyError(#[source] rcgen::Error);

/// Why a certificate request is refused. All of these are `csr_invalid` on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CsrError {
    #[error("certificate request is larger than {CSR_BYTES_MAX} bytes")]
    TooLarge,
    #[error("certificate request is not valid der")]
    Malformed,
    #[error("certificate request is not signed by its own key")]
    Signature,
    #[error("certificate request has another key type than ecdsa p-256")]
    KeyType,
}

impl NodeKey {
    /// Makes a new key.
    #[must_use]
    pub fn generate() -> Self {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
            .expect("p-256 generation fails only without random bytes");
        Self { pair }
    }

    /// Reads what [`NodeKey::to_pem`] wrote.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let pair =
            KeyPair::from_pem_and_sign_algo(pem, &PKCS_ECDSA_P256_SHA256).map_err(KeyError)?;
        Ok(Self { pair })
    }

    /// The private key as text, for the node's own key file. Wiped when dropped.
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.pair.serialize_pem())
    }

    /// The request to send to the cluster, in DER. Holds the public key and no names.
    #[must_use]
    pub fn request(&self) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let request = params.serialize_request(&self.pair);
        request.expect("signing fails only without random bytes").der().to_vec()
    }

    /// The request as text, for a user to hand over.
    #[must_use]
    pub fn request_pem(&self) -> String {
        pem::block("CERTIFICATE REQUEST", &self.request())
    }

    /// The fingerprint of the public key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.pair.subject_public_key_info())
    }

    pub(crate) fn private_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.pair.serialize_der()))
    }
}

impl NodeCsr {
    /// Parses a request and verifies its signature. Total on any input.
    pub fn from_der(der: &[u8]) -> Result<Self, CsrError> {
        if der.len() > CSR_BYTES_MAX {
            return Err(CsrError::TooLarge);
        }
        let (rest, request) =
            X509CertificationRequest::from_der(der).map_err(|_| CsrError::Malformed)?;
        if !rest.is_empty() {
            return Err(CsrError::Malformed);
        }
        // The type is checked before the signature: other types cost more, and would be refused.
        let spki = &request.certification_request_info.subject_pki;
        let public_key = SubjectPublicKeyInfo::from_der(spki.raw).map_err(|_| CsrError::KeyType)?;
        if public_key.algorithm() != &PKCS_ECDSA_P256_SHA256
            || public_key.der_bytes().len() != P256_POINT_BYTES
        {
            return Err(CsrError::KeyType);
        }
        request.verify_signature().map_err(|_| CsrError::Signature)?;
        let fingerprint = Fingerprint::of(&public_key.subject_public_key_info());
        Ok(Self { public_key, fingerprint })
    }

    /// The fingerprint of the key that asks, as it will appear in the certificate.
    #[must_use]
    pub fn key_fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

/// Reads a certificate request in PEM form, which other programs make as well. `None` if the text holds none.
#[must_use]
pub fn request_from_pem(pem: &str) -> Option<Vec<u8>> {
    CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).ok().map(|der| der.to_vec())
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl fmt::Debug for NodeCsr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeCsr").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}
