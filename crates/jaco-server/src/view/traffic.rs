//! The requests of routes over all edges, from what each edge has counted. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::{NodeId, RouteKey};

use super::hostname;
use crate::edge::TrafficReports;

/// How many routes an answer has.
const ROUTES_MAX: usize = 1000;

/// The requests of all routes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    /// Those with requests, the ones with the most first.
    pub(crate) routes: Vec<v1::RouteTop>,
    /// How many have none.
    pub(crate) idle: usize,
    /// How many with requests are not in the list.
    pub(crate) left_out: usize,
    /// Whose requests are in no figure, and why.
    pub(crate) unknown: BTreeMap<String, String>,
}

/// Adds up what edges have said.
pub(crate) fn traffic(state: &ClusterState, reports: TrafficReports) -> Traffic {
    let mut unknown = BTreeMap::new();
    let mut sums: BTreeMap<RouteKey, Sum> = BTreeMap::new();
    for (node, report) in reports {
        let problem = match report {
            Err(why) => why,
            Ok(report) if !report.problem.is_empty() => report.problem,
            Ok(report) => {
                for route in &report.routes {
                    let key = (route.domain.parse().ok()).zip(route.path.parse().ok());
                    let Some((domain, path)) = key else { continue };
                    let key = RouteKey { domain, path };
                    sums.entry(key).or_default().add(node, route, report.window_ms);
                }
                continue;
            }
        };
        unknown.insert(hostname(state, node), problem);
    }
    // A route may have left since, and an edge may not know that yet.
    sums.retain(|key, _| state.edges.claims.contains(key));
    let idle = state.edges.claims.len() - sums.len();
    let mut routes: Vec<v1::RouteTop> =
        sums.iter().map(|(key, sum)| sum.message(state, key)).collect();
    let rate = |route: &v1::RouteTop| {
        Reverse(route.total.as_ref().map_or(0, |total| total.milli_requests_per_second))
    };
    routes.sort_by_key(rate);
    let left_out = routes.len().saturating_sub(ROUTES_MAX);
    routes.truncate(ROUTES_MAX);
    Traffic { routes, idle, left_out, unknown }
}

/// The requests of a route, by node and all together.
#[derive(Default)]
struct Sum {
    nodes: BTreeMap<NodeId, v1::RouteTraffic>,
    total: v1::RouteTraffic,
    latency: Latency,
}

impl Sum {
    fn add(&mut self, node: NodeId, route: &v1::EdgeRouteTraffic, window_ms: u64) {
        let mut latency = Latency::default();
        latency.add(&route.latency);
        let rate = u128::from(route.requests) * 1_000_000 / u128::from(window_ms.max(1));
        let own = v1::RouteTraffic {
            requests: route.requests,
            window_ms,
            milli_requests_per_second: u64::try_from(rate).unwrap_or(u64::MAX),
            failed: route.failed,
            refused: route.refused,
            ..v1::RouteTraffic::default()
        };
        let total = &mut self.total;
        total.window_ms = total.window_ms.max(window_ms);
        let sums = [
            (&mut total.requests, own.requests),
            (&mut total.milli_requests_per_second, own.milli_requests_per_second),
            (&mut total.failed, own.failed),
            (&mut total.refused, own.refused),
        ];
        for (sum, part) in sums {
            *sum = sum.saturating_add(part);
        }
        self.latency.add(&route.latency);
        self.nodes.insert(node, latency.put_p99(own));
    }

    fn message(&self, state: &ClusterState, key: &RouteKey) -> v1::RouteTop {
        let nodes = self.nodes.iter().map(|(node, traffic)| v1::NodeTraffic {
            hostname: hostname(state, *node),
            traffic: Some(*traffic),
        });
        let mut nodes: Vec<v1::NodeTraffic> = nodes.collect();
        nodes.sort_by(|a, b| a.hostname.cmp(&b.hostname));
        let owner = state.edges.claims.get(key).map(|claim| claim.deployment.to_string());
        v1::RouteTop {
            domain: key.domain.to_string(),
            path: key.path.to_string(),
            deployment: owner.unwrap_or_default(),
            total: Some(self.latency.put_p99(self.total)),
            nodes,
        }
    }
}

/// How many requests took how long, by the upper bound in microseconds, with the lower one. Edges of different versions
/// may have different bounds: they are put in order.
#[derive(Default)]
struct Latency(BTreeMap<u64, (u64, u64)>);

impl Latency {
    fn add(&mut self, buckets: &[v1::LatencyBucket]) {
        for bucket in buckets {
            let up_to = bucket.up_to_micros.unwrap_or(u64::MAX);
            let (above, requests) = self.0.entry(up_to).or_insert((bucket.above_micros, 0));
            *above = bucket.above_micros.min(*above);
            *requests = requests.saturating_add(bucket.requests);
        }
    }

