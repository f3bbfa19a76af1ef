//! The loop around [`AgentCore`]: turns what happens into events, and effects into work. It takes
//! no decision.

mod leftovers;
mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jaco_state::registries::RegistryLogin;
use jaco_state::view::{DesiredInstance, desired_on, prepared_on};
use jaco_state::{ClusterState, Deployment, Table};
use jaco_store::{Clock, Store};
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    DeploymentName, ImageNeed, ImageReadiness, InstanceId, InstanceObserved, Leaving, Millis,
    RegistryName, ReplicaId, Scheduling, ServiceKey, Slot,
};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::contact::Contact;
use crate::core::{AgentCore, Effect, Event};
use crate::engine::{
    CollectedVolume, Collection, ContainerEngine, ContainerId, EngineError, LogLines, LogQuery,
    Owner, PullProgress,
};
use crate::exec::{ExecInputs, ExecOutputs, ExecRequest};
use crate::files::Places;
use crate::registry;
use crate::remains::Remains;
use crate::reporter::Reporter;

use leftovers::Leftovers;
use work::{Farewell, Work, listen};

/// What an agent is made from.
#[derive(Clone)]
pub struct Options {
    /// Whose containers it looks after.
    pub owner: Owner,
    /// Where it learns what should run, and reports.
    pub store: Arc<dyn Store>,
    /// What runs the containers.
    pub engine: Arc<dyn ContainerEngine>,
    /// Where it gets the time from.
    pub clock: Arc<dyn Clock>,
    /// Where it puts the files that containers mount.
    pub places: Places,
    /// How many containers are started at the same time. More only makes each of them slower: a
    /// start keeps a core busy for most of its time.
    pub starts_max: usize,
    /// How often everything is looked at though nothing was heard of.
    pub tick: Duration,
    /// When this node was last in contact with a leader; whoever speaks with it notes it there.
    pub contact: Contact,
}

impl Options {
    /// The usual: 8 starts at a time, a look every 2 s, so that what events do not tell is noticed
    /// within 5 s.
    #[must_use]
    pub fn new(
        owner: Owner,
        store: Arc<dyn Store>,
        engine: Arc<dyn ContainerEngine>,
        clock: Arc<dyn Clock>,
        places: Places,
    ) -> Self {
        let tick = Duration::from_secs(2);
        let contact = Contact::new(steady);
        Self { owner, store, engine, clock, places, starts_max: 8, tick, contact }
    }
}

/// How often it is looked whether the node is cut off, where anything depends on it.
const CONTACT_INTERVAL: Duration = Duration::from_millis(500);

/// The time since the process first asked. It stands still while the machine sleeps; a daemon that
/// may find itself on such a machine brings a better one.
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

/// What the agent is about. Live facts: none of it is replicated from here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentStatus {
    /// Whether the engine answers.
    pub engine: EngineStatus,
    /// The container of each instance that has one.
    pub containers: BTreeMap<InstanceId, ContainerId>,
    /// Pulls under way, by image.
    pub pulls: BTreeMap<Arc<str>, PullProgress>,
    /// The images that rollouts need here.
    pub prepared: BTreeMap<ImageNeed, ImageReadiness>,
    /// Whether nothing is wanted here, and nothing is left of what once was.
    pub is_clear: bool,
}

/// Whether the engine answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EngineStatus {
    /// It was not asked yet.
    #[default]
    Unknown,
    /// It does.
    Up,
    /// It does not.
    Down {
        /// What the connection said.
        reason: String,
    },
}

/// What others see of a running agent.
#[derive(Clone)]
pub struct AgentHandle {
    status: watch::Receiver<AgentStatus>,
    engine: Arc<dyn ContainerEngine>,
    remains: Remains,
}

impl std::fmt::Debug for AgentHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentHandle").field("status", &self.status).finish_non_exhaustive()
    }
}

impl AgentHandle {
    /// What the agent is about, as it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<AgentStatus> {
        self.status.clone()
    }

    /// Looks for volumes that nothing needs, and removes them if it is to.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn collect_volumes(
        &self,
        collection: &Collection,
    ) -> Result<Vec<CollectedVolume>, EngineError> {
        self.engine.collect_volumes(collection).await
    }

    /// What removed allocations left here beside volumes.
    #[must_use]
    pub const fn remains(&self) -> &Remains {
        &self.remains
    }

    /// What the container of `instance` wrote; `None` if it has none here.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub async fn logs(
        &self,
        instance: &InstanceId,
        query: LogQuery,
    ) -> Result<Option<LogLines>, EngineError> {
        let container = self.status.borrow().containers.get(instance).cloned();
        match container {
            Some(container) => self.engine.logs(&container, query).await.map(Some),
            None => Ok(None),
        }
    }

    /// Runs a command in the container of `instance`; `None` if it has none here.
    ///
    /// # Errors
    /// When it does not run, or the engine does not answer.
    pub async fn exec(
        &self,
        instance: &InstanceId,
        request: &ExecRequest,
        inputs: ExecInputs,
    ) -> Result<Option<ExecOutputs>, EngineError> {
        let container = self.status.borrow().containers.get(instance).cloned();
        match container {
            Some(container) => self.engine.exec(&container, request, inputs).await.map(Some),
            None => Ok(None),
        }
    }
}

