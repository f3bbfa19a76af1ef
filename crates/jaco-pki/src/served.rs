//! Certificates that users bring for what the cluster serves. Checked before they are stored; whom their
//! authorities are trusted by is for the clients to say. Must never print a key.

use std::collections::BTreeSet;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use jaco_types::Timestamp;

use crate::ca::certificate_pem;
use crate::fingerprint::Fingerprint;
use crate::provider::provider;
use crate::validity::Validity;

/// The most certificates of a chain. Clients take far fewer.
const CHAIN_MAX: usize = 16;

/// A certificate of a user that was found fit for use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedCertificate {
    /// The certificate and those above it, as PEM and nothing else.
    pub chain: String,
    /// The DNS names that it is for, in lower case.
    pub names: BTreeSet<String>,
    /// When it is valid.
    pub validity: Validity,
    /// The SHA-256 of the certificate.
    pub fingerprint: Fingerprint,
}

/// Why a certificate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServedError {
    #[error("the file has no certificate in PEM form (BEGIN CERTIFICATE)")]
    NoCertificate,
    #[error("the file has {0} certificates, more than the {CHAIN_MAX} of any chain")]
    TooMany(usize),
    #[error("certificate {0} of the file cannot be read")]
    Malformed(usize),
    #[error("the key file has no private key in PEM form (BEGIN PRIVATE KEY, not encrypted)")]
    NoKey,
    #[error("the private key is of a kind that is not supported: use ECDSA P-256, RSA or Ed25519")]
    UnsupportedKey,
    #[error("the private key does not belong to the first certificate of the file")]
    OtherKey,
    #[error("certificate {0} of the file was not issued by the one that follows it")]
    Unlinked(usize),
    #[error(
        "the first certificate of the file is for no DNS name: it has no subject alternative name"
    )]
    NoNames,
    #[error(
        "the first certificate of the file is that of an authority: put the one for your names first"
    )]
    Authority,
    #[error("the certificate has expired")]
    Expired,
    #[error("the certificate is not valid yet")]
    NotYetValid,
}

impl ServedCertificate {
    /// Checks a chain with its private key, both as PEM.
    ///
    /// # Errors
    /// The first reason why clients, or an edge, would not take it.
    pub fn check(chain: &[u8], key: &[u8], now: Timestamp) -> Result<Self, ServedError> {
        let found = Self::read(chain, key)?;
        if !found.validity.contains(now) {
            let is_over = found.validity.not_after < now;
            return Err(if is_over { ServedError::Expired } else { ServedError::NotYetValid });
        }
        Ok(found)
    }

    /// Checks all but when it is valid: for what an authority has just issued, whose clock counts more than that of
    /// this machine.
    ///
    /// # Errors
    /// The first reason why clients, or an edge, would not take it.
    pub fn read(chain: &[u8], key: &[u8]) -> Result<Self, ServedError> {
        let certificates = certificates(chain)?;
        let leaf = certificates.first().ok_or(ServedError::NoCertificate)?;
        check_links(&certificates)?;
        let parsed = parse(leaf, 1)?;
        if parsed.is_ca() && certificates.len() > 1 {
            return Err(ServedError::Authority);
        }
        let names = names(&parsed)?;
        let validity = Validity::of(&parsed).ok_or(ServedError::Malformed(1))?;
        check_key(&certificates, key)?;
        Ok(Self {
            // Written anew: what else the file has, such as a key, is not replicated in clear.
            chain: certificates.iter().map(certificate_pem).collect(),
            names,
            validity,
            fingerprint: Fingerprint::of(leaf),
        })
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ServedError> {
    let mut certificates = Vec::new();
    for found in CertificateDer::pem_slice_iter(pem) {
        certificates.push(found.map_err(|_| ServedError::Malformed(certificates.len() + 1))?);
    }
    match certificates.len() {
        0 => Err(ServedError::NoCertificate),
        count if count > CHAIN_MAX => Err(ServedError::TooMany(count)),
        _ => Ok(certificates),
    }
}

fn parse<'a>(
    der: &'a CertificateDer<'_>,
    number: usize,
) -> Result<X509Certificate<'a>, ServedError> {
    let (rest, parsed) =
        X509Certificate::from_der(der).map_err(|_| ServedError::Malformed(number))?;
    if rest.is_empty() { Ok(parsed) } else { Err(ServedError::Malformed(number)) }
}

/// Each certificate is issued by the one behind it: some clients do not look for the right order.
fn check_links(certificates: &[CertificateDer<'_>]) -> Result<(), ServedError> {
    for (number, two) in (1..).zip(certificates.windows(2)) {
        let [one, next] = two else { continue };
        let (one, next) = (parse(one, number)?, parse(next, number + 1)?);
        let is_issued =
            one.issuer() == next.subject() && one.verify_signature(Some(next.public_key())).is_ok();
        if !is_issued {
            return Err(ServedError::Unlinked(number));
        }
    }
    Ok(())
}

fn names(certificate: &X509Certificate<'_>) -> Result<BTreeSet<String>, ServedError> {
    let extension = certificate.subject_alternative_name();
    let extension = extension.map_err(|_| ServedError::Malformed(1))?;
    let all = extension.map(|names| &names.value.general_names).into_iter().flatten();
    let names: BTreeSet<String> = all
        .filter_map(|name| {
            if let GeneralName::DNSName(name) = name {
                Some(name.to_ascii_lowercase())
            } else {
                None
            }
        })
        .collect();
    if names.is_empty() { Err(ServedError::NoNames) } else { Ok(names) }
}

fn check_key(certificates: &[CertificateDer<'static>], pem: &[u8]) -> Result<(), ServedError> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| ServedError::NoKey)?;
    let key = provider().key_provider.load_private_key(key);
    let key = key.map_err(|_| ServedError::UnsupportedKey)?;
    match CertifiedKey::new(certificates.to_vec(), key).keys_match() {
        Ok(()) => Ok(()),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(ServedError::OtherKey),
        Err(_) => Err(ServedError::UnsupportedKey),
    }
}
