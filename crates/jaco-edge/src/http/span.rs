//! Spans of requests, and the trace that a service is told to go on with.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jaco_types::{InstanceId, RouteKey, Sampled, TraceContext};

use super::connection::Connection;
use crate::body::End;
use crate::traces::{RequestSpan, Traces};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The place of a request in a trace, and its span where that is recorded.
pub(super) struct OpenSpan {
    traces: Arc<Traces>,
    began: Instant,
    span: RequestSpan,
    /// Whether the trace was taken over from a trusted proxy.
    is_taken_over: bool,
}

impl OpenSpan {
    /// The place of a request; none where traces are off. A trace is taken over from trusted proxies only: whoever else
    /// names one could have every request of theirs recorded, and mix what they cause with that of others.
    pub(super) fn begin(
        connection: &Arc<Connection>,
        method: &Method,
        headers: &HeaderMap,
    ) -> Option<Box<Self>> {
        let traces = connection.shared.traces.load_full()?;
        let peer = connection.client.ip().to_canonical();
        let is_trusted = || connection.shared.view.load().trusts(peer);
        let given = headers.get(TRACEPARENT).filter(|_| is_trusted());
        let given = given.and_then(|given| TraceContext::parse(given.to_str().ok()?));
        let id = fastrand::u64(1..).to_be_bytes();
        let place = given.or_else(|| begun(&traces, id))?;
        let span = RequestSpan {
            place,
            id,
            method: known(method),
            is_encrypted: connection.tls_host.is_some(),
            began: SystemTime::now(),
            took: std::time::Duration::ZERO,
            route: None,
            instance: None,
            status: 0,
            reason: None,
            is_complete: false,
        };
        let is_taken_over = given.is_some();
        Some(Box::new(Self { traces, began: Instant::now(), span, is_taken_over }))
    }

    /// Tells the service which trace it goes on with. What a client said of that is gone.
    pub(super) fn propagate(&self, headers: &mut HeaderMap) {
        if !self.is_taken_over {
            headers.remove(TRACESTATE);
        }
        let within = self.span.place.with_parent(self.span.id);
        let text = within.and_then(|within| HeaderValue::from_str(&within.to_string()).ok());
        match text {
            Some(text) => drop(headers.insert(TRACEPARENT, text)),
            None => drop(headers.remove(TRACEPARENT)),
        }
    }

    pub(super) fn route(&mut self, route: &RouteKey) {
        self.span.route = Some(route.to_string());
    }

    pub(super) fn instance(&mut self, instance: &InstanceId) {
        self.span.instance = Some(instance.to_string());
    }

    pub(super) fn head(&mut self, status: StatusCode, reason: Option<&'static str>) {
        self.span.status = status.as_u16();
        self.span.reason = reason.map(str::to_owned);
    }

    /// Hands the span over, if its trace is recorded.
    pub(super) fn end(mut self, end: End) {
        if self.span.place.sampled() == Sampled::Yes {
            self.span.took = self.began.elapsed();
            self.span.is_complete = end == End::Complete;
            (self.traces.sink)(self.span);
        }
    }
}

/// A trace that begins here, with this span.
fn begun(traces: &Traces, id: [u8; 8]) -> Option<TraceContext> {
    let trace_id = fastrand::u128(1..);
    let sampled = if traces.takes(trace_id) { Sampled::Yes } else { Sampled::No };
    TraceContext::new(trace_id.to_be_bytes(), id, sampled)
}

/// The method as spans have it: a client may make up any number of others.
fn known(method: &Method) -> &'static str {
    let all = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::CONNECT,
        Method::OPTIONS,
        Method::PATCH,
    ];
    let names = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "PATCH"];
    let found = all.iter().position(|one| one == method);
    found.map_or("_OTHER", |at| names[at])
}
