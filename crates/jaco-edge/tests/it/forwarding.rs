//! Requests and their way to an instance: routes, paths, fields, retries, balance, what is said when nobody answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use jaco_edge::Options;
use jaco_types::route::{
    ForwardedPath, HeaderName, HeaderRules, HeaderValue, Redirect, RedirectRest, RedirectStatus,
    RedirectTarget, RouteAction, RouteTimeout, SessionAffinity, Upstream,
};
use jaco_types::{Millis, Route};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::instances::{address, echo, full, http1, raw, saying, silent};
use crate::lab::{Lab, PATIENCE, route_key, until};
use crate::wire::{Reply, ask, get, is_closed, once, read_head};

/// Changes how a route forwards.
pub(crate) fn upstream(route: &mut Route, change: impl FnOnce(&mut Upstream)) {
    match &mut route.action {
        RouteAction::Forward(upstream) => change(upstream),
        RouteAction::Redirect(_) => panic!("the route redirects"),
    }
}

fn expect(reply: &Reply, status: u16, reason: &str) {
    assert_eq!((reply.status, reply.reason()), (status, reason), "{}", reply.head);
}

#[tokio::test]
async fn a_request_reaches_the_instance_of_its_route() {
    let (one, two) = (echo(), saying("two"));
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let reply =
        once(&lab, "POST /x?y=1 HTTP/1.1\r\nHost: A.example:80\r\nContent-Length: 3\r\n\r\nabc")
            .await;
    assert_eq!(reply.status, 200);
    assert!(reply.text().starts_with("POST /x?y=1 HTTP/1.1\n"), "{}", reply.text());
    assert!(reply.text().ends_with("\n\nabc"));
    assert_eq!(reply.sent("host"), Some("A.example:80"));
    assert_eq!(reply.sent("content-length"), Some("3"));

    lab.ready(&[two.address]);
    lab.apply();
    assert_eq!(get(&lab, "a.example", "/").await.text(), "two");
    expect(&get(&lab, "b.example", "/").await, 404, "no_route");
    lab.ready(&[]);
    lab.apply();
    expect(&get(&lab, "a.example", "/").await, 503, "no_endpoints");
    drop(std::mem::take(&mut lab.plan.routes));
    lab.apply();
    expect(&get(&lab, "a.example", "/").await, 404, "no_route");
}

#[tokio::test]
async fn bodies_pass_in_both_directions() {
    let one = echo();
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    let mut client = lab.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    for _ in 0..3 {
        let reply = ask(&mut client, &format!("{head}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")).await;
        assert!(reply.text().ends_with("\n\nabcde"), "{}", reply.text());
    }
    let large = "x".repeat(300_000);
    let reply = ask(
        &mut client,
        &format!("PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 300000\r\n\r\n{large}"),
    )
    .await;
    assert!(reply.text().ends_with(&large));
    assert_eq!(one.connections(), 1, "the connection to the instance was used again");
}

#[tokio::test]
async fn paths_are_stripped_normalized_and_redirected() {
    let one = echo();
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.route("a.example", "/api", |route| {
        upstream(route, |to| to.forwarded_path = ForwardedPath::Rest);
    });
    lab.route("*.example", "/old", |route| {
        let to = RedirectTarget::new("https://new.example/").unwrap();
        let (rest, status) = (RedirectRest::Append, RedirectStatus::Permanent);
        route.action = RouteAction::Redirect(Redirect { to, rest, status });
    });
    lab.ready(&[one.address]);
    lab.apply();
    for (asked, sent) in [
        ("/api/x?q", "/x?q"),
        ("/api", "/"),
        ("/apis", "/apis"),
        ("/x/../api/y", "/y"),
        ("/x/%2e%2e/%61pi/y", "/y"),
        ("//api/y", "/y"),
        ("/a%2Fb", "/a%2Fb"),
    ] {
        let reply = get(&lab, "a.example", asked).await;
        let line = reply.text().lines().next().unwrap().to_owned();
        assert_eq!(line, format!("GET {sent} HTTP/1.1"), "{asked}");
    }
    // Some servers read them as paths of another route, which may guard them.
    for asked in ["/api%2Fx", "/x/..%2fapi/y", "/x/..%5Capi", "/%2fapi", "/x/..%2fapi/..%5cx"] {
        let reply = get(&lab, "a.example", asked).await;
        assert_eq!((reply.status, reply.reason()), (400, "malformed_request"), "{asked}");
    }
    let reply = get(&lab, "b.example", "/old/shop?x=1").await;
    assert_eq!(reply.status, 308);
    assert_eq!(reply.field("location"), Some("https://new.example/shop?x=1"));
}

