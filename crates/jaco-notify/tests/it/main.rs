//! What is on the wire, and what is made of answers, with real sockets.

#![expect(clippy::unwrap_used, reason = "what a test did not expect ends it, wherever that is")]

mod mail;
#[path = "../../../../tests/tests/mail_server.rs"]
mod mail_server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_notify::{
    Address, Content, Endpoint, Message, PlainHttp, Roots, SendError, Sender, WebEndpoint,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

const LIMIT: Duration = Duration::from_secs(5);
const BODY: &str = r#"{"id":"a/120/1"}"#;

fn message() -> Message {
    Message { id: "a/120/1".to_owned(), content: Content::Json(BODY.into()) }
}

/// A server on loopback that answers each request with this text, and says what it was sent. With none it never answers.
async fn server(answer: Option<String>) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream, answer.clone(), sender.clone()));
        }
    });
    (port, received)
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: Option<String>,
    said: mpsc::UnboundedSender<String>,
) {
    let mut text = Vec::new();
    while !text.ends_with(BODY.as_bytes()) {
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes).await.unwrap_or(0) {
            0 => return,
            read => text.extend_from_slice(&bytes[..read]),
        }
    }
    said.send(String::from_utf8(text).unwrap()).ok();
    match answer {
        Some(answer) => drop(stream.write_all(answer.as_bytes()).await),
        None => std::future::pending().await,
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}"))
}

fn endpoint(port: u16) -> Endpoint {
    let url = format!("http://127.0.0.1:{port}/services/hunter2?x=1");
    let address = Address::parse(&url, PlainHttp::LoopbackOnly).unwrap();
    Endpoint::Web(WebEndpoint::signed(address, "correct-horse-battery-staple").unwrap())
}

async fn sent(answer: Option<String>, limit: Duration) -> (Result<u16, SendError>, Vec<String>) {
    let (port, mut received) = server(answer).await;
    let sender = Sender::new(Roots::System);
    let status = sender.send(&endpoint(port), &message(), 1_700_000_000, limit).await;
    let mut all = Vec::new();
    while let Ok(one) = received.try_recv() {
        all.push(one);
    }
    (status, all)
}

/// R-OPS-1
#[tokio::test]
async fn a_message_is_a_signed_post() {
    let (status, received) = sent(answer("204 No Content", "", ""), LIMIT).await;
    assert_eq!((status, received.len()), (Ok(204), 1));
    let lines: Vec<&str> = received[0].lines().collect();
    assert_eq!(lines[0], "POST /services/hunter2?x=1 HTTP/1.1");
    let version = env!("CARGO_PKG_VERSION");
    for header in [
        "content-type: application/json",
        &format!("user-agent: jaco/{version}"),
        "x-jaco-event-id: a/120/1",
        "content-length: 16",
    ] {
        assert!(lines.contains(&header), "{header}: {lines:#?}");
    }
    let signed = lines.iter().any(|line| line.starts_with("x-jaco-signature: t=1700000000,v1="));
    assert!(signed && lines.last() == Some(&BODY), "{lines:#?}");
}

/// R-OPS-1: what is said of a failure has nothing of the path, even where the answer repeats it; words that are known are
/// forwarded; and nothing is sent to another address.
#[tokio::test]
async fn failures_say_nothing_of_the_address() {
    let echo = "cannot POST /services/hunter2";
    let (refused, _) = sent(answer("404 Not Found", "", echo), LIMIT).await;
    assert_eq!(refused.unwrap_err().to_string(), "answered 404");
    let (refused, _) = sent(answer("404 Not Found", "", "no_service\n"), LIMIT).await;
    assert_eq!(refused.unwrap_err().to_string(), "answered 404 (no_service)");
    let (busy, _) = sent(answer("429 Too Many", "retry-after: 17\r\n", ""), LIMIT).await;
    assert_eq!(busy.unwrap_err().retry_after(), Some(Duration::from_secs(17)));
    let (port, mut elsewhere) = server(answer("200 OK", "", "")).await;
    let to = format!("location: http://127.0.0.1:{port}/\r\n");
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let (moved, _) = sent(answer(status, &to, ""), LIMIT).await;
        let moved = moved.unwrap_err();
        assert!(matches!(moved, SendError::Redirect { .. }) && moved.is_refusal(), "{moved}");
    }
    assert!(elsewhere.try_recv().is_err(), "nothing is sent on");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let sender = Sender::new(Roots::System);
    let down = sender.send(&endpoint(free), &message(), 1, LIMIT).await.unwrap_err();
    assert!(matches!(&down, SendError::Connect(why) if why.contains("refused")), "{down}");
    assert!(!down.to_string().contains("hunter2"), "{down}");
}

/// R-OPS-1: a receiver that hangs, before or in its answer, costs no more than the limit, and one that answers without end no
/// more memory than a little.
#[tokio::test]
async fn an_attempt_is_bounded() {
    let limit = Duration::from_millis(300);
    let began = Instant::now();
    let (silent, received) = sent(None, limit).await;
    assert_eq!((silent, received.len()), (Err(SendError::Timeout { limit }), 1));
    let stuck = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_owned();
    let (stuck, _) = sent(Some(stuck), limit).await;
    assert!(stuck == Ok(200) || stuck == Err(SendError::Timeout { limit }), "{stuck:?}");
    assert!(began.elapsed() < LIMIT);
    let long = "x".repeat(8 << 20);
    let (long, _) = sent(answer("200 OK", "", &long), LIMIT).await;
    assert_eq!(long, Ok(200));
}

/// R-OPS-1: over TLS a receiver is who its certificate says to those that are trusted, and nobody else is sent anything.
#[tokio::test]
async fn a_receiver_is_known_by_its_certificate() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = rustls::crypto::ring::default_provider().into();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (said, mut received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream, answer("200 OK", "", ""), said.clone()));
            }
        }
    });
    let url = format!("https://localhost:{port}/hunter2");
    let address = Address::parse(&url, PlainHttp::LoopbackOnly).unwrap();
    let endpoint = Endpoint::Web(WebEndpoint::unsigned(address));
    let known = Sender::new(Roots::These(vec![cert.der().clone()]));
    assert_eq!(known.send(&endpoint, &message(), 1, LIMIT).await, Ok(200));
    let text = received.recv().await.unwrap();
    assert!(!text.contains("x-jaco-signature"), "{text}");
    let nobody = Sender::new(Roots::These(Vec::new()));
    assert_eq!(nobody.send(&endpoint, &message(), 1, LIMIT).await, Err(SendError::NoRoots));
    let other = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let stranger = Sender::new(Roots::These(vec![other.cert.der().clone()]));
    let refused = stranger.send(&endpoint, &message(), 1, LIMIT).await.unwrap_err();
    assert!(matches!(&refused, SendError::Connect(_)), "{refused}");
    assert!(received.try_recv().is_err(), "nothing was sent");
}
