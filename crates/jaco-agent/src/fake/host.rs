//! The model of one node's engine. What a container does is a pure function of when it was started,
//! what was done to it, and the moment asked about; so nothing has to be kept running.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_compose::model::{ContainerSpec, MountKind};
use jaco_types::{DeploymentName, Exit, ImageDigest, InstanceId, Millis, RegistryName, Timestamp};

use super::script::{Behaviour, ImageScript, SpecKeys};
use crate::engine::{
    CollectedVolume, Collection, ContainerId, ContainerRequest, ContainerSeen, ContainerStatus,
    EngineError, EngineEvent, Extent, Health, ImageSeen, LogLine, LogStream, Owner, PullError,
    PullRequest, StartError,
};
use crate::registry::RegistryCredentials;

/// Whether the engine answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It does.
    Up,
    /// It does not. Its containers go on.
    Down,
}

/// A node's engine, its images and its containers.
#[derive(Debug, Clone)]
pub struct FakeHost {
    pub(super) owner: Owner,
    reach: Reach,
    pub(super) images: BTreeMap<String, ImageScript>,
    /// What its registry says that a name stands for.
    registry: BTreeMap<String, ImageDigest>,
    /// What a name stood for when it was fetched last.
    fetched: BTreeMap<String, ImageDigest>,
    /// The name of each content that the registry ever had.
    names: BTreeMap<ImageDigest, String>,
    /// Who may fetch images, by registry; everybody where none is named.
    demanded: BTreeMap<RegistryName, RegistryCredentials>,
    scripts: BTreeMap<String, Behaviour>,
    pub(super) containers: BTreeMap<ContainerId, FakeContainer>,
    networks: BTreeSet<DeploymentName>,
    /// Named volumes, with the deployments that had them made.
    pub(super) volumes: BTreeMap<String, DeploymentName>,
    pub(super) made: u64,
    /// Containers that were removed, in order: a listener may have slept all their life.
    removed: Vec<(InstanceId, ContainerId)>,
}

/// A container: what it was made from, and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FakeContainer {
    pub(super) request: ContainerRequest,
    pub(super) started_at: Timestamp,
    pub(super) stop_asked_at: Option<Timestamp>,
    pub(super) killed: Option<(Timestamp, Exit)>,
    pub(super) forced_health: Option<Health>,
    pub(super) behaviour: Behaviour,
}

