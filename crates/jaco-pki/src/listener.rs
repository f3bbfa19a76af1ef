//! The accept loop: sockets in, authenticated connections out.
//!
//! Everything before the end of a handshake is done by unauthenticated peers, so everything is
//! bounded: its time, the concurrent handshakes in total and per source, and the failures of a
//! source. A failure is a value on a channel, not only a log line. Only finished handshakes reach
//! the server.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
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
    AdmissionRefusal, AnonymousLimits, Connections, PeerIdentity, TlsConnection, Vouched,
};
use crate::identity::IdentityError;
use crate::limiter::{Charge, FailureLimiter, FailureLimits, Source};
use crate::operator::ClientCertificate;
use crate::tls::{CertificateStore, Current};
use crate::verifier;

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
    /// Handshakes at once. For a further socket the oldest handshake of the source with most of them is ended.
    pub handshakes_max: usize,
    /// Handshakes at once of one source, so that no single one can occupy all.
    pub handshakes_per_source_max: usize,
    /// Age at which a handshake may be ended for a newer one. Younger ones are let finish; further sockets wait in
    /// the kernel's queue until then.
    pub handshake_grace: Duration,
    pub anonymous: AnonymousLimits,
    /// After this age reads end and the connection winds down. A connection never outlives its
    /// peer's certificate by more than the time to renew an expired one. This is the hard end: let the HTTP/2 server ask for a new
    /// connection a little earlier, so that no request is cut off.
    pub connection_age_max: Option<Duration>,
    pub failures: FailureLimits,
    /// A socket whose descriptor is not below this number is closed: the rest is for what the process needs to go on.
    pub descriptors_max: Option<u64>,
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
    #[error("peer speaks neither tls 1.3 nor http over it")]
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
    /// Running handshakes, oldest first; bounded by `handshakes_max`. No empty ones.
    running: BTreeMap<Source, VecDeque<Running>>,
    next: u64,
}

/// A handshake that has not ended.
struct Running {
    number: u64,
    since: Instant,
    end: CancellationToken,
}

/// A handshake's place; gives it back when dropped.
struct Place {
    shared: Arc<Shared>,
    source: Source,
    number: u64,
    end: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            handshakes_max: 256,
            handshakes_per_source_max: 64,
            handshake_grace: Duration::from_millis(100),
            anonymous: AnonymousLimits::default(),
            connection_age_max: Some(Duration::from_secs(3600)),
            failures: FailureLimits::default(),
            descriptors_max: None,
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
            Self::NotAdmitted(AdmissionRefusal::Distrusted) => "certificate",
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
        let limiter = FailureLimiter::new(options.failures);
        let gate = Gate { limiter, running: BTreeMap::new(), next: 0 };
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
        let (stream, source) = match tcp.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_peers_fault(&error) => continue,
            Err(error) => {
                warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if shared.is_short_of_descriptors(&stream) {
            // Closed with the socket's end of scope; the next newcomer finds a lower number.
            shared.wiring.connections.close_oldest_stranger();
            continue;
        }
        // One socket waits here for its place, the others in the kernel, not in memory.
        let permit = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => shared.free_a_place(&permits).await,
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
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(limit, shared.handshake(stream)) => {
            outcome.unwrap_or(Err(HandshakeReason::Timeout))
        }
        () = place.end.cancelled() => Err(HandshakeReason::TooManyAtOnce),
    };
    match outcome {
        Ok((stream, used)) => match shared.admit(stream, source, &used) {
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
            let number = gate.next;
            gate.next += 1;
            let running = gate.running.entry(source).or_default();
            let full = running.len() >= self.options.handshakes_per_source_max;
            if full
                && running.front().is_some_and(|oldest| self.may_end(oldest))
                && let Some(oldest) = running.pop_front()
            {
                oldest.end.cancel();
            }
            if running.len() < self.options.handshakes_per_source_max {
                let end = CancellationToken::new();
                running.push_back(Running { number, since: Instant::now(), end: end.clone() });
                return Some(Place {
                    shared: Arc::clone(self),
                    source,
                    number,
                    end,
                    _permit: permit,
                });
            }
        }
        self.report(address, HandshakeReason::TooManyAtOnce);
        None
    }

