//! HTTP/1.1 on an accepted connection, for the documents: gRPC needs HTTP/2.

use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::auth::connection::Caller;
use crate::serve::handler::{Services, handler};

/// What is kept of a request's head before it is complete, as much as over HTTP/2.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// How long the next request may take to arrive. Longer than the usual pause of a scraper; who shows no credential is cut
/// off earlier by the listener.
const NEXT_REQUEST: Duration = Duration::from_secs(75);

/// Serves one connection until its other end closes it, or `shutdown`.
pub(super) async fn serve(
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    caller: Option<Caller>,
    services: impl Services,
    shutdown: CancellationToken,
) {
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(NEXT_REQUEST)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(connection), handler(caller, services));
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = shutdown.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection over http/1.1 ended");
    }
}
