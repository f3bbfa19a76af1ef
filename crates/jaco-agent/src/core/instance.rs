//! What the agent knows of one instance, and what it would say about it.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::view::DesiredInstance;
use jaco_types::{
    Exit, InstanceId, InstanceObserved, Millis, NodeId, ReasonCode, RegistryName, ReplicaState,
    ServiceKey, Timestamp,
};

use super::{History, back_off};
use crate::engine::{ContainerSeen, ContainerStatus, Health, PullRequest};
use crate::spec::ImageSpec;

/// The most of a healthcheck's output that is replicated, in characters.
const HEALTH_OUTPUT_MAX: usize = 512;
/// The most of what a container wrote last that is replicated, in characters.
const OUTPUT_MAX: usize = 512;

/// One instance, as long as it is wanted here or something of it is left.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    /// What should become of it; absent when it should not be here.
    pub(super) wanted: Option<DesiredInstance>,
    /// Its container, if there is one.
    pub(super) container: Option<ContainerSeen>,
    /// Whether it ever ran.
    pub(super) history: History,
    /// What is being done to it.
    pub(super) work: Work,
    /// What keeps it from starting, until it has started.
    pub(super) trouble: Option<Trouble>,
    /// How it ended, other than by its process.
    pub(super) ending: Option<Ending>,
    /// Whether it was stopped because the node was cut off.
    pub(super) stopped_alone: bool,
    /// What was last reported of it.
    pub(super) told: Option<InstanceObserved>,
    image: Image,
    failures: u32,
    retry_at: Option<Timestamp>,
}

/// What is being done to an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Work {
    #[default]
    Idle,
    AwaitingPull,
    Starting,
    /// A start was called off; its answer is still to come.
    CallingOff,
    Stopping,
    Removing,
}

impl Work {
    /// Whether the engine is being asked to change the container.
    pub(super) fn is_on_the_container(self) -> bool {
        match self {
            Self::Idle | Self::AwaitingPull => false,
            Self::Starting | Self::CallingOff | Self::Stopping | Self::Removing => true,
        }
    }
}

/// What keeps an instance from starting. It is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    Pull { reason: String },
}

/// How an instance ended, other than by its process. It is not tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its container is gone.
    Missing,
    /// The engine refused to start it.
    Refused { reason: String },
}

/// Whether the image was fetched for the attempt that comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Image {
    #[default]
    Unknown,
    Fresh,
}

impl Tracked {
    /// What should become of it from now on. A different wish is followed at once.
    pub(super) fn want(&mut self, wanted: Option<DesiredInstance>) {
        if self.wanted.is_some() != wanted.is_some() {
            self.forget_failures();
        }
        let before = self.pull();
        self.wanted = wanted;
        if self.pull() != before {
            self.forget_image();
        }
    }

    /// It was settled meanwhile what its image is: what was fetched by its name counts no more.
    fn forget_image(&mut self) {
        self.image = Image::Unknown;
        if self.work == Work::AwaitingPull {
            self.work = Work::Idle;
        }
    }

    /// Takes over what the replicated state knows, where this agent knows nothing yet: it was
    /// started anew.
    pub(super) fn recall(&mut self, told: InstanceObserved) {
        if self.told.is_some() {
            return;
        }
        match told.state {
            ReplicaState::Pending | ReplicaState::Pulling => {}
            ReplicaState::Starting
            | ReplicaState::Running
            | ReplicaState::Degraded
            | ReplicaState::Failed
            | ReplicaState::Stopped => self.history = History::Ran,
        }
        self.told = Some(told);
    }

    /// The engine shows this container now. One that ended does not come back.
    pub(super) fn see(&mut self, seen: ContainerSeen) {
        match seen.status {
            ContainerStatus::Created => {}
            ContainerStatus::Up { .. } | ContainerStatus::Ended { .. } => {
                self.history = History::Ran;
            }
        }
        let ended = self.container.as_ref().is_some_and(|known| {
            known.container == seen.container
                && matches!(known.status, ContainerStatus::Ended { .. })
        });
        let news = matches!(seen.status, ContainerStatus::Ended { .. });
        if !ended || news {
            self.container = Some(seen);
        }
    }

    /// The start answered with this container. Events may have told newer things about it.
    pub(super) fn see_started(&mut self, seen: ContainerSeen) {
        self.trouble = None;
        let newer_known =
            self.container.as_ref().is_some_and(|known| known.container == seen.container)
                && self.history == History::Ran;
        if !newer_known {
            self.see(seen);
        }
        self.history = History::Ran;
    }

    pub(super) fn refuse(&mut self, reason: String) {
        self.history = History::Ran;
        self.trouble = None;
        self.ending = Some(Ending::Refused { reason });
    }