impl FakeHost {
    /// An engine with nothing on it, where every image can be fetched and every container works.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            reach: Reach::Up,
            images: BTreeMap::new(),
            registry: BTreeMap::new(),
            fetched: BTreeMap::new(),
            names: BTreeMap::new(),
            demanded: BTreeMap::new(),
            scripts: BTreeMap::new(),
            containers: BTreeMap::new(),
            networks: BTreeSet::new(),
            volumes: BTreeMap::new(),
            made: 0,
            removed: Vec::new(),
        }
    }

    /// Sets whether the engine answers.
    pub fn set_reach(&mut self, reach: Reach) {
        self.reach = reach;
    }

    /// Sets whether an image can be had.
    pub fn set_image(&mut self, image: &str, script: ImageScript) {
        self.images.insert(image.to_owned(), script);
    }

    /// From now on the registry gives this to whoever asks for an image by this name. Whoever asks
    /// for it by its digest gets the same for ever.
    pub fn move_tag(&mut self, image: &str, digest: &ImageDigest) {
        self.registry.insert(image.to_owned(), digest.clone());
        self.names.insert(digest.clone(), image.to_owned());
    }

    /// What a container was made from, as it was asked for.
    #[must_use]
    pub fn image_of(&self, container: &ContainerId) -> Option<&str> {
        self.containers.get(container).map(|container| &*container.request.image)
    }

    /// The name that scripts know an image by.
    #[must_use]
    pub fn name_of<'a>(&'a self, image: &'a str) -> &'a str {
        let name = ImageDigest::parse(image).and_then(|digest| self.names.get(&digest));
        name.map_or(image, String::as_str)
    }

    /// Sets what containers of an image do that are started from now on; labels go before it.
    pub fn set_behaviour(&mut self, image: &str, behaviour: Behaviour) {
        self.scripts.insert(image.to_owned(), behaviour);
    }

    /// From now on, the healthcheck of this instance says this.
    pub fn set_health(&mut self, instance: &InstanceId, health: Health) {
        for container in self.containers.values_mut() {
            if container.request.instance == *instance {
                container.forced_health = Some(health.clone());
            }
        }
    }

    /// The process of this instance ends now, by itself.
    pub fn kill(&mut self, instance: &InstanceId, exit: Exit, now: Timestamp) {
        for container in self.containers.values_mut() {
            if container.request.instance == *instance && container.ended(now).is_none() {
                container.killed = Some((now, exit));
            }
        }
    }

    /// Somebody removes the container of this instance by hand.
    pub fn vanish(&mut self, instance: &InstanceId) {
        let ids = self.containers.iter().filter(|(_, c)| c.request.instance == *instance);
        let ids: Vec<ContainerId> = ids.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.take(&id);
        }
    }

    /// The machine loses power: every process ends, all containers stay.
    pub fn power_cycle(&mut self, now: Timestamp) {
        let exit = Exit { code: 137, out_of_memory: false };
        for container in self.containers.values_mut() {
            if container.ended(now).is_none() {
                container.killed = Some((now, exit));
            }
        }
    }

    /// The deployments that have networks here.
    #[must_use]
    pub fn networks(&self) -> &BTreeSet<DeploymentName> {
        &self.networks
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// That it does not.
    pub fn answer(&self) -> Result<(), EngineError> {
        match self.reach {
            Reach::Up => Ok(()),
            Reach::Down => {
                Err(EngineError::Unreachable { reason: "the fake engine is down".to_owned() })
            }
        }
    }

    /// Every container, as it is at `now`.
    #[must_use]
    pub fn list(&self, now: Timestamp) -> Vec<ContainerSeen> {
        self.containers.iter().map(|(id, container)| self.show(id, container, now)).collect()
    }

    /// The next moment after `now` at which some container changes by itself.
    #[must_use]
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let changes = self.containers.values().flat_map(FakeContainer::changes);
        changes.filter(|at| *at > now).min()
    }

    /// From now on this registry gives images to the bearer of these credentials only.
    pub fn demand(&mut self, credentials: RegistryCredentials) {
        self.demanded.insert(credentials.registry.clone(), credentials);
    }

    /// How long a pull takes, and what comes of it.
    pub fn pull_outcome(
        &self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
    ) -> (Millis, Result<(), PullError>) {
        let registry = RegistryName::of_image(&pull.image);
        let demanded = registry.and_then(|registry| self.demanded.get(&registry));
        if demanded.is_some_and(|demanded| credentials != Some(demanded)) {
            let reason = match credentials {
                Some(_) => "unauthorized: incorrect username or password",
                None => "no basic auth credentials",
            };
            return (Millis(0), Err(PullError::Refused { reason: reason.to_owned() }));
        }
        let known = self.images.get(&*pull.image);
        match known.or_else(|| self.source_of(&pull.image)).cloned().unwrap_or_default() {
            ImageScript::Present => (Millis(0), Ok(())),
            ImageScript::Pullable { takes } => (takes, Ok(())),
            ImageScript::Failing { takes, reason } => (takes, Err(PullError::Refused { reason })),
        }
    }

    /// How an image is had that is asked for by its digest: as by its name, where that is not here.
    fn source_of(&self, image: &str) -> Option<&ImageScript> {
        self.images.get(self.name_of(image)).filter(|script| **script != ImageScript::Present)
    }

    /// See [`crate::ContainerEngine::find_image`].
    #[must_use]
    pub fn find_image(&self, pull: &PullRequest) -> Option<ImageSeen> {
        let is_here = self.images.get(&*pull.image) == Some(&ImageScript::Present);
        let fetched = || self.fetched.get(&*pull.image).cloned();
        let digest = || ImageDigest::parse(&pull.image).or_else(fetched);
        is_here.then(|| ImageSeen { digest: digest() })
    }

    /// A pull is done.
    ///
    /// # Errors
    /// What the registry said.
    pub fn finish_pull(
        &mut self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
    ) -> Result<(), PullError> {
        let (_, outcome) = self.pull_outcome(pull, credentials);
        outcome?;
        self.images.insert(pull.image.to_string(), ImageScript::Present);
        if let Some(digest) = self.registry.get(&*pull.image) {
            self.images.insert(digest.to_string(), ImageScript::Present);
            self.fetched.insert(pull.image.to_string(), digest.clone());
        }
        Ok(())
    }

    /// How long the engine takes to start this.
    #[must_use]
    pub fn start_takes(&self, request: &ContainerRequest) -> Millis {
        self.behaviour(request).start_takes
    }

    /// See [`crate::ContainerEngine::ensure_running`].
    ///
    /// # Errors
    /// What the script says, or that the image is absent.
    pub fn ensure_running(
        &mut self,
        request: &ContainerRequest,
        now: Timestamp,
    ) -> Result<ContainerSeen, StartError> {
        self.answer()?;
        let known = self.containers.iter().find(|(_, c)| c.request.instance == request.instance);
        if let Some((id, container)) = known {
            return Ok(self.show(id, container, now));
        }
        self.require_image(request)?;
        let behaviour = self.behaviour(request);
        if let Some(reason) = behaviour.refuse {
            return Err(StartError::refused(reason));
        }
        self.made += 1;
        let id = ContainerId(format!("fake-{}-{}", self.owner.node, self.made).into());
        let deployment = &request.service.deployment;
        self.networks.insert(deployment.clone());
        for name in volume_names(deployment, &request.container) {
            self.volumes.entry(name).or_insert_with(|| deployment.clone());
        }
        let container = FakeContainer {
            request: request.clone(),
            started_at: now,
            stop_asked_at: None,
            killed: None,
            forced_health: None,
            behaviour,
        };
        let seen = self.show(&id, &container, now);
        self.containers.insert(id, container);
        Ok(seen)
    }

    fn require_image(&mut self, request: &ContainerRequest) -> Result<(), StartError> {
        if let Some(reason) = SpecKeys::read(&request.container).pull_error() {
            let script = ImageScript::Failing { takes: Millis(0), reason: reason.clone() };
            self.images.entry(request.image.to_string()).or_insert(script);
        }
        match self.images.get(&*request.image) {
            Some(ImageScript::Present) => Ok(()),
            Some(ImageScript::Pullable { .. } | ImageScript::Failing { .. }) | None => {
                Err(StartError::ImageAbsent { image: request.image.to_string() })
            }
        }
    }

    fn behaviour(&self, request: &ContainerRequest) -> Behaviour {
        let base = self.scripts.get(self.name_of(&request.image)).cloned().unwrap_or_default();
        SpecKeys::read(&request.container).behaviour(&base)
    }

    /// Sends the stop signal, and tells when the container will have ended.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub fn stop(&mut self, id: &ContainerId, now: Timestamp) -> Result<Timestamp, EngineError> {
        self.answer()?;
        let Some(container) = self.containers.get_mut(id) else { return Ok(now) };
        container.stop_asked_at.get_or_insert(now);
        Ok(container.end().map_or(now, |(at, _)| at.max(now)))
    }

    /// See [`crate::ContainerEngine::remove`].
    ///
    /// # Errors
    /// When the engine does not answer.
    pub fn remove(&mut self, id: &ContainerId) -> Result<(), EngineError> {
        self.answer()?;
        self.take(id);
        Ok(())
    }

    fn take(&mut self, id: &ContainerId) {
        if let Some(container) = self.containers.remove(id) {
            self.removed.push((container.request.instance, id.clone()));
        }
    }

    /// See [`crate::ContainerEngine::remove_networks`].
    ///
    /// # Errors
    /// When the engine does not answer.
    pub fn remove_networks(&mut self, keep: &BTreeSet<DeploymentName>) -> Result<(), EngineError> {
        self.answer()?;
        let used: BTreeSet<DeploymentName> =
            self.containers.values().map(|c| c.request.service.deployment.clone()).collect();
        self.networks.retain(|name| keep.contains(name) || used.contains(name));
        Ok(())
    }

    /// See [`crate::ContainerEngine::collect_volumes`].
    ///
    /// # Errors
    /// When the engine does not answer.
    pub fn collect_volumes(
        &mut self,
        collection: &Collection,
    ) -> Result<Vec<CollectedVolume>, EngineError> {
        self.answer()?;
        let specs = collection.needed.specs.iter();
        let needed: BTreeSet<String> = specs
            .flat_map(|(deployment, spec)| volume_names(deployment, &spec.container))
            .collect();
        let used = self.containers.values().flat_map(|container| {
            let request = &container.request;
            volume_names(&request.service.deployment, &request.container)
        });
        let used: BTreeSet<String> = used.collect();
        let is_meant = |deployment: &DeploymentName| {
            collection.deployment.as_ref().is_none_or(|wanted| wanted == deployment)
                && !collection.needed.whole.contains(deployment)
        };
        let left = self.volumes.iter().filter(|(name, of)| is_meant(of) && !needed.contains(*name));
        let is_removed = collection.extent == Extent::Remove;
        let kept = |name: &String| {
            let in_use = is_removed && used.contains(name);
            in_use.then(|| format!("volume {name} is in use"))
        };
        let left: Vec<_> = left
            .map(|(name, deployment)| CollectedVolume {
                deployment: deployment.clone(),
                name: name.clone(),
                kept: kept(name),
            })
            .collect();
        if is_removed {
            for volume in left.iter().filter(|volume| volume.kept.is_none()) {
                self.volumes.remove(&volume.name);
            }
        }
        Ok(left)
    }

    /// What a container wrote until `now`: that it started, and how it ended.
    #[must_use]
    pub fn log(&self, id: &ContainerId, now: Timestamp) -> Option<Vec<LogLine>> {
        let container = self.containers.get(id)?;
        let line = |at, text| LogLine { stream: LogStream::Stdout, at: Some(at), text };
        let started = format!("{} started", container.request.image);
        let mut lines = vec![line(container.started_at, started)];
        if let Some((at, exit)) = container.ended(now) {
            lines.push(line(at, format!("exited with {}", exit.code)));
        }
        Some(lines)
    }

    fn show(&self, id: &ContainerId, container: &FakeContainer, now: Timestamp) -> ContainerSeen {
        ContainerSeen {
            instance: container.request.instance.clone(),
            service: container.request.service.clone(),
            owner: self.owner.clone(),
            container: id.clone(),
            status: container.status(now),
            ports: BTreeMap::new(),
            spec_hash: Some(container.request.spec_hash),
        }
    }
}

