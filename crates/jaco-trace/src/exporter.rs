//! Sends what is queued to a collector, in batches.

use std::time::Duration;

use jaco_types::TraceContext;
use opentelemetry::trace::{SpanContext, SpanKind, Status as OtelStatus, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{
    Protocol, RetryPolicy, SpanExporter as OtlpExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use crate::client::CollectorClient;
use crate::endpoint::Endpoint;
use crate::sampling::Sampling;
use crate::span::{Kind, Span, Status};
use crate::tracer::{TraceTally, Tracer};

/// The longest that sending a batch may take.
pub const EXPORT_LIMIT: Duration = Duration::from_secs(5);

/// The longest that the last spans hold up the end of the process.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

/// How long a span waits for others to be sent with.
const BATCH_PATIENCE: Duration = Duration::from_millis(500);

/// The most spans that are sent at once.
const BATCH_SPANS_MAX: usize = 512;

/// Who a span is of, after the conventions of OpenTelemetry: `service.name` and others.
pub type Resource = Vec<(&'static str, String)>;

/// Why spans were not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// No exporter can be made of the settings, or of variables of the environment.
    #[error(
        "spans cannot be exported: {0}; check the variables OTEL_EXPORTER_OTLP_* of the environment"
    )]
    Settings(String),
    /// The collector did not take them.
    #[error("{0} did not take spans: {1}")]
    Refused(String, String),
    /// The collector did not answer in time.
    #[error("{0} did not take spans within 5 s")]
    Timeout(String),
}

/// Sends what its tracer is handed.
#[derive(Debug)]
pub struct Exporter {
    sender: Sender,
    queued: mpsc::Receiver<Span>,
    tally: TraceTally,
}

impl Exporter {
    /// A tracer, and what sends its spans. Nothing is connected to before the first span.
    ///
    /// # Errors
    /// When no exporter can be made of the settings.
    pub fn new(
        endpoint: &Endpoint,
        resource: Resource,
        sampling: Sampling,
        tally: TraceTally,
    ) -> Result<(Tracer, Self), ExportError> {
        let sender = Sender::new(endpoint, resource)?;
        let (tracer, queued) = Tracer::new(sampling, tally.clone());
        Ok((tracer, Self { sender, queued, tally }))
    }

    /// Sends until `shutdown`, and then once more what waits. A batch that is not taken is dropped: what is queued behind
    /// it is newer.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut batch = Vec::new();
        tokio::select! {
            () = self.export(&mut batch) => return,
            () = shutdown => {}
        }
        self.queued.close();
        while let Ok(span) = self.queued.try_recv() {
            batch.push(span);
        }
        if !batch.is_empty() {
            timeout(SHUTDOWN_LIMIT, self.sender.send(&batch)).await.ok();
        }
    }

    /// Sends batches until the last [`Tracer`], which hands spans over, is dropped. `batch` is what is not sent yet.
    async fn export(&mut self, batch: &mut Vec<Span>) {
        let mut health = Health::Good;
        while fill(batch, &mut self.queued).await == Filled::Some {
            let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            match self.sender.send(batch).await {
                Ok(()) => {
                    self.tally.exported.inc_by(spans);
                    health.note_taken();
                }
                Err(error) => {
                    self.tally.failed.inc_by(spans);
                    health.note_refused(&error);
                }
            }
            batch.clear();
        }
    }
}

/// Sends these spans once, for a program that then ends.
///
/// # Errors
/// When the collector did not take them.
pub async fn export_once(
    endpoint: &Endpoint,
    resource: Resource,
    spans: &[Span],
) -> Result<(), ExportError> {
    Sender::new(endpoint, resource)?.send(spans).await
}

/// Whether there is something to send.
#[derive(Debug, PartialEq, Eq)]
enum Filled {
    Some,
    /// There will be nothing any more.
    Never,
}

/// Takes the spans that come until the first of them has waited long enough.
async fn fill(batch: &mut Vec<Span>, queued: &mut mpsc::Receiver<Span>) -> Filled {
    let Some(first) = queued.recv().await else { return Filled::Never };
    batch.push(first);
    let due = Instant::now() + BATCH_PATIENCE;
    while batch.len() < BATCH_SPANS_MAX {
        let Ok(Some(span)) = timeout_at(due, queued.recv()).await else { break };
        batch.push(span);
    }
    Filled::Some
}

/// Whether the last batch was taken. Said once for each change.
#[derive(Debug, PartialEq, Eq)]
enum Health {
    Good,
    Bad,
}

impl Health {
    fn note_taken(&mut self) {
        if *self == Self::Bad {
            info!("the collector takes spans again");
            *self = Self::Good;
        }
    }

    fn note_refused(&mut self, error: &ExportError) {
        if *self == Self::Good {
            warn!(%error, "spans are dropped until the collector takes them");
            *self = Self::Bad;
        }
    }
}

/// Speaks OTLP with one collector.
#[derive(Debug)]
struct Sender {
    /// Its host, for messages.
    host: String,
    otlp: OtlpExporter,
}

impl Sender {
    fn new(endpoint: &Endpoint, resource: Resource) -> Result<Self, ExportError> {
        let headers = endpoint.headers().clone().into_iter().collect();
        let otlp = OtlpExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new())
            .with_endpoint(endpoint.uri().to_string())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT_LIMIT)
            .with_headers(headers)
            // Its pauses would block a thread of the runtime; later spans show whether the collector is back.
            .with_retry_policy(RetryPolicy::disabled())
            .build();
        let mut otlp = otlp.map_err(|error| ExportError::Settings(error.to_string()))?;
        let attributes = resource.into_iter().map(|(key, value)| KeyValue::new(key, value));
        let resource =
            opentelemetry_sdk::Resource::builder_empty().with_attributes(attributes).build();
        otlp.set_resource(&resource);
        let host = endpoint.uri().host().unwrap_or_default().to_owned();
        Ok(Self { host, otlp })
    }

    async fn send(&self, spans: &[Span]) -> Result<(), ExportError> {
        let spans = spans.iter().cloned().map(span_data).collect();
        match timeout(EXPORT_LIMIT, self.otlp.export(spans)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(ExportError::Refused(self.host.clone(), error.to_string())),
            Err(_) => Err(ExportError::Timeout(self.host.clone())),
        }
    }
}

fn span_data(span: Span) -> SpanData {
    let Span { place, id, kind, name, began, took, attributes, status } = span;
    let is_first = place.span_id() == id;
    let parent = if is_first { [0; 8] } else { place.span_id() };
    SpanData {
        span_context: context(&place, id),
        parent_span_id: opentelemetry::SpanId::from_bytes(parent),
        parent_span_is_remote: kind == Kind::Server,
        span_kind: match kind {
            Kind::Client => SpanKind::Client,
            Kind::Server => SpanKind::Server,
            Kind::Internal => SpanKind::Internal,
        },
        name: name.into(),
        start_time: began,
        end_time: began + took,
        attributes: attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: match status {
            Status::Done => OtelStatus::Unset,
            Status::Failed(why) => OtelStatus::error(why),
        },
        instrumentation_scope: InstrumentationScope::builder("jaco")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

fn context(place: &TraceContext, id: [u8; 8]) -> SpanContext {
    SpanContext::new(
        opentelemetry::TraceId::from_bytes(place.trace_id()),
        opentelemetry::SpanId::from_bytes(id),
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    )
}
