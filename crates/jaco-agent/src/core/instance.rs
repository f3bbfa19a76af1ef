//! State of one instance in the agent, and the report derived from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_state::view::{Attachment, DesiredInstance, Role};
use jaco_types::spec::ServiceMode;
use jaco_types::{
    Exit, InstanceId, InstanceObserved, Millis, NetworkId, NodeId, ReasonCode, RegistryName,
    ReplicaState, ServiceKey, Timestamp,
};

use super::{History, PullAttempts, back_off};
use crate::engine::{
    ContainerId, ContainerRequest, ContainerStatus, Health, KeptNetworks, MountedFiles,
    ObservedContainer, PullRequest,
};
use crate::leader_contact::StateAge;
use crate::spec::ImageSpec;

/// Maximum length of a replicated healthcheck output, in characters.
const HEALTH_OUTPUT_MAX: usize = 512;
/// Maximum length of a replicated container output, in characters.
const OUTPUT_MAX: usize = 512;

/// One instance, kept while it is desired or something of it is left.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    /// The desired record; `None` if the instance should not be here.
    pub(super) desired: Option<DesiredInstance>,
    /// Its container, if there is one.
    pub(super) container: Option<ObservedContainer>,
    /// Whether it ever ran.
    pub(super) history: History,
    /// The operation in progress.
    pub(super) work: Work,
    /// How far its running container is on the way into its networks, where it was created outside of them.
    pub(super) join: Join,
    /// Why it cannot start at present.
    pub(super) blocked: Option<Blocked>,
    /// Failure other than an exit of its process.
    pub(super) terminal_failure: Option<TerminalFailure>,
    /// Whether it was stopped because the node was isolated.
    pub(super) stopped_isolated: bool,
    /// The last report of it.
    pub(super) reported: Option<InstanceObserved>,
    /// The networks of the cluster that it was attached to when it was last desired: its container has
    /// them for as long as it exists. `None` if that is not known.
    networks: Option<BTreeSet<NetworkId>>,
    /// Whether its container was created in networks of this node and attached to those later.
    was_apart: bool,
    /// How often it could not be attached to those, and when that is tried again.
    join_failures: u32,
    join_at: Option<Timestamp>,
    image: Image,
    failures: u32,
    retry_at: Option<Timestamp>,
}

/// How far a running container is on the way into networks that its instance got while it ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Join {
    /// Nothing was asked for.
    #[default]
    Open,
    /// The engine was asked, and has not answered.
    Asked,
    /// The container cannot be attached.
    Refused,
    /// The container is attached.
    Done,
    /// That was reported.
    Reported,
}

/// The operation in progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Work {
    #[default]
    Idle,
    AwaitingPull,
    Starting,
    /// The start was cancelled; its result is pending.
    Cancelling,
    Stopping,
    Removing,
}

impl Work {
    /// Whether the operation changes the container.
    pub(super) fn changes_container(self) -> bool {
        match self {
            Self::Idle | Self::AwaitingPull => false,
            Self::Starting | Self::Cancelling | Self::Stopping | Self::Removing => true,
        }
    }
}

/// Why an instance cannot start at present. It is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blocked {
    Pull {
        reason: String,
    },
    /// The engine cannot have one of its networks.
    Network {
        reason: String,
    },
    /// The router does not hold its addresses.
    Router {
        reason: String,
    },
}

/// Failure of an instance other than an exit of its process. It is not retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TerminalFailure {
    /// Its container does not exist any more.
    Missing,
    /// The engine refused to start it.
    Refused { reason: String },
}

/// Whether the image was fetched for the next attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Image {
    #[default]
    Unknown,
    Fresh,
}

impl Tracked {
    /// Sets the desired record. A change takes effect immediately.
    pub(super) fn set_desired(&mut self, desired: Option<DesiredInstance>) {
        if self.desired.is_some() != desired.is_some() {
            self.forget_failures();
        }
        if let Some(desired) = &desired {
            self.networks = Some(desired.networks.iter().map(|network| network.id).collect());
            self.was_apart = match desired.attachment {
                Attachment::Created => false,
                Attachment::Joined | Attachment::Joining => true,
            };
        }
        let before = self.pull();
        self.desired = desired;
        if self.pull() != before {
            self.forget_image();
        }
    }

    /// The image changed, for example because its digest was resolved: an earlier pull does not
    /// count.
    fn forget_image(&mut self) {
        self.image = Image::Unknown;
        if self.work == Work::AwaitingPull {
            self.work = Work::Idle;
        }
    }

