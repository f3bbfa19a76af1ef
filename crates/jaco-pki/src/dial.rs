//! Outgoing connections: to one certain node as a peer, or to any node as a member, an operator or a joiner.
//!
//! Nothing is sent before the other side has proved who it is; there is no way to skip that.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use jaco_types::NodeId;

use crate::ca::TrustBundle;
use crate::identity::{IdentityError, NodeCertificate};
use crate::name::NodeName;
use crate::operator::OperatorCredentials;
use crate::outgoing;
use crate::protocol::Protocol;
use crate::tls::{self, CertificateStore, Current};
use crate::token::JoinToken;
use crate::verifier;

/// How long connecting may take, handshake included.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens connections of one kind. Cheap to clone.
#[derive(Clone)]
pub struct Dialer {
    target: Target,
    timeout: Duration,
}

/// A connection whose server has proved its identity.
#[derive(Debug)]
pub struct DialedConnection {
    stream: TlsStream<TcpStream>,
    server: NodeCertificate,
    /// Where a member dials.
    member: Option<MemberConnection>,
    heard: Heard,
    refusal: Refusal,
}

/// Whether and why the server refused the certificate that was shown to it. Outlives the connection.
#[derive(Debug, Clone, Default)]
pub struct Refusal(Arc<OnceLock<AlertDescription>>);

impl Refusal {
    /// The refusal as an error of the kind [`io::ErrorKind::PermissionDenied`].
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        let refused = CertificateRefused(*self.0.get()?);
        Some(io::Error::new(io::ErrorKind::PermissionDenied, refused))
    }
}

/// Whether the server has said anything since the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Nothing,
    Something,
}

/// The server does not accept the certificate that was shown to it, and said why.
#[derive(Debug, thiserror::Error)]
#[error("the node refuses the certificate that was shown to it: {}", alert(*.0))]
struct CertificateRefused(AlertDescription);

