//! A collector of OpenTelemetry on loopback, which keeps what it is sent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span, status::StatusCode};
use prost::Message;

/// What a collector does with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectorAnswer {
    /// It takes it.
    Takes,
    /// It refuses it with this status.
    Refuses(u16),
    /// It reads it, and says nothing until the sender hangs up.
    Never,
}

/// A span that was taken, with ids in hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedSpan {
    /// Its trace.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// That of its parent; empty for the first of a trace.
    pub parent: String,
    /// Its name.
    pub name: String,
    /// The attribute `service.name` of who sent it.
    pub service: String,
    /// The attribute `host.name` of who sent it; empty if there is none.
    pub host: String,
    /// Its own attributes.
    pub attributes: BTreeMap<String, String>,
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// When it began and ended, in nanoseconds since 1970.
    pub times: (u64, u64),
}

/// A collector. It ends with the test.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug)]
struct Seen {
    answer: CollectorAnswer,
    connections: usize,
    headers: Vec<BTreeMap<String, String>>,
    spans: Vec<CollectedSpan>,
}

impl Collector {
    /// One on a free port.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn start(answer: CollectorAnswer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Seen { answer, connections: 0, headers: Vec::new(), spans: Vec::new() };
        let seen = Arc::new(Mutex::new(seen));
        let all = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let all = Arc::clone(&all);
                thread::spawn(move || serve(stream.expect("a connection"), &all));
            }
        });
        Self { address, seen }
    }

    /// Its base address, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it.
    #[must_use]
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The line of `jacod.yaml` with which a daemon sends it all that it traces.
    #[must_use]
    pub fn settings(&self) -> String {
        format!("tracing: {{otlp: \"{}\"}}\n", self.base())
    }

    /// Does this from now on.
    pub fn answers(&self, answer: CollectorAnswer) {
        self.seen().answer = answer;
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.seen().connections
    }

    /// The headers of each request, by their names in lower case.
    #[must_use]
    pub fn headers(&self) -> Vec<BTreeMap<String, String>> {
        self.seen().headers.clone()
    }

    /// The spans that were taken.
    #[must_use]
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.seen().spans.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: TcpStream, seen: &Mutex<Seen>) {
    lock(seen).connections += 1;
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        // Who is killed sends half of a request.
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        match line.trim_end() {
            "" => break,
            text if text.starts_with("POST") => assert_eq!(text, "POST /v1/traces HTTP/1.1"),
            text => {
                let (name, value) = text.split_once(": ").expect("a header");
                headers.insert(name.to_ascii_lowercase(), value.to_owned());
            }
        }
    }
    let length: usize = headers["content-length"].parse().expect("a length");
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body.as_slice()).expect("a request of OTLP");
    let answer = lock(seen).answer;
    let status = match answer {
        CollectorAnswer::Never => return drop(reader.read(&mut [0])),
        CollectorAnswer::Refuses(status) => status,
        CollectorAnswer::Takes => {
            let mut seen = lock(seen);
            seen.headers.push(headers);
            seen.spans.extend(request.resource_spans.into_iter().flat_map(collected));
            200
        }
    };
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    // Who is killed reads no answer.
    stream.write_all(head.as_bytes()).ok();
}

fn collected(from: ResourceSpans) -> Vec<CollectedSpan> {
    let resource = texts(from.resource.unwrap_or_default().attributes);
    let of = |name: &str| resource.get(name).cloned().unwrap_or_default();
    let (service, host) = (of("service.name"), of("host.name"));
    let spans = from.scope_spans.into_iter().flat_map(|scope| scope.spans);
    let collect = |span: Span| {
        let status = span.status.unwrap_or_default();
        CollectedSpan {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            name: span.name,
            service: service.clone(),
            host: host.clone(),
            attributes: texts(span.attributes),
            failed: (status.code == i32::from(StatusCode::Error)).then_some(status.message),
            times: (span.start_time_unix_nano, span.end_time_unix_nano),
        }
    };
    spans.map(collect).collect()
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |one: KeyValue| {
        let Value::StringValue(text) = one.value?.value? else { return None };
        Some((one.key, text))
    };
    attributes.into_iter().filter_map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
