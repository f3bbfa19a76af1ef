//! What a route changes in the headers of requests and responses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::id::InvalidName;

/// The most headers that a route sets and removes, each for requests and for responses.
pub const HEADER_RULES_MAX: usize = 32;

/// The most bytes of a header's name.
const NAME_BYTES_MAX: usize = 128;

/// The most bytes of a header's value.
pub const HEADER_VALUE_BYTES_MAX: usize = 4096;

/// Headers that say where a message ends or who is at the ends of a connection: the edge's alone.
const RESERVED: [&str; 13] = [
    "connection",
    "content-length",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

const NAME_RULE: &str = "use 1 to 128 letters, digits and -!#$%&'*+.^_`|~";
const RESERVED_RULE: &str = "the edge sets it itself; name another header";
const VALUE_RULE: &str =
    "use at most 4096 printable ASCII characters, spaces and tabs, not at its ends";
const COUNT_RULE: &str = "use at most 32, and set none that is removed";

/// The name of a header, in lower case, that a route may change.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderName(Arc<str>);

/// The value of a header.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderValue(Arc<str>);

/// What is changed in the headers of a route's messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteHeaders {
    /// In requests, before they are forwarded.
    pub request: HeaderRules,
    /// In responses.
    pub response: HeaderRules,
}

/// Headers that are set, replacing what a message has, and headers that are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderRules {
    set: BTreeMap<HeaderName, HeaderValue>,
    remove: BTreeSet<HeaderName>,
}

impl HeaderName {
    /// Takes a name in lower case.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        if is_lower { Self::parse(text) } else { Err(invalid_name(text, NAME_RULE)) }
    }

    /// Reads a name in any case of letters.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-!#$%&'*+.^_`|~".contains(&byte);
        if !(1..=NAME_BYTES_MAX).contains(&text.len()) || !text.bytes().all(is_token) {
            return Err(invalid_name(text, NAME_RULE));
        }
        let name = text.to_ascii_lowercase();
        if RESERVED.contains(&name.as_str()) {
            return Err(invalid_name(text, RESERVED_RULE));
        }
        Ok(Self(name.into()))
    }

    /// The name, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl HeaderValue {
    /// Takes a value; an empty one is one.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t');
        let is_bare = text.trim_matches([' ', '\t']).len() == text.len();
        if text.len() <= HEADER_VALUE_BYTES_MAX && text.bytes().all(is_allowed) && is_bare {
            return Ok(Self(text.into()));
        }
        let shown = text.chars().take(80).collect();
        Err(InvalidName { kind: "header value", text: shown, rule: VALUE_RULE })
    }

    /// The value as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl HeaderRules {
    /// The rules that set and remove these.
    ///
    /// # Errors
    /// When there are too many of one kind, or one is both set and removed.
    pub fn new(
        set: BTreeMap<HeaderName, HeaderValue>,
        remove: BTreeSet<HeaderName>,
    ) -> Result<Self, InvalidName> {
        let both = set.keys().find(|name| remove.contains(*name));
        if set.len().max(remove.len()) > HEADER_RULES_MAX || both.is_some() {
            let text = both.map_or_else(String::new, ToString::to_string);
            return Err(InvalidName { kind: "header rules", text, rule: COUNT_RULE });
        }
        Ok(Self { set, remove })
    }

    /// What is set.
    #[must_use]
    pub const fn set(&self) -> &BTreeMap<HeaderName, HeaderValue> {
        &self.set
    }

    /// What is removed.
    #[must_use]
    pub const fn remove(&self) -> &BTreeSet<HeaderName> {
        &self.remove
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

fn invalid_name(text: &str, rule: &'static str) -> InvalidName {
    InvalidName { kind: "header name", text: text.chars().take(80).collect(), rule }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Debug for HeaderValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
