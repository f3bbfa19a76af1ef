//! Questions of other nodes about the edge of this one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jaco_edge::service::{EdgeClient, EdgeCounters, EdgeReport};
use jaco_edge::{Connection, Explained, LATENCY_BOUNDS_MICROS, RouteCounts};
use jaco_proto::v1;
use jaco_server::{EdgeProbe, Member};
use jaco_types::RouteKey;
use tokio::time::timeout;
use tracing::debug;

use super::planner::speaker;
use super::readings::{EVERY, Readings};
use super::sessions::Speaker;
use super::wait_for_routes;

/// How long the process may take to say something: it has it in memory.
const PATIENCE: Duration = Duration::from_millis(800);

/// How long it may take to connect to instances: it waits for each as long as a request does, for all at the same time.
const PROBE_PATIENCE: Duration = Duration::from_millis(1500);

/// Asks the process of the edge, over connections of its own.
#[derive(Debug, Clone)]
pub(crate) struct EdgeHandle {
    runtime_dir: PathBuf,
    readings: Arc<Mutex<Readings>>,
}

impl EdgeHandle {
    /// Of the process with its sockets in this folder.
    pub(crate) fn new(runtime_dir: PathBuf) -> Self {
        Self { runtime_dir, readings: Arc::default() }
    }

    /// Reads the counters again and again, while this node speaks for the edge. Runs until it is dropped.
    pub(crate) async fn follow(self, member: Arc<Member>) {
        wait_for_routes(&member).await;
        loop {
            if speaker(&member) == Speaker::Own {
                match self.count().await {
                    Ok(counters) => self.readings().keep(Instant::now(), counters),
                    // Whoever asks is told; the loop that keeps the process knows why.
                    Err(reason) => debug!(reason, "the edge was not asked what it has counted"),
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// What the process has counted since its start, if this node speaks for it and it answers.
    pub(crate) async fn counted(&self, member: &Member) -> Option<EdgeCounters> {
        match speaker(member) {
            Speaker::Own => self.count().await.ok(),
            Speaker::Other => None,
        }
    }

    async fn count(&self) -> Result<EdgeCounters, String> {
        match timeout(PATIENCE, EdgeClient::counters(&self.runtime_dir)).await {
            Ok(counted) => counted.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} ms", PATIENCE.as_millis())),
        }
    }

    fn readings(&self) -> std::sync::MutexGuard<'_, Readings> {
        self.readings.lock().expect("nothing panics while it holds the lock")
    }
}

#[async_trait]
impl EdgeProbe for EdgeHandle {
    async fn traffic(&self) -> v1::EdgeTrafficResponse {
        let unknown = |problem| v1::EdgeTrafficResponse { problem, ..Default::default() };
        let counters = match self.count().await {
            Ok(counters) => counters,
            Err(why) => return unknown(format!("its edge does not answer: {why}")),
        };
        let Some(answered) = self.readings().answered(Instant::now(), counters) else {
            return unknown(format!("not measured yet: wait for {} s", EVERY.as_secs()));
        };
        let window = u64::try_from(answered.window.as_millis()).unwrap_or(u64::MAX);
        let routes = answered.routes.iter().map(|(key, counts)| route(key, counts));
        v1::EdgeTrafficResponse {
            window_ms: window,
            routes: routes.collect(),
            ..Default::default()
        }
    }

    async fn probe(&self, request: v1::ProbeEdgeRequest) -> v1::ProbeEdgeResponse {
        let (host, path) = (&request.host, &request.path);
        let asked = EdgeClient::explain(&self.runtime_dir, host, path);
        let problem = match timeout(PROBE_PATIENCE, asked).await {
            Ok(Ok((report, explained))) => return found(&report, &explained),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} ms", PROBE_PATIENCE.as_millis()),
        };
        v1::ProbeEdgeResponse { problem, ..Default::default() }
    }
}

fn found(report: &EdgeReport, explained: &Explained) -> v1::ProbeEdgeResponse {
    let instances = explained.instances.iter().map(|one| v1::ProbedInstance {
        replica: one.id.replica.to_string(),
        raft_index: one.id.raft_index.0,
        passed_over: one.is_passed_over,
        result: match one.connection {
            Connection::Accepted => "accepted",
            Connection::Refused => "refused",
            Connection::Silent => "silent",
        }
        .to_owned(),
    });
    let route = explained.route.as_ref();
    v1::ProbeEdgeResponse {
        problem: String::new(),
        applied: report.applied.map_or(0, |index| index.0),
        listeners: report.listeners.iter().map(ToString::to_string).collect(),
        route_domain: route.map(|key| key.domain.to_string()).unwrap_or_default(),
        route_path: route.map(|key| key.path.to_string()).unwrap_or_default(),
        has_certificate: explained.has_certificate,
        instances: instances.collect(),
    }
}

fn route(key: &RouteKey, counts: &RouteCounts) -> v1::EdgeRouteTraffic {
    v1::EdgeRouteTraffic {
        domain: key.domain.to_string(),
        path: key.path.to_string(),
        requests: counts.requests(),
        failed: counts.failed(),
        refused: counts.refused,
        latency: latency(&counts.latency),
    }
}

/// The buckets that have requests.
fn latency(counted: &[u64; 16]) -> Vec<v1::LatencyBucket> {
    let below = std::iter::once(0).chain(LATENCY_BOUNDS_MICROS);
    let bounds = below.zip(LATENCY_BOUNDS_MICROS.map(Some).into_iter().chain([None]));
    let buckets = counted.iter().zip(bounds).map(|(requests, (above_micros, up_to_micros))| {
        v1::LatencyBucket { above_micros, up_to_micros, requests: *requests }
    });
    buckets.filter(|bucket| bucket.requests > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_their_bounds() {
        let mut counted = [0; 16];
        (counted[0], counted[1], counted[15]) = (1, 2, 3);
        let said = latency(&counted).into_iter();
        let said = said.map(|bucket| (bucket.above_micros, bucket.up_to_micros, bucket.requests));
        let expected = [(0, Some(250), 1), (250, Some(500), 2), (10_000_000, None, 3)];
        assert_eq!(said.collect::<Vec<_>>(), expected);
    }
}
