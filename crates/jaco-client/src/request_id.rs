//! Random texts: request ids, with which a repeated write is answered with the first outcome (R-CLI-9), and secrets.

use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom, SystemRandom};

/// A new request id: 128 random bits in hex.
#[must_use]
pub fn fresh_request_id() -> String {
    random_hex::<16>()
}

/// A new secret that signs messages to others: 256 random bits in hex.
#[must_use]
pub fn fresh_secret() -> String {
    random_hex::<32>()
}

fn random_hex<const N: usize>() -> String {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has a source of randomness");
    HEXLOWER.encode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jaco_types::RequestId;

    /// R-CLI-9
    #[test]
    fn ids_are_valid_and_differ() {
        let (a, b) = (fresh_request_id(), fresh_request_id());
        assert!(RequestId::new(&a).is_ok() && a.len() == 32);
        assert_ne!(a, b);
        let (a, b) = (fresh_secret(), fresh_secret());
        assert!(a.len() == 64 && a != b);
    }
}
