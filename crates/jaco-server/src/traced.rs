//! The spans of a request that changes a deployment: that of the member which received it, and those of the leader which
//! admits and commits it (ADR 0152). Where traces are off, there is one look at a field that is empty.

use jaco_trace::{Attribute, Kind, Span, SpanId, Status, Timer, Tracer, fresh_span_id};
use jaco_types::{Rejection, Sampled, TraceContext};
use tonic::metadata::MetadataMap;

use crate::forward::Write;
use crate::member::Member;

/// The metadata in which other clients than ours pass their trace on.
const TRACEPARENT: &str = "traceparent";

/// A request that is answered here, with a span.
#[derive(Debug)]
pub(crate) struct Received {
    tracer: Tracer,
    timer: Timer,
    place: TraceContext,
    id: SpanId,
    method: &'static str,
}

/// Begins the span of a request, and makes it the parent of what the request causes. A request without a trace begins one, if
/// it is sampled; one whose trace is not recorded has no span.
pub(crate) fn received<R: Write>(
    tracer: Option<&Tracer>,
    headers: &MetadataMap,
    request: &mut R,
) -> Option<Received> {
    if !request.is_traced() {
        return None;
    }
    let traceparent = request.traceparent_mut()?;
    if traceparent.is_empty()
        && let Some(given) = headers.get(TRACEPARENT).and_then(|given| given.to_str().ok())
    {
        given.clone_into(traceparent);
    }
    let tracer = tracer?;
    let (place, id) = match TraceContext::parse(traceparent) {
        Some(place) => (recorded(place)?, fresh_span_id()),
        None => tracer.begin().map(|begun| (begun, begun.span_id()))?,
    };
    *traceparent = place.with_parent(id)?.to_string();
    Some(Received { tracer: tracer.clone(), timer: Timer::start(), place, id, method: R::METHOD })
}

impl Received {
    /// Ends the span with the answer.
    pub(crate) fn answered<T>(self, answer: &Result<T, Rejection>) {
        let Self { tracer, timer, place, id, method } = self;
        let name = method.trim_start_matches('/');
        let (service, rpc) = name.split_once('/').unwrap_or((name, ""));
        let mut attributes = vec![
            ("rpc.system", "grpc".to_owned()),
            ("rpc.service", service.to_owned()),
            ("rpc.method", rpc.to_owned()),
        ];
        let status = match answer {
            Ok(_) => Status::Done,
            Err(rejection) => {
                let code = rejection.code.as_str();
                attributes.push(("error.type", code.to_owned()));
                Status::Failed(code.to_owned())
            }
        };
        let (began, took) = (timer.began(), timer.took());
        tracer.record(Span {
            place,
            id,
            kind: Kind::Server,
            name,
            began,
            took,
            attributes,
            status,
        });
    }
}

/// The trace of a request that the leader executes, if it is recorded.
pub(crate) fn place_of(traceparent: &str) -> Option<TraceContext> {
    TraceContext::parse(traceparent).and_then(recorded)
}

fn recorded(place: TraceContext) -> Option<TraceContext> {
    (place.sampled() == Sampled::Yes).then_some(place)
}

/// A step of a request, on the leader. It has failed unless it is said to be done.
#[derive(Debug)]
pub(crate) struct Step {
    /// None where nothing is recorded.
    recording: Option<Recording>,
}

#[derive(Debug)]
struct Recording {
    tracer: Tracer,
    timer: Timer,
    place: TraceContext,
    name: &'static str,
    attributes: Vec<Attribute>,
    status: Status,
}

impl Step {
    /// Begins a step of the request of `place`.
    pub(crate) fn begin(member: &Member, place: Option<TraceContext>, name: &'static str) -> Self {
        let tracer = member.tracer.as_ref();
        let recording = place.zip(tracer).map(|(place, tracer)| Recording {
            tracer: tracer.clone(),
            timer: Timer::start(),
            place,
            name,
            attributes: Vec::new(),
            status: Status::Failed("refused".to_owned()),
        });
        Self { recording }
    }

