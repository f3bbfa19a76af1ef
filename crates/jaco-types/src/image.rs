//! What an image is when nobody can move it: its digest.

use std::fmt;
use std::sync::Arc;

use crate::id::SpecHash;

/// The longest name of an image with its digest, in bytes.
const DIGEST_MAX: usize = 512;

/// An image by its content, `repository@sha256:…`, as engines fetch and run it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageDigest(Arc<str>);

impl ImageDigest {
    /// Reads one; `None` where it is not a repository, `@sha256:` and 64 small hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (repository, digest) = text.split_once("@sha256:")?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_plain = repository.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
        let is_digest = digest.len() == 64 && digest.bytes().all(is_hex);
        let is_one = !repository.is_empty() && is_plain && is_digest && text.len() <= DIGEST_MAX;
        is_one.then(|| Self(text.into()))
    }

    /// The whole of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole of it, to be run or fetched.
    #[must_use]
    pub fn reference(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The digest without the repository, `sha256:…`.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, digest)| digest)
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// An image as a node is asked for it before the first step of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageNeed {
    /// The spec that needs it.
    pub spec: SpecHash,
    /// Which content it must be; where none is named, what its name leads the node to.
    pub digest: Option<ImageDigest>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_checked_where_it_is_made() {
        let hex = "0a".repeat(32);
        let ok = |text: &str| ImageDigest::parse(text).is_some();
        assert!(ok(&format!("web@sha256:{hex}")));
        assert!(ok(&format!("localhost:5000/team/web@sha256:{hex}")));
        for wrong in [
            "web:1".to_owned(),
            format!("@sha256:{hex}"),
            format!("web@sha256:{}", &hex[1..]),
            format!("web@sha256:{}", hex.to_uppercase()),
            format!("we b@sha256:{hex}"),
            format!("web@sha256:{hex}@sha256:{hex}"),
            format!("{}@sha256:{hex}", "w".repeat(500)),
        ] {
            assert!(!ok(&wrong), "{wrong}");
        }
        let whole = ImageDigest::parse(&format!("web@sha256:{hex}")).unwrap();
        assert_eq!(whole.digest(), format!("sha256:{hex}"));
    }
}
