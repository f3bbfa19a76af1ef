//! From the spans that an edge says to those that are exported: the edge has no way to a collector of its own.

use jaco_edge::RequestSpan;
use jaco_edge::service::EdgeSpans;
use jaco_trace::{Kind, Span, Status, Tracer};
use tokio::sync::mpsc;

/// Records spans until the connection to the edge has ended.
pub(super) async fn record(mut said: mpsc::Receiver<EdgeSpans>, tracer: Tracer) {
    while let Some(EdgeSpans { spans, dropped }) = said.recv().await {
        tracer.note_overflow(dropped);
        spans.into_iter().map(span).for_each(|span| tracer.record(span));
    }
}

/// After the conventions of OpenTelemetry for servers of HTTP.
fn span(request: RequestSpan) -> Span {
    let RequestSpan { place, id, method, began, took, status, .. } = request;
    let scheme = if request.is_encrypted { "https" } else { "http" };
    let mut attributes = vec![
        ("http.request.method", method.to_owned()),
        ("url.scheme", scheme.to_owned()),
        ("http.response.status_code", status.to_string()),
    ];
    let route = request.route.map(|route| ("jaco.route", route));
    let instance = request.instance.map(|instance| ("jaco.instance", instance));
    let reason = request.reason.map(|reason| ("error.type", reason));
    attributes.extend(route.into_iter().chain(instance).chain(reason));
    let status = match (status, request.is_complete) {
        (500.., _) => Status::Failed(status.to_string()),
        (_, false) => Status::Failed("incomplete".to_owned()),
        (_, true) => Status::Done,
    };
    Span { place, id, kind: Kind::Server, name: method, began, took, attributes, status }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use jaco_types::TraceContext;

    use super::*;

    /// R-OPS-1: the span of a request names the route and the instance, and tells failures of the service from those of the
    /// client.
    #[test]
    fn a_request_is_a_span_of_a_server() {
        let place = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let request = |status, is_complete| RequestSpan {
            place: TraceContext::parse(place).unwrap(),
            id: [7; 8],
            method: "GET",
            is_encrypted: true,
            began: SystemTime::UNIX_EPOCH,
            took: Duration::from_millis(2),
            route: Some("shop.example".to_owned()),
            instance: Some("shop-web-1@101".to_owned()),
            status,
            reason: None,
            is_complete,
        };
        let found = span(request(404, true));
        assert_eq!((found.kind, found.name, found.id), (Kind::Server, "GET", [7; 8]));
        let has = |name, value: &str| found.attributes.contains(&(name, value.to_owned()));
        assert!(has("jaco.route", "shop.example") && has("jaco.instance", "shop-web-1@101"));
        assert!(has("http.response.status_code", "404") && has("url.scheme", "https"));
        assert_eq!(found.status, Status::Done, "the client's mistake");
        assert_eq!(span(request(503, true)).status, Status::Failed("503".to_owned()));
        assert_eq!(span(request(200, false)).status, Status::Failed("incomplete".to_owned()));
    }
}