    /// Restores the last report from the replicated state after a restart of the agent.
    pub(super) fn restore_report(&mut self, reported: InstanceObserved) {
        if self.reported.is_some() {
            return;
        }
        match reported.state {
            ReplicaState::Pending | ReplicaState::Pulling => {}
            ReplicaState::Starting
            | ReplicaState::Running
            | ReplicaState::Degraded
            | ReplicaState::Failed
            | ReplicaState::Stopped
            | ReplicaState::Completed => self.history = History::Ran,
        }
        self.reported = Some(reported);
    }

    /// Records the container as the engine shows it. An exited container does not run again.
    pub(super) fn observe(&mut self, seen: ObservedContainer) {
        match seen.status {
            ContainerStatus::Created => {}
            ContainerStatus::Up { .. } | ContainerStatus::Exited { .. } => {
                self.history = History::Ran;
            }
        }
        let was_exited = self.container.as_ref().is_some_and(|known| {
            known.container == seen.container
                && matches!(known.status, ContainerStatus::Exited { .. })
        });
        let exited = matches!(seen.status, ContainerStatus::Exited { .. });
        if !was_exited || exited {
            self.container = Some(seen);
        }
    }

    /// Records the result of a start. Events may have reported a newer state already.
    pub(super) fn observe_started(&mut self, seen: ObservedContainer) {
        self.blocked = None;
        let newer_known =
            self.container.as_ref().is_some_and(|known| known.container == seen.container)
                && self.history == History::Ran;
        if !newer_known {
            self.observe(seen);
        }
        self.history = History::Ran;
    }

