//! WebSockets: asked for over HTTP/1.1 or HTTP/2 (RFC 8441), to an instance always over HTTP/1.1; then bytes in both
//! directions until one side ends, or the drain time of the instance does.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::connection::Connection;
use super::forward::{Lease, Reply};
use super::headers::has_token;
use crate::body::Answer;
use crate::shared::Shared;
use crate::wire::websocket::{Frames, GOING_AWAY};

/// So long a client may take to hear that its WebSocket ends.
const GOODBYE: Duration = Duration::from_secs(1);

/// How a WebSocket is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// By `Upgrade`.
    Http1,
    /// By an extended `CONNECT`.
    Http2,
}

/// Makes a request ask an instance for a WebSocket, after the fields of its connection were removed.
pub(super) fn prepare(asked: Asked, parts: &mut Parts) {
    let headers = &mut parts.headers;
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if asked == Asked::Http2 {
        parts.method = Method::GET;
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(header::SEC_WEBSOCKET_KEY, nonce());
        headers.remove(header::CONTENT_LENGTH);
    }
    parts.extensions.clear();
    parts.version = Version::HTTP_11;
}

/// Sixteen random bytes (RFC 6455, 4.1): the edge is the client of the instance.
fn nonce() -> HeaderValue {
    let mut bytes = [0; 16];
    // The nonce keeps caches between client and server from confusion; there are none here.
    if SystemRandom::new().fill(&mut bytes).is_err() {
        fastrand::fill(&mut bytes);
    }
    HeaderValue::from_str(&data_encoding::BASE64.encode(&bytes)).expect("BASE64 is ASCII")
}

/// Whether an instance agrees to a WebSocket.
pub(super) fn is_agreed(response: &Response<Incoming>) -> bool {
    response.status() == StatusCode::SWITCHING_PROTOCOLS
        && has_token(response.headers(), &header::UPGRADE, "websocket")
}

/// Answers the client and joins it with the instance.
pub(super) fn join(
    connection: &Arc<Connection>,
    asked: Asked,
    client: OnUpgrade,
    reply: Reply,
) -> Response<Answer> {
    let Reply { mut response, lease } = reply;
    let headers = std::mem::take(response.headers_mut());
    let instance = hyper::upgrade::on(response);
    let shared = Arc::clone(&connection.shared);
    let mut active = connection.begin();
    active.answered();
    connection.shared.tracker.spawn(async move {
        run(shared, client, instance, lease).await;
        // Only now its connection may be idle.
        drop(active);
    });
    answer(asked, headers)
}

fn answer(asked: Asked, mut headers: HeaderMap) -> Response<Answer> {
    super::headers::strip_hop_by_hop(&mut headers);
    headers.remove(header::CONTENT_LENGTH);
    let status = match asked {
        Asked::Http1 => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            StatusCode::SWITCHING_PROTOCOLS
        }
        Asked::Http2 => {
            headers.remove(header::SEC_WEBSOCKET_ACCEPT);
            StatusCode::OK
        }
    };
    let mut response = Response::new(Answer::empty());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Writes to a client, and knows where the frames end that it was sent.
struct ToClient {
    stream: TokioIo<Upgraded>,
    frames: Frames,
}

impl AsyncRead for ToClient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, out)
    }
}

impl AsyncWrite for ToClient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.frames.pass(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Tells a client that its WebSocket ends, if that can be said here.
async fn say_goodbye(client: &mut ToClient) -> io::Result<()> {
    if client.frames.has_room() {
        client.write_all(&GOING_AWAY).await?;
    }
    client.shutdown().await
}

/// Copies in both directions until one ends, and a moment longer in the other: a WebSocket has no halves.
async fn copy(client: &mut ToClient, instance: &mut TokioIo<Upgraded>) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_instance, mut to_instance) = tokio::io::split(instance);
    let up = async {
        let copied = tokio::io::copy(&mut from_client, &mut to_instance).await;
        (copied, to_instance.shutdown().await)
    };
    let down = async {
        let copied = tokio::io::copy(&mut from_instance, &mut to_client).await;
        (copied, to_client.shutdown().await)
    };
    let (mut up, mut down) = (pin!(up), pin!(down));
    let last = tokio::select! {
        _ = up.as_mut() => tokio::time::timeout(GOODBYE, down).await,
        _ = down.as_mut() => tokio::time::timeout(GOODBYE, up).await,
    };
    tracing::trace!(in_good_order = last.is_ok(), "websocket ended");
}

async fn run(shared: Arc<Shared>, client: OnUpgrade, instance: OnUpgrade, lease: Lease) {
    let (client, instance) = match tokio::try_join!(client, instance) {
        Ok(both) => both,
        Err(error) => {
            tracing::trace!(%error, "no websocket");
            return;
        }
    };
    let mut released = lease.in_flight.released();
    let mut client = ToClient { stream: TokioIo::new(client), frames: Frames::default() };
    let mut instance = TokioIo::new(instance);
    tokio::select! {
        () = copy(&mut client, &mut instance) => return,
        Ok(_) = released.wait_for(|released| *released) => {
            tracing::debug!("websocket closed: the drain time of its instance is over");
        }
        () = shared.stopping.cancelled() => {}
    }
    // The instance is free from now on; the client takes the news or does not.
    drop((instance, lease));
    if tokio::time::timeout(GOODBYE, say_goodbye(&mut client)).await.is_err() {
        tracing::trace!("a client does not take the end of its websocket");
    }
}
