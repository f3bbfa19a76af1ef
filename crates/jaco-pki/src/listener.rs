//! The accept loop: sockets in, authenticated connections out.
//!
//! Everything before the end of a handshake is done by unauthenticated peers, so everything is
//! bounded: its time, the concurrent handshakes in total and per source, and the failures of a
//! source. A failure is a value on a channel, not only a log line. Only finished handshakes reach
//! the server.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::connection::{
    AdmissionRefusal, AnonymousLimits, Connections, PeerIdentity, TlsConnection,
};
use crate::identity::{IdentityError, NodeCertificate};
use crate::limiter::{Charge, FailureLimiter, FailureLimits, Source};
use crate::tls::CertificateStore;

/// Finished handshakes that may wait for the server to take them.
const BACKLOG: usize = 32;

/// Pause after the system refused to accept, most often for want of file descriptors: retrying at
/// once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long the connection of a peer with an expired certificate lives: enough to renew it.
const RENEWAL_TIME: Duration = Duration::from_secs(600);

/// Bounds of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long a peer may take from connecting to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Handshakes at once. Further sockets wait in the kernel's queue.
    pub handshakes_max: usize,
    /// Handshakes at once of one source, so that no single one can occupy all.
    pub handshakes_per_source_max: usize,
    pub anonymous: AnonymousLimits,
    /// After this age reads end and the connection winds down. A connection never outlives its
    /// peer's certificate by more than the time to renew an expired one. This is the hard end: let the HTTP/2 server ask for a new
    /// connection a little earlier, so that no request is cut off.
    pub connection_age_max: Option<Duration>,
    pub failures: FailureLimits,
}

/// What a listener works with.
#[derive(Debug, Clone)]
pub struct Wiring {
    pub store: Arc<CertificateStore>,
    pub connections: Connections,
    /// Where failures go. A full channel loses them, but the next one that fits says how many.
    pub failures: mpsc::Sender<HandshakeFailure>,
}

/// A stream of authenticated connections. Dropping it stops accepting and ends running handshakes;
/// connections already handed out live on.
#[derive(Debug)]
pub struct TlsListener {
    incoming: mpsc::Receiver<TlsConnection>,
    local: SocketAddr,
    _stop: DropGuard,
}

/// A failed handshake, for the audit log.
#[derive(Debug, Clone)]
pub struct HandshakeFailure {
    pub source: SocketAddr,
    pub reason: HandshakeReason,
    /// Failures before this one that found the channel full.
    pub unreported: u64,
}

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HandshakeReason {
    /// A health check or a port scan; not held against the source.
    #[error("peer hung up without sending anything")]
    NothingSent,
    #[error("handshake took too long")]
    Timeout,
    #[error("peer hung up during the handshake")]
    Disconnected,
    #[error("peer does not speak tls")]
    NotTls,
    #[error("peer speaks neither tls 1.3 nor http/2 over it")]
    Incompatible,
    #[error("peer's certificate was refused")]
    Certificate(#[source] IdentityError),
    #[error("peer refused this node's certificate")]
    RefusedByPeer(#[source] rustls::Error),
    #[error("peer broke the tls protocol")]
    Protocol(#[source] rustls::Error),
    #[error("connection was not admitted")]
    NotAdmitted(#[source] AdmissionRefusal),
    #[error("source has too many handshakes running")]
    TooManyAtOnce,
    /// The source has failed too often. Told once, in addition to the failure that caused it.
    #[error("source is blocked after too many failures")]
    SourceBlocked,
}

struct Shared {
    wiring: Wiring,
    options: Options,
    gate: Mutex<Gate>,
    started: Instant,
    unreported: AtomicU64,
}

/// What is known of the sources.
struct Gate {
    limiter: FailureLimiter,
    /// Running handshakes; bounded by `handshakes_max`.
    running: BTreeMap<Source, usize>,
}

/// A handshake's place; gives it back when dropped.
struct Place {
    shared: Arc<Shared>,
    source: Source,
    _permit: OwnedSemaphorePermit,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            handshakes_max: 256,
            handshakes_per_source_max: 64,
            anonymous: AnonymousLimits::default(),
            connection_age_max: Some(Duration::from_secs(3600)),
            failures: FailureLimits::default(),
        }
    }
}

impl HandshakeReason {
    /// A short stable name, for metrics and audits.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NothingSent => "nothing_sent",
            Self::Timeout => "timeout",
            Self::Disconnected => "disconnected",
            Self::NotTls => "not_tls",
            Self::Incompatible => "incompatible",
            Self::Certificate(IdentityError::Removed) => "node_removed",
            Self::Certificate(_) => "certificate",
            Self::RefusedByPeer(_) => "refused_by_peer",
            Self::Protocol(_) => "protocol",
            Self::NotAdmitted(AdmissionRefusal::Removed(_)) => "node_removed",
            Self::NotAdmitted(AdmissionRefusal::TooManyAnonymous) => "too_many_anonymous",
            Self::TooManyAtOnce => "too_many_at_once",
            Self::SourceBlocked => "source_blocked",
        }
    }
}

