//! Spans of this process, where traces are on; otherwise the counts stay zero.

use std::fmt;

use jaco_trace::TraceTally;

use super::exposition::Exposition;
use super::family::Family;

static EXPORTED: Family =
    Family::counter("jaco_trace_spans_exported", "Spans that the collector of traces took");
static DROPPED: Family = Family::counter(
    "jaco_trace_spans_dropped",
    "Spans that were dropped: queue_full because too many waited, export_failed because the collector did not take them",
)
.labels(&["reason"]);

pub(super) const FAMILIES: &[&Family] = &[&EXPORTED, &DROPPED];

pub(super) fn write(out: &mut Exposition<'_>, tally: &TraceTally) -> fmt::Result {
    out.counter(&EXPORTED, tally.exported.get())?;
    let dropped = [("queue_full", &tally.overflowed), ("export_failed", &tally.failed)];
    out.counters(&DROPPED, dropped.map(|(reason, count)| ([reason], count.get())))
}
