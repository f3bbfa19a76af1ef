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
    /// A browser on the network that signed in by a link, which a process on this machine has asked for.
    Browser {
        /// The user id of that process.
        uid: u32,
        /// The browser's address.
        source: SocketAddr,
        /// As for clients.
        standing: Standing,
    },
}

impl Caller {
    /// The other end of a connection on the network.
    pub(crate) fn on(connection: &TlsConnection) -> Self {
        let (peer, source) = (connection.peer().clone(), connection.source());
        Self::Tls { peer, source, standing: connection.standing() }
    }

    /// The address and the standing of its connection; none over the socket.
    pub(crate) fn on_network(&self) -> Option<(SocketAddr, &Standing)> {
        match self {
            Self::Unix { .. } => None,
            Self::Tls { source, standing, .. } | Self::Browser { source, standing, .. } => {
                Some((*source, standing))
            }
        }
    }
}

/// An accepted connection of the unix socket.
#[derive(Debug)]
pub(crate) struct LocalConnection(pub(crate) UnixStream);

impl Connected for LocalConnection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        // If the kernel does not know the user, no rule must match it.
        let uid = self.0.peer_cred().map_or(u32::MAX, |credentials| credentials.uid());
        Caller::Unix { uid }
    }
}

impl AsyncRead for LocalConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(ctx, buffer)
    }
}

impl AsyncWrite for LocalConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(ctx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(ctx)
    }
}
