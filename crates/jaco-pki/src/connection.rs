//! Accepted connections, their peers, and closing them when membership changes.
//!
//! A certificate is checked once, when a connection opens. A later removal or rotation reaches open
//! connections only through [`Connections`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use jaco_types::{ClusterId, NodeId};

use crate::fingerprint::Fingerprint;
use crate::identity::NodeCertificate;
use crate::limiter::Source;
use crate::members::{CurrentMembers, Members};
use crate::tls::{CertificateStore, Protocol};

/// Peer of a connection, as proved in the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerIdentity {
    /// A node of our cluster. Whether it is a *member* is for the replicated state to say.
    Node { cluster: ClusterId, id: NodeId, key_fingerprint: Fingerprint },
    /// No certificate: an operator or a joining node, who must bring a token.
    None,
}

/// All open connections of this process, and which nodes may open none. Cheap to clone; shared by
/// all listeners.
#[derive(Clone)]
pub struct Connections {
    table: Arc<Mutex<Table>>,
    /// Set while the table is locked.
    members: CurrentMembers,
}

/// One accepted connection. Reads end, as if the peer had closed it, once it is too old or was
/// closed by [`Connections`].
pub struct TlsConnection {
    stream: TlsStream<TcpStream>,
    peer: PeerIdentity,
    source: SocketAddr,
    /// Cancelled by [`Connections`]; then nothing more is written either.
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The end of the connection's life. Writes still go through, so that the last answer and the
    /// closing message arrive.
    too_old: Option<Pin<Box<Sleep>>>,
    registration: Registration,
}

/// Why an authenticated connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionRefusal {
    #[error("node {0} was removed from the cluster")]
    Removed(NodeId),
    #[error("too many connections without a certificate are open")]
    TooManyAnonymous,
}

/// Limits of connections without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnonymousLimits {
    /// In total. Nodes are bounded by the membership instead.
    pub total: usize,
    /// Per source, so that one source cannot lock out other operators.
    pub per_source: usize,
}

/// Keeps a connection's entry in the table for as long as the connection lives.
pub(crate) struct Registration {
    number: u64,
    token: CancellationToken,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Entry>,
    /// Open connections without a certificate, by source; no zeros.
    anonymous: BTreeMap<Source, usize>,
}

struct Entry {
    node: Option<NodeId>,
    source: Source,
    close: CancellationToken,
}

impl Connections {
    /// No connections yet. Handshakes with the store's certificate refuse the nodes that are removed
    /// here.
    #[must_use]
    pub fn new(store: &CertificateStore) -> Self {
        Self { table: Arc::default(), members: store.members().clone() }
    }

    /// Closes every connection; returns how many. For the end of a CA rotation, since connections
    /// opened under the old CA would otherwise stay.
    pub fn close_all(&self) -> usize {
        close(&self.lock().open, |_| true).count()
    }

    /// Sets the members: connections of removed nodes are closed, and new ones refused. Returns the
    /// nodes whose connections were closed.
    pub fn set_members(&self, members: Members) -> BTreeSet<NodeId> {
        let table = self.lock();
        self.members.set(members);
        let is_out = |entry: &Entry| entry.node.is_some_and(|node| self.members.have_removed(node));
        close(&table.open, is_out).filter_map(|entry| entry.node).collect()
    }

    /// Open connections, closed ones that are still winding down included.
    #[must_use]
    pub fn open(&self) -> usize {
        self.lock().open.len()
    }

    /// Nodes with at least one open connection.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.lock().open.values().filter_map(|entry| entry.node).collect()
    }

    /// Enters a connection, or says why not.
    ///
    /// Entering and asking whether the node is removed happen under one lock, so a removal either
    /// sees the connection and closes it, or is seen by it.
    pub(crate) fn admit(
        &self,
        peer: &PeerIdentity,
        source: Source,
        limits: AnonymousLimits,
    ) -> Result<Registration, AdmissionRefusal> {
        let mut table = self.lock();
        let node = match peer {
            PeerIdentity::Node { id, .. } if self.members.have_removed(*id) => {
                return Err(AdmissionRefusal::Removed(*id));
            }
            PeerIdentity::Node { id, .. } => Some(*id),
            PeerIdentity::None => {
                table.enter_anonymous(source, limits)?;
                None
            }
        };
        let token = CancellationToken::new();
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Entry { node, source, close: token.clone() });
        Ok(Registration { number, token, table: Arc::clone(&self.table) })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