#[tokio::test]
async fn fields_of_the_connection_stay_and_the_client_is_named() {
    let one = http1(|request| async move {
        let mut answer = full(crate::instances::described(request).await);
        let headers = answer.headers_mut();
        headers.insert("connection", "x-internal".parse().unwrap());
        headers.insert("x-internal", "secret".parse().unwrap());
        headers.insert("x-powered-by", "something".parse().unwrap());
        answer
    });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| {
        let name = |name| HeaderName::new(name).unwrap();
        let set = BTreeMap::from([(name("x-added"), HeaderValue::new("1").unwrap())]);
        let rules = |removed| HeaderRules::new(set.clone(), [name(removed)].into()).unwrap();
        route.headers.request = rules("x-removed");
        route.headers.response = rules("x-powered-by");
    });
    lab.ready(&[one.address]);
    lab.apply();
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\n\
        Keep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nX-Forwarded-For: 203.0.113.9\r\n\
        X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nForwarded: for=203.0.113.9\r\n\
        X-Real-IP: 203.0.113.9\r\nX-Removed: 1\r\nX-Kept: 1\r\n\r\n";
    let reply = once(&lab, request).await;
    for gone in ["x-hop", "keep-alive", "te", "upgrade", "http2-settings", "forwarded", "x-removed"]
    {
        assert_eq!(reply.sent(gone), None, "{gone}");
    }
    for (name, value) in [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "a.example"),
        ("x-real-ip", "127.0.0.1"),
        ("x-kept", "1"),
        ("x-added", "1"),
    ] {
        assert_eq!(reply.sent(name), Some(value), "{name}");
    }
    assert_eq!((reply.field("x-internal"), reply.field("x-powered-by")), (None, None));
    assert_eq!(reply.field("x-added"), Some("1"));

    lab.plan.trusted_proxies = ["127.0.0.0/8".parse().unwrap()].into();
    lab.apply();
    let reply = once(&lab, request).await;
    assert_eq!(reply.sent("x-forwarded-for"), Some("203.0.113.9, 127.0.0.1"));
    assert_eq!(reply.sent("x-real-ip"), Some("203.0.113.9"));
    assert_eq!(reply.sent("x-forwarded-proto"), Some("https"));
}

#[tokio::test]
async fn an_instance_that_refuses_is_passed_over() {
    let one = saying("one");
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address, address(), address()]);
    lab.apply();
    let post = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\r\nx";
    for _ in 0..20 {
        assert_eq!(get(&lab, "a.example", "/").await.status, 200);
        assert_eq!(once(&lab, post).await.status, 200);
    }
    lab.ready(&[address()]);
    lab.apply();
    expect(&get(&lab, "a.example", "/").await, 502, "connect_failed");
    let counts = lab.edge.counters()[&route_key("a.example", "/")];
    assert_eq!((counts.requests(), counts.by_class, counts.refused), (41, [0, 40, 0, 0, 1], 1));
    assert!((1..=4).contains(&counts.retried), "ejected after the first: {}", counts.retried);
    assert_eq!(counts.latency.iter().sum::<u64>(), 41);
}

/// An instance whose queue of connections is full takes no part: after 250 ms another one is tried.
#[tokio::test]
async fn an_instance_that_does_not_answer_is_passed_over_in_time() {
    let silent = silent().await;
    let one = saying("one");
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address, silent.address]);
    lab.apply();
    let began = Instant::now();
    for _ in 0..10 {
        assert_eq!(get(&lab, "a.example", "/").await.status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// R-EDGE-1: the only instance there is answers after a while, as one behind a router that is being replaced: nothing was sent, so
/// the request can wait. Without an answer it does not wait for ever.
#[tokio::test]
async fn an_instance_that_does_not_answer_is_waited_for_if_there_is_no_other() {
    let silent = silent().await;
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[silent.address]);
    lab.apply();
    let post = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\r\nx";
    let began = Instant::now();
    expect(&once(&lab, post).await, 502, "connect_failed");
    let took = began.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(4)).contains(&took), "{took:?}");
    let answers = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        silent.answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    };
    let (reply, _) = tokio::join!(once(&lab, post), answers);
    assert_eq!((reply.status, reply.text()), (200, "hi"));
}

