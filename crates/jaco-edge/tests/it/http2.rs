//! HTTP/2 from clients, and to instances: streams, trailers, WebSockets, and floods of frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::SendRequest;
use hyper::ext::Protocol;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jaco_edge::{Limits, Options};
use jaco_types::route::{RouteProtocol, RouteTls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::forwarding::upstream;
use crate::instances::{Answer, Server, echo, full, http1, http2, raw};
use crate::lab::{Lab, PATIENCE, instance, until};
use crate::tls::{Greeting, certificate, greet};
use crate::wire::read_head;

type Body = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

/// A client of HTTP/2 over a connection.
async fn speak<S>(stream: S) -> SendRequest<Body>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(method: &str, uri: &str, body: &'static str) -> Request<Body> {
    let body = if body.is_empty() { Empty::new().boxed() } else { Full::from(body).boxed() };
    Request::builder().method(method).uri(uri).body(body).unwrap()
}

async fn text(response: Response<hyper::body::Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn lab(server: &Server) -> Lab {
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[server.address]);
    lab.apply();
    lab
}

/// R-EDGE-1: a connection is kept as long as requests come, however short each is, and closed once none has come for a while.
#[tokio::test]
async fn a_connection_in_use_is_kept() {
    let keep_alive = Duration::from_millis(400);
    let one = echo();
    let mut lab = Lab::with(Options {
        limits: Limits { keep_alive, ..Limits::default() },
        ..Options::default()
    });
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let mut client = speak(lab.connect().await).await;
    let begun = Instant::now();
    while begun.elapsed() < keep_alive * 4 {
        let answer = client.send_request(request("GET", "http://a.example/", "")).await;
        assert_eq!(answer.unwrap().status(), StatusCode::OK, "after {:?}", begun.elapsed());
        tokio::time::sleep(keep_alive / 8).await;
    }
    let closed = async {
        while client.ready().await.is_ok() {
            tokio::time::sleep(keep_alive / 8).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.expect("it is closed");
}

#[tokio::test]
async fn requests_of_a_connection_become_requests_of_http1() {
    let one = echo();
    let lab = lab(&one);
    let mut client = speak(lab.connect().await).await;
    let mut post = request("POST", "http://a.example/x?y", "abc");
    for cookie in ["a=1", "b=2"] {
        post.headers_mut().append("cookie", cookie.parse().unwrap());
    }
    let answer = text(client.send_request(post).await.unwrap()).await;
    assert!(answer.starts_with("POST /x?y HTTP/1.1\n"), "{answer}");
    for line in ["host: a.example\n", "cookie: a=1; b=2\n", "content-length: 3\n", "\n\nabc"] {
        assert!(answer.contains(line), "{line:?} in {answer}");
    }
    // Many at a time.
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let answer = client.send_request(request("GET", "http://a.example/", ""));
        answers.spawn(async move { answer.await.unwrap().status() });
    }
    while let Some(status) = answers.join_next().await {
        assert_eq!(status.unwrap(), StatusCode::OK);
    }
    let mut other = request("GET", "http://a.example/", "");
    other.headers_mut().insert("host", "b.example".parse().unwrap());
    let refused = client.send_request(other).await.unwrap();
    assert_eq!(refused.headers()["x-jaco-reason"], "invalid_host");
    let unknown = client.send_request(request("GET", "http://b.example/", "")).await.unwrap();
    assert_eq!(
        (unknown.status(), &unknown.headers()["x-jaco-reason"]),
        (StatusCode::NOT_FOUND, &"no_route".parse().unwrap())
    );
}

/// What HTTP/1.1 has once, an instance of HTTP/1.1 is not sent twice.
#[tokio::test]
async fn a_host_or_a_length_is_there_once() {
    let one = echo();
    let lab = lab(&one);
    let mut client = speak(lab.connect().await).await;
    for (name, values, reason) in [
        ("content-length", ["3", "3"], "malformed_request"),
        ("host", ["a.example", "b.example"], "invalid_host"),
        ("host", ["a.example", "a.example"], "invalid_host"),
    ] {
        let mut post = request("POST", "http://a.example/", "abc");
        for value in values {
            post.headers_mut().append(name, value.parse().unwrap());
        }
        let refused = client.send_request(post).await.unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{name}: {values:?}");
        assert_eq!(refused.headers()["x-jaco-reason"], reason, "{name}: {values:?}");
    }
    assert_eq!(one.connections(), 0, "no instance has seen anything");
}

#[tokio::test]
async fn a_connection_over_tls_is_for_one_host() {
    let one = echo();
    let pem = certificate(&["a.example", "b.example"]);
    let mut lab = lab(&one);
    for name in ["a.example", "b.example"] {
        lab.route(name, "/", |route| route.tls = RouteTls::Auto);
        lab.certificates.by_domain.insert(name.parse().unwrap(), Arc::clone(&pem));
    }
    lab.apply();
    let greeting = Greeting::to("a.example").with(&["h2"]);
    let mut client = speak(greet(&lab, &pem, greeting).await.unwrap()).await;
    let fine = client.send_request(request("GET", "https://a.example/", "")).await.unwrap();
    assert_eq!(fine.status(), StatusCode::OK);
    let other = client.send_request(request("GET", "https://b.example/", "")).await.unwrap();
    assert_eq!(other.status(), StatusCode::MISDIRECTED_REQUEST);
}

/// A call as gRPC makes it: both sides stream, and the status comes after the body.
async fn call(request: Request<hyper::body::Incoming>) -> Answer {
    assert_eq!(request.headers()["te"], "trailers");
    assert_eq!(request.version(), hyper::Version::HTTP_2);
    assert_eq!(request.uri().authority().unwrap(), "a.example");
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let mut body = request.into_body();
    tokio::spawn(async move {
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            sender.send(Ok(Frame::data(data))).await.unwrap();
        }
        let trailers =
            [("grpc-status".parse().unwrap(), "0".parse().unwrap())].into_iter().collect();
        sender.send(Ok(Frame::trailers(trailers))).await.unwrap();
    });
    let stream = tokio_stream(receiver);
    let mut answer = Response::new(BodyExt::boxed(stream));
    answer.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    answer
}

type Frames = tokio::sync::mpsc::Receiver<Result<Frame<Bytes>, std::convert::Infallible>>;

fn tokio_stream(
    mut receiver: Frames,
) -> impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible> + Send + Sync {
    StreamBody::new(futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)))
}

