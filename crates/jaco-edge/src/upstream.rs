//! One instance at one port: connections to it, kept for the next request, and whether it was of use lately.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jaco_types::route::RouteProtocol;
use tokio::net::TcpStream;

use crate::body::Outgoing;
use crate::instance::Instance;
use crate::options::BUFFER_MAX;
use crate::tls::TlsToInstances;

/// So many connections without a request are kept per instance.
const IDLE_MAX: usize = 128;

/// So long a connection without a request is kept.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// A request that must not be sent twice takes a kept connection only if the instance said something on it within this
/// time: servers close idle connections when they please, and a machine that is lost closes none.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// So many requests at a time share an HTTP/2 connection to an instance; more open another one.
const STREAMS_PER_CONNECTION: usize = 100;

/// An instance at a port.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) instance: Arc<Instance>,
    pub(crate) address: SocketAddrV4,
    pub(crate) protocol: Protocol,
    /// What a sticky cookie calls it: the same at every edge, and nothing that names it.
    pub(crate) sticky: u64,
    began: Instant,
    /// Milliseconds since `began` until which it gets nothing if another can.
    ejected_until: AtomicU64,
    kept: Mutex<Kept>,
}

/// What an instance speaks at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Protocol {
    /// HTTP.
    Http(RouteProtocol),
    /// Whatever comes.
    Raw,
}

impl Protocol {
    /// The least of all in their order.
    pub(crate) const FIRST: Self = Self::Http(RouteProtocol::Http);
}

/// What tells upstreams apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
}

#[derive(Debug, Default)]
struct Kept {
    http1: Vec<(http1::SendRequest<Outgoing>, Instant)>,
    http2: Vec<SharedConnection>,
}

/// An HTTP/2 connection; each user holds a copy of `heard`.
#[derive(Debug, Clone)]
struct SharedConnection {
    sender: http2::SendRequest<Outgoing>,
    heard: Arc<Heard>,
}

impl SharedConnection {
    fn users(&self) -> usize {
        Arc::strong_count(&self.heard) - 1
    }
}

/// When an instance said something on a connection.
#[derive(Debug)]
pub(crate) struct Heard(Mutex<Instant>);

impl Heard {
    fn now() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// It says something.
    pub(crate) fn note(&self) {
        *self.0.lock().expect("nothing panics while it holds the lock") = Instant::now();
    }

    fn elapsed(&self) -> Duration {
        self.0.lock().expect("nothing panics while it holds the lock").elapsed()
    }
}

/// A connection to an instance, for one request.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) sender: Sender,
    pub(crate) origin: Origin,
}

/// Through which a request is sent.
#[derive(Debug)]
pub(crate) enum Sender {
    Http1(http1::SendRequest<Outgoing>),
    Http2 { sender: http2::SendRequest<Outgoing>, heard: Arc<Heard> },
}

/// Where a connection came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was used before: that it breaks says nothing about the instance.
    Kept,
    /// It was made for this request.
    New,
}

/// Which connections are good enough for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any: the request can be repeated.
    Any,
    /// Those that are hardly ever about to be closed, or lead to a machine that is gone.
    Fresh,
    /// A new one.
    New,
}

/// What a connection is made with.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) timeout: Duration,
    pub(crate) tls: TlsToInstances,
}

