//! The domain of a route.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::id::{InvalidName, is_hostname};

const RULE: &str = "use a domain in lower case such as shop.example.com, or *.example.com for all names one \
                    label below it; letters of other scripts in punycode (xn--…)";
const ADDRESS_RULE: &str = "use a domain: no certificate and no name leads to an address";

/// A domain in lower case: one name, or a wildcard `*.x` for each name with one label before `x`, as
/// certificates have it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteDomain(Arc<str>);

impl RouteDomain {
    /// Checks and keeps a domain.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let rest = text.strip_prefix("*.").unwrap_or(text);
        let last = rest.rsplit('.').next().unwrap_or_default();
        if text.len() > 253 || !is_hostname(rest) {
            return Err(invalid(text, RULE));
        }
        if last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid(text, ADDRESS_RULE));
        }
        Ok(Self(text.into()))
    }

    /// The domain as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for more than one name.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with("*.")
    }

    /// Whether a certificate for `name`, which may be a wildcard in any case of letters, is good for all names
    /// of this domain.
    #[must_use]
    pub fn is_covered_by(&self, name: &str) -> bool {
        if name.eq_ignore_ascii_case(&self.0) {
            return true;
        }
        let parent = self.0.split_once('.').map(|(_, parent)| parent);
        let wildcard = name.strip_prefix("*.");
        !self.is_wildcard()
            && parent.zip(wildcard).is_some_and(|(own, its)| own.eq_ignore_ascii_case(its))
    }
}

fn invalid(text: &str, rule: &'static str) -> InvalidName {
    InvalidName { kind: "domain", text: text.chars().take(80).collect(), rule }
}

impl fmt::Display for RouteDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RouteDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for RouteDomain {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}