impl FakeContainer {
    fn status(&self, now: Timestamp) -> ContainerStatus {
        match self.ended(now) {
            Some((finished_at, exit)) => ContainerStatus::Ended {
                exit,
                error: Box::default(),
                output: match exit.code {
                    0 => Box::default(),
                    code => format!("exited with {code}").into(),
                },
                started_at: Some(self.started_at),
                finished_at,
            },
            None => ContainerStatus::Up { health: self.health(now), started_at: self.started_at },
        }
    }

    fn health(&self, now: Timestamp) -> Health {
        if !SpecKeys::read(&self.request.container).is_checked(self.behaviour.image_check) {
            return Health::None;
        }
        if let Some(health) = &self.forced_health {
            return health.clone();
        }
        let age = now.since(self.started_at);
        if self.behaviour.unhealthy_after.is_some_and(|after| age >= after) {
            return Health::Unhealthy { output: "the script says so".to_owned() };
        }
        if age >= self.behaviour.healthy_after { Health::Healthy } else { Health::Starting }
    }

    /// How it ended, if it has by `now`.
    pub(super) fn ended(&self, now: Timestamp) -> Option<(Timestamp, Exit)> {
        self.end().filter(|(at, _)| *at <= now)
    }

    /// When and how it will end: whatever comes first.
    fn end(&self) -> Option<(Timestamp, Exit)> {
        let by_itself =
            self.behaviour.exit.map(|(after, exit)| (self.started_at.after(after), exit));
        let ends = [by_itself, self.killed, self.stop_asked_at.map(|at| self.end_of_stop(at))];
        ends.into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn end_of_stop(&self, asked_at: Timestamp) -> (Timestamp, Exit) {
        let grace = SpecKeys::read(&self.request.container).grace();
        let takes = self.behaviour.stop_takes;
        let code = if takes > grace { 137 } else { 0 };
        (asked_at.after(takes.min(grace)), Exit { code, out_of_memory: false })
    }

    /// The moments at which it changes by itself.
    fn changes(&self) -> impl Iterator<Item = Timestamp> {
        let after_start = |after: Millis| self.started_at.after(after);
        let health = [
            Some(after_start(self.behaviour.healthy_after)),
            self.behaviour.unhealthy_after.map(after_start),
        ];
        health.into_iter().flatten().chain(self.end().map(|(at, _)| at))
    }
}

/// The named volumes of a container, by name; none where it cannot be read.
fn volume_names(deployment: &DeploymentName, container: &str) -> BTreeSet<String> {
    let Ok(container) = serde_json::from_str::<ContainerSpec>(container) else {
        return BTreeSet::new();
    };
    let mounts = container.service.volumes.iter().filter(|mount| mount.kind == MountKind::Volume);
    let own = mounts.filter_map(|mount| {
        let key = mount.source.as_deref()?;
        let declared = container.volumes.get(key);
        let is_external = declared.is_some_and(|volume| volume.external);
        let name = declared.map(|volume| volume.name.clone()).filter(|name| !name.is_empty());
        (!is_external).then(|| name.unwrap_or_else(|| format!("{deployment}_{key}")))
    });
    own.collect()
}

/// What one listener has been told of a host.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    containers: BTreeMap<ContainerId, ContainerSeen>,
    removed: usize,
}

impl Shown {
    /// A listener that only wants to know what happens from now on.
    pub(super) fn until(host: &FakeHost, now: Timestamp) -> Self {
        let mut shown = Self::default();
        drop(shown.news(host, now));
        shown
    }

    /// What happened since it was last asked, as an engine would tell it.
    pub(super) fn news(&mut self, host: &FakeHost, now: Timestamp) -> Vec<EngineEvent> {
        let removed = host.removed[self.removed..].iter().cloned();
        let mut events: Vec<EngineEvent> = removed
            .map(|(instance, container)| EngineEvent::Gone { instance, container })
            .collect();
        let list: BTreeMap<ContainerId, ContainerSeen> =
            host.list(now).into_iter().map(|seen| (seen.container.clone(), seen)).collect();
        let changed = list.iter().filter(|(id, seen)| self.containers.get(id) != Some(seen));
        events.extend(changed.map(|(_, seen)| EngineEvent::Changed(seen.clone())));
        *self = Self { containers: list, removed: host.removed.len() };
        events
    }
}

/// For the records: ids as plain text.
pub(super) fn container_id(text: &str) -> ContainerId {
    ContainerId(Arc::from(text))
}
