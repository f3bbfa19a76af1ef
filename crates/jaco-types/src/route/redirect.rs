//! Routes whose requests are answered with another address.

use std::fmt;
use std::sync::Arc;

use crate::id::InvalidName;

/// The most bytes of a target.
const TARGET_BYTES_MAX: usize = 2048;

const TARGET_RULE: &str = "use a path that begins with one /, or an address that begins with http:// or https://, in \
                           at most 2048 printable characters without spaces, quotes, <, > and \\";
/// An answer that sends the client elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Where to.
    pub to: RedirectTarget,
    /// What becomes of what follows the path of the route, and of the query.
    pub rest: RedirectRest,
    /// The status of the response.
    pub status: RedirectStatus,
}

/// What becomes of the part of a request's address that follows the path of a route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RedirectRest {
    /// It is appended to the target.
    #[default]
    Append,
    /// It is dropped.
    Drop,
}

/// A path of the same domain, or the beginning of a URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RedirectTarget(Arc<str>);

/// The status of a redirect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RedirectStatus {
    /// 301: for good; old clients turn a POST into a GET.
    MovedPermanently,
    /// 302: for now; old clients turn a POST into a GET.
    Found,
    /// 307: for now, by the same method.
    Temporary,
    /// 308: for good, by the same method.
    #[default]
    Permanent,
}

impl RedirectTarget {
    /// Checks and keeps a target.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\`".contains(&byte);
        // Two slashes would begin the name of another host.
        let is_path = text.starts_with('/') && !text.starts_with("//");
        let host = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let has_host = host.is_some_and(|host| host.starts_with(|c: char| c.is_alphanumeric()));
        let is_valid = text.len() <= TARGET_BYTES_MAX && text.bytes().all(is_allowed);
        if is_valid && (is_path || has_host) {
            return Ok(Self(text.into()));
        }
        let shown = text.chars().take(80).collect();
        Err(InvalidName { kind: "target of a redirect", text: shown, rule: TARGET_RULE })
    }

    /// The target as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RedirectStatus {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::MovedPermanently, Self::Found, Self::Temporary, Self::Permanent];

    /// The number.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::MovedPermanently => 301,
            Self::Found => 302,
            Self::Temporary => 307,
            Self::Permanent => 308,
        }
    }

    /// The status of this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.number() == number)
    }
}

impl fmt::Display for RedirectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RedirectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