    fn is_short_of_descriptors(&self, newest: &TcpStream) -> bool {
        let number = u64::try_from(newest.as_raw_fd()).unwrap_or_default();
        self.options.descriptors_max.is_some_and(|max| number >= max)
    }

    fn may_end(&self, running: &Running) -> bool {
        running.since.elapsed() >= self.options.handshake_grace
    }

    /// The place of the next handshake that ends. If none does by itself, that of the source with most of them is
    /// ended that has run for longest.
    async fn free_a_place(&self, permits: &Arc<Semaphore>) -> OwnedSemaphorePermit {
        loop {
            let oldest = self.gate().crowding(&self.wiring.connections);
            let until = oldest.as_ref().map(|(since, _)| *since + self.options.handshake_grace);
            let pause = until.unwrap_or_else(|| Instant::now() + self.options.handshake_grace);
            let free = Arc::clone(permits).acquire_owned();
            if let Ok(permit) = tokio::time::timeout_at(pause, free).await {
                return permit.expect("the semaphore is never closed");
            }
            if let Some((_, end)) = oldest {
                end.cancel();
                // Its task gives the place back as soon as it runs.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Also returns the credentials that were used.
    async fn handshake(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Arc<Current>), HandshakeReason> {
        let disconnected = |_| HandshakeReason::Disconnected;
        if stream.peek(&mut [0]).await.map_err(disconnected)? == 0 {
            return Err(HandshakeReason::NothingSent);
        }
        stream.set_nodelay(true).map_err(disconnected)?;
        // Asked for only now, so that a socket that waited gets the newest certificate.
        let current = self.wiring.store.current();
        let acceptor = TlsAcceptor::from(Arc::clone(&current.server));
        let accepted = acceptor.accept(stream).await.map_err(|error| reason_of(&error))?;
        Ok((accepted, current))
    }

    fn admit(
        &self,
        stream: TlsStream<TcpStream>,
        source: SocketAddr,
        used: &Current,
    ) -> Result<TlsConnection, HandshakeReason> {
        let presented = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        // The chain was verified in the handshake; this only reads it.
        let certificate = presented.map(ClientCertificate::read).transpose();
        let certificate = certificate.map_err(HandshakeReason::Certificate)?;
        let peer = certificate.as_ref().map_or(PeerIdentity::None, PeerIdentity::of);
        let signed_by = presented.zip(certificate.as_ref()).and_then(|(leaf, certificate)| {
            verifier::signer(&used.trust, leaf, certificate.validity())
        });
        let vouched = Vouched { signed_by, store: &self.wiring.store };
        let registration = self
            .wiring
            .connections
            .admit(&peer, source.ip().into(), self.options.anonymous, vouched)
            .map_err(HandshakeReason::NotAdmitted)?;
        let life = self.life(certificate.as_ref());
        let credential_timeout = self.options.anonymous.credential_timeout;
        Ok(TlsConnection::new(stream, peer, source, life, credential_timeout, registration))
    }

    /// The shorter of the greatest age and what the peer's certificate has left; with an expired one, the
    /// time to renew it.
    fn life(&self, certificate: Option<&ClientCertificate>) -> Option<Duration> {
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

/// Handshakes at once that a source which has shown a credential before has free of comparison with others.
const KEPT_FOR_KNOWN: usize = 32;

impl Gate {
    /// The oldest handshake of the source that has most of them, with the time it has run since.
    fn crowding(&self, connections: &Connections) -> Option<(Instant, CancellationToken)> {
        let weight = |source: Source, running: usize| match connections.has_proved(source) {
            true => running.saturating_sub(KEPT_FOR_KNOWN),
            false => running,
        };
        let most =
            self.running.iter().max_by_key(|(source, running)| weight(**source, running.len()));
        most.and_then(|(_, running)| running.iter().find(|running| !running.end.is_cancelled()))
            .map(|oldest| (oldest.since, oldest.end.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut gate = self.shared.gate();
        if let Some(running) = gate.running.get_mut(&self.source) {
            running.retain(|running| running.number != self.number);
            if running.is_empty() {
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