impl TlsListener {
    /// Starts accepting on `tcp`. Must be called within a tokio runtime.
    pub fn start(tcp: TcpListener, wiring: Wiring, options: Options) -> io::Result<Self> {
        let local = tcp.local_addr()?;
        let (sender, incoming) = mpsc::channel(BACKLOG);
        let stop = CancellationToken::new();
        let gate =
            Gate { limiter: FailureLimiter::new(options.failures), running: BTreeMap::new() };
        let shared = Arc::new(Shared {
            wiring,
            options,
            gate: Mutex::new(gate),
            started: Instant::now(),
            unreported: AtomicU64::new(0),
        });
        let accepting = accept_all(shared, tcp, sender, stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(Self { incoming, local, _stop: stop.drop_guard() })
    }

    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next authenticated connection. Never ends by itself.
    pub async fn accept(&mut self) -> Option<TlsConnection> {
        self.incoming.recv().await
    }
}

impl Stream for TlsListener {
    type Item = io::Result<TlsConnection>;

    fn poll_next(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.incoming.poll_recv(ctx).map(|next| next.map(Ok))
    }
}

async fn accept_all(
    shared: Arc<Shared>,
    tcp: TcpListener,
    incoming: mpsc::Sender<TlsConnection>,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(shared.options.handshakes_max));
    loop {
        // Taken before accepting: when all are in use, newcomers wait in the kernel, not in memory.
        let permit = Arc::clone(&permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (stream, source) = match tcp.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_peers_fault(&error) => continue,
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = shared.enter(source, permit) else { continue };
        let work = establish(place, stream, source, incoming.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(work));
    }
}

/// Takes one socket through its handshake and hands it over.
async fn establish(
    place: Place,
    stream: TcpStream,
    source: SocketAddr,
    incoming: mpsc::Sender<TlsConnection>,
) {
    let shared = &place.shared;
    let limit = shared.options.handshake_timeout;
    let outcome = tokio::time::timeout(limit, shared.handshake(stream)).await;
    match outcome.unwrap_or(Err(HandshakeReason::Timeout)) {
        Ok(stream) => match shared.admit(stream, source) {
            // The server has gone if this fails, and with it the need for connections.
            Ok(connection) => drop(incoming.send(connection).await),
            Err(reason) => shared.fail(source, reason),
        },
        Err(reason) => shared.fail(source, reason),
    }
}

impl Shared {
    /// Gives a socket its place, unless its source has to wait.
    fn enter(self: &Arc<Self>, address: SocketAddr, permit: OwnedSemaphorePermit) -> Option<Place> {
        let source = Source::from(address.ip());
        {
            let mut gate = self.gate();
            if gate.limiter.is_blocked(source, self.started.elapsed()) {
                return None;
            }
            let running = gate.running.entry(source).or_default();
            if *running < self.options.handshakes_per_source_max {
                *running += 1;
                return Some(Place { shared: Arc::clone(self), source, _permit: permit });
            }
        }
        self.report(address, HandshakeReason::TooManyAtOnce);
        None
    }

