//! On the wire: requests that two servers could read differently, and clients that take too long or too much.

use std::time::{Duration, Instant};

use jaco_edge::{Limits, Options};
use jaco_types::route::BodyLimit;
use jaco_types::unit::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::instances::{Server, echo, saying};
use crate::lab::{Lab, PATIENCE, until};
use crate::wire::{ask, get, is_closed, once, read};

fn lab(limits: Limits) -> (Lab, Server) {
    let one = echo();
    let mut lab = Lab::with(Options { limits, ..Options::default() });
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    (lab, one)
}

/// Each is refused with 400, nothing of it reaches an instance, and nothing after it is read.
#[tokio::test]
async fn what_has_two_readings_is_refused() {
    let (lab, one) = lab(Limits::default());
    let after = "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Content-Length: 4\r\nContent-Length: 4\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: 4, 4\r\n",
        "Content-Length: +4\r\n",
        "Content-Length: 9223372036854775808\r\n",
        "Content-Length: 4 4\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X: a\r\n Transfer-Encoding: chunked\r\n",
        "X: a\r\n\tb\r\n",
        "X: a\nTransfer-Encoding: chunked\r\n",
        "X: a\n",
        "X: a\rb\r\n",
        "X: a\0b\r\n",
        "X a\r\n",
        "Host: b.example\r\n",
    ] {
        let mut client = lab.connect().await;
        let request = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n0\r\n\r\n{after}");
        let reply = ask(&mut client, &request).await;
        assert_eq!((reply.status, reply.reason()), (400, "malformed_request"), "{fields:?}");
        assert_eq!(reply.field("connection"), Some("close"), "{fields:?}");
        assert!(is_closed(&mut client, PATIENCE).await, "{fields:?}");
    }
    for line in [
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET\t/ HTTP/1.1",
        "GET / HTTP/1.2",
        "GET a HTTP/1.1",
        "CONNECT a.example:80 HTTP/1.1",
        "GET refused:0 HTTP/1.1",
        "GET http:///a HTTP/1.1",
        "GET /a%00b HTTP/1.1",
        "GET /a%zz HTTP/1.1",
        "GET /a% HTTP/1.1",
    ] {
        let reply = once(&lab, &format!("{line}\r\nHost: a.example\r\n\r\n")).await;
        assert_eq!((reply.status, reply.reason()), (400, "malformed_request"), "{line:?}");
    }
    let reply =
        once(&lab, "GET / HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    assert_eq!(reply.status, 400);
    assert_eq!(once(&lab, "GET / HTTP/1.1\r\n\r\n").await.status, 400);
    assert_eq!(get(&lab, "a b", "/").await.reason(), "invalid_host");
    for method in ["TRACE", "get", "GET!", "G3T"] {
        let reply = once(&lab, &format!("{method} / HTTP/1.1\r\nHost: a.example\r\n\r\n")).await;
        assert_eq!((reply.status, reply.reason()), (405, "method_not_supported"), "{method}");
    }
    assert_eq!(one.connections(), 0, "no instance has seen anything");
}

/// An application may read both spellings under one name, and would take the client's word for the edge's.
#[tokio::test]
async fn nobody_speaks_for_the_edge_with_underscores() {
    let (lab, _one) = lab(Limits::default());
    let fields = "X_Forwarded_For: 192.0.2.1\r\nX_Real-IP: 192.0.2.1\r\nX_Other: kept\r\n";
    let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    let reply = once(&lab, &request).await;
    assert_eq!((reply.status, reply.sent("x_other")), (200, Some("kept")));
    assert_eq!(reply.sent("x-forwarded-for"), Some("127.0.0.1"));
    assert!(!reply.text().contains("192.0.2.1"), "{}", reply.text());
}

/// The answers to the requests before it come first, and are right.
#[tokio::test]
async fn a_faulty_request_does_not_hurt_those_before_it() {
    let (lab, _one) = lab(Limits::default());
    let mut client = lab.connect().await;
    let good = "GET /good HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let bad = "GET /bad HTTP/1.1\r\nHost: a.example\r\nX: a\n\r\n";
    let first = ask(&mut client, &format!("{good}{good}{bad}{good}")).await;
    let second = read(&mut client).await.unwrap();
    let third = read(&mut client).await.unwrap();
    assert_eq!((first.status, second.status), (200, 200));
    assert!(second.text().starts_with("GET /good"));
    assert_eq!((third.status, third.reason()), (400, "malformed_request"));
    assert!(is_closed(&mut client, PATIENCE).await);
}

/// A chunk that is none ends the request; its instance gets no complete body.
#[tokio::test]
async fn a_broken_chunk_is_no_body() {
    let (lab, _one) = lab(Limits::default());
    for body in ["3\nabc\r\n0\r\n\r\n", "zz\r\n", "3\r\nabcd\r\n0\r\n\r\n", "0\r\nX: a\n\r\n"] {
        let mut client = lab.connect().await;
        let head = "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
        let reply = ask(&mut client, &format!("{head}{body}")).await;
        assert_eq!((reply.status, reply.reason()), (400, "malformed_request"), "{body:?}");
        assert!(is_closed(&mut client, PATIENCE).await, "{body:?}");
    }
}

