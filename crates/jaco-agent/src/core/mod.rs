//! The agent as a state machine: events in, effects out. It has no clock and does nothing itself,
//! so that a simulation and a daemon run the same decisions.

mod instance;
mod networks;
mod prepare;
mod react;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::view::{DesiredInstance, Role};
use jaco_types::spec::{Pull, ServiceSpec};
use jaco_types::{
    DeploymentName, ImageNeed, ImageReadiness, InstanceId, InstanceObserved, Millis, RegistryName,
    StateIndex, Timestamp,
};

use crate::engine::{
    ContainerId, ContainerRequest, ContainerSeen, EngineError, EngineEvent, ImageSeen, Owner,
    PullError, PullRequest, ShippedFiles, StartError,
};
use crate::plan::{Action, History, Phase, Wanted, plan};

use instance::{Ending, Tracked, Trouble, Work};
use networks::Networks;
use prepare::Prepared;

/// What the agent learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// What should run here, and what the replicated state knows of it.
    Desired {
        /// The state that this was read from; one older than the last is passed over.
        index: StateIndex,
        /// What should run here.
        desired: BTreeMap<InstanceId, DesiredInstance>,
        /// What this node reported, as far as it arrived.
        observed: BTreeMap<InstanceId, InstanceObserved>,
    },
    /// The images that rollouts need here, each with a spec that does.
    Prepare(BTreeMap<ImageNeed, Arc<ServiceSpec>>),
    /// The answer to [`Effect::Find`].
    Found {
        /// What was asked for.
        pull: PullRequest,
        /// What is here of it.
        result: Result<Option<ImageSeen>, EngineError>,
    },
    /// Who this node is at these registries is not what it was.
    RegistriesChanged(BTreeSet<RegistryName>),
    /// The answer to [`Effect::List`].
    Listed(Result<Vec<ContainerSeen>, EngineError>),
    /// Something happened to a container.
    Engine(EngineEvent),
    /// What happened lately may have been missed.
    EventsLost,
    /// The answer to [`Effect::Pull`].
    Pulled {
        /// What was asked for.
        pull: PullRequest,
        /// What came of it.
        result: Result<(), PullError>,
    },
    /// The answer to [`Effect::Start`], also where it was called off.
    Started {
        /// The instance.
        instance: InstanceId,
        /// What came of it.
        result: Result<ContainerSeen, StartError>,
    },
    /// The answer to [`Effect::Stop`].
    Stopped {
        /// The instance.
        instance: InstanceId,
        /// What came of it.
        result: Result<(), EngineError>,
    },
    /// The answer to [`Effect::Remove`].
    Removed {
        /// The instance.
        instance: InstanceId,
        /// What came of it.
        result: Result<(), EngineError>,
    },
    /// The answer to [`Effect::RemoveNetworks`].
    NetworksRemoved(Result<(), EngineError>),
    /// For how long this node has had no contact with a leader.
    Contact {
        /// By a clock that nobody sets.
        silence: Millis,
    },
    /// Time has passed: look at everything once more.
    Tick,
    /// The moment of [`AgentCore::wake_at`] has come.
    Wake,
}

/// What the agent wants done. All but `Report` are answered by an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// List the containers of this owner.
    List,
    /// Say whether an image is here.
    Find(PullRequest),
    /// Fetch an image.
    Pull(PullRequest),
    /// Nobody waits for this image any more; no answer is needed.
    CancelPull(PullRequest),
    /// Start an instance.
    Start(ContainerRequest),
    /// The instance shall not start any more, if it is not too late.
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
    /// Remove the networks of this owner that belong to none of these deployments.
    RemoveNetworks {
        /// The deployments of which something is left here.
        keep: BTreeSet<DeploymentName>,
    },
    /// Tell the cluster. To be delivered once, in order; a newer observation of an instance stands
    /// for the older ones.
    Report {
        /// What is different from what was reported before.
        observed: Vec<InstanceObserved>,
        /// Instances of which nothing is left here.
        gone: Vec<InstanceId>,
    },
}

/// The agent of one node.
///
/// It adopts what runs, starts each instance at most once, and removes what is not wanted. It acts
/// only once it knows both what should run and what does. What belongs to another owner it does
/// not even look at.
#[derive(Debug)]
pub struct AgentCore {
    owner: Owner,
    /// The state that the last `Desired` was read from; absent before the first.
    index: Option<StateIndex>,
    listing: Listing,
    /// Instances that something happened to since the list under way was asked for: what it says
    /// about them may be older.
    touched: BTreeSet<InstanceId>,
    instances: BTreeMap<InstanceId, Tracked>,
    pulls: BTreeSet<PullRequest>,
    /// The images that rollouts need here.
    prepared: Prepared,
    /// Reported as gone, and not yet forgotten by the replicated state.
    told_gone: BTreeSet<InstanceId>,
    networks: Networks,
    /// For how long this node has had no contact with a leader, as far as it was told.
    silence: Millis,
}