impl Upstream {
    pub(crate) fn new(instance: Arc<Instance>, place: Place, sticky: u64) -> Self {
        Self {
            instance,
            address: SocketAddrV4::new(place.address, place.port),
            protocol: place.protocol,
            sticky,
            began: Instant::now(),
            ejected_until: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }

    /// Whether it is at this place.
    pub(crate) fn is_at(&self, place: &Place) -> bool {
        let address = SocketAddrV4::new(place.address, place.port);
        self.address == address && self.protocol == place.protocol
    }

    /// It refused or broke a connection: others are preferred for a while.
    pub(crate) fn eject(&self, duration: Duration) {
        let until = millis(self.began.elapsed() + duration);
        self.ejected_until.fetch_max(until, Ordering::Relaxed);
    }

    /// Whether others are preferred.
    pub(crate) fn is_ejected(&self) -> bool {
        let until = self.ejected_until.load(Ordering::Relaxed);
        until > 0 && millis(self.began.elapsed()) < until
    }

    /// A connection for one request.
    ///
    /// # Errors
    /// If a new one is needed and cannot be had in time.
    pub(crate) async fn link(&self, wanted: Wanted, dialer: &Dialer) -> io::Result<Link> {
        if wanted != Wanted::New
            && let Some(sender) = self.take_kept(wanted)
        {
            return Ok(Link { sender, origin: Origin::Kept });
        }
        let sender = within(dialer.timeout, self.dial(self.protocol, dialer)).await?;
        Ok(Link { sender, origin: Origin::New })
    }

    /// A new HTTP/1.1 connection, also where the instance speaks HTTP/2: for a change of protocol.
    ///
    /// # Errors
    /// If it cannot be had in time.
    pub(crate) async fn link_for_upgrade(
        &self,
        dialer: &Dialer,
    ) -> io::Result<http1::SendRequest<Outgoing>> {
        let protocol = match self.protocol {
            Protocol::Http(RouteProtocol::H2c) => Protocol::Http(RouteProtocol::Http),
            Protocol::Http(_) | Protocol::Raw => self.protocol,
        };
        match within(dialer.timeout, self.dial(protocol, dialer)).await? {
            Sender::Http1(sender) => Ok(sender),
            Sender::Http2 { .. } => Err(io::Error::other("an HTTP/2 connection has no upgrades")),
        }
    }

    /// A new connection, as it is.
    ///
    /// # Errors
    /// If it cannot be had in time.
    pub(crate) async fn connect(&self, timeout: Duration) -> io::Result<TcpStream> {
        within(timeout, async {
            let stream = TcpStream::connect(SocketAddr::V4(self.address)).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
        .await
    }

    async fn dial(&self, protocol: Protocol, dialer: &Dialer) -> io::Result<Sender> {
        let stream = self.connect(dialer.timeout).await?;
        match protocol {
            Protocol::Http(RouteProtocol::Https) => {
                let stream = dialer.tls.connect(*self.address.ip(), stream).await?;
                Ok(Sender::Http1(handshake(stream).await?))
            }
            Protocol::Http(RouteProtocol::Http) | Protocol::Raw => {
                Ok(Sender::Http1(handshake(stream).await?))
            }
            Protocol::Http(RouteProtocol::H2c) => {
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .keep_alive_interval(Some(Duration::from_secs(20)))
                    .keep_alive_timeout(Duration::from_secs(10))
                    .handshake(TokioIo::new(stream))
                    .await
                    .map_err(io::Error::other)?;
                tokio::spawn(connection);
                let heard = Arc::new(Heard::now());
                if !self.instance.is_leaving() {
                    let (sender, heard) = (sender.clone(), Arc::clone(&heard));
                    let mut kept = self.lock();
                    // One that this request did not take, and nobody else uses.
                    kept.http2.retain(|connection| connection.users() > 0);
                    kept.http2.push(SharedConnection { sender, heard });
                }
                Ok(Sender::Http2 { sender, heard })
            }
        }
    }

    fn take_kept(&self, wanted: Wanted) -> Option<Sender> {
        let is_fresh = |idle: Duration| wanted == Wanted::Any || idle < FRESH_FOR;
        let mut kept = self.lock();
        if self.protocol == Protocol::Http(RouteProtocol::H2c) {
            kept.http2.retain(|connection| !connection.sender.is_closed());
            let is_usable = |connection: &&SharedConnection| {
                connection.sender.is_ready()
                    && connection.users() < STREAMS_PER_CONNECTION
                    && is_fresh(connection.heard.elapsed())
            };
            let SharedConnection { sender, heard } = kept.http2.iter().find(is_usable)?.clone();
            return Some(Sender::Http2 { sender, heard });
        }
        // From the end, where those are that were used last. One that is not ready has not noticed yet that its
        // response is complete; it stays.
        for at in (0..kept.http1.len()).rev() {
            let (sender, since) = &kept.http1[at];
            if sender.is_closed() {
                kept.http1.swap_remove(at);
            } else if !is_fresh(since.elapsed()) {
                continue;
            } else if sender.is_ready() {
                return Some(Sender::Http1(kept.http1.remove(at).0));
            }
        }
        None
    }

    /// Keeps a connection whose response is complete, unless the instance leaves.
    pub(crate) fn keep(&self, sender: http1::SendRequest<Outgoing>) {
        if self.instance.is_leaving() || sender.is_closed() {
            return;
        }
        let mut kept = self.lock();
        if kept.http1.len() < IDLE_MAX {
            kept.http1.push((sender, Instant::now()));
        }
    }

    /// Closes what is kept: at once if the instance leaves, else what has been idle for long.
    pub(crate) fn tidy(&self) {
        let is_leaving = self.instance.is_leaving();
        let mut kept = self.lock();
        kept.http1.retain(|(sender, since)| {
            !is_leaving && !sender.is_closed() && since.elapsed() < IDLE_FOR
        });
        kept.http2.retain(|connection| {
            let is_of_use = connection.users() > 0 || connection.heard.elapsed() < IDLE_FOR;
            !is_leaving && !connection.sender.is_closed() && is_of_use
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().expect("nothing panics while it holds the lock")
    }
}

async fn handshake<S>(stream: S) -> io::Result<http1::SendRequest<Outgoing>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

async fn within<T>(
    timeout: Duration,
    attempt: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the instance did not accept in time");
    tokio::time::timeout(timeout, attempt).await.map_err(late)?
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
