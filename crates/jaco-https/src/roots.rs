//! By whom servers are known.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// By whom a server is known.
#[derive(Debug, Clone)]
pub enum Roots {
    /// By those that the machine trusts.
    System,
    /// By these alone.
    These(Vec<CertificateDer<'static>>),
}

/// Authorities that can be used.
#[derive(Debug)]
pub struct Trusted {
    /// For TLS.
    pub store: RootCertStore,
    /// The same, for clients that bring a TLS of their own.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// The authorities, read now: those of the machine may have changed. What cannot be read is left out, because the others may be
    /// enough. Blocks while it reads.
    #[must_use]
    pub fn load(self) -> Trusted {
        let mut certificates = match self {
            Self::These(certificates) => certificates,
            Self::System => rustls_native_certs::load_native_certs().certs,
        };
        let mut store = RootCertStore::empty();
        certificates.retain(|certificate| store.add(certificate.clone()).is_ok());
        Trusted { store, certificates }
    }
}

impl Trusted {
    /// Whether no server can be known by them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: what is no certificate is left out, and nobody is trusted by it.
    #[test]
    fn what_is_no_certificate_is_left_out() {
        let broken = vec![CertificateDer::from(vec![1, 2, 3])];
        let trusted = Roots::These(broken).load();
        assert!(trusted.is_empty() && trusted.store.is_empty());
    }
}
