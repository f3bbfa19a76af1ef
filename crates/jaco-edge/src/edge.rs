//! The edge: plans and sockets in, what is applied and who is busy out.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use jaco_dataplane::edge::{EdgePlan, ListenerKey};
use jaco_types::{InstanceId, RouteKey, StateIndex};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::counters::RouteCounts;
use crate::explain::{Explained, explain};
use crate::options::{AccessLog, Options};
use crate::presence::Presence;
use crate::shared::Shared;
use crate::sockets::{Socket, Sockets};
use crate::state::State;
use crate::tls::Certificates;
use crate::traces::Traces;

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
    /// The version of the plan that is in use; `None` before the first. What that plan says of an instance that
    /// leaves is kept: nothing new is sent there.
    pub applied: Option<StateIndex>,
    /// The instances that leave and still have something to finish, within their drain time.
    pub busy: BTreeSet<InstanceId>,
    /// What of the plan could not be carried out, by what it is about, and why: `route shop.example/x`,
    /// `certificate NAME`, `certificate of shop.example`, or `listener tcp/80` for which there is no socket yet.
    pub problems: BTreeMap<String, String>,
    /// The sockets that it has, whether they are in the plan or not.
    pub listeners: BTreeSet<ListenerKey>,
    /// Whether another process takes its place.
    pub succession: Succession,
}

/// Whether another process takes the place of an edge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Succession {
    /// None does.
    #[default]
    None,
    /// One will: whoever tells this edge its plans should look for that one, and go on telling this one until it has
    /// ended. This one accepts until then.
    Begun,
    /// One did: it serves, and this one finishes what it has.
    Done,
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
    sockets: Sockets,
    presence: Arc<Presence>,
    /// Told when an instance that leaves has finished, and when there is another plan.
    changed: Arc<Notify>,
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
            sockets: Sockets::default(),
            presence: Arc::new(Presence::new()),
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

    /// Takes a socket. What is done with it is what the plan says of `key`, at the moment of each connection; before the
    /// first plan nothing is accepted. Another socket under the same key takes the place of the former, whose connections
    /// go on.
    ///
    /// # Errors
    /// If the edge is ending, or the socket cannot be used without blocking.
    pub fn add_listener(&self, key: ListenerKey, socket: impl Into<Socket>) -> io::Result<()> {
        self.inner.sockets.serve(&self.inner.shared, key, socket.into())?;
        self.inner.note_sockets();
        Ok(())
    }

    /// Closes a socket. Connections that came in there go on.
    pub fn remove_listener(&self, key: &ListenerKey) {
        self.inner.sockets.remove(key);
        self.inner.note_sockets();
    }

    /// Its sockets once more, for a process that takes the place of this one: both take what comes in, until this one
    /// is drained. So no client is refused in between.
    ///
    /// # Errors
    /// If the process has too many files.
    pub fn clone_listeners(&self) -> io::Result<Vec<(ListenerKey, Socket)>> {
        self.inner.sockets.duplicates()
    }

    /// Says whether another process takes the place of this one, to all that follow its status.
    pub fn note_succession(&self, succession: Succession) {
        self.inner.status.send_modify(|status| status.succession = succession);
    }

    /// Where lines about requests go from now on. `None`: where its options say.
    pub fn log_to(&self, log: Option<AccessLog>) {
        let shared = &self.inner.shared;
        let log = log.or_else(|| shared.options.access_log.clone());
        shared.access_log.store(log.map(Arc::new));
    }

    /// Whether requests are traced from now on. `None`: they are not, and what clients say of traces goes through.
    pub fn trace_to(&self, traces: Option<Traces>) {
        self.inner.shared.traces.store(traces.map(Arc::new));
    }

    /// What is applied, and who is busy: the acknowledgement.
    pub fn status(&self) -> watch::Receiver<EdgeStatus> {
        self.inner.status.subscribe()
    }

    /// What was counted, by route of the plan in use.
    pub fn counters(&self) -> BTreeMap<RouteKey, RouteCounts> {
        self.inner.state().counts()
    }

    /// What a request for a host and a path would meet now. Instances see a connection without a request.
    pub async fn explain(&self, host: &str, path: &str) -> Explained {
        let shared = &self.inner.shared;
        explain(&shared.view.load_full(), (host, path), shared.dialer.timeout).await
    }

    /// Connections of clients, and WebSockets.
    pub fn connections(&self) -> usize {
        self.inner.shared.tracker.len()
    }

    /// Whether there has been nobody to tell it a plan for so long that it may send requests to instances that are
    /// gone. It serves on; whoever can choose should choose another edge.
    pub fn is_stale(&self) -> bool {
        self.inner.presence.is_stale()
    }

    pub(crate) fn presence(&self) -> &Arc<Presence> {
        &self.inner.presence
    }

    /// Ends the edge: it accepts nothing more, tells clients so (`Connection: close`, GOAWAY), and waits until they
    /// have their answers, for at most `limit`; then it cuts what is left.
    pub async fn drain(&self, limit: Duration) -> Drained {
        let shared = &self.inner.shared;
        shared.draining.cancel();
        self.inner.sockets.clear();
        // Who was accepted at the last moment is among the connections once nobody accepts any more.
        shared.acceptors.close();
        shared.acceptors.wait().await;
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
        if self.status.borrow().applied.is_some_and(|applied| version < applied) {
            return;
        }
        let (view, departures) = state.update(plan, certificates);
        self.shared.view.store(Arc::new(view));
        self.shared.awaited.note_view();
        self.shared.planned.cancel();
        // Whoever looks now finds nobody that leaves: those may.
        state.depart(departures);
        let busy = state.busy();
        let listeners = self.sockets.keys();
        let problems = state.problems(&listeners);
        let applied = Some(version);
        self.status.send_modify(|status| {
            *status =
                EdgeStatus { applied, busy, problems, listeners, succession: status.succession };
        });
    }

    /// Notes that there are other sockets.
    fn note_sockets(&self) {
        let state = self.state();
        let listeners = self.sockets.keys();
        let problems = state.problems(&listeners);
        self.status.send_if_modified(|status| {
            let differs = (&status.problems, &status.listeners) != (&problems, &listeners);
            (status.problems, status.listeners) = (problems, listeners);
            differs
        });
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
