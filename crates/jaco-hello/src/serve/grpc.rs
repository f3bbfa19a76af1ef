//! gRPC over HTTP/2 in clear, on the port of HTTP/1.1: a call that is recorded, and one that takes its time.
//!
//! Messages are text, so that no client needs code that is generated for them. Each connection has a thread, as those of
//! HTTP/1.1 have.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::task::JoinSet;

use super::{Counted, Server};

/// How the first line of every HTTP/2 connection begins, and no method of HTTP/1.1.
const PREFACE: &[u8; 3] = b"PRI";
/// How long a connection may take to say what it is.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at a connection that has said less than that.
const PREFACE_PAUSE: Duration = Duration::from_millis(1);
/// What precedes a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Longest message that is taken.
const MESSAGE_MAX: usize = 4096;
/// Messages of a stream.
const EVENTS: u64 = 10;
/// Pause after each of them.
const PAUSE: Duration = Duration::from_millis(5);

/// What a call comes to, by the numbers of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ok = 0,
    InvalidArgument = 3,
    Unimplemented = 12,
    Unavailable = 14,
}

/// Whether a client speaks HTTP/2, with prior knowledge. Nothing is taken from the connection.
///
/// # Errors
/// If it says nothing in time, or ends.
pub(super) fn is_spoken(stream: &TcpStream) -> io::Result<bool> {
    stream.set_read_timeout(Some(PREFACE_TIMEOUT))?;
    let mut begun = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut begun)?;
        if count == 0 || begun[..count] != PREFACE[..count] {
            return Ok(false);
        }
        if count == PREFACE.len() {
            return Ok(true);
        }
        thread::sleep(PREFACE_PAUSE);
    }
}

/// Answers the calls of a connection, until its client ends it.
///
/// # Errors
/// If the connection breaks.
pub(super) fn talk(server: &Arc<Server>, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream)?;
        serve(server, stream).await.map_err(io::Error::other)
    })
}

async fn serve(server: &Arc<Server>, stream: tokio::net::TcpStream) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            // The connection first: it sends what a call has left, and only then the call counts as answered.
            biased;
            call = connection.accept() => {
                let Some(call) = call else { return Ok(()) };
                let (request, respond) = call?;
                if server.terminating.load(Ordering::SeqCst) {
                    connection.graceful_shutdown();
                }
                let in_flight = Counted::up(server, |server| &server.in_flight);
                let server = Arc::clone(server);
                calls.spawn(async move {
                    // A client that goes away in the middle is its own affair.
                    answer(&server, request, respond).await.ok();
                    in_flight
                });
            }
            Some(ended) = calls.join_next() => drop(ended),
        }
    }
}

async fn answer(
    server: &Arc<Server>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let method = request.uri().path().to_owned();
    let asked = message(request.into_body()).await?;
    let mut out = respond.send_response(head(), false)?;
    let status = match method.as_str() {
        "/hello.Ledger/Record" => record(server, asked, &mut out).await?,
        "/hello.Events/Watch" => watch(&mut out).await?,
        _ => Status::Unimplemented,
    };
    out.send_trailers(HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        HeaderValue::from(status as u16),
    )]))
}

/// The beginning of every answer.
fn head() -> Response<()> {
    let mut head = Response::new(());
    head.headers_mut()
        .insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    head
}

