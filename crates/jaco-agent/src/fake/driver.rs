//! Performs the agent's effects on a fake host, with time as an argument. The simulation puts it
//! between `AgentCore` and the world.

use std::collections::BTreeMap;

use jaco_types::{InstanceId, Millis, Timestamp};

use super::host::{FakeHost, Shown};
use crate::core::{Effect, Event};
use crate::engine::{
    ContainerId, ContainerRequest, KeptNetworks, PullError, PullRequest, RegistryCredentials,
    StartError,
};

/// A fake host with its pending jobs.
#[derive(Debug, Clone)]
pub struct FakeDriver {
    /// The host; scripts are set here.
    pub host: FakeHost,
    jobs: BTreeMap<(Timestamp, u64), Job>,
    asked: u64,
    shown: Shown,
    seen_until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Job {
    List,
    Find(PullRequest),
    Pull(PullRequest, Option<RegistryCredentials>),
    Start(ContainerRequest),
    Answer(Box<Event>),
    Remove { instance: InstanceId, container: ContainerId },
    Join(ContainerRequest, ContainerId),
    RemoveNetworks(KeptNetworks),
}

/// How long an engine takes to attach a running container to networks (Docker 20.10: 70 ms).
const JOIN_TAKES: Millis = Millis(70);

impl FakeDriver {
    /// A driver of `host` without pending jobs.
    #[must_use]
    pub fn new(host: FakeHost) -> Self {
        let shown = Shown::default();
        Self { host, jobs: BTreeMap::new(), asked: 0, shown, seen_until: Timestamp(0) }
    }

    /// Starts a pull with the credentials of the cluster for the image's registry, if it has some.
    pub fn pull(
        &mut self,
        pull: PullRequest,
        credentials: Option<RegistryCredentials>,
        now: Timestamp,
    ) {
        let (takes, _) = self.host.pull_outcome(&pull, credentials.as_ref());
        self.at(now.after(takes), Job::Pull(pull, credentials));
    }

    /// Starts an effect. `Report` is ignored here, and pulls are made without credentials.
    pub fn execute(&mut self, effect: Effect, now: Timestamp) {
        match effect {
            Effect::List => self.at(now, Job::List),
            Effect::Find(pull) => self.at(now, Job::Find(pull)),
            Effect::Pull(pull) => self.pull(pull, None, now),
            Effect::CancelPull(pull) => {
                self.jobs.retain(|_, job| !matches!(job, Job::Pull(asked, _) if *asked == pull));
            }
            Effect::Start(request) => {
                let takes = self.host.start_takes(&request);
                self.at(now.after(takes), Job::Start(request));
            }
            Effect::CancelStart(instance) => self.cancel_start(&instance, now),
            Effect::Stop { instance, container } => {
                let (at, result) = match self.host.stop(&container, now) {
                    Ok(at) => (at, Ok(())),
                    Err(error) => (now, Err(error)),
                };
                self.at(at, Job::Answer(Box::new(Event::Stopped { instance, result })));
            }
            Effect::Remove { instance, container } => {
                self.at(now, Job::Remove { instance, container });
            }
            Effect::Join { request, container } => {
                self.at(now.after(JOIN_TAKES), Job::Join(request, container));
            }
            Effect::RemoveNetworks { keep } => self.at(now, Job::RemoveNetworks(keep)),
            Effect::Report { .. } => {}
        }
    }

    /// All events until `now`, in order.
    pub fn poll(&mut self, now: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            events.extend(self.changes(self.seen_until));
            match self.next_after(self.seen_until).filter(|at| *at <= now) {
                Some(at) => {
                    self.seen_until = at;
                    self.run_due(at, &mut events);
                }
                None => break,
            }
        }
        if self.seen_until < now {
            self.seen_until = now;
            events.extend(self.changes(now));
        }
        events
    }

    /// The next time at which [`FakeDriver::poll`] returns events.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        let job = self.jobs.keys().next().map(|(at, _)| *at);
        let change = self.host.next_change(self.seen_until);
        [job, change].into_iter().flatten().min()
    }

    /// The daemon crashes: pending jobs get no answer. The host continues.
    pub fn drop_jobs(&mut self) {
        self.jobs.clear();
    }

    fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.next_at().map(|next| next.max(at))
    }

    fn run_due(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        while let Some(entry) = self.jobs.first_entry().filter(|entry| entry.key().0 <= now) {
            events.push(match entry.remove() {
                Job::List => {
                    let answer = self.host.answer();
                    Event::Listed(answer.map(|()| self.host.list(now)))
                }
                Job::Find(pull) => {
                    let answer = self.host.answer();
                    let result = answer.map(|()| self.host.find_image(&pull));
                    Event::Found { pull, result }
                }
                Job::Pull(pull, credentials) => {
                    let result = self.finish_pull(&pull, credentials.as_ref());
                    Event::Pulled { pull, result }
                }
                Job::Start(request) => Event::Started {
                    instance: request.instance.clone(),
                    result: self.host.ensure_running(&request, now),
                },
                Job::Join(request, container) => Event::Joined {
                    instance: request.instance.clone(),
                    result: self.host.join_networks(&container, &request, now),
                },
                Job::Answer(event) => *event,
                Job::Remove { instance, container } => {
                    Event::Removed { instance, result: self.host.remove(&container) }
                }
                Job::RemoveNetworks(keep) => {
                    Event::NetworksRemoved(self.host.remove_networks(&keep))
                }
            });
        }
    }

    fn finish_pull(
        &mut self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
    ) -> Result<(), PullError> {
        let answer = self.host.answer();
        answer.map_err(|error| PullError::Unreachable { reason: error.to_string() })?;
        self.host.finish_pull(pull, credentials)
    }

    fn changes(&mut self, at: Timestamp) -> Vec<Event> {
        // An unreachable engine reports nothing; missed changes are reported later.
        if self.host.answer().is_err() {
            return Vec::new();
        }
        self.shown.news(&self.host, at).into_iter().map(Event::Engine).collect()
    }

    fn cancel_start(&mut self, instance: &InstanceId, now: Timestamp) {
        let before = self.jobs.len();
        self.jobs
            .retain(|_, job| !matches!(job, Job::Start(request) if request.instance == *instance));
        if self.jobs.len() < before {
            let result = Err(StartError::Cancelled);
            let answer = Event::Started { instance: instance.clone(), result };
            self.at(now, Job::Answer(Box::new(answer)));
        }
    }

    fn at(&mut self, at: Timestamp, job: Job) {
        self.asked += 1;
        self.jobs.insert((at, self.asked), job);
    }
}
