//! Certificates and keys, by name. They come as PEM, from where they are sealed, and are in memory only.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The certificates that an edge has: the side table of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    /// By name: that of [`TlsMode::Certificate`](jaco_dataplane::edge::TlsMode), or the domain of a route with
    /// [`TlsMode::Auto`](jaco_dataplane::edge::TlsMode) or `Off`.
    pub by_name: BTreeMap<String, Arc<CertificatePem>>,
    /// By domain: what answers ACME's TLS-ALPN-01 challenges.
    pub challenges: BTreeMap<String, Arc<CertificatePem>>,
}

/// A certificate with its chain and its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificatePem {
    /// The certificate, and those between it and the root, as PEM.
    pub chain: Vec<u8>,
    /// The private key, as PEM: PKCS#8, PKCS#1 or SEC1.
    pub key: Vec<u8>,
}

/// Whoever prints it sees no key.
impl fmt::Debug for CertificatePem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificatePem").finish_non_exhaustive()
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("the chain is no PEM of certificates")]
    Chain(#[source] rustls::pki_types::pem::Error),
    #[error("the chain has no certificate")]
    NoCertificate,
    #[error("the key is no PEM of a private key")]
    Key(#[source] rustls::pki_types::pem::Error),
    #[error("the key is not one of the certificate, or of a kind that is not supported")]
    Pair(#[source] rustls::Error),
}

/// Certificates that are ready for handshakes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    by_name: HashMap<String, Ready>,
    challenges: HashMap<String, Ready>,
}

#[derive(Debug, Clone)]
struct Ready {
    pem: Arc<CertificatePem>,
    certified: Arc<CertifiedKey>,
}

impl Store {
    /// The store for these certificates, with what `self` has read of them already, and what cannot be used and why.
    pub(crate) fn update(
        &self,
        certificates: &Certificates,
        provider: &CryptoProvider,
    ) -> (Self, BTreeMap<String, String>) {
        let mut problems = BTreeMap::new();
        let mut read = |old: &HashMap<String, Ready>,
                        new: &BTreeMap<String, Arc<CertificatePem>>| {
            let mut ready = HashMap::with_capacity(new.len());
            for (name, pem) in new {
                let known = old.get(name).filter(|known| known.pem == *pem).cloned();
                match known.map_or_else(|| Ready::read(pem, provider), Ok) {
                    Ok(certificate) => drop(ready.insert(name.clone(), certificate)),
                    Err(error) => {
                        problems.insert(format!("certificate {name}"), error.to_string());
                    }
                }
            }
            ready
        };
        let by_name = read(&self.by_name, &certificates.by_name);
        let challenges = read(&self.challenges, &certificates.challenges);
        (Self { by_name, challenges }, problems)
    }

    /// The certificate of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        self.by_name.get(name).map(|ready| &ready.certified)
    }

    /// What answers the challenge of a domain.
    pub(crate) fn challenge(&self, domain: &str) -> Option<&Arc<CertifiedKey>> {
        self.challenges.get(domain).map(|ready| &ready.certified)
    }
}

impl Ready {
    fn read(pem: &Arc<CertificatePem>, provider: &CryptoProvider) -> Result<Self, Unusable> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem.chain)
            .collect::<Result<_, _>>()
            .map_err(Unusable::Chain)?;
        if chain.is_empty() {
            return Err(Unusable::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(Unusable::Key)?;
        let certified = CertifiedKey::from_der(chain, key, provider).map_err(Unusable::Pair)?;
        Ok(Self { pem: Arc::clone(pem), certified: Arc::new(certified) })
    }
}
