//! Versions of the product, by which a member says what it knows.

use std::fmt;

/// `MAJOR.MINOR.PATCH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Raised where something is not compatible.
    pub major: u64,
    /// Raised with what is new; before 1.0, also where something is not compatible.
    pub minor: u64,
    /// Raised with repairs.
    pub patch: u64,
}

impl Version {
    /// The first release. Members that were never released knew less.
    pub const FIRST: Self = Self { major: 0, minor: 1, patch: 0 };

    /// What a daemon says of itself; of a candidate for a release (`1.2.0-rc.1`), that release. `None`: it is no version, as
    /// before a node has reported one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let released = text.split(['-', '+']).next()?;
        let mut parts = released.split('.').map(number);
        let [major, minor, patch] = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(Self { major, minor, patch })
    }

    /// Whether a member that says this of itself knows what came with the version. One that has not said it yet may not.
    #[must_use]
    pub fn is_known_by(self, reported: &str) -> bool {
        Self::parse(reported).is_some_and(|theirs| theirs >= self)
    }
}

/// Of digits alone: a sign is none.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: versions are compared by their numbers, and what is none is none.
    #[test]
    fn versions_are_ordered_by_number() {
        let of = |text| Version::parse(text).unwrap();
        assert!(of("0.9.0") < of("0.10.0") && of("0.10.3") < of("1.0.0"));
        assert_eq!(of("1.2.3-rc.1"), of("1.2.3+build"));
        assert_eq!(Version::FIRST, of(&Version::FIRST.to_string()));
        assert!(Version::FIRST.is_known_by("0.1.0") && Version::FIRST.is_known_by("0.2.0"));
        assert!(!Version::FIRST.is_known_by("0.0.9"));
        for none in
            ["", "1", "1.2", "1.2.3.4", "1.2.x", "+1.2.3", "1..3", "99999999999999999999.0.0"]
        {
            assert_eq!(Version::parse(none), None, "{none}");
            assert!(!Version::FIRST.is_known_by(none), "{none}");
        }
    }
}
