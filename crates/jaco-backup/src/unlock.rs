//! What opens an encrypted file.

use crate::age::{FileKey, Identities};

/// What opens an encrypted file. One that is not encrypted needs nothing.
#[derive(Debug, Clone, Copy)]
pub enum Unlock<'k> {
    /// No key.
    Nothing,
    /// Keys of users.
    Identities(&'k Identities),
    /// The key of this very file, which was just written.
    File(&'k FileKey),
}