/// An instance that dies in the middle of requests: what must not be sent twice is not, the rest is.
#[tokio::test]
async fn a_post_is_never_sent_twice() {
    let posts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&posts);
    let dying = raw(move |mut stream, _| {
        let counted = Arc::clone(&counted);
        async move {
            let head = read_head(&mut stream).await.unwrap_or_default();
            counted.fetch_add(usize::from(head.starts_with("POST")), Ordering::SeqCst);
        }
    });
    let posts_of_two = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&posts_of_two);
    let two = http1(move |request| {
        counted.fetch_add(usize::from(request.method() == "POST"), Ordering::SeqCst);
        async { full("two") }
    });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..20 {
        // Ejection ends with the instance: each round begins as new.
        lab.ready(&[]);
        lab.apply();
        lab.ready(&[dying.address, two.address]);
        lab.apply();
        assert_eq!(get(&lab, "a.example", "/").await.text(), "two");
        lab.ready(&[]);
        lab.apply();
        lab.ready(&[dying.address, two.address]);
        lab.apply();
        let reply =
            once(&lab, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\r\nx").await;
        match reply.status {
            200 => answered += 1,
            _ => {
                expect(&reply, 502, "upstream_reset");
                refused += 1;
            }
        }
    }
    assert_eq!(
        (posts.load(Ordering::SeqCst), posts_of_two.load(Ordering::SeqCst)),
        (refused, answered)
    );
    assert!(refused > 0 && answered > 0, "both were met: {refused} {answered}");
}

/// A server that closes idle connections: no request fails for it, and none is sent twice.
#[tokio::test]
async fn a_kept_connection_that_was_closed_costs_no_request() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let closing = raw(move |mut stream, _| {
        let counted = Arc::clone(&counted);
        async move {
            if read_head(&mut stream).await.is_some() {
                counted.fetch_add(1, Ordering::SeqCst);
                let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                stream.write_all(reply).await.unwrap();
            }
        }
    });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[closing.address]);
    lab.apply();
    let mut client = lab.connect().await;
    for number in 1..=50 {
        let request = if number % 2 == 0 {
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n"
        } else {
            "GET / HTTP/1.1\r\n"
        };
        let reply = ask(&mut client, &format!("{request}Host: a.example\r\n\r\n")).await;
        // A POST that crosses with the close may fail; it never counts twice.
        assert!(reply.status == 200 || (number % 2 == 0 && reply.status == 502), "{}", reply.head);
    }
    assert!(seen.load(Ordering::SeqCst) <= 50);
}

#[tokio::test]
async fn an_instance_that_says_nothing_is_waited_for_in_bounds() {
    let slow = raw(|mut stream, _| async move {
        let _head = read_head(&mut stream).await;
        let mut rest = Vec::new();
        let _ended = stream.read_to_end(&mut rest).await;
    });
    let broken = raw(|mut stream, _| async move {
        let _head = read_head(&mut stream).await;
        let _sent = stream.write_all(b"no HTTP at all\r\n\r\n").await;
    });
    let mut lab = Lab::new();
    let timeout = RouteTimeout::new(Millis(200)).unwrap();
    lab.route("a.example", "/", |route| upstream(route, |to| to.timeout = Some(timeout)));
    lab.ready(&[slow.address]);
    lab.apply();
    let began = Instant::now();
    expect(&get(&lab, "a.example", "/").await, 504, "upstream_timeout");
    assert!(began.elapsed() >= Duration::from_millis(200) && began.elapsed() < PATIENCE / 2);
    lab.ready(&[broken.address]);
    lab.apply();
    expect(
        &once(&lab, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n").await,
        502,
        "upstream_invalid",
    );
}

#[tokio::test]
async fn a_cookie_keeps_a_client_with_its_instance() {
    let (one, two) = (saying("one"), saying("two"));
    let mut lab = Lab::new();
    lab.route("a.example", "/", |route| {
        upstream(route, |to| to.affinity = SessionAffinity::Cookie);
    });
    lab.ready(&[one.address, two.address]);
    lab.apply();
    let first = get(&lab, "a.example", "/").await;
    let set = first.field("set-cookie").unwrap();
    let pair = set.split(';').next().unwrap().to_owned();
    assert!(set.contains("HttpOnly") && !set.contains("web"), "{set}");
    let again = format!("GET / HTTP/1.1\r\nHost: a.example\r\nCookie: x=y; {pair}\r\n\r\n");
    for _ in 0..20 {
        let reply = once(&lab, &again).await;
        assert_eq!((reply.text(), reply.field("set-cookie")), (first.text(), None));
    }
    let other = if first.text() == "one" { (2, two.address) } else { (1, one.address) };
    lab.instances(Duration::ZERO, &[other], &[]);
    lab.apply();
    let moved = once(&lab, &again).await;
    assert_ne!(moved.text(), first.text());
    assert!(moved.field("set-cookie").is_some());
}

#[tokio::test]
async fn a_stream_of_events_comes_as_it_is_sent() {
    let (sender, receiver) = tokio::sync::mpsc::channel::<&'static str>(4);
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let events = raw(move |mut stream, _| {
        let receiver = Arc::clone(&receiver);
        async move {
            let _head = read_head(&mut stream).await;
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head).await.unwrap();
            while let Some(event) = receiver.lock().await.recv().await {
                let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                stream.write_all(chunk.as_bytes()).await.unwrap();
            }
        }
    });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[events.address]);
    lab.apply();
    let mut client = lab.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    let head = read_head(&mut client).await.unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        sender.send(event).await.unwrap();
        let chunk = tokio::time::timeout(PATIENCE, crate::wire::read_chunk(&mut client)).await;
        assert_eq!(chunk.unwrap().unwrap(), event.as_bytes());
    }
    // Its instance leaves, and its time ends: so does the stream, in good order.
    lab.instances(Duration::from_millis(100), &[], &[(1, events.address)]);
    lab.apply();
    assert_eq!(lab.status().busy, [crate::lab::instance(1)].into());
    lab.wait_for(|status| status.busy.is_empty()).await;
    let end = tokio::time::timeout(PATIENCE, crate::wire::read_chunk(&mut client)).await.unwrap();
    assert_eq!(end, None);
}

