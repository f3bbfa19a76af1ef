//! Takes spans without making anybody wait.

use std::sync::Arc;

use jaco_types::TraceContext;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

use crate::sampling::Sampling;
use crate::span::Span;

/// Spans that may wait to be sent, of about half a KiB each. What comes while there are so many is dropped and counted.
pub const QUEUED_SPANS_MAX: usize = 2048;

/// What became of spans since the start of this process. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct TraceTally {
    /// Those that the collector took.
    pub exported: Counter,
    /// Those that came while too many waited.
    pub overflowed: Counter,
    /// Those that the collector did not take, or not in time.
    pub failed: Counter,
}

/// Takes spans. Clones are the same.
#[derive(Debug, Clone)]
pub struct Tracer {
    queue: mpsc::Sender<Span>,
    sampling: Sampling,
    tally: Arc<TraceTally>,
}

impl Tracer {
    pub(crate) fn new(sampling: Sampling, tally: TraceTally) -> (Self, mpsc::Receiver<Span>) {
        let (queue, queued) = mpsc::channel(QUEUED_SPANS_MAX);
        (Self { queue, sampling, tally: Arc::new(tally) }, queued)
    }

    /// Hands a span over to be sent; drops it if too many wait. Never waits.
    pub fn record(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.tally.overflowed.inc();
        }
    }

    /// Counts spans that were dropped before they were handed over.
    pub fn note_overflow(&self, spans: u64) {
        self.tally.overflowed.inc_by(spans);
    }

    /// Which traces that begin here are recorded.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// A trace that begins here, with the span that it begins with; none if it is not recorded.
    #[must_use]
    pub fn begin(&self) -> Option<TraceContext> {
        self.sampling.begin()
    }
}
