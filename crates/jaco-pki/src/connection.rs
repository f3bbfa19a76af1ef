//! Accepted connections, their peers, and closing them when membership changes.
//!
//! A certificate is checked once, when a connection opens. A later removal or rotation reaches open
//! connections only through [`Connections`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use jaco_types::{ClusterId, NodeId, TokenId};

use crate::allowance::Allowance;
use crate::fingerprint::Fingerprint;
use crate::limiter::Source;
use crate::members::{CurrentMembers, Members};
use crate::operator::ClientCertificate;
use crate::protocol::Protocol;
use crate::share::Share;
use crate::tls::CertificateStore;

/// Peer of a connection, as proved in the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerIdentity {
    /// A node of our cluster. Whether it is a *member* is for the replicated state to say.
    Node { cluster: ClusterId, id: NodeId, key_fingerprint: Fingerprint },
    /// An operator of our cluster. Whether the certificate still counts, and for what, is for the replicated state to
    /// say: until a request was accepted, the connection counts as one without a credential.
    Operator { cluster: ClusterId, id: TokenId, key_fingerprint: Fingerprint },
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
    /// Until when a connection without a certificate must have shown another credential.
    credential_due: Option<Pin<Box<Sleep>>>,
    /// How much is read until a credential is shown.
    allowance: Option<Allowance>,
    /// Once reading has ended: until when what is still written may be taken by the other end.
    cut: Option<Pin<Box<Sleep>>>,
    share: Share,
    registration: Registration,
}

/// How long the other end may take to read what was written before the connection ended. Who does not read at all must not
/// keep it.
const FINAL_READ: Duration = Duration::from_secs(10);

/// How long the message of a join request, which has the credential, may take with its answer.
const JOIN_TIME: Duration = Duration::from_secs(30);

/// Whether the other end of a connection has proved who it is. Cheap to clone; outlives its connection without
/// keeping it open.
#[derive(Clone)]
pub struct Standing {
    number: u64,
    credential: Arc<AtomicU8>,
    table: Arc<Mutex<Table>>,
}

/// No credential was shown.
const NOTHING_SHOWN: u8 = 0;
/// A message with a credential is on its way.
const ARRIVING: u8 = 1;
/// It was waited for once.
const WAITED_FOR: u8 = 2;
/// A certificate or a valid token was shown.
const PROVED: u8 = 3;

/// Why an authenticated connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionRefusal {
    #[error("node {0} was removed from the cluster")]
    Removed(NodeId),
    /// It is not trusted any more since the handshake began.
    #[error("the authority of its certificate is not trusted any more")]
    Distrusted,
}

/// Limits of connections without any credential. Where one is reached, the oldest connection of the source with most
/// of them makes room: who shows a credential at once is never kept out, however many show none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnonymousLimits {
    /// In total. Nodes are bounded by the membership instead, operators by their tokens.
    pub total: usize,
    /// Per source.
    pub per_source: usize,
    /// After this time without a credential a connection is closed.
    pub credential_timeout: Duration,
}

/// Keeps a connection's entry in the table for as long as the connection lives.
pub(crate) struct Registration {
    token: CancellationToken,
    standing: Standing,
}

/// Who vouches for the other end of a connection, and what is trusted now.
pub(crate) struct Vouched<'s> {
    /// The authority of the certificate that was shown, if one was.
    pub(crate) signed_by: Option<Fingerprint>,
    pub(crate) store: &'s CertificateStore,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Entry>,
    /// Open connections that have shown no credential, by source, oldest first; no empty sets.
    anonymous: BTreeMap<Source, BTreeSet<u64>>,
    /// Where a credential came from, with the number of the last connection that showed it.
    proved_from: BTreeMap<Source, u64>,
}

struct Entry {
    node: Option<NodeId>,
    /// The authority of the certificate that the other end has shown, if it showed one.
    signed_by: Option<Fingerprint>,
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