    pub(super) fn begin(&mut self, work: Work) {
        self.work = work;
        self.retry_at = None;
    }

    pub(super) fn succeed(&mut self) {
        self.work = Work::Idle;
        self.forget_failures();
    }

    pub(super) fn fail(&mut self, now: Timestamp) {
        self.work = Work::Idle;
        self.image = Image::Unknown;
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.after(back_off(self.failures)));
    }

    fn forget_failures(&mut self) {
        self.failures = 0;
        self.retry_at = None;
    }

    /// Whether something may be done to it now.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.work == Work::Idle && self.retry_at.is_none_or(|at| at <= now)
    }

    /// A moment that came and found nothing to do is over: only an event can change that.
    pub(super) fn forget_past_retry(&mut self, now: Timestamp) {
        if self.work == Work::Idle {
            self.retry_at.take_if(|at| *at <= now);
        }
    }

    pub(super) fn retry_at(&self) -> Option<Timestamp> {
        self.retry_at.filter(|_| self.work == Work::Idle)
    }

    /// After how long without a leader it must not run here, if it minds.
    pub(super) fn stops_after(&self) -> Option<Millis> {
        self.wanted.as_ref()?.spec.as_ref()?.on_node_loss.stops_after()
    }

    /// Whether it must not run after so long without a leader.
    pub(super) fn is_isolated(&self, silence: Millis) -> bool {
        self.stops_after().is_some_and(|after| silence >= after)
    }

    /// Whether its process runs.
    pub(super) fn is_up(&self) -> bool {
        let status = self.container.as_ref().map(|seen| &seen.status);
        matches!(status, Some(ContainerStatus::Up { .. }))
    }

    /// The pull that would fetch its image.
    pub(super) fn pull(&self) -> Option<PullRequest> {
        Some(self.image()?.pull)
    }

    /// The image that it should run, and when that is fetched.
    pub(super) fn image(&self) -> Option<ImageSpec> {
        let wanted = self.wanted.as_ref()?;
        Some(ImageSpec::of(wanted.spec.as_ref()?, wanted.digest.as_ref()))
    }

    /// Who this node is at these registries has changed: what they refused is asked for at once.
    pub(super) fn pull_anew(&mut self, registries: &BTreeSet<RegistryName>) {
        if self.trouble.is_some() && self.pull().is_some_and(|pull| pull.is_from(registries)) {
            self.forget_failures();
        }
    }

    pub(super) fn image_is_fresh(&self) -> bool {
        self.image == Image::Fresh
    }

    /// Its image was fetched, for it or for another instance. Whoever waits tries now.
    pub(super) fn image_arrived(&mut self) {
        self.image = Image::Fresh;
        self.retry_at = None;
        if self.work == Work::AwaitingPull {
            self.work = Work::Idle;
        }
    }

    /// Whether nothing of it is left.
    pub(super) fn is_gone(&self) -> bool {
        self.wanted.is_none() && self.container.is_none() && self.work == Work::Idle
    }

    /// What is to be reported of it, if that is different from what was.
    pub(super) fn news(
        &mut self,
        id: &InstanceId,
        node: NodeId,
        now: Timestamp,
    ) -> Option<InstanceObserved> {
        // What has ended does not change any more, whatever is found of it later.
        if self.told.as_ref().is_some_and(|told| told.state.is_over()) {
            return None;
        }
        let story = self.story()?;
        let seen = self.container.as_ref();
        let container_id = seen.map_or(String::new(), |seen| seen.container.to_string());
        let mut observed = InstanceObserved {
            id: id.clone(),
            service: self.service()?,
            node,
            state: story.state,
            code: story.code,
            details: story.details,
            container_id,
            ports: seen.map(|seen| seen.ports.clone()).unwrap_or_default(),
            started_at: seen.and_then(started_at),
            since: now,
            exit: story.exit,
        };
        if let Some(told) = &self.told {
            keep_what_is_settled(&mut observed, told);
            if is_same(&observed, told) {
                return None;
            }
        }
        self.told = Some(observed.clone());
        Some(observed)
    }

    /// The service it belongs to, by whoever still knows: the wish, the container, the last report.
    fn service(&self) -> Option<ServiceKey> {
        let wanted = self.wanted.as_ref().map(|wanted| &wanted.service);
        let seen = self.container.as_ref().map(|seen| &seen.service);
        let told = self.told.as_ref().map(|told| &told.service);
        wanted.or(seen).or(told).cloned()
    }

    fn story(&self) -> Option<Story> {
        if let Some(ending) = &self.ending {
            return Some(Story::of_ending(ending));
        }
        match self.container.as_ref().map(|seen| &seen.status) {
            Some(ContainerStatus::Up { health, .. }) => Some(Story::of_health(health)),
            Some(ContainerStatus::Ended { exit, .. }) if self.stopped_alone => {
                let story = Story::new(ReplicaState::Failed, Some(ReasonCode::NodeIsolated));
                Some(Story { exit: Some(*exit), ..story })
            }
            Some(ContainerStatus::Ended { exit, error, output, .. }) => {
                Some(Story::of_exit(*exit, error, output))
            }
            Some(ContainerStatus::Created) | None => self.story_before_start(),
        }
    }

    fn story_before_start(&self) -> Option<Story> {
        if let Some(Trouble::Pull { reason }) = &self.trouble {
            let story = Story::new(ReplicaState::Pending, Some(ReasonCode::ImagePullFailed));
            return Some(story.with("reason", reason.clone()));
        }
        (self.work == Work::AwaitingPull)
            .then(|| Story::new(ReplicaState::Pulling, Some(ReasonCode::Pulling)))
    }
}