    pub(super) fn refuse(&mut self, reason: String) {
        self.history = History::Ran;
        self.blocked = None;
        self.terminal_failure = Some(TerminalFailure::Refused { reason });
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

    /// Whether an operation may start now.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.work == Work::Idle && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Clears a retry time that passed without an operation: only an event can change the state
    /// then.
    pub(super) fn forget_past_retry(&mut self, now: Timestamp) {
        if self.work == Work::Idle {
            self.retry_at.take_if(|at| *at <= now);
        }
    }

    pub(super) fn retry_at(&self) -> Option<Timestamp> {
        self.retry_at.filter(|_| self.work == Work::Idle)
    }

    /// How long it may run without leader contact; `None` for ever.
    pub(super) fn stops_after(&self) -> Option<Millis> {
        self.desired.as_ref()?.spec.as_ref()?.on_node_loss.stops_after()
    }

    /// Whether it must stop after this time without leader contact.
    pub(super) fn is_isolated(&self, leaderless_for: Millis) -> bool {
        self.stops_after().is_some_and(|after| leaderless_for >= after)
    }

    /// Whether it stops without leader contact, or does not start: it must not run, or have run, elsewhere
    /// (`stop_self`, R-JOB-1).
    pub(super) fn depends_on_contact(&self) -> bool {
        let may_complete = |desired: &DesiredInstance| {
            let by_policy = desired.spec.as_ref().is_some_and(|spec| spec.restart.may_complete());
            desired.role == Role::Current && (desired.mode == ServiceMode::Job || by_policy)
        };
        self.desired.as_ref().is_some_and(may_complete) || self.stops_after().is_some()
    }

    /// Whether it may start after this time without leader contact, as far as the desired state goes.
    pub(super) fn may_start(&self, leaderless_for: Millis, state: StateAge) -> bool {
        let may_run_elsewhere = state == StateAge::Outdated && self.depends_on_contact();
        !may_run_elsewhere && !self.is_isolated(leaderless_for)
    }

    /// Whether its process runs.
    pub(super) fn is_up(&self) -> bool {
        let status = self.container.as_ref().map(|seen| &seen.status);
        matches!(status, Some(ContainerStatus::Up { .. }))
    }

    /// What its container is made from; `None` if its spec is not kept.
    pub(super) fn request(&self, id: &InstanceId) -> Option<ContainerRequest> {
        let desired = self.desired.as_ref()?;
        let spec = desired.spec.as_ref()?;
        Some(ContainerRequest {
            instance: id.clone(),
            service: desired.service.clone(),
            image: self.image()?.pull.image,
            container: Arc::clone(&spec.container),
            spec_hash: spec.hash,
            // Filled in when the effect is carried out: the paths do not influence decisions.
            files: MountedFiles::default(),
            gpus: desired.gpus.clone(),
            networks: desired.networks.clone(),
        })
    }

    /// Its running container, if that is to be attached to its networks now. A time to try it that has passed is
    /// forgotten.
    pub(super) fn due_to_join(&mut self, now: Timestamp) -> Option<ContainerId> {
        self.join_at.take_if(|at| *at <= now);
        let is_due = self.join == Join::Open && self.join_at.is_none();
        let is_joining = self.desired.as_ref()?.attachment == Attachment::Joining;
        let seen = self.container.as_ref().filter(|_| is_joining && is_due && self.is_up())?;
        Some(seen.container.clone())
    }

    pub(super) fn fail_to_join(&mut self, now: Timestamp) {
        self.join = Join::Open;
        self.join_failures = self.join_failures.saturating_add(1);
        self.join_at = Some(now.after(back_off(self.join_failures)));
    }

    pub(super) fn join_at(&self) -> Option<Timestamp> {
        self.join_at
    }

    /// Whether it is to be reported as attached to its networks, which is done once.
    pub(super) fn next_joined(&mut self) -> bool {
        let is_news = self.join == Join::Done;
        if is_news {
            self.join = Join::Reported;
        }
        is_news
    }

    /// The pull that fetches its image.
    pub(super) fn pull(&self) -> Option<PullRequest> {
        Some(self.image()?.pull)
    }

    /// The image that it runs, and its pull policy.
    pub(super) fn image(&self) -> Option<ImageSpec> {
        let desired = self.desired.as_ref()?;
        Some(ImageSpec::of(desired.spec.as_ref()?, desired.digest.as_ref()))
    }

    /// The image that it waits for, and the attempts at it.
    pub(super) fn pull_attempts(&self) -> Option<(Arc<str>, PullAttempts)> {
        let attempts = match self.work {
            Work::AwaitingPull => PullAttempts { made: self.failures + 1, next_at: None },
            Work::Idle | Work::Starting | Work::Cancelling | Work::Stopping | Work::Removing => {
                self.pull_failed().then_some(())?;
                PullAttempts { made: self.failures, next_at: self.retry_at }
            }
        };
        Some((self.pull()?.image, attempts))
    }

    /// Credentials for these registries changed: a failed pull from them is retried immediately.
    pub(super) fn retry_pull_from(&mut self, registries: &BTreeSet<RegistryName>) {
        if self.pull_failed() && self.pull().is_some_and(|pull| pull.is_from(registries)) {
            self.forget_failures();
        }
    }

    /// Whether it waits because its image could not be fetched.
    fn pull_failed(&self) -> bool {
        match &self.blocked {
            Some(Blocked::Pull { .. }) => true,
            Some(Blocked::Network { .. } | Blocked::Router { .. }) | None => false,
        }
    }

    pub(super) fn image_is_fresh(&self) -> bool {
        self.image == Image::Fresh
    }

    /// Its image was fetched, for it or another instance. Instances that wait for it try now.
    pub(super) fn image_fetched(&mut self) {
        self.image = Image::Fresh;
        self.retry_at = None;
        if self.work == Work::AwaitingPull {
            self.work = Work::Idle;
        }
    }

    /// Adds the networks that it needs here. Of a container whose instance was never desired since the
    /// start of the agent nobody knows what it has: its deployment's networks of this node stay, and those
    /// of the cluster are in use.
    pub(super) fn keep_networks(&self, keep: &mut KeptNetworks) {
        let desired = self.desired.as_ref().map(|desired| &desired.service.deployment);
        let seen = self.container.as_ref().map(|seen| &seen.service.deployment);
        let Some(deployment) = desired.or(seen) else { return };
        match &self.networks {
            Some(networks) if !networks.is_empty() && !self.was_apart => {
                keep.cluster.extend(networks);
            }
            known => {
                keep.cluster.extend(known.iter().flatten());
                keep.deployments.insert(deployment.clone());
            }
        }
    }

    /// Whether nothing of it is left.
    pub(super) fn is_gone(&self) -> bool {
        self.desired.is_none() && self.container.is_none() && self.work == Work::Idle
    }

    /// The next report, if it differs from the last one; `at` is the cluster's time.
    pub(super) fn next_report(
        &mut self,
        id: &InstanceId,
        node: NodeId,
        at: Timestamp,
    ) -> Option<InstanceObserved> {
        // A final state does not change any more, whatever is observed later.
        if self.reported.as_ref().is_some_and(|reported| reported.state.is_over()) {
            return None;
        }
        let summary = self.summary()?;
        let seen = self.container.as_ref();
        let container_id = seen.map_or(String::new(), |seen| seen.container.to_string());
        let mut observed = InstanceObserved {
            id: id.clone(),
            service: self.service()?,
            node,
            state: summary.state,
            code: summary.code,
            details: summary.details,
            container_id,
            ports: seen.map(|seen| seen.ports.clone()).unwrap_or_default(),
            started_at: seen.and_then(started_at),
            since: at,
            exit: summary.exit,
        };
        if let Some(reported) = &self.reported {
            keep_reported_facts(&mut observed, reported);
            if is_unchanged(&observed, reported) {
                return None;
            }
        }
        self.reported = Some(observed.clone());
        Some(observed)
    }

    /// The service, from the desired record, the container or the last report.
    fn service(&self) -> Option<ServiceKey> {
        let desired = self.desired.as_ref().map(|desired| &desired.service);
        let seen = self.container.as_ref().map(|seen| &seen.service);
        let reported = self.reported.as_ref().map(|reported| &reported.service);
        desired.or(seen).or(reported).cloned()
    }

    fn summary(&self) -> Option<Summary> {
        if let Some(terminal_failure) = &self.terminal_failure {
            return Some(Summary::of_failure(terminal_failure));
        }
        match self.container.as_ref().map(|seen| &seen.status) {
            Some(ContainerStatus::Up { health, .. }) => Some(Summary::of_health(health)),
            Some(ContainerStatus::Exited { exit, .. }) if self.stopped_isolated => {
                let summary = Summary::new(ReplicaState::Failed, Some(ReasonCode::NodeIsolated));
                Some(Summary { exit: Some(*exit), ..summary })
            }
            Some(ContainerStatus::Exited { exit, error, output, .. }) => {
                Some(Summary::of_exit(*exit, error, output))
            }
            Some(ContainerStatus::Created) | None => self.summary_before_start(),
        }
    }

    fn summary_before_start(&self) -> Option<Summary> {
        if let Some(blocked) = &self.blocked {
            let (code, reason) = match blocked {
                Blocked::Pull { reason } => (ReasonCode::ImagePullFailed, reason),
                Blocked::Network { reason } => (ReasonCode::NetworkConflict, reason),
                Blocked::Router { reason } => (ReasonCode::NetworkNotReady, reason),
            };
            let summary = Summary::new(ReplicaState::Pending, Some(code));
            return Some(summary.with("reason", reason.clone()));
        }
        (self.work == Work::AwaitingPull)
            .then(|| Summary::new(ReplicaState::Pulling, Some(ReasonCode::Pulling)))
    }
}

/// State of an instance as reported.
struct Summary {
    state: ReplicaState,
    code: Option<ReasonCode>,
    details: BTreeMap<String, String>,
    exit: Option<Exit>,
}

impl Summary {
    fn new(state: ReplicaState, code: Option<ReasonCode>) -> Self {
        Self { state, code, details: BTreeMap::new(), exit: None }
    }

