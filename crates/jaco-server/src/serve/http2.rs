//! HTTP/2 on an accepted connection, for gRPC and the documents.
//!
//! Not by the server of the gRPC library: that one has no bound for what is kept of answers that are not read, and lifts
//! the one for streams that are reset.

use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::auth::connection::Caller;
use crate::serve::handler::{Services, handler};

/// Maximum number of concurrent requests on one connection; further ones wait.
pub(super) const STREAMS_PER_CONNECTION: u32 = 1024;

/// At this age a client is told to open a new connection, so that certificates are verified again. A little
/// before the hard limit of the listener, one hour, so that no request is cut off.
pub(super) const CONNECTION_AGE: Duration = Duration::from_secs(55 * 60);

/// How much of an answer the library keeps before it asks for more of it. What it keeps is not counted as unread
/// ([`crate::unread`]), so it is as little as what is not worth counting. Larger parts are kept whole, and asked for one at
/// a time.
const KEPT_OF_A_STREAM: usize = crate::unread::COUNTED_MIN;

/// Serves one connection until its other end closes it, it is too old, or `shutdown`; and then until its requests are
/// answered.
pub(super) async fn serve(
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    caller: Caller,
    services: impl Services,
    shutdown: CancellationToken,
) {
    let mut settings = http2::Builder::new(TokioExecutor::new());
    settings
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_send_buf_size(KEPT_OF_A_STREAM);
    let serving =
        settings.serve_connection(TokioIo::new(connection), handler(Some(caller), services));
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = winds_down(&shutdown) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection over http/2 ended");
    }
}

async fn winds_down(shutdown: &CancellationToken) {
    // Either reason will do.
    let _too_old = tokio::time::timeout(CONNECTION_AGE, shutdown.cancelled()).await;
}