    /// Ends the step: it is done, and was about this.
    pub(crate) fn done(mut self, attributes: impl FnOnce() -> Vec<Attribute>) {
        if let Some(recording) = &mut self.recording {
            recording.attributes = attributes();
            recording.status = Status::Done;
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let Some(recording) = self.recording.take() else { return };
        let Recording { tracer, timer, place, name, attributes, status } = recording;
        let (id, kind) = (fresh_span_id(), Kind::Internal);
        let (began, took) = (timer.began(), timer.took());
        tracer.record(Span { place, id, kind, name, began, took, attributes, status });
    }
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1;
    use jaco_trace::{Endpoint, Exporter, Sampling, TraceTally};

    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn tracer(sampling: Sampling) -> (Tracer, Exporter) {
        let endpoint = Endpoint::new("http://127.0.0.1:1", Default::default()).unwrap();
        Exporter::new(&endpoint, Vec::new(), sampling, TraceTally::default()).unwrap()
    }

    fn headers(traceparent: &'static str) -> MetadataMap {
        let mut headers = MetadataMap::new();
        headers.insert(TRACEPARENT, traceparent.parse().unwrap());
        headers
    }

    /// R-OPS-1: a request goes on with the trace of its caller, whether our client or another sent it; what it causes has
    /// the member's span as its parent.
    #[test]
    fn a_request_goes_on_with_the_trace_of_its_caller() {
        let (tracer, _exporter) = tracer(Sampling::ratio(0.0).unwrap());
        let by_field = v1::ApplyRequest { traceparent: GIVEN.to_owned(), ..Default::default() };
        for (mut request, headers) in
            [(by_field, MetadataMap::new()), (v1::ApplyRequest::default(), headers(GIVEN))]
        {
            let received = received(Some(&tracer), &headers, &mut request).unwrap();
            let (given, forwarded) =
                (TraceContext::parse(GIVEN).unwrap(), place_of(&request.traceparent));
            assert_eq!(received.place, given);
            assert_eq!(forwarded, given.with_parent(received.id));
            assert_ne!(received.id, given.span_id());
        }
    }

    /// R-OPS-1: a trace that its caller does not record is recorded nowhere, and one without a caller begins as often as
    /// this node was told.
    #[test]
    fn whoever_begins_a_trace_decides_whether_it_is_recorded() {
        let (all, _exporter) = tracer(Sampling::ALL);
        let (none, _exporter) = tracer(Sampling::ratio(0.0).unwrap());
        let unrecorded = GIVEN.replace("-01", "-00");
        let mut request =
            v1::ApplyRequest { traceparent: unrecorded.clone(), ..Default::default() };
        assert!(received(Some(&all), &MetadataMap::new(), &mut request).is_none());
        assert_eq!(request.traceparent, unrecorded);
        assert_eq!(place_of(&request.traceparent), None);
        let mut request = v1::ApplyRequest::default();
        assert!(received(Some(&none), &MetadataMap::new(), &mut request).is_none());
        assert_eq!(request.traceparent, "");
        let begun = received(Some(&all), &MetadataMap::new(), &mut request).unwrap();
        assert_eq!(place_of(&request.traceparent), Some(begun.place));
        assert_eq!(begun.place.span_id(), begun.id, "it is the first of its trace");
    }

    /// R-OPS-1: a preview changes nothing, and has no trace.
    #[test]
    fn a_preview_has_no_span() {
        let (all, _exporter) = tracer(Sampling::ALL);
        let mut request = v1::ApplyRequest { dry_run: true, ..Default::default() };
        assert!(received(Some(&all), &headers(GIVEN), &mut request).is_none());
        assert_eq!(request.traceparent, "");
    }

    /// R-OPS-1: a node without traces forwards what its caller gave, and adds nothing.
    #[test]
    fn a_node_without_traces_forwards_them() {
        let mut request = v1::ApplyRequest::default();
        assert!(received(None, &headers(GIVEN), &mut request).is_none());
        assert_eq!(request.traceparent, GIVEN);
        let mut request = v1::ApplyRequest::default();
        assert!(received(None, &MetadataMap::new(), &mut request).is_none());
        assert_eq!(request.traceparent, "");
    }
}
