//! Certificates and keys, by name. They come as PEM, from where they are sealed, and are in memory only.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use jaco_types::CertificateName;
use jaco_types::route::RouteDomain;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The certificates that an edge has: the side table of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Those of users: for routes that name them by [`RouteTls::Certificate`](jaco_types::route::RouteTls). A name
    /// may look like a domain, and is none.
    pub by_name: BTreeMap<CertificateName, Arc<CertificatePem>>,
    /// Those that were ordered: for the routes of a domain with [`RouteTls::Auto`](jaco_types::route::RouteTls) or
    /// `Off`.
    pub by_domain: BTreeMap<RouteDomain, Arc<CertificatePem>>,
    /// By domain: what answers ACME's TLS-ALPN-01 challenges.
    pub challenges: BTreeMap<RouteDomain, Arc<CertificatePem>>,
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
    by_domain: HashMap<String, Ready>,
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
        let (by_name, by_domain, challenges) =
            (&certificates.by_name, &certificates.by_domain, &certificates.challenges);
        let mut refuse = |what: String, error: &Unusable| {
            problems.insert(what, error.to_string());
        };
        let served = |pem: &_| Ready::served(pem, provider);
        let challenge = |pem: &_| Ready::challenge(pem, provider);
        let store = Self {
            by_name: read(&self.by_name, by_name, served, |name, error| {
                refuse(format!("certificate {name}"), error);
            }),
            by_domain: read(&self.by_domain, by_domain, served, |domain, error| {
                refuse(format!("certificate of {domain}"), error);
            }),
            challenges: read(&self.challenges, challenges, challenge, |domain, error| {
                refuse(format!("challenge of {domain}"), error);
            }),
        };
        (store, problems)
    }

    /// The certificate of a user that has this name.
    pub(crate) fn named(&self, name: &CertificateName) -> Option<&Arc<CertifiedKey>> {
        self.by_name.get(name.as_str()).map(|ready| &ready.certified)
    }

    /// The certificate that was ordered for a domain.
    pub(crate) fn ordered(&self, domain: &RouteDomain) -> Option<&Arc<CertifiedKey>> {
        self.by_domain.get(domain.as_str()).map(|ready| &ready.certified)
    }

    /// What answers the challenge of a domain.
    pub(crate) fn challenge(&self, domain: &str) -> Option<&Arc<CertifiedKey>> {
        self.challenges.get(domain).map(|ready| &ready.certified)
    }
}

/// Certificates that are ready, with those of `old` that are the same.
fn read<K: fmt::Display>(
    old: &HashMap<String, Ready>,
    new: &BTreeMap<K, Arc<CertificatePem>>,
    ready: impl Fn(&Arc<CertificatePem>) -> Result<Ready, Unusable>,
    mut refuse: impl FnMut(&str, &Unusable),
) -> HashMap<String, Ready> {
    let mut all = HashMap::with_capacity(new.len());
    for (name, pem) in new {
        let name = name.to_string();
        let known = old.get(&name).filter(|known| known.pem == *pem).cloned();
        match known.map_or_else(|| ready(pem), Ok) {
            Ok(one) => drop(all.insert(name, one)),
            Err(error) => refuse(&name, &error),
        }
    }
    all
}

impl Ready {
    /// For clients.
    fn served(pem: &Arc<CertificatePem>, provider: &CryptoProvider) -> Result<Self, Unusable> {
        let (chain, key) = parts(pem)?;
        let certified = CertifiedKey::from_der(chain, key, provider).map_err(Unusable::Pair)?;
        Ok(Self { pem: Arc::clone(pem), certified: Arc::new(certified) })
    }

    /// For an authority. What proves the domain is a critical extension (RFC 8737), at which the library's comparison of
    /// certificate and key refuses to read the certificate.
    fn challenge(pem: &Arc<CertificatePem>, provider: &CryptoProvider) -> Result<Self, Unusable> {
        let (chain, key) = parts(pem)?;
        let key = provider.key_provider.load_private_key(key).map_err(Unusable::Pair)?;
        let certified = Arc::new(CertifiedKey::new(chain, key));
        Ok(Self { pem: Arc::clone(pem), certified })
    }
}

fn parts(
    pem: &CertificatePem,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Unusable> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem.chain)
        .collect::<Result<_, _>>()
        .map_err(Unusable::Chain)?;
    if chain.is_empty() {
        return Err(Unusable::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(Unusable::Key)?;
    Ok((chain, key))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, KeyPair};

    use super::*;

    /// It was refused as a certificate that clients do not understand, so that no domain could be proven by it.
    #[test]
    fn a_challenge_has_an_extension_that_no_client_knows() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(&[7; 32])];
        let chain = params.self_signed(&key).unwrap().pem().into_bytes();
        let pem = Arc::new(CertificatePem { chain, key: key.serialize_pem().into_bytes() });
        let mut certificates = Certificates::default();
        certificates.challenges.insert("a.example".parse().unwrap(), pem);
        let provider = rustls::crypto::ring::default_provider();
        let (store, problems) = Store::default().update(&certificates, &provider);
        assert_eq!(problems, BTreeMap::new());
        assert!(store.challenge("a.example").is_some());
    }
}
