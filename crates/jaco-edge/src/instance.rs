//! An instance as the edge sees it: how much it has to do, and whether it gets more.
//!
//! The one promise of the edge is made here: once an instance leaves and is not reported busy, nothing is sent to it
//! any more. Who wants to send something enters first and looks afterwards whether the instance leaves; who lets it
//! leave says so first and counts afterwards. One of the two sees the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use jaco_types::InstanceId;
use tokio::sync::{Notify, watch};

/// An instance of a service.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    in_flight: AtomicUsize,
    leaving: AtomicBool,
    /// Whether its drain time is over.
    released: watch::Sender<bool>,
    /// Told when an instance that leaves has finished.
    finished: Arc<Notify>,
}

/// Something that an instance has to do. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Instance>);

impl Instance {
    pub(crate) fn new(id: InstanceId, finished: Arc<Notify>) -> Self {
        let (released, _) = watch::channel(false);
        Self {
            id,
            in_flight: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            released,
            finished,
        }
    }

    /// Gives the instance something to do. `None`: it leaves.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<InFlight> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let entered = InFlight(Arc::clone(self));
        (!self.leaving.load(Ordering::SeqCst)).then_some(entered)
    }

    /// It gets nothing new from now on.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    /// It gets requests, as before it left.
    pub(crate) fn stay(&self) {
        self.released.send_replace(false);
        self.leaving.store(false, Ordering::SeqCst);
    }

    /// Its drain time is over: what still runs is ended.
    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Whether it leaves and has something to finish.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_leaving() && !*self.released.borrow() && self.in_flight() > 0
    }

    /// How much it has to do.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }
}

impl InFlight {
    /// Whether the instance leaves: its connection is not kept.
    pub(crate) fn is_leaving(&self) -> bool {
        self.0.is_leaving()
    }

    /// Turns true once the drain time of the instance is over.
    pub(crate) fn released(&self) -> watch::Receiver<bool> {
        self.0.released.subscribe()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let before = self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.0.is_leaving() {
            self.0.finished.notify_one();
        }
    }
}
