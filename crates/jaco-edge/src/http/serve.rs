//! Serves a connection until it ends, or until the edge stops and the connection has finished what it is at.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::connection::Connection;
use super::screened::Screened;
use super::service::handle;
use super::stream::Stream;
use crate::handshake::Spoken;
use crate::options::BUFFER_MAX;
use crate::rewound::Rewound;

/// Once the edge stops, so long a connection without a request waits for one more: its client may be sending it
/// already, and learns from the answer that it was the last.
const LAST_REQUEST: Duration = Duration::from_secs(2);

/// Serves a connection that begins with bytes that were read already.
pub(crate) async fn serve<S: Stream>(
    stream: S,
    begin: BytesMut,
    protocol: Spoken,
    connection: Connection,
) {
    let connection = Arc::new(connection);
    match protocol {
        Spoken::Http1 => serve_http1(stream, begin, connection).await,
        Spoken::Http2 => serve_http2(Rewound::new(begin, stream), connection).await,
    }
}

async fn serve_http1<S: Stream>(stream: S, begin: BytesMut, connection: Arc<Connection>) {
    let screened = Screened::new(stream, Arc::clone(&connection), begin);
    let service = service_fn({
        let connection = Arc::clone(&connection);
        move |request| handle(Arc::clone(&connection), request)
    });
    let mut builder = http1::Builder::new();
    // Times and sizes are the screen's.
    builder.header_read_timeout(None).max_headers(connection.shared.options.limits.head_fields_max);
    builder.max_buf_size(BUFFER_MAX);
    let serving = builder.serve_connection(TokioIo::new(screened), service).with_upgrades();
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = connection.closing.cancelled() => {
            if !connection.shared.draining.is_cancelled() {
                return;
            }
            // From now on each response says that it is the last of its connection.
            match tokio::time::timeout(LAST_REQUEST, serving.as_mut()).await {
                Ok(ended) => ended,
                Err(_) => {
                    serving.as_mut().graceful_shutdown();
                    serving.await
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, peer = %connection.peer, "connection ended");
    }
}

async fn serve_http2<S: Stream>(stream: S, connection: Arc<Connection>) {
    let limits = connection.shared.options.limits;
    let service = service_fn({
        let connection = Arc::clone(&connection);
        move |request| handle(Arc::clone(&connection), request)
    });
    let head_bytes_max = u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(head_bytes_max)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(Some(64))
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_send_buf_size(64 * 1024)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10))
        .enable_connect_protocol();
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = idle(&connection, limits.keep_alive) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
        () = connection.closing.cancelled() => {
            if !connection.shared.draining.is_cancelled() {
                return;
            }
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, peer = %connection.peer, "connection ended");
    }
}

/// Ends once the connection has had no request for so long; it is looked at now and then. One that came and went between two looks
/// is a request.
async fn idle(connection: &Connection, keep_alive: Duration) {
    let (mut quiet, mut seen) = (0, connection.begun());
    while quiet < 4 {
        tokio::time::sleep(keep_alive / 4).await;
        let begun = connection.begun();
        quiet = if connection.is_active() || begun != seen { 0 } else { quiet + 1 };
        seen = begun;
    }
}