#[tokio::test]
async fn heads_have_bounds() {
    let (lab, _one) = lab(Limits::default());
    let fields: String = (0..100).map(|number| format!("X-{number}: a\r\n")).collect();
    let many = once(&lab, &format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).await;
    assert_eq!((many.status, many.reason()), (431, "header_too_large"));
    let long = "x".repeat(33 * 1024);
    let large =
        once(&lab, &format!("GET / HTTP/1.1\r\nHost: a.example\r\nX: {long}\r\n\r\n")).await;
    assert_eq!((large.status, large.reason()), (431, "header_too_large"));
    let fits = "x".repeat(31 * 1024);
    let fine = once(&lab, &format!("GET / HTTP/1.1\r\nHost: a.example\r\nX: {fits}\r\n\r\n")).await;
    assert_eq!(fine.status, 200);
}

#[tokio::test]
async fn clients_have_bounded_time() {
    let short = Duration::from_millis(150);
    let (lab, one) = lab(Limits {
        head_timeout: short,
        body_idle: short,
        keep_alive: short * 3,
        ..Limits::default()
    });
    let began = Instant::now();
    let mut slow = lab.connect().await;
    let reply = ask(&mut slow, "GET / HTTP/1.1\r\nHost: a.ex").await;
    assert_eq!((reply.status, reply.reason()), (408, "header_timeout"));
    assert!(is_closed(&mut slow, PATIENCE).await);
    assert!(is_closed(&mut lab.connect().await, PATIENCE).await, "says nothing at all");

    let mut pausing = lab.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nab";
    let reply = ask(&mut pausing, head).await;
    assert_eq!((reply.status, reply.reason()), (408, "body_timeout"));

    let mut idle = lab.connect().await;
    assert_eq!(ask(&mut idle, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.status, 200);
    assert!(is_closed(&mut idle, PATIENCE).await);
    assert!(began.elapsed() >= short * 5 && began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert_eq!(one.connections(), 2);
}

/// A response takes longer than a connection may be idle, and a request follows.
#[tokio::test]
async fn waiting_for_an_answer_is_not_idle() {
    let slow = crate::instances::http1(|_| async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        crate::instances::full("late")
    });
    let short = Duration::from_millis(100);
    let limits = Limits { keep_alive: short, head_timeout: short, ..Limits::default() };
    let mut lab = Lab::with(Options { limits, ..Options::default() });
    lab.route("a.example", "/", |_| {});
    lab.ready(&[slow.address]);
    lab.apply();
    let mut client = lab.connect().await;
    for _ in 0..2 {
        let reply = ask(&mut client, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        assert_eq!(reply.text(), "late");
    }
}

#[tokio::test]
async fn bodies_have_a_bound_where_the_route_says_so() {
    let one = saying("one");
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| route.body_max = Some(BodyLimit::new(Bytes(4)).unwrap()));
    lab.ready(&[one.address]);
    lab.apply();
    let sized = |size: usize| {
        let body = "x".repeat(size);
        format!("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {size}\r\n\r\n{body}")
    };
    let chunked = |chunks: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
        )
    };
    assert_eq!(once(&lab, &sized(4)).await.status, 200);
    assert_eq!(once(&lab, &sized(5)).await.reason(), "body_too_large");
    assert_eq!(once(&lab, &chunked("2\r\nab\r\n2\r\ncd\r\n")).await.status, 200);
    assert_eq!(once(&lab, &chunked("2\r\nab\r\n3\r\ncde\r\n")).await.reason(), "body_too_large");
}

#[tokio::test]
async fn one_source_does_not_take_all_places() {
    let (lab, _one) = lab(Limits { connections_per_source_max: 3, ..Limits::default() });
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = lab.connect().await;
        assert_eq!(ask(&mut client, request).await.status, 200);
        clients.push(client);
    }
    assert!(is_closed(&mut lab.connect().await, PATIENCE).await);
    drop(clients.pop());
    until("a place is free", || lab.edge.connections() == 2).await;
    assert_eq!(ask(&mut lab.connect().await, request).await.status, 200);
    assert_eq!(clients.len(), 2);
}

/// A client that takes nothing of a large answer does not hold the instance for ever.
#[tokio::test]
async fn a_client_that_takes_nothing_is_given_up() {
    let endless = crate::instances::raw(|mut stream, _| async move {
        let _head = crate::wire::read_head(&mut stream).await;
        let mut sent =
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").await;
        while sent.is_ok() {
            sent = stream.write_all(&[b'x'; 65_536]).await;
        }
    });
    let limits = Limits { write_stall: Duration::from_millis(200), ..Limits::default() };
    let mut lab = Lab::with(Options { limits, ..Options::default() });
    lab.route("a.example", "/", |_| {});
    lab.ready(&[endless.address]);
    lab.apply();
    let mut client = lab.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    assert!(crate::wire::read_head(&mut client).await.is_some());
    until("the connection is given up", || lab.edge.connections() == 0).await;
    // It was not closed in order, which would leave what is unsent with the kernel until the client takes it.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, client.read_to_end(&mut rest)).await.unwrap();
    let kind = ended.map_err(|error| error.kind());
    assert_eq!(kind, Err(std::io::ErrorKind::ConnectionReset), "after {} bytes", rest.len());
}
