//! Hashes of passwords, as routes have them. A password is neither kept nor printed.

use std::num::NonZeroU32;

use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};

use jaco_types::route::PasswordHash;

use crate::random;

/// How many rounds: what guessing a password from its hash costs, and every check of it. The number that OWASP
/// names for this kind of hash.
const ROUNDS: u32 = 600_000;

const SALT_BYTES: usize = 16;

/// Hashes a password with a salt of its own.
///
/// # Panics
/// Never: rounds and salt are within the bounds of a hash.
#[must_use]
pub fn hash(password: &[u8]) -> PasswordHash {
    let salt: [u8; SALT_BYTES] = random::bytes();
    let mut out = [0; 32];
    let rounds = NonZeroU32::new(ROUNDS).expect("it is not zero");
    pbkdf2::derive(PBKDF2_HMAC_SHA256, rounds, &salt, password, &mut out);
    PasswordHash::new(ROUNDS, &salt, out).expect("rounds and salt are within their bounds")
}

/// Whether a password has this hash. How long that takes does not depend on either.
#[must_use]
pub fn matches(hash: &PasswordHash, password: &[u8]) -> bool {
    let rounds = NonZeroU32::new(hash.rounds());
    rounds.is_some_and(|rounds| {
        let verified =
            pbkdf2::verify(PBKDF2_HMAC_SHA256, rounds, hash.salt(), password, &hash.hash());
        verified.is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-EDGE-2: a hash is that of its password alone, and of no two passwords the same.
    #[test]
    fn a_hash_is_that_of_its_password() {
        let one = hash(b"hunter2");
        assert!(matches(&one, b"hunter2") && !matches(&one, b"hunter3"));
        assert_ne!(hash(b"hunter2"), one, "each has a salt of its own");
        assert_eq!(PasswordHash::parse(&one.to_text()), Ok(one));
    }

    /// R-EDGE-2: the hash is the one that other programs make.
    #[test]
    fn a_hash_is_a_standard_one() {
        // python3: hashlib.pbkdf2_hmac("sha256", b"hunter2", bytes(range(16)), 10000).hex()
        let text = concat!(
            "pbkdf2-sha256:10000:000102030405060708090a0b0c0d0e0f:",
            "cef000bef1c43b047de293e1001f10b2f97e6e5dea7cf4b6719fc559b14912c5"
        );
        assert!(matches(&PasswordHash::parse(text).expect("it is a hash"), b"hunter2"));
    }
}
