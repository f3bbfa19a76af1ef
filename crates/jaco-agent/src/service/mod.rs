//! The loop around [`AgentCore`]: turns changes into events, and effects into tasks. It takes no
//! decisions.

mod file_cleanup;
mod handle;
mod work;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::FutureExt;
use jaco_state::registries::RegistryLogin;
use jaco_state::view::{DesiredInstance, desired_on, prepull_on};
use jaco_state::{ClusterState, Deployment, Table};
use jaco_store::cluster_time::difference;
use jaco_store::{Clock, Store};
use jaco_types::spec::ServiceSpec;
use jaco_types::unit::Bytes;
use jaco_types::{
    DeploymentName, ImageNeed, ImagePull, ImageReadiness, InstanceId, InstanceObserved, Millis,
    RegistryName, ReplicaId, Scheduling, ServiceKey, Slot, TerminatingInstance,
};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::core::{AgentCore, Effect, Event, PullAttempts};
use crate::engine::{ContainerEngine, ContainerId, Owner, PullProgress};
use crate::files::FileDirs;
use crate::images::PushedImages;
use crate::leader_contact::{LeaderContact, StateAge};
use crate::network_gate::Gate;
use crate::registry;
use crate::removed::RemovedAllocations;
use crate::reporter::Reporter;

pub use handle::AgentHandle;

use file_cleanup::FileCleanup;
use work::{FinalRemoval, Work, listen};

/// Options of an agent.
#[derive(Clone)]
pub struct Options {
    /// Owner of the containers.
    pub owner: Owner,
    /// The replicated state.
    pub store: Arc<dyn Store>,
    /// The container engine.
    pub engine: Arc<dyn ContainerEngine>,
    /// What the agent waits by: it may not jump.
    pub clock: Arc<dyn Clock>,
    /// The cluster's time, which its reports carry.
    pub cluster_time: Arc<dyn Clock>,
    /// Directories for mounted files.
    pub file_dirs: FileDirs,
    /// Maximum of concurrent starts. More only slow each other down: a start keeps a core busy for
    /// most of its time.
    pub starts_max: usize,
    /// Interval of full checks, in case events were lost.
    pub tick: Duration,
    /// Last contact with a leader; recorded by the heartbeat loop.
    pub contact: LeaderContact,
    /// Cancelled once this node is removed from the cluster: then nothing should run here, whatever
    /// the local state says, which may not have heard of it.
    pub removal: CancellationToken,
    /// Says when the router of this node holds the addresses of an instance; without one, nothing waits for it.
    pub gate: Gate,
    /// The images that users pushed; without, all images come from registries.
    pub images: Option<PushedImages>,
}

impl Options {
    /// Defaults: 8 concurrent starts, a full check every 2 s, so that changes without events are
    /// noticed within 5 s.
    #[must_use]
    pub fn new(
        owner: Owner,
        store: Arc<dyn Store>,
        engine: Arc<dyn ContainerEngine>,
        clock: Arc<dyn Clock>,
        file_dirs: FileDirs,
    ) -> Self {
        let tick = Duration::from_secs(2);
        let contact = LeaderContact::new(steady);
        let removal = CancellationToken::new();
        let (starts_max, gate, images) = (8, None, None);
        let cluster_time = Arc::clone(&clock);
        Self {
            owner,
            store,
            engine,
            clock,
            cluster_time,
            file_dirs,
            starts_max,
            tick,
            contact,
            removal,
            gate,
            images,
        }
    }
}

/// Interval at which leader contact is checked, if any instance depends on it.
const CONTACT_INTERVAL: Duration = Duration::from_millis(500);

/// Time since the first call. It stops while the machine is suspended; a daemon passes a better
/// clock.
fn steady() -> Millis {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    let passed = BEGINNING.get_or_init(Instant::now).elapsed();
    Millis(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// Live status of the agent; nothing of it is replicated from here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentStatus {
    /// Whether the engine is reachable.
    pub engine: EngineStatus,
    /// Containers by instance.
    pub containers: BTreeMap<InstanceId, ContainerId>,
    /// Pulls in progress, by image.
    pub pulls: BTreeMap<Arc<str>, PullProgress>,
    /// Attempts at the images that are being pulled or whose pull failed.
    pub pull_attempts: BTreeMap<Arc<str>, PullAttempts>,
    /// Readiness of the images that rollouts pre-pull on this node.
    pub prepulls: BTreeMap<ImageNeed, ImageReadiness>,
    /// Whether nothing is desired here and nothing is left.
    pub is_drained: bool,
}

impl AgentStatus {
    /// The pulls that this node tells the leader about.
    #[must_use]
    pub fn image_pulls(&self) -> Vec<ImagePull> {
        let pull = |(image, attempts): (&Arc<str>, &PullAttempts)| {
            let PullProgress { done, total } = self.pulls.get(image).copied().unwrap_or_default();
            ImagePull {
                image: Arc::clone(image),
                done: Bytes(done),
                total: Bytes(total),
                attempts: attempts.made,
                next_attempt: attempts.next_at,
            }
        };
        self.pull_attempts.iter().map(pull).collect()
    }
}

/// Whether the engine is reachable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EngineStatus {
    /// Not probed yet.
    #[default]
    Unknown,
    /// Reachable.
    Up,
    /// Unreachable.
    Down {
        /// Error of the connection.
        reason: String,
    },
}

