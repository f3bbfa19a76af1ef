//! Bounds of a route's requests, how long those of a leaving instance may go on, and shares of revisions.

use std::collections::BTreeMap;

use crate::id::{InvalidName, Revision};
use crate::time::Millis;
use crate::unit::Bytes;

/// The most revisions that requests are shared out among.
pub const WEIGHTED_REVISIONS_MAX: usize = 8;

const TIMEOUT_RULE: &str = "use 100 ms to 24 h";
const BODY_RULE: &str = "use 1 byte to 1 TiB";
const HSTS_RULE: &str = "use 1 s to 2 years";
const DRAIN_RULE: &str = "use 0 s to 1 h";
const WEIGHTS_RULE: &str = "use at most 8 revisions with weights of 0 to 100, not all 0";

/// How long an instance may take until its response begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteTimeout(Millis);

impl RouteTimeout {
    /// Takes 100 ms to 24 h.
    ///
    /// # Errors
    /// When it is shorter or longer.
    pub fn new(length: Millis) -> Result<Self, InvalidName> {
        let is_allowed = (100..=24 * 3_600_000).contains(&length.0);
        is_allowed.then_some(Self(length)).ok_or_else(|| InvalidName {
            kind: "timeout of a route",
            text: length.to_string(),
            rule: TIMEOUT_RULE,
        })
    }

    /// The time.
    #[must_use]
    pub const fn length(self) -> Millis {
        self.0
    }
}

/// How large the body of a request may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyLimit(Bytes);

impl BodyLimit {
    /// Takes 1 byte to 1 TiB.
    ///
    /// # Errors
    /// When it is less or more.
    pub fn new(size: Bytes) -> Result<Self, InvalidName> {
        let is_allowed = (1..=1 << 40).contains(&size.0);
        is_allowed.then_some(Self(size)).ok_or_else(|| InvalidName {
            kind: "limit of a body",
            text: size.to_string(),
            rule: BODY_RULE,
        })
    }

    /// The size.
    #[must_use]
    pub const fn size(self) -> Bytes {
        self.0
    }
}

/// How long browsers remember to use HTTPS only for a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HstsAge(u32);

impl HstsAge {
    /// Takes 1 s to 2 years.
    ///
    /// # Errors
    /// When it is shorter or longer.
    pub fn new(secs: u32) -> Result<Self, InvalidName> {
        let is_allowed = (1..=2 * 365 * 86_400).contains(&secs);
        is_allowed.then_some(Self(secs)).ok_or_else(|| InvalidName {
            kind: "age of HSTS",
            text: format!("{secs}s"),
            rule: HSTS_RULE,
        })
    }

    /// The time in seconds.
    #[must_use]
    pub const fn secs(self) -> u32 {
        self.0
    }
}

/// How long requests that an instance has got may go on once it leaves the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainTime(Millis);

impl DrainTime {
    /// The time of services that ask for no other one.
    pub const DEFAULT: Self = Self(Millis::from_secs(10));

    /// Takes 0 s to 1 h.
    ///
    /// # Errors
    /// When it is longer.
    pub fn new(length: Millis) -> Result<Self, InvalidName> {
        let is_allowed = length.0 <= 3_600_000;
        is_allowed.then_some(Self(length)).ok_or_else(|| InvalidName {
            kind: "drain time",
            text: length.to_string(),
            rule: DRAIN_RULE,
        })
    }

    /// The time.
    #[must_use]
    pub const fn length(self) -> Millis {
        self.0
    }
}

/// How requests are shared out among the revisions that a service runs, in proportion to their weights;
/// revisions without one get nothing. Without any weight the number of instances decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevisionWeights(BTreeMap<Revision, u8>);

impl RevisionWeights {
    /// Takes the weights of revisions, each of 0 to 100.
    ///
    /// # Errors
    /// When there are too many, one is too large, or all that there are are 0.
    pub fn new(weights: BTreeMap<Revision, u8>) -> Result<Self, InvalidName> {
        let is_some = weights.is_empty() || weights.values().any(|weight| *weight > 0);
        let is_allowed = weights.values().all(|weight| *weight <= 100);
        if is_some && is_allowed && weights.len() <= WEIGHTED_REVISIONS_MAX {
            return Ok(Self(weights));
        }
        let text = weights.iter().map(|(revision, weight)| format!("{revision}={weight}"));
        let text = text.take(9).collect::<Vec<_>>().join(" ");
        Err(InvalidName { kind: "weights of revisions", text, rule: WEIGHTS_RULE })
    }

    /// The weights; nothing in it leaves the shares to the number of instances.
    #[must_use]
    pub const fn as_map(&self) -> &BTreeMap<Revision, u8> {
        &self.0
    }
}
