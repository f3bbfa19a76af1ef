//! Requests from outside, by route: rate, errors and duration.

use std::fmt;

use super::exposition::{Counted, Exposition};
use super::family::Family;
use crate::metrics::{EdgeReading, RouteReading};

static CONNECTIONS: Family = Family::gauge("jaco_edge_connections", "Open connections of clients");
static STALE: Family = Family::gauge(
    "jaco_edge_is_stale",
    "Whether the edge serves by a plan that is older than it should be",
);
static REQUESTS: Family =
    Family::counter("jaco_edge_requests", "Responses to clients by route and class of status")
        .labels(&["domain", "path", "class"]);
static FAILURES: Family = Family::counter(
    "jaco_edge_failures",
    "Responses with a status of 500 or above by route, from instances or from the edge itself",
)
.labels(&["domain", "path", "from"]);
static REFUSED: Family = Family::counter(
    "jaco_edge_refused_requests",
    "Requests that the edge refused by itself, by route",
)
.labels(&["domain", "path"]);
static RETRIED: Family = Family::counter(
    "jaco_edge_retried_requests",
    "Requests that were sent to another instance after the first, by route",
)
.labels(&["domain", "path"]);
static DURATION: Family = Family::durations(
    "jaco_edge_request_duration",
    "From the head of a request to the head of its response, by route",
)
.labels(&["domain", "path"]);

pub(super) const FAMILIES: &[&Family] =
    &[&CONNECTIONS, &STALE, &REQUESTS, &FAILURES, &REFUSED, &RETRIED, &DURATION];

/// How many routes have series of their own.
const ROUTES_MAX: usize = 64;

/// The name of all others together.
const OTHER: &str = "other";

/// Upper bounds of the exposed buckets, in microseconds: a part of those that the edge counts by.
const EXPOSED_MICROS: [u64; 9] =
    [1_000, 5_000, 25_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000];

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

pub(super) fn write(out: &mut Exposition<'_>, edge: &EdgeReading) -> fmt::Result {
    out.gauge(&CONNECTIONS, edge.connections)?;
    out.gauge(&STALE, edge.is_stale)?;
    let routes = bounded(&edge.routes);
    let each = || routes.iter().map(|route| ([&*route.domain, &*route.path], route));
    let classes = each().flat_map(|([domain, path], route)| {
        let counted = CLASSES.into_iter().zip(route.by_class);
        counted.map(move |(class, count)| ([domain, path, class], count))
    });
    out.counters(&REQUESTS, classes)?;
    let failures = each().flat_map(|([domain, path], route)| {
        let of_instances = route.by_class[4].saturating_sub(route.refused_5xx);
        [([domain, path, "instance"], of_instances), ([domain, path, "edge"], route.refused_5xx)]
    });
    out.counters(&FAILURES, failures)?;
    out.counters(&REFUSED, each().map(|(labels, route)| (labels, route.refused)))?;
    out.counters(&RETRIED, each().map(|(labels, route)| (labels, route.retried)))?;
    out.counted(&DURATION, each().map(|(labels, route)| (labels, durations(route))))
}

/// The first routes, and all others together.
fn bounded(routes: &[RouteReading]) -> Vec<RouteReading> {
    let (named, others) = routes.split_at(routes.len().min(ROUTES_MAX));
    let mut bounded = named.to_vec();
    let others = others.iter().cloned().reduce(|sum, route| RouteReading {
        by_class: std::array::from_fn(|class| sum.by_class[class] + route.by_class[class]),
        refused: sum.refused + route.refused,
        refused_5xx: sum.refused_5xx + route.refused_5xx,
        retried: sum.retried + route.retried,
        latency: sum.latency + route.latency,
        // A sum of buckets by their bounds, whatever their order.
        buckets: [sum.buckets, route.buckets].concat(),
        ..RouteReading::default()
    });
    bounded.extend(others.map(|sum| RouteReading {
        domain: OTHER.to_owned(),
        path: OTHER.to_owned(),
        ..sum
    }));
    bounded
}

fn durations(route: &RouteReading) -> Counted {
    let mut buckets: Vec<(f64, u64)> = EXPOSED_MICROS
        .map(|micros| std::time::Duration::from_micros(micros).as_secs_f64())
        .into_iter()
        .chain([f64::INFINITY])
        .map(|bound| (bound, 0))
        .collect();
    for (bound, count) in &route.buckets {
        let at = bound.map_or(EXPOSED_MICROS.len(), |bound| {
            EXPOSED_MICROS.partition_point(|exposed| *exposed < bound)
        });
        buckets[at].1 += count;
    }
    Counted { sum: route.latency.as_secs_f64(), buckets }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn route(number: usize) -> RouteReading {
        RouteReading {
            domain: format!("{number}.example"),
            path: "/".to_owned(),
            by_class: [0, 3, 0, 0, 2],
            refused_5xx: 1,
            latency: Duration::from_millis(10),
            buckets: vec![(Some(250), 1), (Some(1_000), 1), (Some(2_500), 1), (None, 2)],
            ..RouteReading::default()
        }
    }

    /// R-OPS-1: what the edge counts in narrow buckets is in the wider ones that are exposed.
    #[test]
    fn buckets_are_merged_by_their_bounds() {
        let counted = durations(&route(1));
        let expected = [2, 1, 0, 0, 0, 0, 0, 0, 0, 2];
        assert_eq!(counted.buckets.iter().map(|(_, count)| *count).collect::<Vec<_>>(), expected);
        assert_eq!(counted.buckets[0].0, 0.001);
    }

    /// R-OPS-1: however many routes there are, the number of series is bounded and nothing is lost.
    #[test]
    fn routes_beyond_the_bound_are_counted_together() {
        let routes: Vec<_> = (0..ROUTES_MAX + 10).map(route).collect();
        let bounded = bounded(&routes);
        assert_eq!(bounded.len(), ROUTES_MAX + 1);
        let other = bounded.last().unwrap();
        assert_eq!((other.domain.as_str(), other.by_class), (OTHER, [0, 30, 0, 0, 20]));
        assert_eq!(durations(other).buckets[0].1, 20);
        assert_eq!(other.latency, Duration::from_millis(100));
    }
}
