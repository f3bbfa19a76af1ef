//! The accept loop: sockets in, authenticated connections out.
//!
//! Everything before the end of a handshake is done by unauthenticated peers, so everything is
//! bounded: its time, the concurrent handshakes in total and per source, those that compute, and the
//! failures of a source. A socket is given a place or none at once, so none waits behind another one; strangers of one source
//! are answered at a pace, and those that are refused learn it a moment later.
//! A failure is a value on a channel, not only a log line. Only finished handshakes reach
//! the server.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::{StartHandshake, TlsStream};
use tokio_stream::Stream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::connection::{
    AdmissionRefusal, AnonymousLimits, Connections, PeerIdentity, TlsConnection, Vouched,
};
use crate::identity::IdentityError;
use crate::limiter::{Charge, Source, SourceLimiter, SourceLimits};
use crate::operator::ClientCertificate;
use crate::pace::{Overtaken, Pace};
use crate::places::{Acquaintance, Place, PlaceLimits, Places};
use crate::tarpit::Tarpit;
use crate::tls::{CertificateStore, Current};
use crate::turns::Turns;
use crate::verifier;

/// Finished handshakes that may wait for the server to take them.
const BACKLOG: usize = 32;

/// Pause after the system refused to accept, most often for want of file descriptors: retrying at
/// once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that the kernel keeps until they are accepted, as many as Linux allows by default. Of further ones it drops
/// the first packet, which is repeated only after a second.
const QUEUE: u32 = 4096;

/// How many times as long as they compute handshakes of strangers rest: together they have a quarter of the processors on which
/// they may compute, which was 1,750 handshakes a second on one (ADR 0140).
const RESTS_OF_STRANGERS: u32 = 3;

/// With fewer descriptors than these there is no tarpit: it takes one for each refused socket and another one for each handshake
/// of a stranger.
const TARPIT_DESCRIPTORS: u64 = 4096;

/// How long the connection of a peer with an expired certificate lives: enough to renew it.
const RENEWAL_TIME: Duration = Duration::from_secs(600);

/// Bounds of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long a peer may take from connecting to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Handshakes at once. A further socket takes the place of one of the source with most of them, unless that is its own
    /// and all of them are younger than the grace: then it is closed.
    pub handshakes_max: usize,
    /// Handshakes at once of one source. A further socket takes the place of another one of its own.
    pub handshakes_per_source_max: usize,
    /// Age at which a handshake whose hello is complete may be ended for another one of its source. One without a hello
    /// may be at any age: who means to finish sends it right behind the connection.
    pub handshake_grace: Duration,
    /// Handshakes that compute at once: of sources that a credential came from before, and of all others.
    pub computing_max: usize,
    /// Refused sockets of strangers that are kept for a second before they are closed.
    pub tarpit: usize,
    pub anonymous: AnonymousLimits,
    /// After this age reads end and the connection winds down. A connection never outlives its
    /// peer's certificate by more than the time to renew an expired one. This is the hard end: let the HTTP/2 server ask for a new
    /// connection a little earlier, so that no request is cut off.
    pub connection_age_max: Option<Duration>,
    pub failures: SourceLimits,
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
    /// Of sources that a credential came from before.
    turns_of_known: Turns,
    turns_of_strangers: Turns,
    pace_of_strangers: Pace,
    tarpit: Tarpit,
    started: Instant,
    unreported: AtomicU64,
}

/// What is known of the sources.
struct Gate {
    limiter: SourceLimiter,
    places: Places,
}

/// The place of a handshake, until this is dropped.
struct Held {
    shared: Arc<Shared>,
    place: Place,
    acquaintance: Acquaintance,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            handshakes_max: 512,
            handshakes_per_source_max: 64,
            handshake_grace: Duration::from_millis(100),
            computing_max: half_of_the_processors(),
            tarpit: 1024,
            anonymous: AnonymousLimits::default(),
            connection_age_max: Some(Duration::from_secs(3600)),
            failures: SourceLimits::default(),
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

    /// Whether this node refused the peer, as opposed to a peer that went away by itself: a health check, a port scan, or a
    /// browser, which opens more connections than it needs. One that does so again and again ends as [`Self::SourceBlocked`].
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::NothingSent | Self::Disconnected => false,
            Self::Timeout
            | Self::NotTls
            | Self::Incompatible
            | Self::Certificate(_)
            | Self::RefusedByPeer(_)
            | Self::Protocol(_)
            | Self::NotAdmitted(_)
            | Self::TooManyAtOnce
            | Self::SourceBlocked => true,
        }
    }
}