#[tokio::test]
async fn calls_stream_in_both_directions_and_end_with_trailers() {
    let one = http2(call);
    let pem = certificate(&["a.example"]);
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| {
        route.tls = RouteTls::Auto;
        upstream(route, |to| to.protocol = RouteProtocol::H2c);
    });
    lab.certificates.by_domain.insert("a.example".parse().unwrap(), Arc::clone(&pem));
    lab.ready(&[one.address]);
    lab.apply();
    let greeting = Greeting::to("a.example").with(&["h2"]);
    let mut client = speak(greet(&lab, &pem, greeting).await.unwrap()).await;
    for _ in 0..3 {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let mut request = Request::post("https://a.example/shop.Shop/Buy")
            .header("content-type", "application/grpc")
            .body(BodyExt::boxed(tokio_stream(receiver)))
            .unwrap();
        request.headers_mut().insert("te", "trailers".parse().unwrap());
        let mut answer = client.send_request(request).await.unwrap();
        for message in ["one", "two", "three"] {
            sender.send(Ok(Frame::data(Bytes::from(message)))).await.unwrap();
            let frame = tokio::time::timeout(PATIENCE, answer.frame()).await.unwrap();
            assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), message);
        }
        drop(sender);
        let trailers = tokio::time::timeout(PATIENCE, answer.frame()).await.unwrap();
        let trailers = trailers.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
    }
    assert_eq!(one.connections(), 1, "calls share a connection");

    // It leaves while a call runs: the call goes on, the next one goes elsewhere.
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let mut request = Request::post("https://a.example/shop.Shop/Buy")
        .body(BodyExt::boxed(tokio_stream(receiver)))
        .unwrap();
    request.headers_mut().insert("te", "trailers".parse().unwrap());
    let answer = client.send_request(request).await.unwrap();
    lab.instances(PATIENCE, &[], &[(1, one.address)]);
    lab.apply();
    assert_eq!(lab.status().busy, [instance(1)].into());
    sender.send(Ok(Frame::data(Bytes::from("last")))).await.unwrap();
    drop(sender);
    let body = answer.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(body.to_bytes(), "last");
    lab.wait_for(|status| status.busy.is_empty()).await;
}

