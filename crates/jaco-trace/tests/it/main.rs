//! Spans on their way to a collector: what arrives, and what becomes of spans that nobody takes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use jaco_testkit::{Collector, CollectorAnswer, eventually};
use jaco_trace::{
    Endpoint, Exporter, Kind, QUEUED_SPANS_MAX, Sampling, Span, Status, TraceTally, Tracer,
    fresh_span_id,
};
use jaco_types::{Sampled, TraceContext};
use tokio::sync::oneshot;

/// An exporter that runs.
struct Running {
    tracer: Tracer,
    tally: TraceTally,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

fn run(collector: &Collector) -> Running {
    let headers = [("authorization".to_owned(), "Bearer t0ken".to_owned())];
    let endpoint = Endpoint::new(&collector.base(), BTreeMap::from(headers));
    let endpoint = endpoint.expect("an endpoint");
    let resource = vec![("service.name", "jacod".to_owned()), ("host.name", "n1".to_owned())];
    let tally = TraceTally::default();
    let exporter = Exporter::new(&endpoint, resource, Sampling::ALL, tally.clone());
    let (tracer, exporter) = exporter.expect("an exporter");
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(exporter.run(async { drop(stopped.await) }));
    Running { tracer, tally, stop, task }
}

fn place() -> TraceContext {
    TraceContext::new([0x4b; 16], [0xf0; 8], Sampled::Yes).expect("a context")
}

fn span() -> Span {
    Span {
        place: place(),
        id: fresh_span_id(),
        kind: Kind::Internal,
        name: "plan",
        began: SystemTime::UNIX_EPOCH + Duration::from_secs(7),
        took: Duration::from_millis(3),
        attributes: vec![("jaco.deployment", "shop".to_owned())],
        status: Status::Done,
    }
}

/// R-OPS-1: a collector gets what was recorded: ids, parent, times, attributes, outcome, and who sent it.
#[tokio::test(flavor = "multi_thread")]
async fn spans_arrive_as_they_were_recorded() {
    let collector = Collector::start(CollectorAnswer::Takes);
    let running = run(&collector);
    assert_eq!(collector.connections(), 0, "nothing is connected to before the first span");
    let first = Span { id: place().span_id(), ..span() };
    let failed = Span { status: Status::Failed("no_leader".to_owned()), ..span() };
    for span in [first, failed] {
        running.tracer.record(span);
    }
    let spans = eventually("two spans", || async {
        let spans = collector.spans();
        if spans.len() == 2 { Ok(spans) } else { Err(spans) }
    })
    .await;
    for span in &spans {
        assert_eq!((span.trace.as_str(), span.name.as_str()), ("4b".repeat(16).as_str(), "plan"));
        assert_eq!((span.service.as_str(), span.host.as_str()), ("jacod", "n1"));
        assert_eq!(span.times, (7_000_000_000, 7_003_000_000));
        assert_eq!(span.attributes["jaco.deployment"], "shop");
    }
    assert_eq!((spans[0].id.as_str(), spans[0].parent.as_str()), ("f0".repeat(8).as_str(), ""));
    assert_eq!(spans[1].parent, spans[0].id);
    assert_eq!((&spans[0].failed, &spans[1].failed), (&None, &Some("no_leader".to_owned())));
    assert_eq!(collector.headers()[0]["authorization"], "Bearer t0ken");
    eventually("they are counted", || async {
        let exported = running.tally.exported.get();
        if exported == 2 { Ok(()) } else { Err(exported) }
    })
    .await;
    assert_eq!((running.tally.overflowed.get(), running.tally.failed.get()), (0, 0));
}

/// R-OPS-1: whoever records a span is not held up by a collector that says nothing, what waits is bounded, and what is
/// dropped is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_holds_nobody_up() {
    let collector = Collector::start(CollectorAnswer::Never);
    let running = run(&collector);
    running.tracer.record(span());
    eventually("the first batch is on its way", || async {
        if collector.connections() == 1 { Ok(()) } else { Err("no connection") }
    })
    .await;
    let spans = u64::try_from(QUEUED_SPANS_MAX).unwrap() * 2;
    let begun = Instant::now();
    for _ in 0..spans {
        running.tracer.record(span());
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "the collector was waited for: {took:?}");
    assert_eq!(running.tally.overflowed.get(), spans / 2);
    assert_eq!(running.tally.exported.get(), 0);
}

/// R-OPS-1: what a collector refuses is counted and gone; what comes later arrives.
#[tokio::test(flavor = "multi_thread")]
async fn spans_arrive_again_once_the_collector_is_back() {
    let collector = Collector::start(CollectorAnswer::Refuses(503));
    let running = run(&collector);
    running.tracer.record(span());
    eventually("it is counted", || async {
        if running.tally.failed.get() == 1 { Ok(()) } else { Err("not yet") }
    })
    .await;
    collector.answers(CollectorAnswer::Takes);
    let later = span();
    running.tracer.record(later.clone());
    let spans = eventually("the later one arrives", || async {
        let spans = collector.spans();
        if spans.is_empty() { Err("none") } else { Ok(spans) }
    })
    .await;
    let id: String = later.id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(spans.iter().map(|span| &span.id).collect::<Vec<_>>(), [&id]);
}

/// R-OPS-1: a process that stops sends what waits, and is held up by no collector.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_sent_at_the_end() {
    let collector = Collector::start(CollectorAnswer::Takes);
    let Running { tracer, stop, task, .. } = run(&collector);
    tracer.record(span());
    stop.send(()).unwrap();
    task.await.unwrap();
    assert_eq!(collector.spans().len(), 1);
    collector.answers(CollectorAnswer::Never);
    let Running { tracer, stop, task, .. } = run(&collector);
    tracer.record(span());
    let begun = Instant::now();
    stop.send(()).unwrap();
    task.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}
