//! Opens connections. A connection is opened before it is used, so that the cause of a failure is known.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use jaco_pki::Refusal;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tonic::transport::Channel;

use crate::error::ConnectError;
use crate::target::Endpoint;

/// Interval of HTTP/2 pings on an idle connection: a watch may be idle for hours, and a node that lost its
/// power does not close its connections.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Deadline of the answer to a ping.
const KEEP_ALIVE_LIMIT: Duration = Duration::from_secs(5);

/// Deadline of connecting to a unix socket: only a hung daemon exceeds it.
const SOCKET_LIMIT: Duration = Duration::from_secs(5);

/// Opens a connection.
pub(crate) async fn connect(endpoint: &Endpoint) -> Result<Channel, ConnectError> {
    match endpoint {
        Endpoint::Socket(path) => {
            let opened = tokio::time::timeout(SOCKET_LIMIT, UnixStream::connect(path)).await;
            let opened = opened.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
            handshake(opened.map_err(ConnectError::Socket)?, Refusal::default()).await
        }
        Endpoint::Tls { address, dialer } => {
            let opened = dialer.connect(address.as_str()).await.map_err(ConnectError::Tls)?;
            let refusal = opened.refusal();
            handshake(opened, refusal).await
        }
    }
}

/// The HTTP/2 handshake over an open connection. The channel never reconnects by itself, because it
/// would hide the cause of a failure. If the node refuses the certificate, that is the cause of each further one.
async fn handshake<S>(stream: S, refusal: Refusal) -> Result<Channel, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let once = Mutex::new(Some(TokioIo::new(stream)));
    let connector = tower::service_fn(move |_| {
        let stream = once.lock().unwrap_or_else(PoisonError::into_inner).take();
        let closed = || refusal.error().unwrap_or(std::io::ErrorKind::NotConnected.into());
        std::future::ready(stream.ok_or_else(closed))
    });
    // The URI is a label only: the connection is already open.
    tonic::transport::Endpoint::from_static("http://daemon.internal")
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_LIMIT)
        .keep_alive_while_idle(true)
        .connect_with_connector(connector)
        .await
        .map_err(|error| ConnectError::of_handshake(&error))
}
