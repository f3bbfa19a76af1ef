//! The key that names secrets. Must never name anything by what can be guessed without it.

use std::fmt;

use jaco_types::ClusterId;
use ring::hmac;
use zeroize::{Zeroize, Zeroizing};

/// Makes the names by which equal secrets are known to be equal: keyed hashes, so that whoever holds a name but not the
/// key cannot find the content by trying guesses. It stays the same for as long as there is the cluster: another one
/// would give every secret another name, and roll every replica that has one.
#[derive(Clone)]
pub struct NamingKey([u8; 32]);

impl NamingKey {
    /// The key that [`NamingKey::to_bytes`] gave.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key that was sealed; `None` if it is none.
    #[must_use]
    pub fn from_opened(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes, to be sealed. Wiped when dropped.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0)
    }

    /// The name of a content: the same content has the same name in this cluster, and in no other.
    #[must_use]
    pub fn name_of(&self, cluster: &ClusterId, plaintext: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        let cluster = cluster.as_str().as_bytes();
        context.update(&(cluster.len() as u64).to_be_bytes());
        context.update(cluster);
        context.update(plaintext);
        let mut name = [0; 32];
        name.copy_from_slice(context.sign().as_ref());
        name
    }
}

impl Drop for NamingKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for NamingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NamingKey")
    }
}
