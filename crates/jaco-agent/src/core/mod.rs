//! The agent as a state machine: events in, effects out. It has no clock and performs no I/O, so
//! that the simulation and the daemon run the same decisions.

mod attempts;
mod instance;
mod networks;
mod prepull;
mod react;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::view::{DesiredInstance, Role};
use jaco_types::spec::{PullPolicy, ServiceSpec};
use jaco_types::{
    ImageNeed, ImageReadiness, InstanceId, InstanceObserved, Millis, RegistryName, StateIndex,
    Timestamp,
};

use crate::engine::{
    ContainerId, ContainerRequest, EngineError, EngineEvent, KeptNetworks, ObservedContainer,
    ObservedImage, Owner, PullError, PullRequest, StartError,
};
use crate::leader_contact::StateAge;
use crate::plan::{Action, Desired, History, Phase, plan};

pub use attempts::PullAttempts;
use instance::{Blocked, Join, TerminalFailure, Tracked, Work};
use networks::Networks;
use prepull::Prepulls;

/// Input of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The desired instances of this node, and the replicated reports about them.
    Desired {
        /// Index of the state this was read from; older ones are ignored.
        index: StateIndex,
        /// Desired instances by id.
        desired: BTreeMap<InstanceId, DesiredInstance>,
        /// Replicated reports of this node.
        observed: BTreeMap<InstanceId, InstanceObserved>,
    },
    /// Images that rollouts pre-pull on this node, each with a spec that uses it.
    Prepull(BTreeMap<ImageNeed, Arc<ServiceSpec>>),
    /// The answer to [`Effect::Find`].
    Found {
        /// The requested image.
        pull: PullRequest,
        /// The image on this node, if it exists.
        result: Result<Option<ObservedImage>, EngineError>,
    },
    /// Credentials for these registries changed.
    RegistriesChanged(BTreeSet<RegistryName>),
    /// The answer to [`Effect::List`].
    Listed(Result<Vec<ObservedContainer>, EngineError>),
    /// A container changed.
    Engine(EngineEvent),
    /// Engine events may have been lost.
    EventsLost,
    /// The answer to [`Effect::Pull`].
    Pulled {
        /// The requested image.
        pull: PullRequest,
        /// Result.
        result: Result<(), PullError>,
    },
    /// The answer to [`Effect::Start`], also if it was cancelled.
    Started {
        /// The instance.
        instance: InstanceId,
        /// Result.
        result: Result<ObservedContainer, StartError>,
    },
    /// The answer to [`Effect::Stop`].
    Stopped {
        /// The instance.
        instance: InstanceId,
        /// Result.
        result: Result<(), EngineError>,
    },
    /// The answer to [`Effect::Remove`].
    Removed {
        /// The instance.
        instance: InstanceId,
        /// Result.
        result: Result<(), EngineError>,
    },
    /// The answer to [`Effect::Join`].
    Joined {
        /// The instance.
        instance: InstanceId,
        /// Result.
        result: Result<(), StartError>,
    },
    /// The answer to [`Effect::RemoveNetworks`].
    NetworksRemoved(Result<(), EngineError>),
    /// Time without leader contact.
    LeaderContact {
        /// By a monotonic clock.
        elapsed: Millis,
        /// Whether the last `Desired` may lack what was decided meanwhile.
        state: StateAge,
    },
    /// Periodic check of everything.
    Tick,
    /// The time of [`AgentCore::wake_at`] has come.
    Wake,
}

/// Output of the agent. All but `Report` and `CancelPull` are answered by an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// List the containers of this owner.
    List,
    /// Look up an image on this node.
    Find(PullRequest),
    /// Pull an image.
    Pull(PullRequest),
    /// Cancel a pull that no instance or rollout waits for; no answer is needed.
    CancelPull(PullRequest),
    /// Start an instance.
    Start(ContainerRequest),
    /// Cancel the start of an instance, if it is not too late.
    CancelStart(InstanceId),
    /// Stop the container of an instance.
    Stop {
        /// The instance.
        instance: InstanceId,
        /// Its container.
        container: ContainerId,
    },
    /// Remove the container of an instance.
    Remove {
        /// The instance.
        instance: InstanceId,
        /// Its container.
        container: ContainerId,
    },
    /// Attach the running container of an instance to networks of the cluster.
    Join {
        /// The instance, with these networks.
        request: ContainerRequest,
        /// Its container.
        container: ContainerId,
    },
    /// Remove the networks of this owner but for these.
    RemoveNetworks {
        /// Those that instances here have.
        keep: KeptNetworks,
    },
    /// Report to the cluster: to be delivered once, in order; a newer observation of an instance
    /// replaces older ones.
    Report {
        /// Observations that differ from the last report.
        observed: Vec<InstanceObserved>,
        /// Instances of which nothing is left here.
        gone: Vec<InstanceId>,
        /// Instances whose running containers were attached to their networks.
        joined: Vec<InstanceId>,
    },
}

