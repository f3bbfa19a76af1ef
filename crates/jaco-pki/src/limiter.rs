//! Rate limit of handshakes, or of failed ones, by source. Pure: the time is an argument.
//!
//! Memory is bounded: each source costs one number, and of too many sources the one that is cleared
//! first is dropped.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Limits of a source before it is blocked for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimits {
    /// How many are allowed in a row. Generous, since a whole site may share one address.
    pub burst: u32,
    /// One of them expires per this time; so a blocked source gets one more attempt per such time.
    pub forgiven_every: Duration,
    /// Sources remembered.
    pub sources_max: usize,
    pub loopback: Loopback,
}

/// Whether this machine itself can be blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// Several nodes may share a machine, and one of them must not get the others shut out. Who is
    /// on the machine already has better means than failing handshakes.
    Exempt,
    Counted,
}

/// What is counted of all sources.
#[derive(Debug)]
pub(crate) struct SourceLimiter {
    limits: SourceLimits,
    /// When the last one of each source will have been forgotten, since the limiter's start.
    clear_at: BTreeMap<Source, Duration>,
}

/// Whom something is charged to: an IPv4 address, or the /64 network that one IPv6 subscriber gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source(IpAddr);

/// What was charged did to its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charge {
    Borne,
    /// This was the one too many. Reported once, since blocked sources cause no further failures.
    NowBlocked,
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self {
            burst: 20,
            forgiven_every: Duration::from_secs(6),
            sources_max: 4096,
            loopback: Loopback::Exempt,
        }
    }
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IpAddr::V4(address)),
            IpAddr::V6(address) if address.is_loopback() => Self(IpAddr::V6(address)),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                Self(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
        }
    }
}

impl SourceLimiter {
    pub(crate) fn new(limits: SourceLimits) -> Self {
        Self { limits, clear_at: BTreeMap::new() }
    }

    pub(crate) fn is_blocked(&self, source: Source, now: Duration) -> bool {
        self.blocked_for(source, now).is_some()
    }

    /// How long a source stays blocked if nothing more is charged to it; nothing where it is not blocked.
    pub(crate) fn blocked_for(&self, source: Source, now: Duration) -> Option<Duration> {
        let clear_at = self.clear_at.get(&source)?;
        clear_at.checked_sub(now + self.tolerance()).filter(|left| !left.is_zero())
    }

    /// Charges one more to `source`.
    pub(crate) fn charge(&mut self, source: Source, now: Duration) -> Charge {
        if self.limits.loopback == Loopback::Exempt && source.0.is_loopback() {
            return Charge::Borne;
        }
        let was_blocked = self.is_blocked(source, now);
        self.make_room(source, now);
        let every = self.limits.forgiven_every;
        // Handshakes that ran at the same time may all fail: the debt is capped, so that being
        // blocked always ends after one more `forgiven_every`.
        let most = now + self.tolerance() + every;
        let clear_at = self.clear_at.entry(source).or_insert(now);
        *clear_at = ((*clear_at).max(now) + every).min(most);
        if !was_blocked && self.is_blocked(source, now) {
            Charge::NowBlocked
        } else {
            Charge::Borne
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.clear_at.len()
    }

    fn tolerance(&self) -> Duration {
        self.limits.forgiven_every * self.limits.burst
    }

    fn make_room(&mut self, newcomer: Source, now: Duration) {
        if self.clear_at.len() < self.limits.sources_max || self.clear_at.contains_key(&newcomer) {
            return;
        }
        self.clear_at.retain(|_, clear_at| *clear_at > now);
        while self.clear_at.len() >= self.limits.sources_max.max(1) {
            let nearest = self.clear_at.iter().min_by_key(|&(source, clear_at)| (clear_at, source));
            let Some((&source, _)) = nearest else { return };
            self.clear_at.remove(&source);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: SourceLimits = SourceLimits {
        burst: 3,
        forgiven_every: Duration::from_secs(10),
        sources_max: 4,
        loopback: Loopback::Exempt,
    };

    fn source(text: &str) -> Source {
        Source::from(text.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn blocks_after_the_burst_and_forgives_with_time() {
        let mut limiter = SourceLimiter::new(LIMITS);
        let who = source("192.0.2.1");
        let at = Duration::from_secs;
        for _ in 0..3 {
            assert_eq!(limiter.charge(who, at(0)), Charge::Borne);
        }
        assert_eq!(limiter.charge(who, at(0)), Charge::NowBlocked);
        assert!(limiter.is_blocked(who, at(9)));
        assert!(!limiter.is_blocked(who, at(10)));
        assert_eq!(limiter.charge(who, at(10)), Charge::NowBlocked, "one attempt per interval");
        assert!(!limiter.is_blocked(source("192.0.2.2"), at(10)));
    }

    /// Decision 12: several nodes may share one machine.
    #[test]
    fn loopback_is_not_blocked_by_default() {
        let blocked_by_ten = |limits, who| {
            let mut limiter = SourceLimiter::new(limits);
            for _ in 0..10 {
                limiter.charge(who, Duration::ZERO);
            }
            limiter.is_blocked(who, Duration::ZERO)
        };
        let counted = SourceLimits { loopback: Loopback::Counted, ..LIMITS };
        for address in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert!(!blocked_by_ten(LIMITS, source(address)));
            assert!(blocked_by_ten(counted, source(address)));
        }
        assert!(blocked_by_ten(LIMITS, source("192.0.2.1")));
    }

    #[test]
    fn one_ipv6_subscriber_is_one_source() {
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    }

    proptest! {
        /// Law: memory is bounded, and a block never lasts longer than one interval, whatever comes.
        #[test]
        fn bounded_in_memory_and_time(failures in prop::collection::vec((0u8..12, 0u64..5), 0..200)) {
            let mut limiter = SourceLimiter::new(LIMITS);
            let mut now = Duration::ZERO;
            for (host, pause) in failures {
                now += Duration::from_secs(pause);
                let who = Source::from(IpAddr::from([192, 0, 2, host]));
                limiter.charge(who, now);
                prop_assert!(limiter.len() <= LIMITS.sources_max);
                prop_assert!(!limiter.is_blocked(who, now + LIMITS.forgiven_every));
            }
        }
    }
}
