//! Spans as an edge says them to its daemon, which has a way to a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use jaco_types::TraceContext;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::traces::{RequestSpan, Traces};

/// Spans that may wait to be said; others are counted.
const WAITING_MAX: usize = 1024;

/// The most spans of one message.
const BATCH_MAX: usize = 256;

/// Spans of requests of an edge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeSpans {
    /// The spans.
    pub spans: Vec<RequestSpan>,
    /// How many there were besides since the last ones, while too many waited.
    pub dropped: u64,
}

/// Spans as they are said.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpansMessage {
    spans: Vec<SpanMessage>,
    dropped: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct SpanMessage {
    place: String,
    id: [u8; 8],
    method: String,
    is_encrypted: bool,
    /// Since 1970.
    began_us: u64,
    took_us: u64,
    route: Option<String>,
    instance: Option<String>,
    status: u16,
    reason: Option<String>,
    is_complete: bool,
}

/// The methods that spans name.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "PATCH", "_OTHER"];

impl SpanMessage {
    fn new(span: RequestSpan) -> Self {
        let since = span.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            place: span.place.to_string(),
            id: span.id,
            method: span.method.to_owned(),
            is_encrypted: span.is_encrypted,
            began_us: micros(since),
            took_us: micros(span.took),
            route: span.route,
            instance: span.instance,
            status: span.status,
            reason: span.reason,
            is_complete: span.is_complete,
        }
    }

    fn span(self) -> Option<RequestSpan> {
        Some(RequestSpan {
            place: TraceContext::parse(&self.place)?,
            id: self.id,
            method: METHODS.into_iter().find(|known| *known == self.method)?,
            is_encrypted: self.is_encrypted,
            began: SystemTime::UNIX_EPOCH + Duration::from_micros(self.began_us),
            took: Duration::from_micros(self.took_us),
            route: self.route,
            instance: self.instance,
            status: self.status,
            reason: self.reason,
            is_complete: self.is_complete,
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl SpansMessage {
    /// The spans; `None` if anything in them is not what an edge says.
    pub(super) fn spans(self) -> Option<EdgeSpans> {
        let spans = self.spans.into_iter().map(SpanMessage::span).collect::<Option<_>>()?;
        Some(EdgeSpans { spans, dropped: self.dropped })
    }
}

/// The spans of one connection that wait to be said.
pub(super) struct Waiting {
    sender: mpsc::Sender<RequestSpan>,
    receiver: mpsc::Receiver<RequestSpan>,
    dropped: Arc<AtomicU64>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        Self { sender, receiver, dropped: Arc::default() }
    }

    /// Makes what an edge is set to, so that its spans are said over this connection.
    pub(super) fn source(&self) -> impl Fn(u64) -> Traces + Send + Sync + use<> {
        let (sender, dropped) = (self.sender.clone(), Arc::clone(&self.dropped));
        move |below| {
            let (sender, dropped) = (sender.clone(), Arc::clone(&dropped));
            let sink = move |span: RequestSpan| {
                if sender.try_send(span).is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
            };
            Traces { below, sink: Arc::new(sink) }
        }
    }

    /// Waits for spans.
    pub(super) async fn next(&mut self) -> SpansMessage {
        let mut spans = Vec::new();
        // There is always one, as this holds a sender.
        self.receiver.recv_many(&mut spans, BATCH_MAX).await;
        SpansMessage {
            spans: spans.into_iter().map(SpanMessage::new).collect(),
            dropped: self.dropped.swap(0, Ordering::Relaxed),
        }
    }
}