/// The agent of one node.
///
/// It adopts running containers, starts each instance at most once, and removes what is not
/// desired. It acts only once it knows both the desired and the actual state, and ignores what
/// belongs to another owner.
#[derive(Debug)]
pub struct AgentCore {
    owner: Owner,
    /// Index of the last `Desired` event; `None` before the first.
    index: Option<StateIndex>,
    listing: Listing,
    /// Instances that changed since the pending list was requested: the list may be older.
    touched: BTreeSet<InstanceId>,
    instances: BTreeMap<InstanceId, Tracked>,
    pulls: BTreeSet<PullRequest>,
    /// Images that rollouts pre-pull on this node.
    prepulls: Prepulls,
    /// Reported as gone, but still present in the replicated reports.
    reported_gone: BTreeSet<InstanceId>,
    networks: Networks,
    /// Time without leader contact, by the last event.
    leaderless_for: Millis,
    /// Whether what is desired may lack what was decided meanwhile, by the last event.
    state_age: StateAge,
    /// By how many milliseconds the cluster's time is ahead of the agent's own.
    cluster_ahead: i64,
}

/// Whether the containers are known, and whether they are being listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listing {
    known: Known,
    request: Request,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    No,
    Yes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    None,
    Pending,
    /// List again when the answer arrives.
    PendingAgain,
}

