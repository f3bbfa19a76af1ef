//! What the requests of a connection have in common.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use tokio_util::sync::CancellationToken;

use crate::shared::Shared;
use crate::wire::inspect::Fault;

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    /// The other end.
    pub(crate) peer: SocketAddr,
    /// Who the other end says that the client is, if its word counts; else the other end.
    pub(crate) client: SocketAddr,
    /// The host that the TLS handshake named. `None`: in clear.
    pub(crate) tls_host: Option<String>,
    /// Cancelled to end the connection after what it is at: it misbehaves.
    pub(crate) closing: CancellationToken,
    /// Requests that are not answered to their end.
    active: AtomicUsize,
    /// All requests there were.
    begun: AtomicUsize,
    /// Streams that the client reset before they were answered, less those that it let finish.
    resets: AtomicUsize,
    gate: Mutex<Gate>,
}

/// Between the bytes of an HTTP/1 connection and its requests.
#[derive(Debug, Default)]
struct Gate {
    fault: Option<Fault>,
    decision: Option<Decision>,
    waker: Option<Waker>,
}

/// Whether a connection changes its protocol after a request that asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Changes,
    Stays,
}

/// A request that is not answered to its end.
#[derive(Debug)]
pub(crate) struct Active {
    connection: Arc<Connection>,
    is_answered: bool,
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<Shared>,
        peer: SocketAddr,
        client: SocketAddr,
        tls_host: Option<String>,
    ) -> Self {
        let closing = shared.draining.child_token();
        Self {
            shared,
            peer,
            client,
            tls_host,
            closing,
            active: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            gate: Mutex::default(),
        }
    }

    /// Notes that a request begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Active {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        Active { connection: Arc::clone(self), is_answered: false }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }

    /// How many requests have begun; it may begin anew.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// The bytes of the connection are at fault: the request that stands for them is told.
    pub(crate) fn set_fault(&self, fault: Fault) {
        self.gate().fault = Some(fault);
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.gate().fault
    }

    /// Decides what the bytes after a request are that asked for another protocol.
    pub(crate) fn decide(&self, decision: Decision) {
        let mut gate = self.gate();
        gate.decision = Some(decision);
        if let Some(waker) = gate.waker.take() {
            waker.wake();
        }
    }

    /// Whatever was decided is not about what comes.
    pub(crate) fn forget_decision(&self) {
        self.gate().decision = None;
    }

    /// The decision, if there is one; else `waker` is told of the next.
    pub(crate) fn decision(&self, waker: &Waker) -> Option<Decision> {
        let mut gate = self.gate();
        let decision = gate.decision.take();
        if decision.is_none() {
            gate.waker = Some(waker.clone());
        }
        decision
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().expect("nothing panics while it holds the lock")
    }
}

impl Active {
    /// The request has its answer, whatever the client makes of it.
    pub(crate) fn answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.active.fetch_sub(1, Ordering::Relaxed);
        if self.is_answered {
            let less = |resets: usize| resets.checked_sub(1);
            let _ = connection.resets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            return;
        }
        let resets = connection.resets.fetch_add(1, Ordering::Relaxed);
        if resets >= connection.shared.options.limits.resets_max as usize {
            connection.closing.cancel();
        }
    }
}
