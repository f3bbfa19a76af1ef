//! Whether requests are traced, and where their spans go.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jaco_types::TraceContext;

/// Requests are traced.
#[derive(Clone)]
pub struct Traces {
    /// A trace that begins here is recorded if the number that the last 8 bytes of its id make, without the lowest bit, is
    /// below this: 2^63 for all, 0 for none. One that a trusted proxy began has been decided on.
    pub below: u64,
    /// Takes the span of a request that has ended. It must not block.
    pub sink: Arc<dyn Fn(RequestSpan) + Send + Sync>,
}

impl Traces {
    pub(crate) fn takes(&self, trace_id: u128) -> bool {
        #[allow(clippy::cast_possible_truncation, reason = "the last 8 bytes are wanted")]
        let tail = trace_id as u64;
        tail >> 1 < self.below
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("below", &self.below).finish_non_exhaustive()
    }
}

/// The span of a request. It has neither its path, nor its host, nor who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSpan {
    /// Its trace, and its parent: itself where the trace begins here.
    pub place: TraceContext,
    /// Its own id.
    pub id: [u8; 8],
    /// Its method, `_OTHER` if that is no usual one.
    pub method: &'static str,
    /// Whether it came over TLS.
    pub is_encrypted: bool,
    /// When its head was there.
    pub began: SystemTime,
    /// How long it took until its answer had been sent.
    pub took: Duration,
    /// The route, if one was found.
    pub route: Option<String>,
    /// The instance that answered, if one did.
    pub instance: Option<String>,
    /// The status of its answer.
    pub status: u16,
    /// Why the edge refused it, if it did.
    pub reason: Option<String>,
    /// Whether its answer was sent to the end.
    pub is_complete: bool,
}