impl AgentCore {
    /// An agent without any knowledge.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            index: None,
            listing: Listing { known: Known::No, request: Request::None },
            touched: BTreeSet::new(),
            instances: BTreeMap::new(),
            pulls: BTreeSet::new(),
            prepulls: Prepulls::default(),
            reported_gone: BTreeSet::new(),
            networks: Networks::default(),
            leaderless_for: Millis(0),
            state_age: StateAge::Current,
            cluster_ahead: 0,
        }
    }

    /// Notes by how many milliseconds the cluster's time, which reports carry, is ahead of the one of [`Self::handle`]. That one
    /// may not jump, as the agent waits by it; the cluster's may when another leader is heard.
    pub fn note_cluster_time(&mut self, ahead: i64) {
        self.cluster_ahead = ahead;
    }

    /// Processes `event` and returns the effects to perform now.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.note(event, now, &mut effects);
        self.prepulls.retry(now, &mut effects);
        self.begin_prepulls(&mut effects);
        if self.index.is_some() && self.listing.known == Known::Yes {
            self.reconcile(now, &mut effects);
        }
        effects
    }

    /// When to send [`Event::Wake`]; `None` if nothing is scheduled.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        let instances = self.instances.values();
        let instances = instances.flat_map(|it| it.retry_at().into_iter().chain(it.join_at()));
        instances.chain(self.prepulls.retry_at()).min()
    }

    /// Readiness of the images that rollouts pre-pull on this node.
    #[must_use]
    pub fn prepulls(&self) -> BTreeMap<ImageNeed, ImageReadiness> {
        self.prepulls.readiness()
    }

    /// The attempts at each image that instances or rollouts wait for here.
    #[must_use]
    pub fn pull_attempts(&self) -> BTreeMap<Arc<str>, PullAttempts> {
        let mut all: BTreeMap<Arc<str>, PullAttempts> = BTreeMap::new();
        let of_instances = self.instances.values().filter_map(Tracked::pull_attempts);
        for (image, attempts) in of_instances.chain(self.prepulls.attempts()) {
            all.entry(image).and_modify(|known| *known = known.with(attempts)).or_insert(attempts);
        }
        all
    }

    fn begin_prepulls(&mut self, effects: &mut Vec<Effect>) {
        for pull in self.prepulls.awaited() {
            if self.pulls.insert(pull.clone()) {
                effects.push(Effect::Pull(pull));
            }
        }
    }

    /// Whether any instance here stops without leader contact, or does not start.
    #[must_use]
    pub fn depends_on_leader_contact(&self) -> bool {
        self.instances.values().any(Tracked::depends_on_contact)
    }

    /// Whether nothing is desired here and no container or network is left.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let knows = self.index.is_some() && self.listing.known == Known::Yes;
        knows && self.instances.is_empty() && self.networks.are_gone()
    }

    /// The known containers of this node.
    pub fn containers(&self) -> impl Iterator<Item = &ObservedContainer> {
        self.instances.values().filter_map(|tracked| tracked.container.as_ref())
    }

    /// Starts all operations that are due; independent of the event that came before.
    fn reconcile(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.cancel_unwanted_starts(effects);
        self.stop_isolated(now, effects);
        self.cancel_outdated_starts(effects);
        for action in plan(&self.desired(), &self.actual()) {
            match action {
                Action::Start(id) => self.start(&id, now, effects),
                Action::Stop(id) => self.stop(&id, now, effects),
                Action::Remove(id) => self.remove(&id, now, effects),
                Action::ReportMissing(id) => self.report_missing(&id),
            }
        }
        for tracked in self.instances.values_mut() {
            tracked.forget_past_retry(now);
        }
        self.join_networks(now, effects);
        self.cancel_idle_pulls(effects);
        self.report(now, effects);
        self.sweep_networks(effects);
    }

    fn desired(&self) -> BTreeMap<InstanceId, Desired> {
        let desired = self.instances.iter().filter_map(|(id, tracked)| {
            let role = tracked.desired.as_ref()?.role;
            Some((id.clone(), Desired { role, history: tracked.history }))
        });
        desired.collect()
    }

    fn actual(&self) -> BTreeMap<InstanceId, Phase> {
        let actual = self.instances.iter().filter_map(|(id, tracked)| {
            let seen = tracked.container.as_ref()?;
            Some((id.clone(), Phase::from(&seen.status)))
        });
        actual.collect()
    }

    /// Cancels starts that are no longer desired: a newer instance holds the slot, or the slot was
    /// removed (R-RUN-1).
    fn cancel_unwanted_starts(&mut self, effects: &mut Vec<Effect>) {
        for (id, tracked) in &mut self.instances {
            let startable =
                tracked.desired.as_ref().is_some_and(|desired| desired.role == Role::Current);
            if startable {
                continue;
            }
            match tracked.work {
                Work::AwaitingPull => tracked.work = Work::Idle,
                Work::Starting => {
                    tracked.work = Work::Cancelling;
                    effects.push(Effect::CancelStart(id.clone()));
                }
                Work::Idle | Work::Cancelling | Work::Stopping | Work::Removing => {}
            }
        }
    }

    /// Stops instances that must not run on an isolated node: a replacement may start elsewhere
    /// soon.
    fn stop_isolated(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let isolated =
            self.instances.iter_mut().filter(|(_, known)| known.is_isolated(self.leaderless_for));
        let mut up = Vec::new();
        for (id, tracked) in isolated {
            if tracked.work == Work::AwaitingPull {
                tracked.work = Work::Idle;
            }
            if tracked.is_up() {
                tracked.stopped_isolated = true;
                up.push(id.clone());
            }
        }
        for id in up {
            self.stop(&id, now, effects);
        }
    }

    /// Cancels starts of what may run or have run elsewhere meanwhile: jobs, and what must not run twice.
    fn cancel_outdated_starts(&mut self, effects: &mut Vec<Effect>) {
        let (leaderless_for, age) = (self.leaderless_for, self.state_age);
        for (id, tracked) in &mut self.instances {
            if tracked.work == Work::Starting && !tracked.may_start(leaderless_for, age) {
                tracked.work = Work::Cancelling;
                effects.push(Effect::CancelStart(id.clone()));
            }
        }
    }

    fn start(&mut self, id: &InstanceId, now: Timestamp, effects: &mut Vec<Effect>) {
        let (leaderless_for, age) = (self.leaderless_for, self.state_age);
        let Some(tracked) = self.instances.get_mut(id) else { return };
        if !tracked.is_due(now) || !tracked.may_start(leaderless_for, age) {
            return;
        }
        let Some(image) = tracked.image() else { return };
        if image.policy == PullPolicy::Always && !tracked.image_is_fresh() {
            self.await_pull(id, image.pull, effects);
            return;
        }
        let Some(request) = tracked.request(id) else { return };
        tracked.begin(Work::Starting);
        effects.push(Effect::Start(request));
    }

    /// Attaches running containers to networks of the cluster that their instances got while they ran.
    fn join_networks(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        for (id, tracked) in &mut self.instances {
            let Some(container) = tracked.due_to_join(now) else { continue };
            let Some(request) = tracked.request(id) else { continue };
            tracked.join = Join::Asked;
            effects.push(Effect::Join { request, container });
        }
    }

    /// Makes the instance wait for its image; instances that wait for the same image share the
    /// pull.
    fn await_pull(&mut self, id: &InstanceId, pull: PullRequest, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.instances.get_mut(id) else { return };
        tracked.begin(Work::AwaitingPull);
        if self.pulls.insert(pull.clone()) {
            effects.push(Effect::Pull(pull));
        }
    }

    fn stop(&mut self, id: &InstanceId, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.instances.get_mut(id) else { return };
        let Some(seen) = tracked.container.as_ref().filter(|_| tracked.is_due(now)) else { return };
        let container = seen.container.clone();
        tracked.begin(Work::Stopping);
        effects.push(Effect::Stop { instance: id.clone(), container });
    }

    fn remove(&mut self, id: &InstanceId, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.instances.get_mut(id) else { return };
        let Some(seen) = tracked.container.as_ref().filter(|_| tracked.is_due(now)) else { return };
        let container = seen.container.clone();
        tracked.begin(Work::Removing);
        effects.push(Effect::Remove { instance: id.clone(), container });
    }

    /// The container of a desired instance does not exist: the instance has failed, and the planner
    /// decides about a replacement.
    fn report_missing(&mut self, id: &InstanceId) {
        let Some(tracked) = self.instances.get_mut(id) else { return };
        if tracked.work == Work::Idle && tracked.terminal_failure.is_none() {
            tracked.terminal_failure = Some(TerminalFailure::Missing);
        }
    }

    fn cancel_idle_pulls(&mut self, effects: &mut Vec<Effect>) {
        let awaited: BTreeSet<PullRequest> = self
            .instances
            .values()
            .filter(|tracked| tracked.work == Work::AwaitingPull)
            .filter_map(Tracked::pull)
            .chain(self.prepulls.awaited())
            .collect();
        let idle: Vec<PullRequest> = self.pulls.difference(&awaited).cloned().collect();
        for pull in idle {
            self.pulls.remove(&pull);
            effects.push(Effect::CancelPull(pull));
        }
    }

    /// Reports what changed since the last report, and nothing else (R-LOOP-4).
    fn report(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let node = self.owner.node;
        let at = Timestamp(now.0.saturating_add_signed(self.cluster_ahead));
        let (mut observed, mut gone, mut joined) = (Vec::new(), Vec::new(), Vec::new());
        for (id, tracked) in &mut self.instances {
            if tracked.desired.is_some() {
                joined.extend(tracked.next_joined().then(|| id.clone()));
                observed.extend(tracked.next_report(id, node, at));
            } else if tracked.is_gone() {
                gone.push(id.clone());
            }
        }
        for id in &gone {
            let known = self.instances.remove(id).is_some_and(|tracked| tracked.reported.is_some());
            if known {
                self.reported_gone.insert(id.clone());
            }
        }
        gone.retain(|id| self.reported_gone.contains(id));
        if !observed.is_empty() || !gone.is_empty() || !joined.is_empty() {
            effects.push(Effect::Report { observed, gone, joined });
        }
    }

    fn sweep_networks(&mut self, effects: &mut Vec<Effect>) {
        let mut keep = KeptNetworks::default();
        for tracked in self.instances.values() {
            tracked.keep_networks(&mut keep);
        }
        self.networks.keep(keep, effects);
    }
}

/// Back-off after a number of failures: 1 s, doubled each time, 30 s at most (R-RUN-2).
fn back_off(failures: u32) -> Millis {
    let doublings = failures.saturating_sub(1).min(5);
    Millis((1000 << doublings).min(30_000))
}