impl Default for AnonymousLimits {
    fn default() -> Self {
        Self { total: 1024, per_source: 128 }
    }
}

impl PeerIdentity {
    pub(crate) fn of(certificate: &NodeCertificate) -> Self {
        Self::Node {
            cluster: certificate.name().cluster.clone(),
            id: certificate.node(),
            key_fingerprint: certificate.key_fingerprint(),
        }
    }

    /// The node at the other end, if it is one.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Node { id, .. } => Some(*id),
            Self::None => None,
        }
    }
}

impl TlsConnection {
    pub(crate) fn new(
        stream: TlsStream<TcpStream>,
        peer: PeerIdentity,
        source: SocketAddr,
        life: Option<Duration>,
        registration: Registration,
    ) -> Self {
        let closed = Box::pin(registration.token.clone().cancelled_owned());
        let too_old = life.map(|life| Box::pin(tokio::time::sleep(life)));
        Self { stream, peer, source, closed, too_old, registration }
    }

    #[must_use]
    pub fn peer(&self) -> &PeerIdentity {
        &self.peer
    }

    /// The address the connection came from. For audits; identity is [`TlsConnection::peer`].
    #[must_use]
    pub fn source(&self) -> SocketAddr {
        self.source
    }

    /// What is spoken on it.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        let (_, session) = self.stream.get_ref();
        Protocol::agreed(session.alpn_protocol())
    }

    /// Whether reading has to end. Asks both timers, so that each can wake the reader.
    fn poll_ended(&mut self, ctx: &mut Context<'_>) -> bool {
        let closed = self.closed.as_mut().poll(ctx).is_ready();
        let too_old = self.too_old.as_mut().is_some_and(|age| age.as_mut().poll(ctx).is_ready());
        closed || too_old
    }

    fn check_open(&self) -> io::Result<()> {
        if self.registration.token.is_cancelled() {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "connection was closed"));
        }
        Ok(())
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_ended(ctx) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(ctx, buffer)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_open()?;
        Pin::new(&mut self.stream).poll_write(ctx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_open()?;
        Pin::new(&mut self.stream).poll_write_vectored(ctx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }
}

impl Table {
    fn enter_anonymous(
        &mut self,
        source: Source,
        limits: AnonymousLimits,
    ) -> Result<(), AdmissionRefusal> {
        let total: usize = self.anonymous.values().sum();
        let of_source = self.anonymous.get(&source).copied().unwrap_or_default();
        if total >= limits.total || of_source >= limits.per_source {
            return Err(AdmissionRefusal::TooManyAnonymous);
        }
        self.anonymous.insert(source, of_source + 1);
        Ok(())
    }

    fn leave_anonymous(&mut self, source: Source) {
        if let Some(open) = self.anonymous.get_mut(&source) {
            *open -= 1;
            if *open == 0 {
                self.anonymous.remove(&source);
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        if let Some(Entry { node: None, source, .. }) = table.open.remove(&self.number) {
            table.leave_anonymous(source);
        }
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("open", &self.open()).finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnection")
            .field("peer", &self.peer)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Closes those that are open and chosen, as they are walked through; one that was closed before is
/// not told again.
fn close(
    open: &BTreeMap<u64, Entry>,
    which: impl Fn(&Entry) -> bool,
) -> impl Iterator<Item = &Entry> {
    let chosen = open.values().filter(move |entry| !entry.close.is_cancelled() && which(entry));
    chosen.inspect(|entry| entry.close.cancel())
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().expect("nothing panics while holding the table")
}
