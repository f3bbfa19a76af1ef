//! The edge: plans and sockets in, what is applied and who is busy out.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use jaco_dataplane::edge::{EdgePlan, ListenerKey, RouteKey};
use jaco_types::{InstanceId, StateIndex};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::counters::RouteCounts;
use crate::listener;
use crate::options::Options;
use crate::shared::Shared;
use crate::state::State;
use crate::tls::Certificates;

/// How often idle connections are looked through.
const TIDY_EVERY: Duration = Duration::from_secs(15);

/// The data path of an edge. It ends when this is dropped; [`Edge::drain`] ends it gently.
#[derive(Debug)]
pub struct Edge {
    inner: Arc<Inner>,
}

/// What an edge has done with its plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeStatus {
    /// The version of the plan that is in use. What that plan says of an instance that leaves is kept: nothing new
    /// is sent there.
    pub applied: StateIndex,
    /// The instances that leave and still have something to finish, within their drain time.
    pub busy: BTreeSet<InstanceId>,
    /// What of the plan could not be carried out, by what it is about, and why.
    pub problems: BTreeMap<String, String>,
}

/// A socket that is bound and, if it is for TCP, listens.
#[derive(Debug)]
pub enum Socket {
    /// For connections.
    Tcp(TcpListener),
    /// For datagrams.
    Udp(UdpSocket),
}

/// How an edge ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut because they did not end in time.
    pub cut: usize,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    state: Mutex<State>,
    status: watch::Sender<EdgeStatus>,
    listeners: Mutex<BTreeMap<ListenerKey, CancellationToken>>,
    /// Told when an instance that leaves has finished, and when there is another plan.
    changed: Arc<Notify>,
}

impl From<TcpListener> for Socket {
    fn from(socket: TcpListener) -> Self {
        Self::Tcp(socket)
    }
}

impl From<UdpSocket> for Socket {
    fn from(socket: UdpSocket) -> Self {
        Self::Udp(socket)
    }
}

impl Edge {
    /// An edge without plan and sockets. Its tasks run on the runtime that it is made in.
    ///
    /// # Errors
    /// If TLS cannot be set up: the system gives no random numbers.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(options: Options) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let changed = Arc::new(Notify::new());
        let shared = Shared::new(options, Arc::clone(&provider)).map_err(io::Error::other)?;
        let inner = Arc::new(Inner {
            shared: Arc::new(shared),
            state: Mutex::new(State::new(provider, Arc::clone(&changed))),
            status: watch::Sender::default(),
            listeners: Mutex::default(),
            changed: Arc::clone(&changed),
        });
        tokio::spawn(follow(Arc::downgrade(&inner), changed, inner.shared.stopping.clone()));
        Ok(Self { inner })
    }

    /// Carries out a plan. When this returns, it is in use, and [`Edge::status`] says so. A plan of an older version
    /// than the one in use is ignored.
    ///
    /// Plans that share routes and services, by their `Arc`s, are compared without reading those.
    pub fn apply(&self, version: StateIndex, plan: Arc<EdgePlan>, certificates: Arc<Certificates>) {
        self.inner.apply(version, plan, certificates);
        self.inner.changed.notify_one();
    }

    /// Takes a socket. What is done with it is what the plan says of `key`, at the moment of each connection. Another
    /// socket under the same key takes the place of the former, whose connections go on.
    ///
    /// # Errors
    /// If the socket cannot be used without blocking.
    pub fn add_listener(&self, key: ListenerKey, socket: impl Into<Socket>) -> io::Result<()> {
        let stop = self.inner.shared.draining.child_token();
        let shared = Arc::clone(&self.inner.shared);
        match socket.into() {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(socket)?;
                tokio::spawn(listener::accept(shared, key, listener, stop.clone()));
            }
            Socket::Udp(socket) => {
                socket.set_nonblocking(true)?;
                let socket = tokio::net::UdpSocket::from_std(socket)?;
                tokio::spawn(listener::receive(shared, key, socket, stop.clone()));
            }
        }
        if let Some(former) = self.inner.listeners().insert(key, stop) {
            former.cancel();
        }
        Ok(())
    }

    /// Closes a socket. Connections that came in there go on.
    pub fn remove_listener(&self, key: &ListenerKey) {
        if let Some(stop) = self.inner.listeners().remove(key) {
            stop.cancel();
        }
    }

    /// What is applied, and who is busy: the acknowledgement.
    pub fn status(&self) -> watch::Receiver<EdgeStatus> {
        self.inner.status.subscribe()
    }

    /// What was counted, by route of the plan in use.
    pub fn counters(&self) -> BTreeMap<RouteKey, RouteCounts> {
        self.inner.state().counts()
    }

    /// Connections of clients, and WebSockets.
    pub fn connections(&self) -> usize {
        self.inner.shared.tracker.len()
    }

    /// Ends the edge: it accepts nothing more, tells clients so (`Connection: close`, GOAWAY), and waits until they
    /// have their answers, for at most `limit`; then it cuts what is left.
    pub async fn drain(&self, limit: Duration) -> Drained {
        let shared = &self.inner.shared;
        shared.draining.cancel();
        shared.tracker.close();
        let cut = match tokio::time::timeout(limit, shared.tracker.wait()).await {
            Ok(()) => 0,
            Err(_) => shared.tracker.len(),
        };
        shared.stopping.cancel();
        Drained { cut }
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.inner.shared.draining.cancel();
        self.inner.shared.stopping.cancel();
    }
}

impl Inner {
    fn apply(&self, version: StateIndex, plan: Arc<EdgePlan>, certificates: Arc<Certificates>) {
        let mut state = self.state();
        if version < self.status.borrow().applied {
            return;
        }
        let (view, departures) = state.update(plan, certificates);
        self.shared.view.store(Arc::new(view));
        // Whoever looks now finds nobody that leaves: those may.
        state.depart(departures);
        let busy = state.busy();
        let problems = state.problems();
        self.status.send_replace(EdgeStatus { applied: version, busy, problems });
    }

    /// Notes who has finished; when to look again.
    fn look(&self, tidy: Tidy) -> Instant {
        let mut state = self.state();
        let busy = state.busy();
        if tidy == Tidy::Now {
            state.tidy();
        }
        self.status.send_if_modified(|status| {
            let differs = status.busy != busy;
            status.busy = busy;
            differs
        });
        let next = Instant::now() + TIDY_EVERY;
        state.next_deadline().map_or(next, |deadline| deadline.min(next))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the lock")
    }

    fn listeners(&self) -> MutexGuard<'_, BTreeMap<ListenerKey, CancellationToken>> {
        self.listeners.lock().expect("nothing panics while it holds the lock")
    }
}

/// Whether idle connections are looked through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tidy {
    Now,
    Later,
}

/// Keeps the status true between plans, until the edge is gone.
async fn follow(inner: Weak<Inner>, changed: Arc<Notify>, stopping: CancellationToken) {
    let mut next = Instant::now() + TIDY_EVERY;
    loop {
        let tidy = tokio::select! {
            () = changed.notified() => Tidy::Later,
            () = tokio::time::sleep_until(next) => Tidy::Now,
            () = stopping.cancelled() => return,
        };
        let Some(inner) = inner.upgrade() else { return };
        next = inner.look(tidy);
    }
}