/// What belongs to a connection that a member has opened.
#[derive(Debug)]
struct MemberConnection {
    /// Cancelled if it says that this node was removed.
    removal: CancellationToken,
    registration: outgoing::Registration,
    /// Ready once the connection is to end.
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    #[error("connection could not be opened")]
    Connect(#[source] io::Error),
    /// The server is not, or not provably, the wanted node.
    #[error("server's certificate was refused")]
    Server(#[source] IdentityError),
    #[error("server is not {wanted}")]
    WrongNode { wanted: NodeName },
    #[error("handshake failed")]
    Handshake(#[source] io::Error),
}

#[derive(Clone)]
enum Target {
    /// Follows the store, so that a rotation takes effect with the next connection.
    Node {
        store: Arc<CertificateStore>,
        name: NodeName,
        protocol: Protocol,
    },
    AnyNode {
        config: Arc<ClientConfig>,
    },
    /// As the node of the store, to whichever node of its cluster answers.
    AnyMember {
        store: Arc<CertificateStore>,
    },
}

impl Dialer {
    /// Connects to node `target` of the own cluster and to nobody else, showing the own certificate.
    #[must_use]
    pub fn peer(store: Arc<CertificateStore>, target: NodeId) -> Self {
        Self::node(store, target, Protocol::Rpc)
    }

    /// As [`Dialer::peer`], for frames of the consensus protocol.
    #[must_use]
    pub fn raft(store: Arc<CertificateStore>, target: NodeId) -> Self {
        Self::node(store, target, Protocol::Raft)
    }

    /// Connects to any node of the own cluster, whatever its address, showing the own certificate.
    #[must_use]
    pub fn member(store: Arc<CertificateStore>) -> Self {
        Self { target: Target::AnyMember { store }, timeout: DIAL_TIMEOUT }
    }

    fn node(store: Arc<CertificateStore>, target: NodeId, protocol: Protocol) -> Self {
        let name = NodeName::new(store.name().cluster, target);
        Self { target: Target::Node { store, name, protocol }, timeout: DIAL_TIMEOUT }
    }

    /// Connects to any node of the trusted cluster, whatever its address, showing no certificate:
    /// operators say who they are with a token, inside the connection.
    pub fn operator(trust: TrustBundle) -> Result<Self, rustls::Error> {
        Ok(Self::any_node(tls::operator_client_config(trust)?))
    }

    /// As [`Dialer::operator`], showing the operator's certificate instead of bringing a token.
    pub fn certified(
        trust: TrustBundle,
        credentials: &OperatorCredentials,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::any_node(tls::certified_client_config(trust, credentials)?))
    }

    /// Connects to any node of the cluster that the token names, certified by the CA that the token
    /// pins.
    pub fn joiner(token: &JoinToken) -> Result<Self, rustls::Error> {
        Ok(Self::any_node(tls::joiner_client_config(token.cluster.clone(), token.authority)?))
    }

    /// Replaces [`DIAL_TIMEOUT`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects, and returns once the server has proved its identity.
    pub async fn connect(
        &self,
        address: impl ToSocketAddrs,
    ) -> Result<DialedConnection, DialError> {
        tokio::time::timeout(self.timeout, self.connect_untimed(address))
            .await
            .map_err(|_| DialError::Timeout(self.timeout))?
    }

    /// As [`Dialer::connect`], over a socket that is connected already: its local address is the caller's choice.
    pub async fn over(&self, socket: TcpStream) -> Result<DialedConnection, DialError> {
        tokio::time::timeout(self.timeout, self.handshake(socket))
            .await
            .map_err(|_| DialError::Timeout(self.timeout))?
    }

    fn any_node(config: ClientConfig) -> Self {
        Self { target: Target::AnyNode { config: Arc::new(config) }, timeout: DIAL_TIMEOUT }
    }

    async fn connect_untimed(
        &self,
        address: impl ToSocketAddrs,
    ) -> Result<DialedConnection, DialError> {
        self.handshake(TcpStream::connect(address).await.map_err(DialError::Connect)?).await
    }

    async fn handshake(&self, socket: TcpStream) -> Result<DialedConnection, DialError> {
        socket.set_nodelay(true).map_err(DialError::Connect)?;
        let (config, name, entered) = self.target.config();
        let stream = TlsConnector::from(config)
            .connect(name, socket)
            .await
            .map_err(|error| self.target.explain(error))?;
        let (_, session) = stream.get_ref();
        let leaf = session.peer_certificates().and_then(<[_]>::first);
        let leaf = leaf.ok_or(DialError::Server(IdentityError::Missing))?;
        let server = NodeCertificate::read(leaf).map_err(DialError::Server)?;
        let member = entered.map(|entered| entered.established(&server));
        let refusal = Refusal::default();
        Ok(DialedConnection { stream, server, member, heard: Heard::Nothing, refusal })
    }
}

impl Target {
    /// What to connect with, and the entry of a connection to another member.
    fn config(&self) -> (Arc<ClientConfig>, ServerName<'static>, Option<Entered>) {
        match self {
            Self::Node { store, name, protocol } => {
                let current = store.current();
                let signer = current.signer();
                let registration = store.outgoing().enter(Some(name.node), *protocol, signer);
                let config = current.peer_client(*protocol);
                let removal = store.removal().clone();
                (config, name.server_name(), Some(Entered { current, removal, registration }))
            }
            Self::AnyNode { config } => (Arc::clone(config), any_name(), None),
            Self::AnyMember { store } => {
                let current = store.current();
                let registration = store.outgoing().enter(None, Protocol::Rpc, current.signer());
                let config = current.any_peer_client();
                let removal = store.removal().clone();
                (config, any_name(), Some(Entered { current, removal, registration }))
            }
        }
    }

    fn explain(&self, error: io::Error) -> DialError {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let Some(rustls::Error::InvalidCertificate(reason)) = tls else {
            return DialError::Handshake(error);
        };
        let wrong_name = matches!(
            reason,
            rustls::CertificateError::NotValidForName
                | rustls::CertificateError::NotValidForNameContext { .. }
        );
        match self {
            Self::Node { name, .. } if wrong_name => DialError::WrongNode { wanted: name.clone() },
            Self::Node { .. } | Self::AnyNode { .. } | Self::AnyMember { .. } => {
                let error = rustls::Error::InvalidCertificate(reason.clone());
                DialError::Server(IdentityError::from_rustls(error))
            }
        }
    }
}

/// A connection to another member, before its handshake has ended.
struct Entered {
    current: Arc<Current>,
    removal: CancellationToken,
    registration: outgoing::Registration,
}

impl Entered {
    fn established(self, server: &NodeCertificate) -> MemberConnection {
        let Self { current, removal, registration } = self;
        registration.established(verifier::signer(&current.trust, server.der(), server.validity()));
        let closed = Box::pin(registration.close().clone().cancelled_owned());
        MemberConnection { removal, registration, closed }
    }
}

impl DialedConnection {
    fn check_open(&self) -> io::Result<()> {
        match &self.member {
            Some(member) if member.registration.close().is_cancelled() => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "connection was closed"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The cause of a failed write. A server that refuses the certificate says so and closes the connection, and in TLS 1.3 that is
    /// after the client's handshake: whoever writes first would only learn that it was closed.
    fn cause(&mut self, ctx: &mut Context<'_>, error: io::Error) -> io::Error {
        if self.heard == Heard::Something {
            return error;
        }
        match Pin::new(self).poll_read(ctx, &mut ReadBuf::new(&mut [0; 1])) {
            Poll::Ready(Err(why)) => why,
            Poll::Ready(Ok(())) | Poll::Pending => error,
        }
    }

    /// Whether the server has refused the own certificate, now and later.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        self.refusal.clone()
    }

    /// The certificate with which the server proved itself.
    #[must_use]
    pub fn server(&self) -> &NodeCertificate {
        &self.server
    }
}

impl AsyncRead for DialedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(member) = &mut self.member
            && member.closed.as_mut().poll(ctx).is_ready()
        {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(ctx, buffer) {
            Poll::Ready(Ok(())) => {
                if buffer.filled().len() > before {
                    self.heard = Heard::Something;
                }
                Poll::Ready(Ok(()))
            }
            // In TLS 1.3 a client hears only after its handshake that its certificate was refused.
            Poll::Ready(Err(error)) => {
                let refused = refusal(&error);
                if refused == Some(AlertDescription::CertificateRevoked)
                    && let Some(member) = &self.member
                {
                    member.removal.cancel();
                }
                if let Some(alert) = refused {
                    // The first word counts.
                    self.refusal.0.set(alert).ok();
                }
                Poll::Ready(Err(self.refusal.error().unwrap_or(error)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncWrite for DialedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_open()?;
        let written = Pin::new(&mut self.stream).poll_write(ctx, bytes);
        written.map_err(|error| self.cause(ctx, error))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_open()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(ctx, slices);
        written.map_err(|error| self.cause(ctx, error))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(ctx);
        flushed.map_err(|error| self.cause(ctx, error))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }
}

/// Neither sent nor checked; rustls wants one.
fn any_name() -> ServerName<'static> {
    ServerName::try_from("any.internal").expect("a constant name")
}

/// Why the server refused the own certificate, if it did.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other alerts are about something else")]
fn refusal(error: &io::Error) -> Option<AlertDescription> {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())?;
    let rustls::Error::AlertReceived(alert) = tls else { return None };
    match alert {
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::DecryptError
        | AlertDescription::AccessDenied => Some(*alert),
        _ => None,
    }
}

/// An alert (RFC 8446, section 6.2) in words.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are not about certificates")]
fn alert(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRevoked => "it was revoked",
        AlertDescription::CertificateExpired => "it has expired, or a clock is wrong",
        // Authorities of one cluster have one name: a signature of another one is a wrong one.
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "it is not of an authority that the cluster trusts"
        }
        AlertDescription::AccessDenied => "it is not for this cluster",
        _ => "it cannot be verified",
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match &self.target {
            Target::Node { name, .. } => name.uri(),
            Target::AnyNode { .. } | Target::AnyMember { .. } => "any node".to_owned(),
        };
        f.debug_struct("Dialer").field("target", &target).finish_non_exhaustive()
    }
}
