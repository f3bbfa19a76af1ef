//! WebSockets over HTTP/1.1: bytes pass as they are, in both directions, until either side ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::instances::{Server, raw};
use crate::lab::{Lab, PATIENCE, until};
use crate::wire::{ask, is_closed, read_head};

const ASKING: &str = "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Agrees to a WebSocket and echoes; answers anything else with 200. Counts the WebSockets that have ended.
fn echoing(ended: &Arc<AtomicUsize>) -> Server {
    let ended = Arc::clone(ended);
    raw(move |mut stream, _| {
        let ended = Arc::clone(&ended);
        async move {
            while let Some(head) = read_head(&mut stream).await {
                if !head.contains("upgrade: websocket") {
                    let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    stream.write_all(reply).await.unwrap();
                    continue;
                }
                assert!(head.contains("sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="), "{head}");
                let agreed = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello";
                stream.write_all(agreed).await.unwrap();
                let (mut reader, mut writer) = stream.split();
                let _ended = tokio::io::copy(&mut reader, &mut writer).await;
                ended.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    })
}

fn lab(server: &Server) -> Lab {
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.ready(&[server.address]);
    lab.apply();
    lab
}

async fn expect(stream: &mut tokio::net::TcpStream, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    let reading = tokio::time::timeout(PATIENCE, stream.read_exact(&mut read));
    reading.await.expect("the bytes come").unwrap();
    assert_eq!(read, bytes);
}

/// Requests before it on the same connection decide nothing about it, whatever they asked for.
#[tokio::test]
async fn what_looks_like_http_is_none_after_the_change() {
    let ended = Arc::default();
    let one = echoing(&ended);
    let lab = lab(&one);
    let mut client = lab.connect().await;
    for before in ["", "Upgrade: websocket\r\n", "Connection: upgrade\r\nUpgrade: h2c\r\n"] {
        let reply =
            ask(&mut client, &format!("GET / HTTP/1.1\r\nHost: a.example\r\n{before}\r\n")).await;
        assert_eq!((reply.status, reply.text()), (200, "ok"), "{before:?}");
    }
    let agreed = ask(&mut client, ASKING).await;
    assert_eq!((agreed.status, agreed.field("upgrade")), (101, Some("websocket")));
    assert_eq!(agreed.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    expect(&mut client, b"hello").await;
    let long = [b'\n'; 100_000];
    for message in [&b"\n\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"\x81\x00\xff", &long] {
        client.write_all(message).await.unwrap();
        expect(&mut client, message).await;
    }
    client.shutdown().await.unwrap();
    assert!(is_closed(&mut client, PATIENCE).await);
    until("the instance knows", || ended.load(Ordering::SeqCst) == 1).await;
    until("nothing is left", || lab.edge.connections() == 0).await;
}

/// A client that is gone does not keep its instance.
#[tokio::test]
async fn either_side_may_end() {
    let ended = Arc::default();
    let one = echoing(&ended);
    let lab = lab(&one);
    let mut client = lab.connect().await;
    assert_eq!(ask(&mut client, ASKING).await.status, 101);
    drop(client);
    until("the instance knows", || ended.load(Ordering::SeqCst) == 1).await;
    let mut client = lab.connect().await;
    assert_eq!(ask(&mut client, ASKING).await.status, 101);
    expect(&mut client, b"hello").await;
    drop(one);
    assert!(is_closed(&mut client, PATIENCE).await);
    until("nothing is left", || lab.edge.connections() == 0).await;
}

/// An instance may not change the protocol of who did not ask for it.
#[tokio::test]
async fn a_change_that_nobody_asked_for_is_refused() {
    let one = raw(|mut stream, _| async move {
        let _head = read_head(&mut stream).await;
        let agreed = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(agreed).await.unwrap();
        let _rest = stream.read_u8().await;
    });
    let lab = lab(&one);
    let reply = crate::wire::get(&lab, "a.example", "/").await;
    assert_eq!((reply.status, reply.reason()), (502, "upstream_invalid"));
}
