//! What the process of the edge had counted at a few moments of the last half minute: how much it answers now is the
//! difference to the oldest of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use jaco_edge::RouteCounts;
use jaco_edge::service::EdgeCounters;
use jaco_types::RouteKey;

/// Time between two readings.
pub(super) const EVERY: Duration = Duration::from_secs(10);

/// How many are kept: with the one that is taken for an answer, they are of the last 20 to 30 s.
const KEPT: usize = 3;

/// The counts of one process.
#[derive(Debug, Default)]
pub(super) struct Readings {
    run: u64,
    kept: VecDeque<(Instant, BTreeMap<RouteKey, RouteCounts>)>,
}

/// What was answered in a time, by route: those with requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) window: Duration,
    pub(super) routes: BTreeMap<RouteKey, RouteCounts>,
}

impl Readings {
    /// Keeps a reading. Those of another process are forgotten.
    pub(super) fn keep(&mut self, at: Instant, counters: EdgeCounters) {
        if self.run != counters.run {
            self.run = counters.run;
            self.kept.clear();
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((at, counters.routes));
    }

    /// What was answered since the oldest reading, by a new one. Of a process that is not known yet, all that it has
    /// counted: it has not been there for longer than since the last reading. `None` before the first.
    pub(super) fn answered(&self, now: Instant, counters: EdgeCounters) -> Option<Answered> {
        let nothing = BTreeMap::new();
        let (since, earlier) = match self.run == counters.run {
            true => self.kept.front().map(|(at, routes)| (*at, routes))?,
            false => (self.kept.back()?.0, &nothing),
        };
        let routes = counters.routes.into_iter().filter_map(|(key, counts)| {
            // A route that left and came back is counted from nothing.
            let since = earlier.get(&key).and_then(|earlier| counts.since(earlier));
            let counts = since.unwrap_or(counts);
            (counts.requests() > 0).then_some((key, counts))
        });
        let window = now.saturating_duration_since(since).max(Duration::from_millis(1));
        Some(Answered { window, routes: routes.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(run: u64, requests: &[(&str, u64)]) -> EdgeCounters {
        let counts = |(path, ok): &(&str, u64)| {
            let (domain, path) = ("shop.example".parse().unwrap(), path.parse().unwrap());
            let counts = RouteCounts { by_class: [0, *ok, 0, 0, 0], ..RouteCounts::default() };
            (RouteKey { domain, path }, counts)
        };
        let routes = requests.iter().map(counts).collect();
        EdgeCounters { run, routes, ..EdgeCounters::default() }
    }

    fn said(readings: &Readings, now: Instant, counters: EdgeCounters) -> Option<(u64, Vec<u64>)> {
        let answered = readings.answered(now, counters)?;
        let requests = answered.routes.values().map(RouteCounts::requests).collect();
        Some((answered.window.as_secs(), requests))
    }

    /// R-EDGE-1: rates are over the last 20 to 30 s, also across a restart of the edge or a change of its routes.
    #[test]
    fn what_was_answered_is_the_difference_to_the_oldest_reading() {
        let begin = Instant::now();
        let at = |secs| begin + Duration::from_secs(secs);
        let mut readings = Readings::default();
        assert_eq!(said(&readings, begin, counters(7, &[("/", 3)])), None);
        for (reading, requests) in [10, 20, 30, 70].into_iter().enumerate() {
            readings.keep(at(reading as u64 * 10), counters(7, &[("/", requests), ("/idle", 4)]));
        }
        let now = counters(7, &[("/", 75), ("/new", 2), ("/idle", 4)]);
        assert_eq!(said(&readings, at(35), now), Some((25, vec![55, 2])));
        let again = counters(7, &[("/", 5)]);
        assert_eq!(said(&readings, at(35), again), Some((25, vec![5])), "the route is a new one");
        let restarted = counters(8, &[("/", 80)]);
        assert_eq!(said(&readings, at(35), restarted.clone()), Some((5, vec![80])));
        readings.keep(at(40), restarted);
        assert_eq!(said(&readings, at(42), counters(8, &[("/", 90)])), Some((2, vec![10])));
    }
}
