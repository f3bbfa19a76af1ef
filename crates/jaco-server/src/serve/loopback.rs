//! The metrics without TLS and without a token, for a scraper on this machine. It serves nothing else.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::service_fn;
use tracing::warn;

use crate::member::Stage;
use crate::serve::http1;
use crate::serve::pages::{self, Page};
use crate::service::Context;

/// Connections at once. Further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 16;

/// The age at which a connection is closed, so that idle ones do not keep others out.
const CONNECTION_AGE: Duration = Duration::from_secs(300);

/// Pause after the system refused to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the metrics to processes of this machine until `shutdown`.
///
/// # Errors
/// When `listener` is not on a loopback address: nothing is served in clear text elsewhere.
pub async fn serve_loopback(
    listener: TcpListener,
    stage: Stage,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        return Err(io::Error::other(format!("{address} is not a loopback address")));
    }
    let context = Context::new(stage);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return Ok(()),
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let service = service_fn(answer(context.clone()));
        let serving = http1::serve(stream, None, service, shutdown.clone());
        tokio::spawn(async move {
            // Whoever is cut off connects again.
            tokio::time::timeout(CONNECTION_AGE, serving).await.ok();
            drop(place);
        });
    }
}

type Answer = BoxFuture<'static, Result<Response<Body>, std::convert::Infallible>>;

fn answer(context: Context) -> impl Fn(Request<Body>) -> Answer + Clone {
    move |request| {
        let context = context.clone();
        let page = Page::at(request.uri().path());
        async move {
            Ok(match page {
                Some(Page::Metrics) => pages::show_metrics(&context, request).await,
                // Not without a credential.
                Some(Page::Json | Page::Ui) | None => pages::not_found(),
            })
        }
        .boxed()
    }
}