/// A socket that listens on `address`, for [`TlsListener::start`]. Must be called within a tokio runtime.
///
/// # Errors
/// If the address is in use, is not this machine's, or may not be used by this process.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a daemon that ended a moment ago do not keep this one from its port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(QUEUE)
}

impl TlsListener {
    /// Starts accepting on `tcp`. Must be called within a tokio runtime.
    pub fn start(tcp: TcpListener, wiring: Wiring, options: Options) -> io::Result<Self> {
        let local = tcp.local_addr()?;
        let (sender, incoming) = mpsc::channel(BACKLOG);
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared::new(wiring, options));
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
        let acquaintance = shared.acquaintance(source);
        let grip = shared.grip(&stream, acquaintance);
        let Some(held) = shared.enter(source, acquaintance) else {
            if let Some(socket) = grip {
                let tarpit = shared.tarpit.clone();
                let holding = async move { tarpit.hold(socket).await };
                tokio::spawn(stop.clone().run_until_cancelled_owned(holding));
            }
            continue;
        };
        let work = establish(held, stream, source, grip, incoming.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(work));
    }
}

/// Takes one socket through its handshake and hands it over. One that had to make room is held by its `grip`, if it has one.
async fn establish(
    held: Held,
    stream: TcpStream,
    source: SocketAddr,
    grip: Option<OwnedFd>,
    incoming: mpsc::Sender<TlsConnection>,
) {
    let shared = Arc::clone(&held.shared);
    let limit = shared.options.handshake_timeout;
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(limit, held.handshake(stream)) => {
            outcome.unwrap_or(Err(HandshakeReason::Timeout))
        }
        () = held.place.end.cancelled() => Err(HandshakeReason::TooManyAtOnce),
    };
    match outcome.and_then(|finished| shared.admit(*finished, source)) {
        Ok(connection) => {
            drop(grip);
            // The server has gone if this fails, and with it the need for connections.
            drop(Box::pin(incoming.send(connection)).await);
        }
        Err(reason) => {
            let refused = grip.filter(|_| reason == HandshakeReason::TooManyAtOnce);
            drop(held);
            shared.fail(source, reason);
            if let Some(socket) = refused {
                shared.tarpit.hold(socket).await;
            }
        }
    }
}

/// A handshake that both sides have completed.
struct Finished {
    stream: TlsStream<TcpStream>,
    /// The credentials that were used.
    used: Arc<Current>,
}

/// What only those need who come this far is allocated only for them: most of those who attack do not.
impl Held {
    async fn handshake(&self, stream: TcpStream) -> Result<Box<Finished>, HandshakeReason> {
        let disconnected = |_| HandshakeReason::Disconnected;
        if stream.peek(&mut [0]).await.map_err(disconnected)? == 0 {
            return Err(HandshakeReason::NothingSent);
        }
        stream.set_nodelay(true).map_err(disconnected)?;
        let hello = Box::pin(LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream));
        let hello = Box::new(hello.await.map_err(|error| reason_of(&error))?);
        Box::pin(self.answer(hello)).await
    }

    async fn answer(
        &self,
        hello: Box<StartHandshake<TcpStream>>,
    ) -> Result<Box<Finished>, HandshakeReason> {
        self.shared.gate().places.greeted(&self.place);
        if self.acquaintance == Acquaintance::Stranger {
            let paced = self.shared.pace_of_strangers.wait(self.place.source).await;
            paced.map_err(|Overtaken| HandshakeReason::TooManyAtOnce)?;
        }
        // Asked for only now, so that a socket that was slow gets the newest certificate.
        let used = self.shared.wiring.store.current();
        let turns = match self.acquaintance {
            Acquaintance::Known => &self.shared.turns_of_known,
            Acquaintance::Stranger => &self.shared.turns_of_strangers,
        };
        let stream = in_turns(turns, self.place.source, hello, Arc::clone(&used.server)).await;
        let stream = stream.map_err(|error| reason_of(&error))?;
        Ok(Box::new(Finished { stream, used }))
    }
}

/// Answers a hello and finishes the handshake, each step in a turn.
async fn in_turns(
    turns: &Turns,
    source: Source,
    hello: Box<StartHandshake<TcpStream>>,
    config: Arc<ServerConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    // The answer is most of what is to be computed, and is computed by this call rather than by the future that it returns.
    turns.drive(source, async move { hello.into_stream(config).await }).await
}