    /// Closes the connections whose other end has shown a certificate of an authority that the store trusts no more, and
    /// returns how many. To be called once the store has the new credentials: a connection whose handshake began before
    /// that is refused when it is entered.
    pub fn close_distrusted(&self, store: &CertificateStore) -> usize {
        let table = self.lock();
        let trust = store.trust();
        let is_distrusted =
            |entry: &Entry| entry.signed_by.is_some_and(|signer| !trust.contains(signer));
        close(&table.open, is_distrusted).count()
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
        vouched: Vouched<'_>,
    ) -> Result<Registration, AdmissionRefusal> {
        let mut table = self.lock();
        let Vouched { signed_by, store } = vouched;
        if signed_by.is_some_and(|signer| !store.trust().contains(signer)) {
            return Err(AdmissionRefusal::Distrusted);
        }
        let node = match peer {
            PeerIdentity::Node { id, .. } if self.members.have_removed(*id) => {
                return Err(AdmissionRefusal::Removed(*id));
            }
            PeerIdentity::Node { id, .. } => Some(*id),
            PeerIdentity::Operator { .. } | PeerIdentity::None => {
                table.make_room_for_anonymous(source, limits);
                None
            }
        };
        let token = CancellationToken::new();
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Entry { node, signed_by, source, close: token.clone() });
        let credential = match node {
            Some(_) => {
                table.remember(source, number);
                PROVED
            }
            None => {
                table.anonymous.entry(source).or_default().insert(number);
                NOTHING_SHOWN
            }
        };
        let credential = Arc::new(AtomicU8::new(credential));
        let standing = Standing { number, credential, table: Arc::clone(&self.table) };
        Ok(Registration { token, standing })
    }

    /// Closes the oldest connection without a credential of the source that has most of them.
    pub(crate) fn close_oldest_stranger(&self) {
        let mut table = self.lock();
        if let Some(most) = table.source_with_most_anonymous() {
            table.close_oldest_anonymous(most);
        }
    }

    /// Whether a credential came from this source before. No proof of anything: a hint for whom to keep places.
    pub(crate) fn has_proved(&self, source: Source) -> bool {
        self.lock().proved_from.contains_key(&source)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

impl Standing {
    /// A request on the connection had a valid credential: the connection no longer counts as a stranger's.
    pub fn prove(&self) {
        if self.credential.swap(PROVED, Ordering::Relaxed) == PROVED {
            return;
        }
        let mut table = lock(&self.table);
        if let Some(source) = table.open.get(&self.number).map(|entry| entry.source) {
            table.leave_anonymous(source, self.number);
            table.remember(source, self.number);
        }
    }

    /// Closes the connection, whatever is still to be sent on it.
    pub fn close(&self) {
        if let Some(entry) = lock(&self.table).open.get(&self.number) {
            entry.close.cancel();
        }
    }

    /// Whether both are of the same connection.
    #[must_use]
    pub fn shares_connection_with(&self, other: &Self) -> bool {
        self.number == other.number
    }

    /// A message that has a credential has begun: it is waited for, once for each connection.
    pub fn await_message(&self) {
        let (from, to) = (NOTHING_SHOWN, ARRIVING);
        // Anything else was shown before.
        let _known =
            self.credential.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn is_proved(&self) -> bool {
        self.credential.load(Ordering::Relaxed) == PROVED
    }

    fn starts_to_wait(&self) -> bool {
        let (from, to) = (ARRIVING, WAITED_FOR);
        self.credential.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("proved", &self.is_proved()).finish_non_exhaustive()
    }
}

impl Default for AnonymousLimits {
    fn default() -> Self {
        Self { total: 256, per_source: 64, credential_timeout: Duration::from_secs(10) }
    }
}

impl PeerIdentity {
    pub(crate) fn of(certificate: &ClientCertificate) -> Self {
        match certificate {
            ClientCertificate::Node(node) => Self::Node {
                cluster: node.name().cluster.clone(),
                id: node.node(),
                key_fingerprint: node.key_fingerprint(),
            },
            ClientCertificate::Operator(operator) => Self::Operator {
                cluster: operator.name().cluster.clone(),
                id: operator.name().operator.clone(),
                key_fingerprint: operator.key_fingerprint(),
            },
        }
    }

    /// The node at the other end, if it is one.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Node { id, .. } => Some(*id),
            Self::Operator { .. } | Self::None => None,
        }
    }
}