/// The message of a call, unless it is too long or is none.
async fn message(mut body: RecvStream) -> Result<Option<String>, h2::Error> {
    let mut bytes = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        if bytes.len() + part.len() > PREFIX + MESSAGE_MAX {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    Ok(text(&bytes))
}

/// The one message that these bytes are.
fn text(bytes: &[u8]) -> Option<String> {
    let (prefix, message) = bytes.split_at_checked(PREFIX)?;
    let length = u32::try_from(message.len()).ok()?;
    let is_whole = prefix[0] == 0 && prefix[1..] == length.to_be_bytes();
    if is_whole { String::from_utf8(message.to_vec()).ok() } else { None }
}

fn framed(message: &str) -> Bytes {
    let length = u32::try_from(message.len()).expect("answers are short");
    [&[0], &length.to_be_bytes()[..], message.as_bytes()].concat().into()
}

/// `Record`: the message is a number, which the ledger is told before it comes back.
async fn record(
    server: &Arc<Server>,
    asked: Option<String>,
    out: &mut SendStream<Bytes>,
) -> Result<Status, h2::Error> {
    let Some(id) = asked.and_then(|asked| asked.parse().ok()) else {
        return Ok(Status::InvalidArgument);
    };
    let server = Arc::clone(server);
    let told = tokio::task::spawn_blocking(move || server.workload.record(id)).await;
    match told {
        Ok(told) if told.status == 200 => {
            out.send_data(framed(told.body.trim_end()), false)?;
            Ok(Status::Ok)
        }
        _ => Ok(Status::Unavailable),
    }
}

/// `Watch`: numbered messages, one by one.
async fn watch(out: &mut SendStream<Bytes>) -> Result<Status, h2::Error> {
    for number in 0..EVENTS {
        out.send_data(framed(&number.to_string()), false)?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Status::Ok)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};

    use super::*;
    use crate::serve::{Workload, accept};

    /// A server with a ledger that takes one line.
    fn start() -> (SocketAddr, thread::JoinHandle<String>) {
        let ledger = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = ledger.local_addr().expect("bound").to_string();
        let env = BTreeMap::from([("HELLO_LEDGER".to_owned(), address)]);
        let server = Arc::new(Server::new(Workload::new(env)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || accept(&server, &listener));
        let written = thread::spawn(move || {
            let (stream, _) = ledger.accept().expect("it is told");
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).expect("a line");
            (&stream).write_all(b".").expect("it waits");
            line
        });
        (address, written)
    }

    /// What comes of a call: its messages as they came, and its status.
    async fn call(address: SocketAddr, method: &str, message: &str) -> (Vec<u8>, String) {
        let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let (sender, connection) = h2::client::handshake(stream).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        let mut sender = sender.ready().await.expect("it takes calls");
        let request = Request::post(format!("http://hello{method}")).body(()).expect("valid");
        let (answer, mut body) = sender.send_request(request, false).expect("it is sent");
        body.send_data(framed(message), true).expect("it is sent");
        let answer = answer.await.expect("there is an answer");
        assert_eq!(answer.headers()["content-type"], "application/grpc");
        let (mut body, mut bytes) = (answer.into_body(), Vec::new());
        while let Some(part) = body.data().await {
            bytes.extend_from_slice(&part.expect("it goes on"));
        }
        let trailers = body.trailers().await.expect("it ends").expect("with trailers");
        (bytes, trailers["grpc-status"].to_str().expect("a number").to_owned())
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("there is one").block_on(future)
    }

    #[test]
    fn a_call_is_recorded_before_it_is_answered() {
        let (address, written) = start();
        let (bytes, status) = block_on(call(address, "/hello.Ledger/Record", "17"));
        assert_eq!((text(&bytes).as_deref(), status.as_str()), (Some("recorded 17"), "0"));
        assert_eq!(written.join().expect("it ends"), "17\n");
    }

    #[test]
    fn messages_of_a_stream_come_one_by_one() {
        let (address, _) = start();
        let (bytes, status) = block_on(call(address, "/hello.Events/Watch", ""));
        let expected: Vec<_> = (0..EVENTS).map(|number| framed(&number.to_string())).collect();
        assert_eq!((bytes, status.as_str()), (expected.concat(), "0"));
    }

    #[test]
    fn what_cannot_be_done_has_a_status() {
        let (address, _) = start();
        let check = |method, message, expected: &str| {
            let (bytes, status) = block_on(call(address, method, message));
            assert_eq!((bytes.len(), status.as_str()), (0, expected), "{method} {message}");
        };
        check("/hello.No/Such", "", "12");
        check("/hello.Ledger/Record", "x", "3");
        check("/hello.Ledger/Record", &"1".repeat(MESSAGE_MAX + 1), "3");
    }

    #[test]
    fn messages_are_framed() {
        assert_eq!(text(&framed("hello")).as_deref(), Some("hello"));
        assert_eq!(text(&framed("hello")[..8]), None);
        assert_eq!(text(b"\0\0"), None);
    }
}