/// What is said about an instance.
struct Story {
    state: ReplicaState,
    code: Option<ReasonCode>,
    details: BTreeMap<String, String>,
    exit: Option<Exit>,
}

impl Story {
    fn new(state: ReplicaState, code: Option<ReasonCode>) -> Self {
        Self { state, code, details: BTreeMap::new(), exit: None }
    }

    /// Adds a fact, unless there is nothing in it.
    fn with(mut self, key: &str, value: String) -> Self {
        if !value.is_empty() {
            self.details.insert(key.to_owned(), value);
        }
        self
    }

    /// The engine knows whether there is a check: the manifest's, or else the image's.
    fn of_health(health: &Health) -> Self {
        match health {
            Health::None | Health::Healthy => Self::new(ReplicaState::Running, None),
            Health::Starting => Self::new(ReplicaState::Starting, Some(ReasonCode::HealthPending)),
            Health::Unhealthy { output } => {
                let reason: String = output.trim().chars().take(HEALTH_OUTPUT_MAX).collect();
                Self::new(ReplicaState::Degraded, Some(ReasonCode::Unhealthy))
                    .with("reason", reason)
            }
        }
    }

    fn of_exit(exit: Exit, error: &str, output: &str) -> Self {
        let state = if exit.code == 0 { ReplicaState::Stopped } else { ReplicaState::Failed };
        let mut story = Self::new(state, Some(ReasonCode::ContainerExited))
            .with("exit_code", exit.code.to_string())
            .with("reason", error.to_owned())
            .with("output", last_of(output));
        if exit.out_of_memory {
            story = story.with("oom", "true".to_owned());
        }
        Self { exit: Some(exit), ..story }
    }

    fn of_ending(ending: &Ending) -> Self {
        match ending {
            Ending::Missing => Self::new(ReplicaState::Failed, Some(ReasonCode::ContainerMissing)),
            Ending::Refused { reason } => {
                Self::new(ReplicaState::Failed, Some(ReasonCode::EngineError))
                    .with("reason", reason.clone())
            }
        }
    }
}

/// The end of what a container wrote: the last lines say why it ended.
fn last_of(output: &str) -> String {
    let output = output.trim();
    let surplus = output.chars().count().saturating_sub(OUTPUT_MAX);
    output.chars().skip(surplus).collect()
}

fn started_at(seen: &ContainerSeen) -> Option<Timestamp> {
    match &seen.status {
        ContainerStatus::Created => None,
        ContainerStatus::Up { started_at, .. } => Some(*started_at),
        ContainerStatus::Ended { started_at, .. } => *started_at,
    }
}

/// The moment of the start is the one that was reported first: the engine's own record of it is
/// milliseconds away, and differs after each restart of the daemon. A container that is gone
/// leaves its name and the moment of its start behind.
fn keep_what_is_settled(observed: &mut InstanceObserved, told: &InstanceObserved) {
    if observed.container_id.is_empty() {
        observed.container_id.clone_from(&told.container_id);
    }
    if observed.container_id == told.container_id && told.started_at.is_some() {
        observed.started_at = told.started_at;
    }
    if (observed.state, observed.code) == (told.state, told.code) {
        observed.since = told.since;
    }
}

/// Whether there is nothing new in it. What a failing healthcheck writes may differ each time; that
/// it fails is said once.
fn is_same(observed: &InstanceObserved, told: &InstanceObserved) -> bool {
    let mut told = told.clone();
    if observed.code == Some(ReasonCode::Unhealthy) && told.code == observed.code {
        told.details.clone_from(&observed.details);
    }
    *observed == told
}