/// Whether the containers are known, and whether they are being listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listing {
    known: Known,
    question: Question,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    No,
    Yes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    None,
    Asked,
    /// To be asked once more when the answer is there.
    AskAgain,
}

impl AgentCore {
    /// An agent that knows nothing yet.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            index: None,
            listing: Listing { known: Known::No, question: Question::None },
            touched: BTreeSet::new(),
            instances: BTreeMap::new(),
            pulls: BTreeSet::new(),
            prepared: Prepared::default(),
            told_gone: BTreeSet::new(),
            networks: Networks::default(),
            silence: Millis(0),
        }
    }

    /// Takes note of `event` and says what is to be done now.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.note(event, now, &mut effects);
        self.prepared.retry(now, &mut effects);
        self.pull_for_rollouts(&mut effects);
        if self.index.is_some() && self.listing.known == Known::Yes {
            self.settle(now, &mut effects);
        }
        effects
    }

    /// When to call again even if nothing happens; absent if there is nothing to wait for.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        let instances = self.instances.values().filter_map(Tracked::retry_at);
        instances.chain(self.prepared.retry_at()).min()
    }

    /// What this node says about the images that rollouts need here.
    #[must_use]
    pub fn prepared(&self) -> BTreeMap<ImageNeed, ImageReadiness> {
        self.prepared.told()
    }

    fn pull_for_rollouts(&mut self, effects: &mut Vec<Effect>) {
        for pull in self.prepared.awaited() {
            if self.pulls.insert(pull.clone()) {
                effects.push(Effect::Pull(pull));
            }
        }
    }

    /// Whether anything here depends on how long there was no contact with a leader.
    #[must_use]
    pub fn minds_contact(&self) -> bool {
        self.instances.values().any(|tracked| tracked.stops_after().is_some())
    }

    /// Whether nothing is wanted here and nothing is left: no container, no network.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        let knows = self.index.is_some() && self.listing.known == Known::Yes;
        knows && self.instances.is_empty() && self.networks.are_gone()
    }

    /// The containers of this node, as far as known.
    pub fn containers(&self) -> impl Iterator<Item = &ContainerSeen> {
        self.instances.values().filter_map(|tracked| tracked.container.as_ref())
    }

    /// Does what is due: nothing in here depends on which event came before.
    fn settle(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        self.call_off(effects);
        self.stop_isolated(now, effects);
        for action in plan(&self.wanted(), &self.actual()) {
            match action {
                Action::Start(id) => self.start(&id, now, effects),
                Action::Stop(id) => self.stop(&id, now, effects),
                Action::Remove(id) => self.remove(&id, now, effects),
                Action::Mourn(id) => self.mourn(&id),
            }
        }
        for tracked in self.instances.values_mut() {
            tracked.forget_past_retry(now);
        }
        self.cancel_idle_pulls(effects);
        self.report(now, effects);
        self.sweep_networks(effects);
    }

    fn wanted(&self) -> BTreeMap<InstanceId, Wanted> {
        let wanted = self.instances.iter().filter_map(|(id, tracked)| {
            let role = tracked.wanted.as_ref()?.role;
            Some((id.clone(), Wanted { role, history: tracked.history }))
        });
        wanted.collect()
    }

    fn actual(&self) -> BTreeMap<InstanceId, Phase> {
        let actual = self.instances.iter().filter_map(|(id, tracked)| {
            let seen = tracked.container.as_ref()?;
            Some((id.clone(), Phase::from(&seen.status)))
        });
        actual.collect()
    }

    /// A start under way that nobody wants any more is called off: a newer instance has taken the
    /// slot, or the slot is gone (R-RUN-1).
    fn call_off(&mut self, effects: &mut Vec<Effect>) {
        for (id, tracked) in &mut self.instances {
            let startable =
                tracked.wanted.as_ref().is_some_and(|wanted| wanted.role == Role::Current);
            if startable {
                continue;
            }
            match tracked.work {
                Work::AwaitingPull => tracked.work = Work::Idle,
                Work::Starting => {
                    tracked.work = Work::CallingOff;
                    effects.push(Effect::CancelStart(id.clone()));
                }
                Work::Idle | Work::CallingOff | Work::Stopping | Work::Removing => {}
            }
        }
    }

    /// Ends what must not run on a node that is cut off for so long: a replacement may start
    /// elsewhere soon.
    fn stop_isolated(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let isolated =
            self.instances.iter_mut().filter(|(_, known)| known.is_isolated(self.silence));
        let mut up = Vec::new();
        for (id, tracked) in isolated {
            match tracked.work {
                Work::Starting => {
                    tracked.work = Work::CallingOff;
                    effects.push(Effect::CancelStart(id.clone()));
                }
                Work::AwaitingPull => tracked.work = Work::Idle,
                Work::Idle | Work::CallingOff | Work::Stopping | Work::Removing => {}
            }
            if tracked.is_up() {
                tracked.stopped_alone = true;
                up.push(id.clone());
            }
        }
        for id in up {
            self.stop(&id, now, effects);
        }
    }

    fn start(&mut self, id: &InstanceId, now: Timestamp, effects: &mut Vec<Effect>) {
        let silence = self.silence;
        let Some(tracked) = self.instances.get_mut(id) else { return };
        if !tracked.is_due(now) || tracked.is_isolated(silence) {
            return;
        }
        let Some(spec) = tracked.wanted.as_ref().and_then(|wanted| wanted.spec.clone()) else {
            return;
        };
        let Some(image) = tracked.image() else { return };
        if image.policy == Pull::Always && !tracked.image_is_fresh() {
            self.await_pull(id, image.pull, effects);
            return;
        }
        let Some(wanted) = &tracked.wanted else { return };
        let request = ContainerRequest {
            instance: id.clone(),
            service: wanted.service.clone(),
            image: image.pull.image,
            container: Arc::clone(&spec.container),
            spec_hash: spec.hash,
            // Put there when it is carried out: where they lie is nothing to decide on.
            files: ShippedFiles::default(),
            gpus: wanted.gpus.clone(),
        };
        tracked.begin(Work::Starting);
        effects.push(Effect::Start(request));
    }

    /// Lets the instance wait for its image; instances that wait for the same one share the pull.
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

    /// The container is gone though its instance is wanted: it ends here, and the planner decides
    /// about a new one.
    fn mourn(&mut self, id: &InstanceId) {
        let Some(tracked) = self.instances.get_mut(id) else { return };
        if tracked.work == Work::Idle && tracked.ending.is_none() {
            tracked.ending = Some(Ending::Missing);
        }
    }

    fn cancel_idle_pulls(&mut self, effects: &mut Vec<Effect>) {
        let awaited: BTreeSet<PullRequest> = self
            .instances
            .values()
            .filter(|tracked| tracked.work == Work::AwaitingPull)
            .filter_map(Tracked::pull)
            .chain(self.prepared.awaited())
            .collect();
        let idle: Vec<PullRequest> = self.pulls.difference(&awaited).cloned().collect();
        for pull in idle {
            self.pulls.remove(&pull);
            effects.push(Effect::CancelPull(pull));
        }
    }

    /// Reports what is different from what was reported before, and nothing else (R-LOOP-4).
    fn report(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let node = self.owner.node;
        let mut observed = Vec::new();
        let mut gone = Vec::new();
        for (id, tracked) in &mut self.instances {
            if tracked.wanted.is_some() {
                observed.extend(tracked.news(id, node, now));
            } else if tracked.is_gone() {
                gone.push(id.clone());
            }
        }
        for id in &gone {
            let known = self.instances.remove(id).is_some_and(|tracked| tracked.told.is_some());
            if known {
                self.told_gone.insert(id.clone());
            }
        }
        gone.retain(|id| self.told_gone.contains(id));
        if !observed.is_empty() || !gone.is_empty() {
            effects.push(Effect::Report { observed, gone });
        }
    }

    fn sweep_networks(&mut self, effects: &mut Vec<Effect>) {
        let wanted = self.instances.values().filter_map(|tracked| tracked.wanted.as_ref());
        let mut keep: BTreeSet<DeploymentName> =
            wanted.map(|wanted| wanted.service.deployment.clone()).collect();
        keep.extend(self.containers().map(|seen| seen.service.deployment.clone()));
        self.networks.keep(keep, effects);
    }
}

/// How long to wait after so many failures: 1 s, doubled each time, 30 s at most (R-RUN-2).
fn back_off(failures: u32) -> Millis {
    let doublings = failures.saturating_sub(1).min(5);
    Millis((1000 << doublings).min(30_000))
}
