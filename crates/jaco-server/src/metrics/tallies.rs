//! What is counted while it happens, for metrics. Nothing is decided by it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jaco_agent::EngineTally;
use jaco_controller::PlannerTally;
use jaco_proto::rpc;
use jaco_trace::TraceTally;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use tonic::Code;

use crate::auth::permission::PAGES;
use crate::endpoints::{self, ENDPOINTS};
use jaco_ui::link;

/// The counts of one process since its start.
#[derive(Debug, Default)]
pub struct Tallies {
    /// Of the planner.
    pub planner: PlannerTally,
    /// Of the container engine.
    pub engine: EngineTally,
    /// Of spans.
    pub traces: TraceTally,
    /// Of the API.
    pub(crate) requests: RequestTally,
    /// Bytes of answers that their readers have not taken.
    pub(crate) unread_bytes: AtomicU64,
    /// Connections that were closed because their answers were not read.
    pub(crate) lagging_closed: Counter,
    /// Failed handshakes by reason: a closed set.
    handshakes: Mutex<BTreeMap<&'static str, u64>>,
}

impl Tallies {
    /// Handshakes failed for this reason.
    pub fn handshakes_failed(&self, reason: &'static str, count: u64) {
        let mut failed = self.handshakes.lock().expect("no holder of the lock panics");
        *failed.entry(reason).or_default() += count;
    }

    pub(crate) fn failed_handshakes(&self) -> BTreeMap<&'static str, u64> {
        self.handshakes.lock().expect("no holder of the lock panics").clone()
    }
}

/// Upper bounds of the buckets of the time to the head of an answer, in seconds.
const ANSWER_SECONDS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// How many codes gRPC has.
const CODES: usize = 17;

/// What requests that are of no known method are counted as.
const OTHER: &str = "other";

/// Requests by method and code.
#[derive(Debug)]
pub(crate) struct RequestTally {
    /// By method, in the order of [`methods`].
    counts: Vec<[AtomicU64; CODES]>,
    pub(crate) seconds: Histogram,
}

/// Every method, those of documents, of the JSON gateway and of the page among them, and at last what is none: the names do
/// not come from callers.
fn methods() -> impl Iterator<Item = &'static str> {
    let rpcs = rpc::ALL.iter().map(|rpc| rpc.method);
    let pages = PAGES.iter().map(|(path, _)| *path);
    rpcs.chain(pages)
        .chain(ENDPOINTS.iter().map(|endpoint| endpoint.path))
        .chain([link::PREFIX, OTHER])
}

impl Default for RequestTally {
    fn default() -> Self {
        let counts = methods().map(|_| Default::default()).collect();
        Self { counts, seconds: Histogram::new(ANSWER_SECONDS) }
    }
}

impl RequestTally {
    /// The place of a method in the counts.
    pub(crate) fn place(&self, method: &str) -> usize {
        let method = match endpoints::at(method) {
            Some(found) => found.endpoint.path,
            // What it shows is counted with the rpcs that it asks.
            None if link::is_below(method) => link::PREFIX,
            None => method,
        };
        methods().position(|known| known == method).unwrap_or(self.counts.len() - 1)
    }

    /// A request to the method at `place` was answered with this code, so long after it came.
    pub(crate) fn answered(&self, place: usize, code: Code, after: Duration) {
        let code = usize::try_from(i32::from(code)).unwrap_or_default();
        if let Some(count) = self.counts.get(place).and_then(|counts| counts.get(code)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.seconds.observe(after.as_secs_f64());
    }

    /// The methods and codes that there were.
    pub(crate) fn counted(&self) -> Vec<([String; 2], u64)> {
        let mut counted = Vec::new();
        for (method, counts) in methods().zip(&self.counts) {
            for (code, count) in (0_i32..).zip(counts) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let code = name(Code::from_i32(code)).to_owned();
                    counted.push(([method.trim_start_matches('/').to_owned(), code], count));
                }
            }
        }
        counted
    }
}

const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "cancelled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: a caller who makes up methods makes up no series.
    #[test]
    fn unknown_methods_are_one() {
        let tally = RequestTally::default();
        for method in ["/jaco.v1.Query/Overview", "/a", "/b", "/metrics", "/metrics/x"] {
            tally.answered(tally.place(method), Code::Ok, Duration::ZERO);
        }
        let overview = tally.place("/jaco.v1.Query/Overview");
        tally.answered(overview, Code::Unauthenticated, Duration::ZERO);
        let counted: Vec<String> = tally
            .counted()
            .into_iter()
            .map(|([method, code], count)| format!("{method} {code} {count}"))
            .collect();
        let expected = [
            "jaco.v1.Query/Overview ok 1",
            "jaco.v1.Query/Overview unauthenticated 1",
            "metrics ok 1",
            "other ok 3",
        ];
        assert_eq!(counted, expected);
    }
}
