//! Credentials of one registry.

use std::fmt;

use jaco_types::{RegistryName, RegistryUsername};
use zeroize::Zeroizing;

/// A user name and password for a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryCredentials {
    /// The only registry they are sent to.
    pub registry: RegistryName,
    /// User name.
    pub username: RegistryUsername,
    password: Zeroizing<String>,
}

impl RegistryCredentials {
    /// Credentials of `username`. The password is wiped on drop.
    #[must_use]
    pub fn new(registry: RegistryName, username: RegistryUsername, password: String) -> Self {
        Self { registry, username, password: Zeroizing::new(password) }
    }

    /// The password, for the engine only.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for RegistryCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RegistryCredentials");
        out.field("registry", &self.registry).field("username", &self.username);
        out.finish_non_exhaustive()
    }
}
