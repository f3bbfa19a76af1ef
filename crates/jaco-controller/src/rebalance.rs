//! The leader's second loop: what the nodes measured, to at most one move a cycle. It decides nothing
//! itself; [`jaco_scheduler::rebalance`] does. Samples and memory are the leader's alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jaco_scheduler::rebalance::{
    CycleInput, Load, Overdue, Pressure, RebalanceConfig, Rebalancer, Sample, Weighed,
};
use jaco_state::{ClusterState, Outcome};
use jaco_store::{Clock, Leadership, Proposal, RaftRole, Store};
use jaco_types::{Identity, InstanceId, Millis, NodeId, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How the loop paces itself, and by which thresholds it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebalanceOptions {
    /// Whether the leader moves anything by itself.
    pub mode: Mode,
    /// From one cycle to the next (30 s).
    pub interval: Millis,
    /// The thresholds.
    pub thresholds: RebalanceConfig,
}

/// Whether the leader moves anything by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    On,
    /// Only people do.
    Off,
}

/// The product's settings.
impl Default for RebalanceOptions {
    fn default() -> Self {
        let (mode, interval) = (Mode::On, Millis::from_secs(30));
        Self { mode, interval, thresholds: RebalanceConfig::default() }
    }
}

/// What the nodes measured and what was made of it, shared between the listener that hears the
/// samples, the loop, and people's questions.
#[derive(Debug)]
pub struct RebalanceState {
    options: RebalanceOptions,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pressure: Pressure,
    /// Whose instances those in `pressure` are.
    instances: BTreeMap<NodeId, Vec<InstanceId>>,
    rebalancer: Rebalancer,
}

impl RebalanceState {
    /// One that has heard nothing.
    #[must_use]
    pub fn new(options: RebalanceOptions) -> Self {
        Self { options, inner: Mutex::default() }
    }

    /// How it is set.
    #[must_use]
    pub fn options(&self) -> &RebalanceOptions {
        &self.options
    }

    /// Takes a node's sample. Nobody is woken by it: the next cycle sees it.
    pub fn record(
        &self,
        node: NodeId,
        load: Load,
        instances: BTreeMap<InstanceId, Load>,
        now: Timestamp,
    ) {
        let mut inner = self.lock();
        inner.forget(node);
        inner.instances.insert(node, instances.keys().cloned().collect());
        inner.pressure.instances.extend(instances);
        inner.pressure.nodes.insert(node, Sample { at: now, load });
    }

    /// Forgets all: what was heard under another leadership is old, and a streak begins anew.
    pub fn start_over(&self) {
        *self.lock() = Inner::default();
    }

    /// What was heard so far.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        self.lock().pressure.clone()
    }

    /// The moves that people may have made now, `most` at most.
    #[must_use]
    pub fn moves_off_hot_nodes(
        &self,
        state: &ClusterState,
        now: Timestamp,
        most: usize,
    ) -> Vec<Weighed> {
        let inner = self.lock();
        let config = &self.options.thresholds;
        let input = CycleInput { state, pressure: &inner.pressure, config, now };
        inner.rebalancer.moves_off_hot_nodes(input, most)
    }

    /// Begins the cooldowns of moves that people made.
    pub fn note_moves(&self, moves: &[Weighed], now: Timestamp) {
        self.lock().rebalancer.note_moves(moves, now);
    }

    fn cycle(&self, state: &ClusterState, now: Timestamp) -> jaco_scheduler::rebalance::Cycle {
        let mut inner = self.lock();
        let Inner { pressure, rebalancer, .. } = &mut *inner;
        let config = &self.options.thresholds;
        let cycle = rebalancer.cycle(CycleInput { state, pressure, config, now });
        let known = inner.instances.keys();
        let gone: Vec<_> = known.filter(|node| !state.nodes.contains(node)).copied().collect();
        for node in gone {
            inner.forget(node);
        }
        cycle
    }

    /// The moves that are to be taken back, also those that people made.
    fn overdue(&self, state: &ClusterState, now: Timestamp) -> Vec<Overdue> {
        self.lock().rebalancer.overdue(state, now)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of the lock panics")
    }
}

impl Inner {
    fn forget(&mut self, node: NodeId) {
        self.pressure.nodes.remove(&node);
        for instance in self.instances.remove(&node).into_iter().flatten() {
            self.pressure.instances.remove(&instance);
        }
    }
}

/// The loop. It runs on every node, and acts where that node leads.
#[allow(missing_debug_implementations, reason = "holds trait objects that have nothing to show")]
pub struct RebalanceLoop {
    store: Arc<dyn Store>,
    rebalance: Arc<RebalanceState>,
    clock: Arc<dyn Clock>,
}

impl RebalanceLoop {
    /// A loop over this store.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        rebalance: Arc<RebalanceState>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { store, rebalance, clock }
    }

    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut leadership = self.store.watch_leadership();
        let interval = Duration::from_millis(self.rebalance.options.interval.0);
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut leading_term = None;
        loop {
            let term = term_if_leading(&mut leadership);
            if term != leading_term {
                leading_term = term;
                self.rebalance.start_over();
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                changed = leadership.changed() => if changed.is_err() { return },
                _ = ticks.tick(), if leading_term.is_some() => self.cycle().await,
            }
        }
    }

    /// One cycle. What is refused is not tried again: its cooldowns hold, and the next cycle sees what
    /// came in between.
    async fn cycle(&self) {
        let state = self.store.snapshot();
        self.take_back(&state).await;
        if self.rebalance.options.mode == Mode::Off {
            return;
        }
        let cycle = self.rebalance.cycle(&state, self.clock.now());
        let Some(command) = cycle.command(&state) else { return };
        drop(state);
        let proposal = Proposal { by: Identity::Scheduler, request: None, command };
        match self.store.propose(proposal).await {
            Ok(applied) => match (applied.outcome, &cycle.moved) {
                (Outcome::Rejected(rejection), _) => {
                    debug!(reason = %rejection.message, "move was stale");
                }
                (_, Some(moved)) => {
                    let replica = moved.replica.as_ref().map(|(id, _)| id.to_string());
                    let replica = replica.unwrap_or_default();
                    info!(raft_index = %applied.index, replica, "replica leaves a hot node");
                }
                (_, None) => debug!(raft_index = %applied.index, "a hot node keeps its replicas"),
            },
            Err(error) => warn!(%error, "moves off a hot node not proposed"),
        }
    }
}

impl RebalanceLoop {
    /// Reverts the moves that did not complete. The cycle after it decides on the state before it: a
    /// replica whose move was reverted is not moved again there.
    async fn take_back(&self, state: &ClusterState) {
        let overdue = self.rebalance.overdue(state, self.clock.now());
        let Some(command) = Overdue::command(&overdue, state) else { return };
        let proposal = Proposal { by: Identity::Scheduler, request: None, command };
        match self.store.propose(proposal).await {
            Ok(applied) => {
                for one in overdue {
                    let replica = one.replica;
                    warn!(raft_index = %applied.index, %replica, "move reverted: its successor did not run");
                }
            }
            Err(error) => warn!(%error, "a move could not be taken back; tried again"),
        }
    }
}

fn term_if_leading(leadership: &mut watch::Receiver<Leadership>) -> Option<u64> {
    let leadership = *leadership.borrow_and_update();
    match leadership.role {
        RaftRole::Leader => Some(leadership.term),
        RaftRole::Follower => None,
    }
}