impl TlsConnection {
    pub(crate) fn new(
        stream: TlsStream<TcpStream>,
        peer: PeerIdentity,
        source: SocketAddr,
        life: Option<Duration>,
        credential_timeout: Duration,
        registration: Registration,
    ) -> Self {
        let closed = Box::pin(registration.token.clone().cancelled_owned());
        let too_old = life.map(|life| Box::pin(tokio::time::sleep(life)));
        let due = || Box::pin(tokio::time::sleep(credential_timeout));
        let is_stranger = !registration.standing.is_proved();
        Self {
            stream,
            peer,
            source,
            closed,
            too_old,
            credential_due: is_stranger.then(due),
            allowance: is_stranger.then(Allowance::new),
            cut: None,
            share: Share::default(),
            registration,
        }
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

    /// To say that the other end has shown a credential.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.registration.standing.clone()
    }

    /// What is spoken on it.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        let (_, session) = self.stream.get_ref();
        Protocol::agreed(session.alpn_protocol())
    }

    /// Waits for the first that the other end has to say, and leaves it to be read.
    ///
    /// # Errors
    /// If the connection breaks or ends before that.
    pub async fn begun(&mut self) -> io::Result<()> {
        poll_fn(|ctx| {
            if self.poll_ended(ctx) {
                return Poll::Ready(Err(was_cut()));
            }
            let first = ready!(Pin::new(&mut self.stream).poll_fill_buf(ctx))?;
            Poll::Ready(if first.is_empty() { Err(was_cut()) } else { Ok(()) })
        })
        .await
    }

    /// Has the runtime on which this is called report when the socket is ready, in place of the one that accepted the
    /// connection: a thread of that one would wake for each message only to wake the reader.
    ///
    /// # Errors
    /// If there is no file descriptor left.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn move_to_this_runtime(&mut self) -> io::Result<()> {
        let (socket, _) = self.stream.get_mut();
        let same = std::net::TcpStream::from(socket.as_fd().try_clone_to_owned()?);
        *socket = TcpStream::from_std(same)?;
        Ok(())
    }

    /// Whether reading has to end. Asks both timers, so that each can wake the reader.
    fn poll_ended(&mut self, ctx: &mut Context<'_>) -> bool {
        let closed = self.closed.as_mut().poll(ctx).is_ready();
        let too_old = self.too_old.as_mut().is_some_and(|age| age.as_mut().poll(ctx).is_ready());
        let ended = closed || too_old || self.poll_unproved(ctx);
        if ended {
            self.cut.get_or_insert_with(|| Box::pin(tokio::time::sleep(FINAL_READ)));
        }
        ended
    }

    /// Takes what writing has come to, and cuts the connection off where the other end reads nothing after its end.
    fn cut_off<T>(
        &mut self,
        ctx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_pending() && self.poll_ended(ctx) && self.poll_cut(ctx) {
            return Poll::Ready(Err(was_cut()));
        }
        written
    }

    fn poll_cut(&mut self, ctx: &mut Context<'_>) -> bool {
        let is_over = |cut: &mut Pin<Box<Sleep>>| cut.as_mut().poll(ctx).is_ready();
        self.registration.token.is_cancelled() || self.cut.as_mut().is_some_and(is_over)
    }

    fn check_open(&self) -> io::Result<()> {
        if self.registration.token.is_cancelled() { Err(was_cut()) } else { Ok(()) }
    }

    /// Ready unless the other end is a stranger who has sent more than strangers need to.
    fn poll_allowed(&mut self, ctx: &mut Context<'_>) -> Poll<()> {
        if self.registration.standing.is_proved() {
            self.allowance = None;
        }
        self.allowance.as_mut().map_or(Poll::Ready(()), |allowance| allowance.poll_ready(ctx))
    }

    /// Whether the time to show a credential has passed without one.
    fn poll_unproved(&mut self, ctx: &mut Context<'_>) -> bool {
        let standing = &self.registration.standing;
        let Some(due) = self.credential_due.as_mut() else { return false };
        if due.as_mut().poll(ctx).is_pending() {
            return false;
        }
        if standing.is_proved() {
            self.credential_due = None;
            return false;
        }
        if standing.starts_to_wait() {
            due.set(tokio::time::sleep(JOIN_TIME));
            return due.as_mut().poll(ctx).is_ready();
        }
        self.registration.token.cancel();
        true
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
        ready!(self.poll_allowed(ctx));
        let this = &mut *self;
        let stream = Pin::new(&mut this.stream);
        let before = buffer.filled().len();
        let read = this.share.poll_read(ctx, buffer, |ctx, buffer| stream.poll_read(ctx, buffer));
        if let Some(allowance) = &mut this.allowance {
            allowance.spend(buffer.filled().len() - before);
        }
        read
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_open()?;
        let written = Pin::new(&mut self.stream).poll_write(ctx, bytes);
        self.cut_off(ctx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_open()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(ctx, slices);
        self.cut_off(ctx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(ctx);
        self.cut_off(ctx, flushed)
    }

    /// The end is announced if there is room for it, and waited for no longer than what else is written.
    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let announced = Pin::new(&mut self.stream).poll_shutdown(ctx);
        self.cut_off(ctx, announced)
    }
}