/// A WebSocket over HTTP/2 is one over HTTP/1.1 for the instance.
#[tokio::test]
async fn a_websocket_is_asked_for_by_connect() {
    let one = raw(|mut stream, _| async move {
        let head = read_head(&mut stream).await.unwrap();
        assert!(head.starts_with("GET /chat?room=1 HTTP/1.1\r\n"), "{head}");
        for field in [
            "connection: Upgrade\r\n",
            "upgrade: websocket\r\n",
            "sec-websocket-version: 13\r\n",
            "sec-websocket-key: ",
            "host: a.example\r\n",
        ] {
            assert!(head.contains(field), "{field:?} in {head}");
        }
        let agreed =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\n";
        stream.write_all(agreed).await.unwrap();
        let (mut reader, mut writer) = stream.split();
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    });
    let lab = lab(&one);
    let mut client = speak(lab.connect().await).await;
    // The edge's settings, which say that it can, come before its first answer.
    let first = client.send_request(request("GET", "http://b.example/", "")).await.unwrap();
    assert_eq!(first.status(), StatusCode::NOT_FOUND);
    let mut connect = request("CONNECT", "http://a.example/chat?room=1", "");
    connect.extensions_mut().insert(Protocol::from_static("websocket"));
    let response = client.send_request(connect).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["sec-websocket-protocol"], "chat");
    assert!(!response.headers().contains_key("sec-websocket-accept"));
    let mut socket = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    for message in [&b"hello"[..], &[0x81, b'\n', 0]] {
        socket.write_all(message).await.unwrap();
        let mut echoed = vec![0; message.len()];
        tokio::time::timeout(PATIENCE, socket.read_exact(&mut echoed)).await.unwrap().unwrap();
        assert_eq!(echoed, message);
    }
    let status =
        client.send_request(request("GET", "http://b.example/", "")).await.unwrap().status();
    assert_eq!(status, StatusCode::NOT_FOUND, "the connection has other streams");
    let mut other = request("CONNECT", "http://a.example/", "");
    other.extensions_mut().insert(Protocol::from_static("connect-udp"));
    let refused = client.send_request(other).await.unwrap();
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
}

/// What an instance answers instead of a WebSocket comes back as it is.
#[tokio::test]
async fn an_instance_may_decline_a_websocket() {
    let one = http1(|request| async move {
        assert_eq!(request.method(), Method::GET);
        let mut answer = full("no");
        *answer.status_mut() = StatusCode::FORBIDDEN;
        answer
    });
    let lab = lab(&one);
    let asking =
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut client = lab.connect().await;
    for _ in 0..2 {
        // The connection goes on with HTTP.
        let reply = crate::wire::ask(&mut client, asking).await;
        assert_eq!((reply.status, reply.text()), (403, "no"));
        let plain = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        assert_eq!(crate::wire::ask(&mut client, plain).await.status, 403);
    }
}

/// The edge stops: streams that are open end in their time, and the client is told to open no more.
#[tokio::test]
async fn an_edge_that_stops_says_goodbye() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let one = http1(move |_| {
        let gate = Arc::clone(&opened);
        async move {
            gate.acquire().await.unwrap().forget();
            full("done")
        }
    });
    let lab = lab(&one);
    let mut client = speak(lab.connect().await).await;
    let mut second = client.clone();
    let pending = tokio::spawn(client.send_request(request("GET", "http://a.example/", "")));
    until("the request is there", || one.connections() == 1).await;
    let Lab { edge, .. } = lab;
    let draining = tokio::spawn(async move { edge.drain(PATIENCE).await });
    // After GOAWAY no new stream is answered; before it, streams are.
    gate.add_permits(1000);
    let told = async {
        while second.send_request(request("GET", "http://a.example/", "")).await.is_ok() {}
    };
    tokio::time::timeout(PATIENCE, told).await.expect("the client is told");
    assert_eq!(text(pending.await.unwrap().unwrap()).await, "done");
    assert_eq!(draining.await.unwrap().cut, 0);
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// GET / of a.example, as HPACK without table: method and path by index, scheme by index, authority in full.
fn get_block() -> Vec<u8> {
    let mut block = vec![0x82, 0x84, 0x86, 0x01, 9];
    block.extend(b"a.example");
    block
}