/// The agent of one node.
#[derive(Debug)]
pub struct AgentService {
    options: Options,
    status: watch::Sender<AgentStatus>,
}

impl AgentService {
    /// An agent that is not running yet, and its handle.
    #[must_use]
    pub fn new(options: Options) -> (Self, AgentHandle) {
        let (status, seen) = watch::channel(AgentStatus::default());
        let engine = Arc::clone(&options.engine);
        let removed = RemovedAllocations::new(options.file_dirs.removed.clone());
        let handle = AgentHandle::new(seen, engine, removed);
        (Self { options, status }, handle)
    }

    /// Runs until `shutdown` completes and pending engine calls other than starts and pulls are
    /// done. Containers keep running; the next agent adopts them.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let mut running = Running::new(&self);
        let work = async {
            // A state from before a crash must not start instances that were removed since. A removed
            // node never catches up, and has only to stop what it has.
            let removed = self.options.removal.cancelled();
            tokio::select! {
                () = catch_up(&*self.options.store) => {}
                () = removed => {}
            }
            let contact = &self.options.contact;
            contact.record(contact.now());
            running.run().await;
        };
        tokio::select! {
            () = work => {}
            () = shutdown => {}
        }
        running.work.finish().await;
    }
}

/// Waits until the local state has caught up with the cluster. Running containers are not affected
/// while there is no leader.
async fn catch_up(store: &dyn Store) {
    let mut pause = Duration::from_millis(50);
    while let Err(error) = store.catch_up().await {
        tracing::debug!(%error, "local state not caught up, will retry");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// State of the loop.
struct Running<'a> {
    options: &'a Options,
    status: &'a watch::Sender<AgentStatus>,
    core: AgentCore,
    work: Work,
    reporter: Reporter,
    input: CoreInput,
    prepulls_requested: BTreeMap<ImageNeed, Arc<ServiceSpec>>,
    last_tables: Option<WatchedTables>,
    /// Tables from which the pre-pulls were last derived.
    rollouts: Option<(Table<ServiceKey, Scheduling>, Table<DeploymentName, Deployment>)>,
    /// Registry logins as of the last check.
    registries: Table<RegistryName, RegistryLogin>,
    file_cleanup: FileCleanup,
}

/// Tables from which the desired instances were last derived; while they are unchanged there is
/// nothing to do.
struct WatchedTables {
    slots: Table<ReplicaId, Slot>,
    deployments: Table<DeploymentName, Deployment>,
    observed: Table<InstanceId, InstanceObserved>,
    terminating: Table<InstanceId, TerminatingInstance>,
}

impl WatchedTables {
    fn of(state: &ClusterState) -> Self {
        Self {
            slots: state.slots.clone(),
            deployments: state.deployments.clone(),
            observed: state.observed.clone(),
            terminating: state.terminating.clone(),
        }
    }

    fn are_unchanged_in(&self, state: &ClusterState) -> bool {
        self.slots.is_same(&state.slots)
            && self.deployments.is_same(&state.deployments)
            && self.observed.is_same(&state.observed)
            && self.terminating.is_same(&state.terminating)
    }
}

/// The last `Desired` event.
#[derive(Default, PartialEq, Eq)]
struct CoreInput {
    desired: BTreeMap<InstanceId, DesiredInstance>,
    observed: BTreeMap<InstanceId, InstanceObserved>,
}

impl<'a> Running<'a> {
    fn new(service: &'a AgentService) -> Self {
        let options = &service.options;
        Self {
            options,
            status: &service.status,
            core: AgentCore::new(options.owner.clone()),
            work: Work::new(options, service.status.clone()),
            reporter: Reporter::default(),
            input: CoreInput::default(),
            prepulls_requested: BTreeMap::new(),
            last_tables: None,
            rollouts: None,
            registries: options.store.snapshot().registries,
            file_cleanup: FileCleanup::new(options.file_dirs.clone()),
        }
    }

    async fn run(&mut self) {
        let reporter = self.reporter.clone();
        let reporting = reporter.run(Arc::clone(&self.options.store), self.options.owner.node);
        let (sender, engine_events) = mpsc::channel(256);
        let listening = listen(Arc::clone(&self.options.engine), sender);
        tokio::select! {
            () = self.react(engine_events) => {}
            () = reporting => {}
            () = listening => {}
        }
    }

    async fn react(&mut self, mut engine_events: mpsc::Receiver<Event>) {
        let mut index = self.options.store.watch_index();
        let mut tick = tokio::time::interval(self.options.tick);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut contact = tokio::time::interval(CONTACT_INTERVAL);
        contact.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let state = self.options.store.snapshot();
        let first = desired_event(&state, self.options, &mut self.input);
        self.handle(first);
        self.prepull_if_changed(&state);
        let removal = self.options.removal.clone();
        let mut removed = pin!(removal.cancelled().fuse());
        loop {
            let wake = self.sleep_until_wake();
            let event = tokio::select! {
                () = &mut removed => {
                    desired_event(&self.options.store.snapshot(), self.options, &mut self.input)
                }
                changed = index.changed() => {
                    if changed.is_err() {
                        // The store was closed: the daemon is shutting down.
                        return;
                    }
                    let contact = self.leader_contact();
                    let state = self.options.store.snapshot();
                    self.retry_pulls_if_changed(&state);
                    let desired = self.desired_if_changed(&state);
                    self.prepull_if_changed(&state);
                    match desired {
                        Some(event) => {
                            self.warn_of_outdated(contact);
                            event
                        }
                        None => continue,
                    }
                }
                Some(event) = engine_events.recv() => event,
                event = self.work.next() => event,
                _ = contact.tick(), if self.core.depends_on_leader_contact() => {
                    // Read before the state, so that a state that is current then is the one that the core gets.
                    let contact = self.leader_contact();
                    if let Some(desired) = self.desired_if_changed(&self.options.store.snapshot()) {
                        self.warn_of_outdated(contact.clone());
                        self.handle(desired);
                    }
                    contact
                }
                _ = tick.tick() => Event::Tick,
                () = wake => Event::Wake,
            };
            self.handle(event);
        }
    }

    /// The time without leader contact, and whether the state may be outdated.
    fn leader_contact(&self) -> Event {
        let contact = &self.options.contact;
        Event::LeaderContact { elapsed: contact.elapsed(), state: contact.state() }
    }

    /// Tells the core that what it gets next may be outdated: a node that catches up meets desired states on the way that
    /// have long been replaced.
    fn warn_of_outdated(&mut self, contact: Event) {
        if matches!(contact, Event::LeaderContact { state: StateAge::Outdated, .. }) {
            self.handle(contact);
        }
    }

    fn handle(&mut self, event: Event) {
        self.note_engine(&event);
        if let Event::Listed(Ok(list)) = &event {
            let containers = list.iter().map(|seen| &seen.instance);
            self.file_cleanup.sweep(containers, self.input.desired.keys());
        }
        let now = self.options.clock.now();
        self.core.note_cluster_time(difference(self.options.cluster_time.now(), now));
        for effect in self.core.handle(event, now) {
            if let Effect::Report { observed, gone, joined } = effect {
                for seen in &observed {
                    log_transition(seen);
                }
                self.reporter.report(observed, gone, joined);
            } else {
                if let Effect::Start(request) = &effect {
                    self.file_cleanup.note(&request.instance);
                }
                match self.final_removal(&effect) {
                    Some(removal) => self.work.begin_final_removal(removal),
                    None => self.work.begin(effect),
                }
            }
        }
        let containers = self
            .core
            .containers()
            .map(|seen| (seen.instance.clone(), seen.container.clone()))
            .collect();
        let (prepulls, is_drained) = (self.core.prepulls(), self.core.is_drained());
        let pull_attempts = self.core.pull_attempts();
        self.status.send_if_modified(|status| {
            let changed = status.containers != containers
                || status.prepulls != prepulls
                || status.pull_attempts != pull_attempts
                || status.is_drained != is_drained;
            status.containers = containers;
            status.prepulls = prepulls;
            status.pull_attempts = pull_attempts;
            status.is_drained = is_drained;
            changed
        });
    }

    /// Whether this effect removes the last container of an allocation: neither desired nor
    /// disabled here.
    fn final_removal(&self, effect: &Effect) -> Option<FinalRemoval> {
        let Effect::Remove { instance, container } = effect else { return None };
        let seen = self.core.containers().find(|seen| seen.instance == *instance)?;
        let (service, node) = (&seen.service, self.options.owner.node);
        let is_here = |slot: &Slot| {
            let retiring = slot.retiring.as_ref();
            slot.service == *service
                && (slot.current.node == node || retiring.is_some_and(|old| old.node == node))
        };
        let stays = self.input.desired.values().any(|desired| desired.service == *service)
            || self.options.store.snapshot().slots.values().any(is_here);
        (!stays).then(|| FinalRemoval {
            service: service.clone(),
            instance: instance.clone(),
            container: container.clone(),
            at: self.options.cluster_time.now(),
        })
    }

    fn desired_if_changed(&mut self, state: &ClusterState) -> Option<Event> {
        // Most entries concern other tables, and there may be thousands a second.
        if self.last_tables.as_ref().is_some_and(|tables| tables.are_unchanged_in(state)) {
            return None;
        }
        self.last_tables = Some(WatchedTables::of(state));
        let before = std::mem::take(&mut self.input);
        let event = desired_event(state, self.options, &mut self.input);
        (self.input != before).then_some(event)
    }

    /// Retries failed pulls from registries whose login changed.
    fn retry_pulls_if_changed(&mut self, state: &ClusterState) {
        if self.registries.is_same(&state.registries) {
            return;
        }
        let changed = registry::changed(&self.registries, &state.registries);
        self.registries = state.registries.clone();
        if !changed.is_empty() {
            self.handle(Event::RegistriesChanged(changed));
        }
    }

    /// Passes the images to pre-pull to the core.
    fn prepull_if_changed(&mut self, state: &ClusterState) {
        let is_known = self.rollouts.as_ref().is_some_and(|(records, deployments)| {
            records.is_same(&state.scheduling) && deployments.is_same(&state.deployments)
        });
        if is_known {
            return;
        }
        self.rollouts = Some((state.scheduling.clone(), state.deployments.clone()));
        let asked = prepull_on(state, self.options.owner.node);
        if asked != self.prepulls_requested {
            self.prepulls_requested.clone_from(&asked);
            self.handle(Event::Prepull(asked));
        }
    }

    /// The engine is listed every few seconds, so the answer shows whether it is reachable.
    fn note_engine(&self, event: &Event) {
        let Event::Listed(result) = event else { return };
        let engine = match result {
            Ok(_) => EngineStatus::Up,
            Err(error) => EngineStatus::Down { reason: error.to_string() },
        };
        self.status.send_if_modified(|status| {
            if status.engine == engine {
                return false;
            }
            match &engine {
                EngineStatus::Down { reason } => {
                    tracing::warn!(%reason, "container engine unreachable");
                }
                EngineStatus::Up | EngineStatus::Unknown => {
                    tracing::info!("container engine reachable");
                }
            }
            status.engine = engine;
            true
        });
    }

    fn sleep_until_wake(&self) -> impl Future<Output = ()> + use<> {
        let now = self.options.clock.now();
        let length = self.core.wake_at().map(|at| Duration::from_millis(at.since(now).0));
        async move {
            match length {
                Some(length) => tokio::time::sleep(length).await,
                None => std::future::pending().await,
            }
        }
    }
}

fn desired_event(state: &ClusterState, options: &Options, input: &mut CoreInput) -> Event {
    let node = options.owner.node;
    let own = state.observed.iter().filter(|(_, seen)| seen.node == node);
    input.desired =
        if options.removal.is_cancelled() { BTreeMap::new() } else { desired_on(state, node) };
    input.observed = own.map(|(id, seen)| (id.clone(), seen.clone())).collect();
    let (desired, observed) = (input.desired.clone(), input.observed.clone());
    Event::Desired { index: state.index, desired, observed }
}

fn log_transition(seen: &InstanceObserved) {
    let (replica, raft_index) = (&seen.id.replica, seen.id.raft_index.0);
    let code = seen.code.map(jaco_types::ReasonCode::as_str).unwrap_or_default();
    let reason = seen.details.get("reason").map(String::as_str).unwrap_or_default();
    let state = seen.state.as_str();
    tracing::info!(%replica, raft_index, state, code, reason, "replica state changed");
}
