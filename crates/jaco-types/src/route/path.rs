//! The prefix of paths that a route is for.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::id::InvalidName;

/// The most bytes of a prefix.
pub const ROUTE_PATH_BYTES_MAX: usize = 512;

const RULE: &str = "use `/` and segments of letters, digits and -._~!$&'()*+,;=:@, none of them empty, `.` or \
                    `..`, in 512 bytes; other letters have no place in a prefix";

/// A prefix of paths, of whole segments: `/api` is that of `/api` and `/api/x`, not of `/apix`. It has no `/`
/// at its end, so the one of all paths is empty.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutePath(Arc<str>);

impl RoutePath {
    /// Takes a prefix as [`RoutePath::prefix`] gives it.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let path = Self::parse(text)?;
        if path.prefix() == text { Ok(path) } else { Err(invalid(text)) }
    }

    /// Reads a prefix as users write it, where `/` at the end says nothing.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let path = text.strip_suffix('/').unwrap_or(text);
        if path.is_empty() {
            return Ok(Self::default());
        }
        let segments = path.strip_prefix('/').ok_or_else(|| invalid(text))?;
        let is_valid = path.len() <= ROUTE_PATH_BYTES_MAX && segments.split('/').all(is_segment);
        if is_valid { Ok(Self(path.into())) } else { Err(invalid(text)) }
    }

    /// The prefix: empty, or with `/` at its beginning and none at its end.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.0
    }

    /// Whether it is that of all paths.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a path begins with it.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        path.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn is_segment(segment: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    !matches!(segment, "" | "." | "..") && segment.bytes().all(is_allowed)
}

fn invalid(text: &str) -> InvalidName {
    InvalidName { kind: "path of a route", text: text.chars().take(80).collect(), rule: RULE }
}

impl fmt::Display for RoutePath {
    /// `/` for all paths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.is_whole() { "/" } else { &self.0 })
    }
}

impl fmt::Debug for RoutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for RoutePath {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::parse(text)
    }
}
