//! Sends spans to an OpenTelemetry collector by OTLP over HTTP (R-OPS-1, ADR 0152). What is traced is for others to say.
//! This must never make anybody wait, hold more than a bounded number of spans, or print a header of an exporter.
//!
//! ```text
//! endpoint   where to, and with which headers
//! span       a piece of work that has ended, and the ids of spans
//! sampling   where a trace begins, whether it is recorded
//! tracer     takes spans: a bounded queue, and its counts
//! exporter   sends what is queued, in batches
//! client     the HTTP client
//! ```

mod client;
mod endpoint;
mod exporter;
mod sampling;
mod span;
mod tracer;

pub use endpoint::{Endpoint, EndpointError};
pub use exporter::{EXPORT_LIMIT, ExportError, Exporter, Resource, export_once};
pub use sampling::{Sampling, SamplingError};
pub use span::{Attribute, Kind, Span, SpanId, Status, Timer, derived_span_id, fresh_span_id};
pub use tracer::{QUEUED_SPANS_MAX, TraceTally, Tracer};
