//! Private keys as the state has them. Must never hold one that is not sealed.

use std::fmt;
use std::sync::Arc;

/// The most bytes of a private key, as PEM. An RSA key of 16,384 bits has 13 KiB.
pub const KEY_BYTES_MAX: usize = 16 << 10;

/// What sealing may add to a key.
const SEAL_BYTES_MAX: usize = 256;

/// A private key, sealed under the cluster's key for one purpose: cheap to copy, and not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedKey(pub Arc<[u8]>);

impl SealedKey {
    /// Whether a key of the allowed size can be in it.
    #[must_use]
    pub fn fits(&self) -> bool {
        (1..=KEY_BYTES_MAX + SEAL_BYTES_MAX).contains(&self.0.len())
    }
}

impl fmt::Debug for SealedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sealed bytes", self.0.len())
    }
}
