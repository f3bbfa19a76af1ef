//! How many questions a container may ask.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Instant;

/// Questions per second and container, and as many at once.
const RATE: f64 = 200.0;

/// Counts the questions of each container.
#[derive(Debug, Default)]
pub(super) struct Limit {
    left: BTreeMap<Ipv4Addr, (f64, Instant)>,
}

impl Limit {
    /// Whether the container may ask now. `exists` tells which containers are still there.
    pub(super) fn admits(
        &mut self,
        from: Ipv4Addr,
        now: Instant,
        exists: impl Fn(Ipv4Addr) -> bool,
    ) -> bool {
        if !self.left.contains_key(&from) {
            self.left.retain(|address, _| exists(*address));
        }
        let (left, since) = self.left.entry(from).or_insert((RATE, now));
        let earned = now.saturating_duration_since(*since).as_secs_f64() * RATE;
        *left = (*left + earned).min(RATE);
        *since = now;
        let admitted = *left >= 1.0;
        if admitted {
            *left -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_container_has_two_hundred_questions_a_second() {
        let (one, other) = (Ipv4Addr::new(10, 65, 1, 10), Ipv4Addr::new(10, 65, 1, 11));
        let begun = Instant::now();
        let mut limit = Limit::default();
        let mut admitted = |from, at: Duration| {
            (0..300).filter(|_| limit.admits(from, begun + at, |_| true)).count()
        };
        assert_eq!(admitted(one, Duration::ZERO), 200);
        assert_eq!(admitted(other, Duration::ZERO), 200);
        assert_eq!(admitted(one, Duration::from_millis(500)), 100);
        assert_eq!(admitted(one, Duration::from_secs(60)), 200);
    }

    #[test]
    fn containers_that_are_gone_are_forgotten() {
        let mut limit = Limit::default();
        let begun = Instant::now();
        for last in 0..=255 {
            limit
                .admits(Ipv4Addr::new(10, 65, 1, last), begun, |address| address.octets()[3] > 250);
        }
        assert!(limit.left.len() <= 6, "{}", limit.left.len());
    }
}
