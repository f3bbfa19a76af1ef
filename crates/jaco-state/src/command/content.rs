//! Commands about contents of files, named configs and secrets, and registry credentials.

use jaco_types::{ContentId, NamedKey, RegistryName, RegistryUsername};

use crate::contents::{ContentTerms, ContentUsers, Piece};
use crate::registries::SealedPassword;

/// Uploads contents of files that an apply is about to refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentPut {
    /// The content chunks.
    pub pieces: Vec<Piece>,
}

impl ContentPut {
    /// Creates the command.
    #[must_use]
    pub fn new(pieces: Vec<Piece>) -> Self {
        Self { pieces }
    }
}

/// Creates a named config or secret, or replaces its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedContentPut {
    /// Its kind and name.
    pub key: NamedKey,
    /// The chunk that lists its files.
    pub tree: ContentId,
    /// The list, and the chunks of the files.
    pub pieces: Vec<Piece>,
    /// Its size in bytes, without the list.
    pub size: u64,
    /// Which deployments may use it; `None` for those that might before, which are all for a new one.
    pub users: Option<ContentUsers>,
    /// What it is stored with; `None` as long as a member may not know that.
    pub terms: Option<ContentTerms>,
}

impl NamedContentPut {
    /// Creates the command.
    #[must_use]
    pub fn new(key: NamedKey, tree: ContentId, pieces: Vec<Piece>, size: u64) -> Self {
        Self { key, tree, pieces, size, users: None, terms: None }
    }

    /// From now on it is for these deployments.
    #[must_use]
    pub fn for_users(self, users: ContentUsers) -> Self {
        Self { users: Some(users), ..self }
    }

    /// It is stored with these.
    #[must_use]
    pub fn on(self, terms: ContentTerms) -> Self {
        Self { terms: Some(terms), ..self }
    }
}

/// Deletes a named config or secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedContentRemove {
    /// Its kind and name.
    pub key: NamedKey,
}

impl NamedContentRemove {
    /// Creates the command.
    #[must_use]
    pub fn new(key: NamedKey) -> Self {
        Self { key }
    }
}

/// Stores credentials of an image registry, or replaces them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryStore {
    /// The registry.
    pub registry: RegistryName,
    /// The account there.
    pub username: RegistryUsername,
    /// The password, sealed for this account of this registry.
    pub password: SealedPassword,
}

impl RegistryStore {
    /// Creates the command.
    #[must_use]
    pub fn new(
        registry: RegistryName,
        username: RegistryUsername,
        password: SealedPassword,
    ) -> Self {
        Self { registry, username, password }
    }
}

/// Deletes the credentials of an image registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryRemove {
    /// The registry.
    pub registry: RegistryName,
}

impl RegistryRemove {
    /// Creates the command.
    #[must_use]
    pub fn new(registry: RegistryName) -> Self {
        Self { registry }
    }
}