impl Shared {
    fn new(wiring: Wiring, options: Options) -> Self {
        let limits = PlaceLimits {
            total: options.handshakes_max,
            per_source: options.handshakes_per_source_max,
            grace: options.handshake_grace,
        };
        let limiter = SourceLimiter::new(options.failures);
        let gate = Gate { limiter, places: Places::new(limits) };
        let computing_max = options.computing_max;
        let is_scarce = options.descriptors_max.is_some_and(|max| max < TARPIT_DESCRIPTORS);
        let tarpit = if is_scarce { 0 } else { options.tarpit };
        Self {
            wiring,
            options,
            gate: Mutex::new(gate),
            turns_of_known: Turns::new(computing_max, 0),
            turns_of_strangers: Turns::new(computing_max, RESTS_OF_STRANGERS),
            pace_of_strangers: Pace::new(),
            tarpit: Tarpit::new(tarpit),
            started: Instant::now(),
            unreported: AtomicU64::new(0),
        }
    }

    fn acquaintance(&self, address: SocketAddr) -> Acquaintance {
        match self.wiring.connections.has_proved(address.ip().into()) {
            true => Acquaintance::Known,
            false => Acquaintance::Stranger,
        }
    }

    /// To keep the socket of a stranger that has to be refused. Known sources learn at once that they are.
    fn grip(&self, stream: &TcpStream, acquaintance: Acquaintance) -> Option<OwnedFd> {
        match acquaintance {
            Acquaintance::Known => None,
            Acquaintance::Stranger => self.tarpit.grip(stream),
        }
    }

    /// Gives a socket its place, unless its source is blocked or has no place left.
    fn enter(self: &Arc<Self>, address: SocketAddr, acquaintance: Acquaintance) -> Option<Held> {
        let source = Source::from(address.ip());
        let now = self.started.elapsed();
        let place = {
            let mut gate = self.gate();
            if gate.limiter.is_blocked(source, now) {
                return None;
            }
            gate.places.enter(source, acquaintance, now)
        };
        if place.is_none() {
            self.report(address, HandshakeReason::TooManyAtOnce);
        }
        place.map(|place| Held { shared: Arc::clone(self), place, acquaintance })
    }

    fn is_short_of_descriptors(&self, newest: &TcpStream) -> bool {
        let number = u64::try_from(newest.as_raw_fd()).unwrap_or_default();
        self.options.descriptors_max.is_some_and(|max| number >= max)
    }

    fn admit(
        &self,
        finished: Finished,
        source: SocketAddr,
    ) -> Result<TlsConnection, HandshakeReason> {
        let Finished { stream, used } = finished;
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

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.gate().places.leave(&self.place);
    }
}

/// So that known sources and strangers together leave none idle, and neither takes all.
fn half_of_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |all| (all.get() / 2).max(1))
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicUsize;

    use rustls::pki_types::ServerName;
    use rustls::server::{ClientHello, ResolvesServerCert};
    use rustls::sign::CertifiedKey;
    use rustls::version::TLS13;
    use rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::provider::provider;

    /// Notes how many turns are free while a hello is answered, and has no certificate for it.
    #[derive(Debug)]
    struct Watching {
        turns: Turns,
        free: AtomicUsize,
    }

    impl ResolvesServerCert for Watching {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            self.free.store(self.turns.free(), Ordering::SeqCst);
            None
        }
    }

    /// R-FAULT-3: the answer to a hello, with its signature and its key exchange, is computed in a turn.
    #[tokio::test]
    async fn hellos_are_answered_in_turns() {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = tcp.local_addr().unwrap();
        let client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        tokio::spawn(async move {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("node").unwrap();
            TlsConnector::from(Arc::new(client)).connect(name, stream).await
        });
        let turns = Turns::new(1, 0);
        let watching = Arc::new(Watching { turns: turns.clone(), free: AtomicUsize::new(9) });
        let server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&watching) as Arc<dyn ResolvesServerCert>);
        let (stream, source) = tcp.accept().await.unwrap();
        let acceptor = rustls::server::Acceptor::default();
        let hello = Box::new(LazyConfigAcceptor::new(acceptor, stream).await.unwrap());
        let refused = in_turns(&turns, source.ip().into(), hello, Arc::new(server)).await;
        assert!(refused.is_err(), "there is no certificate");
        assert_eq!(watching.free.load(Ordering::SeqCst), 0, "it had the only turn");
        assert_eq!(turns.free(), 1);
    }
}
