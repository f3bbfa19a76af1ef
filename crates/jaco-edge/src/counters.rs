//! What is counted per route.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Upper bounds of the buckets of latency, in microseconds; one more bucket has all above the last.
pub const LATENCY_BOUNDS_MICROS: [u64; 15] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// The requests of a route since the edge has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteCounts {
    /// By class of status: 1xx to 5xx. All together are the requests.
    pub by_class: [u64; 5],
    /// Of those, the ones that the edge refused by itself.
    pub refused: u64,
    /// Of the refused, those with a status of 500 or above.
    #[serde(default)]
    pub refused_5xx: u64,
    /// Requests that were sent to another instance after the first.
    pub retried: u64,
    /// From the head of the request to the head of the response, by [`LATENCY_BOUNDS_MICROS`].
    pub latency: [u64; 16],
    /// The sum of all latencies, in microseconds.
    pub latency_micros: u64,
}

impl RouteCounts {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.by_class.iter().sum()
    }

    /// Those that instances answered with a status of 500 or above.
    pub fn failed(&self) -> u64 {
        self.by_class[4].saturating_sub(self.refused_5xx)
    }

    /// What was counted since an earlier reading. `None` if that is of another count, which was begun anew meanwhile.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            by_class: differences(&self.by_class, &earlier.by_class)?,
            refused: self.refused.checked_sub(earlier.refused)?,
            refused_5xx: self.refused_5xx.checked_sub(earlier.refused_5xx)?,
            retried: self.retried.checked_sub(earlier.retried)?,
            latency: differences(&self.latency, &earlier.latency)?,
            latency_micros: self.latency_micros.checked_sub(earlier.latency_micros)?,
        })
    }
}

fn differences<const N: usize>(counts: &[u64; N], earlier: &[u64; N]) -> Option<[u64; N]> {
    let mut differences = [0; N];
    for ((difference, count), earlier) in differences.iter_mut().zip(counts).zip(earlier) {
        *difference = count.checked_sub(*earlier)?;
    }
    Some(differences)
}

/// Counts the requests of a route.
#[derive(Debug, Default)]
pub(crate) struct RouteCounters {
    by_class: [AtomicU64; 5],
    refused: AtomicU64,
    refused_5xx: AtomicU64,
    retried: AtomicU64,
    latency: [AtomicU64; 16],
    latency_micros: AtomicU64,
}

impl RouteCounters {
    /// A response with this status, so long after the request.
    pub(crate) fn answered(&self, status: http::StatusCode, latency: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.by_class[class].fetch_add(1, Ordering::Relaxed);
        self.latency[bucket].fetch_add(1, Ordering::Relaxed);
        self.latency_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The response before, with this status, was a refusal of the edge.
    pub(crate) fn refused(&self, status: http::StatusCode) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if status.is_server_error() {
            self.refused_5xx.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A request is sent once more.
    pub(crate) fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> RouteCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RouteCounts {
            by_class: self.by_class.each_ref().map(read),
            refused: read(&self.refused),
            refused_5xx: read(&self.refused_5xx),
            retried: read(&self.retried),
            latency: self.latency.each_ref().map(read),
            latency_micros: read(&self.latency_micros),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_the_bucket_of_their_bound() {
        let counters = RouteCounters::default();
        for micros in [0, 250, 251, 10_000_000, 10_000_001] {
            counters.answered(http::StatusCode::OK, Duration::from_micros(micros));
        }
        counters.answered(http::StatusCode::BAD_GATEWAY, Duration::ZERO);
        let counts = counters.read();
        assert_eq!((counts.requests(), counts.by_class), (6, [0, 5, 0, 0, 1]));
        assert_eq!((counts.latency[0], counts.latency[1]), (3, 1));
        assert_eq!((counts.latency[14], counts.latency[15]), (1, 1));
    }

    /// Instances that fail and an edge that refuses are told apart, whatever the status of the refusal.
    #[test]
    fn failures_of_instances_are_not_those_of_the_edge() {
        let counters = RouteCounters::default();
        let answered = |status| counters.answered(status, Duration::ZERO);
        answered(http::StatusCode::INTERNAL_SERVER_ERROR);
        for status in [http::StatusCode::BAD_GATEWAY, http::StatusCode::UNAUTHORIZED] {
            answered(status);
            counters.refused(status);
        }
        let counts = counters.read();
        assert_eq!((counts.requests(), counts.failed(), counts.refused), (3, 1, 2));
        let earlier = counts;
        answered(http::StatusCode::OK);
        let since = counters.read().since(&earlier).unwrap();
        assert_eq!((since.requests(), since.failed(), since.refused), (1, 0, 0));
        assert_eq!(earlier.since(&counters.read()), None, "counted from nothing again");
    }
}