/// Neither direction is held back, and nothing is lost at the end of a client that leaves early.
#[tokio::test]
async fn a_client_that_leaves_frees_the_instance() {
    let (started, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (Arc::clone(&started), Arc::clone(&ended));
    let endless = raw(move |mut stream, _| {
        let (started, ended) = (Arc::clone(&counters.0), Arc::clone(&counters.1));
        async move {
            let _head = read_head(&mut stream).await;
            started.fetch_add(1, Ordering::SeqCst);
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n";
            let mut sent = stream.write_all(head).await;
            while sent.is_ok() {
                sent = stream.write_all(&[b'x'; 65_536]).await;
            }
            ended.fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[endless.address]);
    lab.apply();
    let mut client = lab.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    assert!(read_head(&mut client).await.is_some());
    drop(client);
    until("the instance notices", || ended.load(Ordering::SeqCst) == 1).await;
    lab.instances(Duration::from_secs(60), &[], &[(1, endless.address)]);
    lab.apply();
    lab.wait_for(|status| status.busy.is_empty()).await;
    until("no connection is left", || lab.edge.connections() == 0).await;
}

#[tokio::test]
async fn an_edge_that_stops_finishes_what_it_has() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let waiting = http1(move |request| {
        let gate = Arc::clone(&opened);
        async move {
            let _body = request.into_body().collect().await;
            gate.acquire().await.unwrap().forget();
            full("done")
        }
    });
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[waiting.address]);
    lab.apply();
    let (mut busy, mut idle) = (lab.connect().await, lab.connect().await);
    busy.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
    until("the request is there", || waiting.connections() == 1).await;
    until("both are accepted", || lab.edge.connections() == 2).await;
    let address = lab.clear;
    let Lab { edge, .. } = lab;
    let draining = tokio::spawn(async move { edge.drain(PATIENCE).await });
    until("nobody is accepted", || std::net::TcpStream::connect(address).is_err()).await;
    // A request that was on its way is answered, and is told to be the last.
    gate.add_permits(2);
    let last = ask(&mut idle, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert_eq!((last.status, last.field("connection")), (200, Some("close")));
    let reply = crate::wire::read(&mut busy).await.unwrap();
    assert_eq!((reply.text(), reply.field("connection")), ("done", Some("close")));
    assert!(is_closed(&mut busy, PATIENCE).await);
    assert_eq!(draining.await.unwrap().cut, 0);
}

#[tokio::test]
async fn lines_of_the_access_log_are_json() {
    let one = saying("hello");
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let written = Arc::clone(&lines);
    let sink = Arc::new(move |line| written.lock().unwrap().push(line));
    let access_log = Some(jaco_edge::AccessLog { one_in: 1.try_into().unwrap(), sink });
    let mut lab = Lab::with(Options { access_log, ..Options::default() });
    lab.route("a.example", "/", |_| {});
    lab.ready(&[one.address]);
    lab.apply();
    get(&lab, "a.example", "/x?secret").await;
    get(&lab, "b.example", "/").await;
    until("both have a line", || lines.lock().unwrap().len() == 2).await;
    let line = |at: usize| -> serde_json::Value {
        serde_json::from_str(&lines.lock().unwrap()[at]).unwrap()
    };
    let (first, second) = (line(0), line(1));
    for (name, value) in [
        ("client", "127.0.0.1".into()),
        ("method", "GET".into()),
        ("host", "a.example".into()),
        ("path", "/x".into()),
        ("route", "a.example".into()),
        ("instance", "shop-web-1@101".into()),
        ("status", 200.into()),
        ("bytes", 5.into()),
        ("complete", true.into()),
    ] {
        let value: serde_json::Value = value;
        assert_eq!(first[name], value, "{name}");
    }
    assert_eq!((&second["status"], &second["reason"]), (&404.into(), &"no_route".into()));
}
