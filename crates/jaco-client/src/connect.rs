//! One connection per node, made before it is used, so that the reason why there is none is known.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tonic::transport::Channel;

use crate::error::{ConnectError, TransportError};
use crate::target::Endpoint;

/// A quiet connection is asked for a sign of life this often: a watch may be silent for hours, and
/// a node that lost its power says no good-bye.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How long that sign may take.
const KEEP_ALIVE_LIMIT: Duration = Duration::from_secs(5);

/// Connecting to a socket of this machine takes no time, unless its daemon hangs.
const SOCKET_LIMIT: Duration = Duration::from_secs(5);

/// Opens a connection.
pub(crate) async fn connect(endpoint: &Endpoint) -> Result<Channel, ConnectError> {
    match endpoint {
        Endpoint::Socket(path) => {
            let opened = tokio::time::timeout(SOCKET_LIMIT, UnixStream::connect(path)).await;
            let opened = opened.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
            speak(opened.map_err(ConnectError::Socket)?).await
        }
        Endpoint::Tls { address, dialer } => {
            speak(dialer.connect(address.as_str()).await.map_err(ConnectError::Tls)?).await
        }
    }
}

/// Greets the other side over a connection that is open already. It is used once: a channel that
/// reconnected by itself would hide why it cannot.
async fn speak<S>(stream: S) -> Result<Channel, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let once = Mutex::new(Some(TokioIo::new(stream)));
    let connector = tower::service_fn(move |_| {
        let stream = once.lock().unwrap_or_else(PoisonError::into_inner).take();
        let gone = || std::io::Error::from(std::io::ErrorKind::NotConnected);
        std::future::ready(stream.ok_or_else(gone))
    });
    // The URI is only a label: whom to ask was decided before.
    tonic::transport::Endpoint::from_static("http://daemon.internal")
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_LIMIT)
        .keep_alive_while_idle(true)
        .connect_with_connector(connector)
        .await
        .map_err(|error| ConnectError::Protocol(TransportError(error.to_string())))
}
