//! What signs requests, and the form in which it is sealed, which is for ever: the id and the secret, each a line.

use std::fmt;

use zeroize::Zeroizing;

/// The most bytes of an id and of a secret.
const BYTES_MAX: usize = 256;

/// A key at an object store.
#[derive(Clone)]
pub struct AccessKey {
    id: String,
    secret: Zeroizing<String>,
}

/// Why a key is not taken. Says nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key at an object store has an id and a secret, each of 1 to {BYTES_MAX} printable ASCII characters without spaces"
)]
pub struct AccessKeyError;

impl AccessKey {
    /// A key by its id and its secret.
    ///
    /// # Errors
    /// If one of them is missing, too long, or cannot be in a header.
    pub fn new(id: &str, secret: &str) -> Result<Self, AccessKeyError> {
        let fits = |text: &str| {
            (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
        };
        match fits(id) && fits(secret) {
            true => Ok(Self { id: id.to_owned(), secret: Zeroizing::new(secret.to_owned()) }),
            false => Err(AccessKeyError),
        }
    }

    /// What is sealed.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(format!("{}\n{}", self.id, *self.secret).into_bytes())
    }

    /// Reads what was sealed.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, secret) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
        Self::new(id, secret).ok()
    }

    pub(crate) fn signs(&self) -> rusty_s3::Credentials {
        rusty_s3::Credentials::new(self.id.clone(), self.secret.as_str())
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessKey({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: what one version sealed, later ones read; the secret is never printed.
    #[test]
    fn a_key_is_read_back() {
        let key = AccessKey::new("AKIA1", "hunter2/+=").unwrap();
        assert_eq!(*key.to_bytes(), b"AKIA1\nhunter2/+=");
        let read = AccessKey::from_bytes(b"AKIA1\nhunter2/+=").unwrap();
        assert_eq!((read.id.as_str(), read.secret.as_str()), ("AKIA1", "hunter2/+="));
        assert!(!format!("{key:?} {key:#?}").contains("hunter2"));
        let long = "x".repeat(BYTES_MAX + 1);
        for (id, secret) in [("", "s"), ("i", ""), ("i", "a b"), ("i\r\nx", "s"), ("i", &long)] {
            assert!(AccessKey::new(id, secret).is_err(), "{id:?} {secret:?}");
        }
        for broken in [&b""[..], b"AKIA1", b"\n", b"a\nb\nc", &[0xff, b'\n', b'a']] {
            assert!(AccessKey::from_bytes(broken).is_none(), "{broken:?}");
        }
    }
}
