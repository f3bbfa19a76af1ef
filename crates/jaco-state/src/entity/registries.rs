//! Credentials of image registries, for every node's pulls (R-CLI-6). A password is here in sealed form
//! only; what opens it is not replicated.

use std::fmt;
use std::sync::Arc;

use jaco_types::{Identity, RegistryUsername, Timestamp};

/// The most registries with credentials: they are in each snapshot, and in each node's memory.
pub const REGISTRIES_MAX: usize = 256;

/// The most bytes of a password. Some registries hand out tokens of several KiB in place of one.
pub const PASSWORD_BYTES_MAX: usize = 16 << 10;

/// What sealing may add to a password.
const SEAL_BYTES_MAX: usize = 256;

/// The cluster's credentials at a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryLogin {
    /// The account.
    pub username: RegistryUsername,
    /// The password.
    pub password: SealedPassword,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// Who stored it.
    pub by: Identity,
}

/// A password, sealed under the cluster's key for one user of one registry: cheap to copy, and not
/// printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedPassword(pub Arc<[u8]>);

impl SealedPassword {
    /// Whether a password of the allowed size can be in it.
    #[must_use]
    pub fn fits(&self) -> bool {
        (1..=PASSWORD_BYTES_MAX + SEAL_BYTES_MAX).contains(&self.0.len())
    }
}

impl fmt::Debug for SealedPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sealed bytes", self.0.len())
    }
}