    /// Adds a detail unless it is empty.
    fn with(mut self, key: &str, value: String) -> Self {
        if !value.is_empty() {
            self.details.insert(key.to_owned(), value);
        }
        self
    }

    /// Only the engine knows whether there is a healthcheck: the manifest's or the image's.
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
        let mut summary = Self::new(state, Some(ReasonCode::ContainerExited))
            .with("exit_code", exit.code.to_string())
            .with("reason", error.to_owned())
            .with("output", tail_of(output));
        if exit.out_of_memory {
            summary = summary.with("oom", "true".to_owned());
        }
        Self { exit: Some(exit), ..summary }
    }

    fn of_failure(terminal_failure: &TerminalFailure) -> Self {
        match terminal_failure {
            TerminalFailure::Missing => {
                Self::new(ReplicaState::Failed, Some(ReasonCode::ContainerMissing))
            }
            TerminalFailure::Refused { reason } => {
                Self::new(ReplicaState::Failed, Some(ReasonCode::EngineError))
                    .with("reason", reason.clone())
            }
        }
    }
}

/// The end of the output: the last lines tell why the container exited.
fn tail_of(output: &str) -> String {
    let output = output.trim();
    let surplus = output.chars().count().saturating_sub(OUTPUT_MAX);
    output.chars().skip(surplus).collect()
}

fn started_at(seen: &ObservedContainer) -> Option<Timestamp> {
    match &seen.status {
        ContainerStatus::Created => None,
        ContainerStatus::Up { started_at, .. } => Some(*started_at),
        ContainerStatus::Exited { started_at, .. } => *started_at,
    }
}

/// Keeps the start time that was reported first: the engine's record differs by milliseconds and
/// changes when the daemon restarts. A container that is gone keeps its id and start time.
fn keep_reported_facts(observed: &mut InstanceObserved, reported: &InstanceObserved) {
    if observed.container_id.is_empty() {
        observed.container_id.clone_from(&reported.container_id);
    }
    if observed.container_id == reported.container_id && reported.started_at.is_some() {
        observed.started_at = reported.started_at;
    }
    if (observed.state, observed.code) == (reported.state, reported.code) {
        observed.since = reported.since;
    }
}

/// Whether nothing changed. The output of a failing healthcheck may differ each time; the failure
/// is reported once.
fn is_unchanged(observed: &InstanceObserved, reported: &InstanceObserved) -> bool {
    let mut reported = reported.clone();
    if observed.code == Some(ReasonCode::Unhealthy) && reported.code == observed.code {
        reported.details.clone_from(&observed.details);
    }
    *observed == reported
}
