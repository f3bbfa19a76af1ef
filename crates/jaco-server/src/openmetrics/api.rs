//! What is asked of this node.

use std::fmt;
use std::sync::atomic::Ordering;

use super::exposition::Exposition;
use super::family::Family;
use crate::metrics::Tallies;

static REQUESTS: Family = Family::counter(
    "jaco_api_requests",
    "Requests by method and code of gRPC, over the TLS port and the unix socket; refused ones are among them",
)
.labels(&["method", "code"]);
static DURATION: Family = Family::durations(
    "jaco_api_request_duration",
    "From a request to the head of its answer, of all methods together; some wait for news on purpose",
);
static OVERLOADED: Family = Family::counter(
    "jaco_api_overloaded",
    "Requests that were refused because as many as may were computed",
);
static UNREAD: Family =
    Family::gauge("jaco_api_unread", "Bytes of answers that their readers have not taken").bytes();
static LAGGING: Family = Family::counter(
    "jaco_api_lagging_connections_closed",
    "Connections that were closed because their answers were not read while others waited for memory",
);
static HANDSHAKES: Family =
    Family::counter("jaco_tls_handshake_failures", "Failed handshakes on the TLS port by reason")
        .labels(&["reason"]);

pub(super) const FAMILIES: &[&Family] =
    &[&REQUESTS, &DURATION, &OVERLOADED, &UNREAD, &LAGGING, &HANDSHAKES];

pub(super) fn write(out: &mut Exposition<'_>, tallies: &Tallies, overloaded: u64) -> fmt::Result {
    out.counters(&REQUESTS, tallies.requests.counted())?;
    out.histograms(&DURATION, [([""; 0], &tallies.requests.seconds)])?;
    out.counter(&OVERLOADED, overloaded)?;
    out.gauge(&UNREAD, tallies.unread_bytes.load(Ordering::Relaxed))?;
    out.counter(&LAGGING, tallies.lagging_closed.get())?;
    let failed = tallies.failed_handshakes();
    out.counters(&HANDSHAKES, failed.into_iter().map(|(reason, count)| ([reason], count)))
}
