//! Spans of requests, and the trace that a service is told.

use std::sync::{Arc, Mutex};

use jaco_edge::{RequestSpan, Traces};
use jaco_types::{Sampled, TraceContext};

use crate::instances::{Server, echo};
use crate::lab::{Lab, until};
use crate::wire::{Reply, once};

/// All traces that begin at the edge are recorded; and none.
const ALL: u64 = 1 << 63;
const NONE: u64 = 0;

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A lab whose service repeats what it was sent, and the spans of its edge.
fn traced(below: u64) -> (Lab, Server, Arc<Mutex<Vec<RequestSpan>>>) {
    let one = echo();
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let spans = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&spans);
    let sink = Arc::new(move |span| taken.lock().unwrap().push(span));
    lab.edge.trace_to(Some(Traces { below, sink }));
    (lab, one, spans)
}

async fn ask(lab: &Lab, headers: &str) -> Reply {
    once(lab, &format!("GET /x?secret HTTP/1.1\r\nHost: a.example\r\n{headers}\r\n")).await
}

fn told(reply: &Reply) -> TraceContext {
    let traceparent = reply.sent("traceparent").expect("the service is told a trace");
    TraceContext::parse(traceparent).expect("it is a trace")
}

/// R-OPS-1: a request is a span with its route, its instance and its status, and the service goes on with its trace.
#[tokio::test]
async fn a_request_begins_a_trace_that_its_service_goes_on_with() {
    let (lab, _service, spans) = traced(ALL);
    let reply = ask(&lab, "").await;
    until("it is recorded", || spans.lock().unwrap().len() == 1).await;
    let span = spans.lock().unwrap()[0].clone();
    assert_eq!(told(&reply), span.place, "it is the first of its trace");
    assert_eq!(span.place.span_id(), span.id);
    assert_eq!((span.method, span.status, span.is_complete), ("GET", 200, true));
    assert_eq!(span.route.as_deref(), Some("a.example"));
    assert_eq!(span.instance.as_deref(), Some("shop-web-1@101"));
    assert!(!format!("{span:?}").contains("secret"));
    once(&lab, "BREW / HTTP/1.1\r\nHost: b.example\r\n\r\n").await;
    until("it is recorded", || spans.lock().unwrap().len() == 2).await;
    let refused = spans.lock().unwrap()[1].clone();
    assert_eq!((refused.method, refused.status, refused.route), ("_OTHER", 404, None));
    assert_eq!(refused.reason.as_deref(), Some("no_route"));
    assert_ne!(refused.place.trace_id(), span.place.trace_id());
}

/// R-OPS-1: what a client says of traces is taken over from trusted proxies only.
#[tokio::test]
async fn a_trace_is_taken_over_from_trusted_proxies_only() {
    let (mut lab, _service, spans) = traced(ALL);
    let headers = format!("traceparent: {GIVEN}\r\ntracestate: a=b\r\n");
    let given = TraceContext::parse(GIVEN).unwrap();
    let reply = ask(&lab, &headers).await;
    assert_ne!(told(&reply).trace_id(), given.trace_id());
    assert_eq!(reply.sent("tracestate"), None);
    lab.plan.trusted_proxies = ["127.0.0.0/8".parse().unwrap()].into();
    lab.apply();
    let reply = ask(&lab, &headers).await;
    until("both are recorded", || spans.lock().unwrap().len() == 2).await;
    let span = spans.lock().unwrap()[1].clone();
    assert_eq!(span.place, given);
    assert_eq!(Some(told(&reply)), given.with_parent(span.id));
    assert_eq!(reply.sent("tracestate"), Some("a=b"));
    // Whoever began it decided that it is not recorded.
    let reply = ask(&lab, &format!("traceparent: {}\r\n", GIVEN.replace("-01", "-00"))).await;
    assert_eq!((told(&reply).trace_id(), told(&reply).sampled()), (given.trace_id(), Sampled::No));
    ask(&lab, "").await;
    until("the next one is recorded", || spans.lock().unwrap().len() == 3).await;
    assert_ne!(spans.lock().unwrap()[2].place.trace_id(), given.trace_id());
}

/// R-OPS-1: a request whose trace is not recorded has no span, and its service is told so; where traces are off, the edge
/// does nothing about them.
#[tokio::test]
async fn what_is_not_recorded_has_no_span() {
    let (lab, _service, spans) = traced(NONE);
    assert_eq!(told(&ask(&lab, "").await).sampled(), Sampled::No);
    lab.edge.trace_to(None);
    assert_eq!(ask(&lab, "").await.sent("traceparent"), None);
    let reply = ask(&lab, &format!("traceparent: {GIVEN}\r\n")).await;
    assert_eq!(reply.sent("traceparent"), Some(GIVEN));
    assert!(spans.lock().unwrap().is_empty());
}
