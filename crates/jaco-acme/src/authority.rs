//! The authority that a cluster orders from, as its operator has set it.

use jaco_https::Roots;
use jaco_types::ChallengeKind;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The authority that a cluster orders from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The address of its directory.
    pub directory: String,
    /// Whom it may write to, as `mailto:` address. Told when the account is made.
    pub contact: Option<String>,
    /// Whether the operator has agreed to its terms of service.
    pub terms: Terms,
    /// By whom its own server is known.
    pub roots: TrustedRoots,
    /// The one challenge that is answered. None: HTTP-01, and TLS-ALPN-01 where port 80 does not answer.
    pub challenge: Option<ChallengeKind>,
}

/// Whether the operator has agreed to the authority's terms of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terms {
    /// In the settings.
    Agreed,
    /// Nothing is ordered, and every domain says why.
    NotAgreed,
}

/// By whom the authority's own server is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedRoots {
    /// By those that the machine trusts.
    System,
    /// By these alone, as PEM: for authorities of an organisation.
    Pem(Vec<u8>),
}

/// Why nothing could be trusted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RootsError {
    #[error(
        "this machine trusts no authority: install the package ca-certificates, or set `edge.acme.ca_file`"
    )]
    NoneOnMachine,
    #[error("the file of `edge.acme.ca_file` has no certificate in PEM form (BEGIN CERTIFICATE)")]
    NoneInFile,
    #[error("a certificate of `edge.acme.ca_file` cannot be read: {0}")]
    Unreadable(String),
}

impl TrustedRoots {
    /// Whether anybody can be known by them now.
    ///
    /// # Errors
    /// Why not: no certificate, or one that cannot be read.
    pub fn check(&self) -> Result<(), String> {
        self.load().map(drop).map_err(|error| error.to_string())
    }

    /// The certificates, read now: those of the machine may have changed.
    pub(crate) fn load(&self) -> Result<RootCertStore, RootsError> {
        match self {
            Self::System => {
                let trusted = Roots::System.load();
                if trusted.is_empty() { Err(RootsError::NoneOnMachine) } else { Ok(trusted.store) }
            }
            Self::Pem(pem) => {
                let mut store = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate =
                        certificate.map_err(|error| RootsError::Unreadable(error.to_string()))?;
                    store
                        .add(certificate)
                        .map_err(|error| RootsError::Unreadable(error.to_string()))?;
                }
                if store.is_empty() { Err(RootsError::NoneInFile) } else { Ok(store) }
            }
        }
    }
}