fn was_cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "connection was closed")
}

/// Sources remembered as those that credentials came from.
const PROVED_SOURCES_MAX: usize = 1024;

impl Table {
    /// Closes the oldest connections without a credential until the limits leave a place for one of `source`.
    fn make_room_for_anonymous(&mut self, source: Source, limits: AnonymousLimits) {
        while self.anonymous.get(&source).is_some_and(|open| open.len() >= limits.per_source.max(1))
        {
            self.close_oldest_anonymous(source);
        }
        while self.anonymous.values().map(BTreeSet::len).sum::<usize>() >= limits.total.max(1) {
            let Some(most) = self.source_with_most_anonymous() else { return };
            self.close_oldest_anonymous(most);
        }
    }

    fn source_with_most_anonymous(&self) -> Option<Source> {
        let most = self.anonymous.iter().max_by_key(|(_, open)| open.len());
        most.map(|(source, _)| *source)
    }

    /// Its place is free at once; what is left of the connection winds down.
    fn close_oldest_anonymous(&mut self, source: Source) {
        let oldest = self.anonymous.get(&source).and_then(BTreeSet::first).copied();
        let Some(oldest) = oldest else { return };
        if let Some(entry) = self.open.get(&oldest) {
            entry.close.cancel();
        }
        self.leave_anonymous(source, oldest);
    }

    fn leave_anonymous(&mut self, source: Source, number: u64) {
        if let Some(open) = self.anonymous.get_mut(&source) {
            open.remove(&number);
            if open.is_empty() {
                self.anonymous.remove(&source);
            }
        }
    }

    /// Notes where a credential came from; of too many sources the one that showed none for longest is forgotten.
    fn remember(&mut self, source: Source, number: u64) {
        self.proved_from.insert(source, number);
        if self.proved_from.len() > PROVED_SOURCES_MAX {
            let oldest = self.proved_from.iter().min_by_key(|(_, number)| **number);
            if let Some((&oldest, _)) = oldest {
                self.proved_from.remove(&oldest);
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let number = self.standing.number;
        let mut table = lock(&self.standing.table);
        if let Some(Entry { source, .. }) = table.open.remove(&number) {
            table.leave_anonymous(source, number);
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