    /// Says in which bucket the slowest of the fastest 99 % is.
    fn put_p99(&self, traffic: v1::RouteTraffic) -> v1::RouteTraffic {
        let all: u128 = self.0.values().map(|(_, requests)| u128::from(*requests)).sum();
        let mut seen = 0;
        let found = self.0.iter().find(|(_, (_, requests))| {
            seen += u128::from(*requests);
            *requests > 0 && seen * 100 >= all * 99
        });
        let Some((up_to, (above, _))) = found else { return traffic };
        v1::RouteTraffic {
            p99_above_micros: *above,
            p99_up_to_micros: (*up_to < u64::MAX).then_some(*up_to),
            ..traffic
        }
    }
}

#[cfg(test)]
mod tests {
    use jaco_state::edge::RouteClaim;
    use jaco_types::Timestamp;

    use super::*;

    fn bucket(above: u64, up_to: Option<u64>, requests: u64) -> v1::LatencyBucket {
        v1::LatencyBucket { above_micros: above, up_to_micros: up_to, requests }
    }

    fn route(
        path: &str,
        counts: [u64; 3],
        latency: Vec<v1::LatencyBucket>,
    ) -> v1::EdgeRouteTraffic {
        let [requests, failed, refused] = counts;
        let (domain, path) = ("shop.example".to_owned(), path.to_owned());
        v1::EdgeRouteTraffic { domain, path, requests, failed, refused, latency }
    }

    fn report(window_ms: u64, routes: Vec<v1::EdgeRouteTraffic>) -> v1::EdgeTrafficResponse {
        v1::EdgeTrafficResponse { problem: String::new(), window_ms, routes }
    }

    fn state(paths: &[&str]) -> ClusterState {
        let mut state = ClusterState::default();
        for path in paths {
            let domain = "shop.example".parse().unwrap();
            let key = RouteKey { domain, path: path.parse().unwrap() };
            let deployment = "shop".parse().unwrap();
            state.edges.claims.insert(key, RouteClaim { deployment, since: Timestamp(0) });
        }
        state
    }

    /// R-EDGE-1: rates of edges are added, each over its own time, and the 99th percentile is that of all requests.
    #[test]
    fn edges_are_added_up() {
        let fast = bucket(0, Some(250), 990);
        let one = route("/", [1000, 5, 1], vec![fast, bucket(500, Some(1000), 10)]);
        let two = route("/", [20, 0, 20], vec![bucket(5_000_000, None, 20)]);
        let gone = route("/gone", [9, 0, 0], vec![]);
        let reports = [
            (NodeId(1), Ok(report(20_000, vec![one]))),
            (NodeId(2), Ok(report(10_000, vec![two, gone]))),
            (NodeId(3), Err("no response before the deadline".to_owned())),
        ];
        let traffic = traffic(&state(&["/", "/idle"]), reports.into_iter().collect());
        assert_eq!((traffic.idle, traffic.left_out), (1, 0));
        assert_eq!(
            traffic.unknown.values().collect::<Vec<_>>(),
            ["no response before the deadline"]
        );
        let [route] = &traffic.routes[..] else { panic!("{traffic:?}") };
        assert_eq!(route.deployment, "shop");
        let total = route.total.unwrap();
        assert_eq!((total.requests, total.failed, total.refused), (1020, 5, 21));
        assert_eq!((total.milli_requests_per_second, total.window_ms), (52_000, 20_000));
        assert_eq!((total.p99_above_micros, total.p99_up_to_micros), (5_000_000, None));
        let p99 = |at: usize| route.nodes[at].traffic.unwrap().p99_up_to_micros;
        assert_eq!((p99(0), p99(1)), (Some(250), None), "99 of 100 are within the first bucket");
    }

    /// R-EDGE-1: an answer has a bound, and says what is not in it.
    #[test]
    fn the_busiest_routes_are_listed() {
        let paths: Vec<String> = (0..ROUTES_MAX + 2).map(|number| format!("/{number}")).collect();
        let state = state(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        let routes =
            paths.iter().zip(1..).map(|(path, requests)| route(path, [requests, 0, 0], vec![]));
        let reports = [(NodeId(1), Ok(report(1000, routes.collect())))].into();
        let traffic = traffic(&state, reports);
        assert_eq!((traffic.routes.len(), traffic.left_out), (ROUTES_MAX, 2));
        assert_eq!(traffic.routes[0].path, format!("/{}", ROUTES_MAX + 1));
    }
}