/// Sends until the other end closes; so many bytes at most.
async fn flood(lab: &Lab, mut next: impl FnMut() -> Vec<u8>, bytes_max: usize) -> usize {
    let (mut reader, mut writer) = lab.connect().await.into_split();
    writer.write_all(PREFACE).await.unwrap();
    let reading = tokio::spawn(async move {
        let mut space = vec![0; 65_536];
        while matches!(reader.read(&mut space).await, Ok(count) if count > 0) {}
    });
    let flooding = async {
        let mut sent = 0;
        while sent < bytes_max {
            let bytes = next();
            sent += bytes.len();
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
            if reading.is_finished() {
                break;
            }
        }
        sent
    };
    tokio::time::timeout(PATIENCE, flooding).await.expect("the flood ends")
}

const MANY: usize = 16 * 1024 * 1024;

/// Each of these ends its connection after few bytes, and no other suffers.
#[tokio::test]
async fn floods_end_their_connection() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let one = http1(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            full("late")
        }
    });
    let lab = lab(&one);
    let mut stream = 1;
    let reset = || {
        let mut frames = frame(1, 0x5, stream, &get_block());
        frames.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
        stream += 2;
        frames
    };
    let sent = flood(&lab, reset, MANY).await;
    assert!(sent < MANY / 4, "streams that are reset at once: {sent} bytes");
    assert!(seen.load(Ordering::SeqCst) < 2000, "{}", seen.load(Ordering::SeqCst));

    let mut begun = false;
    let continuation = || {
        let kind = if std::mem::replace(&mut begun, true) { 9 } else { 1 };
        frame(kind, 0, 1, &[0x00, 0x01, b'x', 0x01, b'y'].repeat(100))
    };
    let sent = flood(&lab, continuation, MANY).await;
    assert!(sent < MANY / 4, "a head without end: {sent} bytes");

    let sent = flood(&lab, || frame(0, 0, 1, b"data"), MANY).await;
    assert!(sent < MANY / 4, "data of a stream that is none: {sent} bytes");
    let sent = flood(&lab, || frame(6, 0, 0, b"short"), MANY).await;
    assert!(sent < MANY / 4, "a ping of the wrong size: {sent} bytes");
    let sent = flood(&lab, || frame(4, 0, 0, &[0, 5, 0xff, 0xff, 0xff, 0xff]), MANY).await;
    assert!(sent < MANY / 4, "settings that are not allowed: {sent} bytes");

    let mut client = speak(lab.connect().await).await;
    let fine = client.send_request(request("GET", "http://a.example/", "")).await.unwrap();
    assert_eq!(fine.status(), StatusCode::OK);
    until("nothing is left of the floods", || lab.edge.connections() == 1).await;
}

/// Pings and settings that nobody reads the answers of are not collected without end: the edge stops reading.
#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    let one = echo();
    let lab = lab(&one);
    for (kind, payload) in [(6, &[0; 8][..]), (4, &[0, 3, 0, 0, 0, 9][..])] {
        let mut client = lab.connect().await;
        client.write_all(PREFACE).await.unwrap();
        let frames = frame(kind, 0, 0, payload).repeat(10_000);
        let flooding = async {
            let mut sent = 0;
            while sent < 2 * MANY && client.write_all(&frames).await.is_ok() {
                sent += frames.len();
            }
            sent
        };
        // Either the connection ends, or the edge takes no more.
        let taken = tokio::time::timeout(Duration::from_secs(2), flooding).await.unwrap_or(0);
        assert!(taken < 2 * MANY, "{taken} bytes of frames of kind {kind} were taken");
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let one = echo();
    let lab = lab(&one);
    let mut client = speak(lab.connect().await).await;
    let mut large = request("GET", "http://a.example/", "");
    for number in 0..40 {
        let name = format!("x-{number}").parse::<hyper::header::HeaderName>().unwrap();
        large.headers_mut().insert(name, "y".repeat(1000).parse().unwrap());
    }
    match client.send_request(large).await {
        Ok(response) => assert_eq!(response.status().as_u16(), 431),
        Err(error) => assert!(!error.is_canceled(), "{error}"),
    }
    let fine = client.send_request(request("GET", "http://a.example/", "")).await.unwrap();
    assert_eq!(fine.status(), StatusCode::OK);
}
