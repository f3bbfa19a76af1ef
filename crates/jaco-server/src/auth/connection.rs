//! Accepted connections, and what they prove about the other end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use jaco_pki::{PeerIdentity, Standing, TlsConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// What a connection proves about its other end.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// A process on this machine, as reported by the kernel.
    Unix {
        /// Its user id.
        uid: u32,
    },
    /// A client on the network.
    Tls {
        /// The member that the certificate belongs to, if there is one.
        peer: PeerIdentity,
        /// Its address.
        source: SocketAddr,
        /// To say that a request on it had a valid credential.
        standing: Standing,
    },
}

/// An accepted connection of either kind.
#[derive(Debug)]
pub(crate) enum Connection {
    /// TLS.
    Tls(Box<TlsConnection>),
    /// The unix socket.
    Unix(UnixStream),
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        match self {
            Self::Tls(stream) => {
                let (peer, source) = (stream.peer().clone(), stream.source());
                Caller::Tls { peer, source, standing: stream.standing() }
            }
            Self::Unix(stream) => {
                // If the kernel does not know the user, no rule must match it.
                let uid = stream.peer_cred().map_or(u32::MAX, |credentials| credentials.uid());
                Caller::Unix { uid }
            }
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(stream) => Pin::new(stream).poll_read(ctx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(ctx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tls(stream) => Pin::new(stream).poll_write(ctx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(ctx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(stream) => Pin::new(stream).poll_flush(ctx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(ctx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(ctx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(ctx),
        }
    }
}
