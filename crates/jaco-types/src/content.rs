//! Ids of contents of files, and names of configs and secrets.

use std::fmt;

use crate::id::ContentName;

/// What a content is that people gave a name: compose knows each of the two by names of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamedKind {
    /// A file that may be read.
    Config,
    /// A file that is sealed wherever it is kept (R-IN-5).
    Secret,
}

impl NamedKind {
    /// The kind as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Secret => "secret",
        }
    }

    /// Reads what [`NamedKind::as_str`] gives.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Config, Self::Secret].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A config or secret that the cluster keeps under a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedKey {
    /// Which of the two it is.
    pub kind: NamedKind,
    /// Its name.
    pub name: ContentName,
}

impl fmt::Display for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind.as_str(), self.name)
    }
}

/// Names a piece of content. Equal contents have equal ids, so that nothing is sent or stored twice.
///
/// Of a plain piece it is the SHA-256 of its bytes. Of a sealed one it is a keyed hash of them, from
/// which nobody without the cluster's key can find out what they are (R-IN-5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub [u8; 32]);

impl ContentId {
    /// Reads what `Display` wrote; `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut id = [0; 32];
        // Capitals would be a second name for the same piece.
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        (lower && hex::decode_to_slice(text, &mut id).is_ok()).then_some(Self(id))
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(self.0))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", hex::encode(&self.0[..6]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = ContentId([0xab; 32]);
        assert_eq!(ContentId::from_hex(&id.to_string()), Some(id));
        for other in ["", "ab", &"AB".repeat(32), &"zz".repeat(32), &"ab".repeat(33)] {
            assert_eq!(ContentId::from_hex(other), None, "{other}");
        }
    }
}
