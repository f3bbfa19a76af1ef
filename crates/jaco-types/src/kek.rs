//! The name of a key-encryption key, and where an envelope says it. Must never hold a key.

use std::fmt;

/// The version of envelopes; a later one has another form.
const VERSION: u8 = 1;

/// The fewest bytes of an envelope: `version (1) | algorithm (1) | key id (8) | nonce (12) | tag (16)`.
const ENVELOPE_BYTES_MIN: usize = 38;

/// Names a key-encryption key without giving it away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KekId(pub [u8; 8]);

impl KekId {
    /// The key that an envelope says it is sealed with; `None` if it is no envelope. A claim: only opening it proves that
    /// it was not altered.
    #[must_use]
    pub fn of_envelope(envelope: &[u8]) -> Option<Self> {
        if envelope.len() < ENVELOPE_BYTES_MIN || envelope.first() != Some(&VERSION) {
            return None;
        }
        envelope.get(2..10)?.try_into().ok().map(Self)
    }
}

impl fmt::Display for KekId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(self.0))
    }
}

impl fmt::Debug for KekId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-5: what is no envelope names no key.
    #[test]
    fn only_an_envelope_names_a_key() {
        let mut envelope = [0; ENVELOPE_BYTES_MIN];
        (envelope[0], envelope[2], envelope[9]) = (1, 7, 8);
        assert_eq!(KekId::of_envelope(&envelope), Some(KekId([7, 0, 0, 0, 0, 0, 0, 8])));
        assert_eq!(KekId::of_envelope(&envelope[1..]), None);
        assert_eq!(KekId::of_envelope(&envelope[..37]), None);
        assert_eq!(KekId::of_envelope(&[]), None);
        envelope[0] = 2;
        assert_eq!(KekId::of_envelope(&envelope), None);
    }
}
