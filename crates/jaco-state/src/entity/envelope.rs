//! Where there are sealed values in the state.

use std::fmt;

use jaco_types::route::RouteDomain;
use jaco_types::{BackupScheduleName, CertificateName, ContentId, NotifyTargetName, RegistryName};

/// Where an envelope is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The key that names secrets.
    NamingKey,
    /// The private key of an authority: of the cluster's, or of one of the two in a rotation.
    AuthorityKey,
    /// A piece of a secret.
    Content(ContentId),
    /// The password at a registry.
    Registry(RegistryName),
    /// The private key of a user's certificate.
    Certificate(CertificateName),
    /// The private key of the account at an ACME authority.
    AcmeAccount,
    /// The private key of a certificate that was ordered for a domain.
    Issued(RouteDomain),
    /// The address and the secret of a notification target.
    NotifyTarget(NotifyTargetName),
    /// The key of a backup schedule at an object store.
    BackupSchedule(BackupScheduleName),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamingKey => f.write_str("the key that names secrets"),
            Self::AuthorityKey => f.write_str("the private key of the authority"),
            Self::Content(id) => write!(f, "the piece {id} of a secret"),
            Self::Registry(name) => write!(f, "the password at {name}"),
            Self::Certificate(name) => write!(f, "the private key of the certificate {name}"),
            Self::AcmeAccount => f.write_str("the private key of the ACME account"),
            Self::Issued(domain) => {
                write!(f, "the private key of the certificate that was ordered for {domain}")
            }
            Self::NotifyTarget(name) => write!(f, "the address of the notification target {name}"),
            Self::BackupSchedule(name) => {
                write!(f, "the key of the backup schedule {name} at its object store")
            }
        }
    }
}
