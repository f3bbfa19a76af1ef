//! The router of this node, and its tunnels.

use std::fmt;

use super::exposition::Exposition;
use super::family::Family;
use crate::metrics::RouterReading;

static WORKS: Family = Family::gauge(
    "jaco_router_works",
    "Whether the router answers and could carry out its last plan",
);
static FAILED: Family =
    Family::gauge("jaco_router_failed_networks", "Networks that the router has no port in");
static PLANNED: Family = Family::gauge(
    "jaco_router_planned_index",
    "The state that the newest plan of the router is of",
);
static APPLIED: Family =
    Family::gauge("jaco_router_applied_index", "The state whose plan the router holds");
static TUNNELS: Family = Family::gauge(
    "jaco_router_tunnels",
    "Tunnels to other routers: those with a recent handshake, and the others",
)
.labels(&["state"]);
static HANDSHAKE: Family = Family::gauge(
    "jaco_router_oldest_handshake_age",
    "Time since the last handshake of the tunnel where that is longest; an idle tunnel has none",
)
.seconds();
static RECEIVED: Family =
    Family::counter("jaco_router_received", "Bytes that came through the tunnels").bytes();
static SENT: Family =
    Family::counter("jaco_router_sent", "Bytes that were sent through the tunnels").bytes();

static QUESTIONS: Family = Family::counter(
    "jaco_dns_questions",
    "Questions of containers to the resolver of the router by result: answered, no_such_name, refused, forwarded, \
     forward_failed, limited, invalid",
)
.labels(&["result"]);

pub(super) const FAMILIES: &[&Family] =
    &[&WORKS, &FAILED, &PLANNED, &APPLIED, &TUNNELS, &HANDSHAKE, &RECEIVED, &SENT, &QUESTIONS];

/// WireGuard makes new keys after two minutes of use, and drops the old ones after three.
const RECENT_SECS: u64 = 180;

pub(super) fn write(out: &mut Exposition<'_>, router: &RouterReading) -> fmt::Result {
    out.gauge(&WORKS, router.works)?;
    out.gauge(&FAILED, router.failed_networks)?;
    out.gauge(&PLANNED, router.planned.unwrap_or_default())?;
    out.gauge(&APPLIED, router.applied.unwrap_or_default())?;
    let ages = || router.peers.iter().filter_map(|peer| peer.handshake_age);
    let recent = ages().filter(|age| age.as_secs() < RECENT_SECS).count();
    let states = [(["recent"], recent), (["idle"], router.peers.len() - recent)];
    out.gauges(&TUNNELS, states)?;
    out.gauges(&HANDSHAKE, ages().max().map(|oldest| ([""; 0], oldest.as_secs_f64())))?;
    out.counter(&RECEIVED, router.peers.iter().map(|peer| peer.received_bytes).sum())?;
    out.counter(&SENT, router.peers.iter().map(|peer| peer.sent_bytes).sum())?;
    out.counters(&QUESTIONS, router.questions.iter().map(|(result, count)| ([*result], *count)))
}
