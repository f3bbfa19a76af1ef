//! Random names that nobody can guess: what a browser shows for a session, and what a link has in it.

use jaco_types::{ErrorCode, Rejection};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a name, as many as nobody can guess.
const NAME_BYTES: usize = 32;

/// What is kept of a name.
pub(crate) type NameHash = [u8; 32];

/// A new name.
///
/// # Errors
/// `internal` if this machine has no random numbers.
pub(crate) fn fresh() -> Result<String, Rejection> {
    let mut name = [0; NAME_BYTES];
    SystemRandom::new()
        .fill(&mut name)
        .map_err(|_| Rejection::new(ErrorCode::Internal, "this machine gives no random numbers"))?;
    Ok(hex::encode(name))
}

pub(crate) fn hash(name: &str) -> NameHash {
    let hash = digest(&SHA256, name.as_bytes());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