/// The agent of one node.
#[derive(Debug)]
pub struct AgentService {
    options: Options,
    status: watch::Sender<AgentStatus>,
}

impl AgentService {
    /// An agent that does not run yet, and its handle.
    #[must_use]
    pub fn new(options: Options) -> (Self, AgentHandle) {
        let (status, seen) = watch::channel(AgentStatus::default());
        let engine = Arc::clone(&options.engine);
        let remains = Remains::new(options.places.removed.clone());
        let handle = AgentHandle { status: seen, engine, remains };
        (Self { options, status }, handle)
    }

    /// Runs until `shutdown` is done, and whatever the engine was asked for besides starts and pulls.
    /// Containers go on without it; the next agent adopts them.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let mut running = Running::new(&self);
        let work = async {
            // A state from before a crash must not start what was removed since.
            catch_up(&*self.options.store).await;
            let contact = &self.options.contact;
            contact.note(contact.now());
            running.run().await;
        };
        tokio::select! {
            () = work => {}
            () = shutdown => {}
        }
        running.work.finish().await;
    }
}

/// Waits until the state is as new as the cluster's. Without a leader there is nothing to do but
/// wait: what runs, runs on.
async fn catch_up(store: &dyn Store) {
    let mut pause = Duration::from_millis(50);
    while let Err(error) = store.catch_up().await {
        tracing::debug!(%error, "waiting for the cluster's state");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// The loop's own state.
struct Running<'a> {
    options: &'a Options,
    status: &'a watch::Sender<AgentStatus>,
    core: AgentCore,
    work: Work,
    reporter: Reporter,
    told: Told,
    asked_to_prepare: BTreeMap<ImageNeed, Arc<ServiceSpec>>,
    looked_at: Option<Tables>,
    /// What rollouts need here was last taken from these.
    rollouts: Option<(Table<ServiceKey, Scheduling>, Table<DeploymentName, Deployment>)>,
    /// Who this node was at registries when it was last looked.
    registries: Table<RegistryName, RegistryLogin>,
    leftovers: Leftovers,
}

/// The tables that the core's wishes were last taken from. While they are the same, there is nothing
/// to look at.
struct Tables {
    slots: Table<ReplicaId, Slot>,
    deployments: Table<DeploymentName, Deployment>,
    observed: Table<InstanceId, InstanceObserved>,
    leaving: Table<InstanceId, Leaving>,
}

impl Tables {
    fn of(state: &ClusterState) -> Self {
        Self {
            slots: state.slots.clone(),
            deployments: state.deployments.clone(),
            observed: state.observed.clone(),
            leaving: state.leaving.clone(),
        }
    }

    fn are_those_of(&self, state: &ClusterState) -> bool {
        self.slots.is_same(&state.slots)
            && self.deployments.is_same(&state.deployments)
            && self.observed.is_same(&state.observed)
            && self.leaving.is_same(&state.leaving)
    }
}

/// What the core was last told of the state.
#[derive(Default, PartialEq, Eq)]
struct Told {
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
            told: Told::default(),
            asked_to_prepare: BTreeMap::new(),
            looked_at: None,
            rollouts: None,
            registries: options.store.snapshot().registries,
            leftovers: Leftovers::new(options.places.clone()),
        }
    }

    async fn run(&mut self) {
        let reporter = self.reporter.clone();
        let reporting = reporter.run(Arc::clone(&self.options.store), self.options.owner.node);
        let (heard, engine_events) = mpsc::channel(256);
        let listening = listen(Arc::clone(&self.options.engine), heard);
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
        let first = desired_event(&state, self.options, &mut self.told);
        self.handle(first);
        self.prepare_if_changed(&state);
        loop {
            let wake = self.sleep_until_wake();
            let event = tokio::select! {
                changed = index.changed() => {
                    if changed.is_err() {
                        // The store is gone: the daemon is shutting down.
                        return;
                    }
                    let state = self.options.store.snapshot();
                    self.pull_again_if_changed(&state);
                    let desired = self.desired_if_changed(&state);
                    self.prepare_if_changed(&state);
                    match desired {
                        Some(event) => event,
                        None => continue,
                    }
                }
                Some(event) = engine_events.recv() => event,
                event = self.work.next() => event,
                _ = contact.tick(), if self.core.minds_contact() => {
                    Event::Contact { silence: self.options.contact.silence() }
                }
                _ = tick.tick() => Event::Tick,
                () = wake => Event::Wake,
            };
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        self.note_engine(&event);
        if let Event::Listed(Ok(list)) = &event {
            let containers = list.iter().map(|seen| &seen.instance);
            self.leftovers.sweep(containers, self.told.desired.keys());
        }
        for effect in self.core.handle(event, self.options.clock.now()) {
            if let Effect::Report { observed, gone } = effect {
                for seen in &observed {
                    log_transition(seen);
                }
                self.reporter.report(observed, gone);
            } else {
                if let Effect::Start(request) = &effect {
                    self.leftovers.note(&request.instance);
                }
                match self.end_of_allocation(&effect) {
                    Some(farewell) => self.work.begin_farewell(farewell),
                    None => self.work.begin(effect),
                }
            }
        }
        let containers = self
            .core
            .containers()
            .map(|seen| (seen.instance.clone(), seen.container.clone()))
            .collect();
        let (prepared, is_clear) = (self.core.prepared(), self.core.is_clear());
        self.status.send_if_modified(|status| {
            let changed = status.containers != containers
                || status.prepared != prepared
                || status.is_clear != is_clear;
            status.containers = containers;
            status.prepared = prepared;
            status.is_clear = is_clear;
            changed
        });
    }

    /// Whether this removes a container of a service that nothing is wanted of here any more, disabled or
    /// not.
    fn end_of_allocation(&self, effect: &Effect) -> Option<Farewell> {
        let Effect::Remove { instance, container } = effect else { return None };
        let seen = self.core.containers().find(|seen| seen.instance == *instance)?;
        let (service, node) = (&seen.service, self.options.owner.node);
        let is_here = |slot: &Slot| {
            let retiring = slot.retiring.as_ref();
            slot.service == *service
                && (slot.current.node == node || retiring.is_some_and(|old| old.node == node))
        };
        let stays = self.told.desired.values().any(|desired| desired.service == *service)
            || self.options.store.snapshot().slots.values().any(is_here);
        (!stays).then(|| Farewell {
            service: service.clone(),
            instance: instance.clone(),
            container: container.clone(),
            at: self.options.clock.now(),
        })
    }

    fn desired_if_changed(&mut self, state: &ClusterState) -> Option<Event> {
        // Most entries are about something else, and there may be thousands a second.
        if self.looked_at.as_ref().is_some_and(|tables| tables.are_those_of(state)) {
            return None;
        }
        self.looked_at = Some(Tables::of(state));
        let before = std::mem::take(&mut self.told);
        let event = desired_event(state, self.options, &mut self.told);
        (self.told != before).then_some(event)
    }

    /// What could not be fetched as whom this node was at a registry is tried again as whom it is now.
    fn pull_again_if_changed(&mut self, state: &ClusterState) {
        if self.registries.is_same(&state.registries) {
            return;
        }
        let changed = registry::changed(&self.registries, &state.registries);
        self.registries = state.registries.clone();
        if !changed.is_empty() {
            self.handle(Event::RegistriesChanged(changed));
        }
    }

    /// Tells the core which images rollouts need here.
    fn prepare_if_changed(&mut self, state: &ClusterState) {
        let is_known = self.rollouts.as_ref().is_some_and(|(records, deployments)| {
            records.is_same(&state.scheduling) && deployments.is_same(&state.deployments)
        });
        if is_known {
            return;
        }
        self.rollouts = Some((state.scheduling.clone(), state.deployments.clone()));
        let asked = prepared_on(state, self.options.owner.node);
        if asked != self.asked_to_prepare {
            self.asked_to_prepare.clone_from(&asked);
            self.handle(Event::Prepare(asked));
        }
    }

    /// The list is asked for every few seconds, so its answer says whether the engine is there.
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
                    tracing::warn!(%reason, "container engine does not answer");
                }
                EngineStatus::Up | EngineStatus::Unknown => {
                    tracing::info!("container engine answers");
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

fn desired_event(state: &ClusterState, options: &Options, told: &mut Told) -> Event {
    let node = options.owner.node;
    let own = state.observed.iter().filter(|(_, seen)| seen.node == node);
    told.desired = desired_on(state, node);
    told.observed = own.map(|(id, seen)| (id.clone(), seen.clone())).collect();
    let (desired, observed) = (told.desired.clone(), told.observed.clone());
    Event::Desired { index: state.index, desired, observed }
}

fn log_transition(seen: &InstanceObserved) {
    let (replica, raft_index) = (&seen.id.replica, seen.id.raft_index.0);
    let code = seen.code.map(jaco_types::ReasonCode::as_str).unwrap_or_default();
    let reason = seen.details.get("reason").map(String::as_str).unwrap_or_default();
    let state = seen.state.as_str();
    tracing::info!(%replica, raft_index, state, code, reason, "replica changed");
}
