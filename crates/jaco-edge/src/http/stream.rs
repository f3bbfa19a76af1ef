//! What a connection of a client can be made of.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::rewound::Rewound;

/// What a connection can be made of.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// What was written and not sent is dropped with the stream. The kernel would go on offering it to a client that takes
    /// nothing, out of megabytes of memory that no bound of the edge counts.
    fn drop_unsent(&self);
}

impl Stream for TcpStream {
    fn drop_unsent(&self) {
        if let Err(error) = self.set_zero_linger() {
            tracing::trace!(%error, "the connection is gone already");
        }
    }
}

impl<S: Stream> Stream for Rewound<S> {
    fn drop_unsent(&self) {
        self.stream().drop_unsent();
    }
}

impl<S: Stream> Stream for TlsStream<S> {
    fn drop_unsent(&self) {
        self.get_ref().0.drop_unsent();
    }
}
