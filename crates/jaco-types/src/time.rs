//! Time as data. Nothing in the pure crates reads a clock: a log entry carries the moment its
//! leader stamped on it, and a plan gets its moment as an argument.

use std::fmt;

/// A length of time in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// A whole number of seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1000, self.0 % 1000) {
            (secs, 0) => write!(f, "{secs}s"),
            (0, millis) => write!(f, "{millis}ms"),
            (secs, millis) => write!(f, "{secs}.{millis:03}s"),
        }
    }
}

/// A moment: milliseconds since the Unix epoch, by the clock of whoever stamped it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// How long after `earlier` this is; zero when clocks disagree and it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment `length` later.
    #[must_use]
    pub const fn after(self, length: Millis) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}