    async fn handshake(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, HandshakeReason> {
        let disconnected = |_| HandshakeReason::Disconnected;
        if stream.peek(&mut [0]).await.map_err(disconnected)? == 0 {
            return Err(HandshakeReason::NothingSent);
        }
        stream.set_nodelay(true).map_err(disconnected)?;
        // Asked for only now, so that a socket that waited gets the newest certificate.
        let config = Arc::clone(&self.wiring.store.current().server);
        TlsAcceptor::from(config).accept(stream).await.map_err(|error| reason_of(&error))
    }

    fn admit(
        &self,
        stream: TlsStream<TcpStream>,
        source: SocketAddr,
    ) -> Result<TlsConnection, HandshakeReason> {
        let presented = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        // The chain was verified in the handshake; this only reads it.
        let certificate = presented.map(NodeCertificate::read).transpose();
        let certificate = certificate.map_err(HandshakeReason::Certificate)?;
        let peer = certificate.as_ref().map_or(PeerIdentity::None, PeerIdentity::of);
        let registration = self
            .wiring
            .connections
            .admit(&peer, source.ip().into(), self.options.anonymous)
            .map_err(HandshakeReason::NotAdmitted)?;
        let life = self.life(certificate.as_ref());
        Ok(TlsConnection::new(stream, peer, source, life, registration))
    }

    /// The shorter of the greatest age and what the peer's certificate has left; with an expired one, the
    /// time to renew it.
    fn life(&self, certificate: Option<&NodeCertificate>) -> Option<Duration> {
        let left = certificate.map(|certificate| {
            let (validity, now) = (certificate.validity(), self.wiring.store.now());
            match validity.contains(now) {
                true => Duration::from_millis(validity.not_after.since(now).0),
                false => RENEWAL_TIME,
            }
        });
        [self.options.connection_age_max, left].into_iter().flatten().min()
    }

    fn fail(&self, source: SocketAddr, reason: HandshakeReason) {
        let charge = match reason {
            HandshakeReason::NothingSent => Charge::Borne,
            HandshakeReason::Timeout
            | HandshakeReason::Disconnected
            | HandshakeReason::NotTls
            | HandshakeReason::Incompatible
            | HandshakeReason::Certificate(_)
            | HandshakeReason::RefusedByPeer(_)
            | HandshakeReason::Protocol(_)
            | HandshakeReason::NotAdmitted(_)
            | HandshakeReason::TooManyAtOnce
            | HandshakeReason::SourceBlocked => {
                self.gate().limiter.charge(source.ip().into(), self.started.elapsed())
            }
        };
        self.report(source, reason);
        match charge {
            Charge::Borne => {}
            Charge::NowBlocked => self.report(source, HandshakeReason::SourceBlocked),
        }
    }

    fn report(&self, source: SocketAddr, reason: HandshakeReason) {
        let unreported = self.unreported.swap(0, Ordering::Relaxed);
        let failure = HandshakeFailure { source, reason, unreported };
        if self.wiring.failures.try_send(failure).is_err() {
            self.unreported.fetch_add(unreported + 1, Ordering::Relaxed);
        }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().expect("nothing panics while holding the gate")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut gate = self.shared.gate();
        if let Some(running) = gate.running.get_mut(&self.source) {
            *running -= 1;
            if *running == 0 {
                gate.running.remove(&self.source);
            }
        }
    }
}

/// Errors of one connection that `accept` reports although the listener is well (see accept(2)).
fn is_peers_fault(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

#[expect(clippy::wildcard_enum_match_arm, reason = "rustls may grow errors; they stay sources")]
fn reason_of(error: &io::Error) -> HandshakeReason {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(tls) = tls else {
        return HandshakeReason::Disconnected;
    };
    match tls {
        rustls::Error::InvalidCertificate(_) => {
            HandshakeReason::Certificate(IdentityError::from_rustls(tls.clone()))
        }
        rustls::Error::InvalidMessage(_) => HandshakeReason::NotTls,
        rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol => {
            HandshakeReason::Incompatible
        }
        rustls::Error::AlertReceived(_) => HandshakeReason::RefusedByPeer(tls.clone()),
        _ => HandshakeReason::Protocol(tls.clone()),
    }
}
