//! Model of one node's engine. The status of a container is a pure function of its start time, the
//! operations on it and the current time, so no background work is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_compose::model::{ContainerSpec, MountKind};
use jaco_types::{
    BlobDigest, DeploymentName, Exit, ImageDigest, InstanceAddress, InstanceId, Ipv4Prefix, Millis,
    NetworkId, RegistryName, Subnet, Timestamp,
};

use super::script::{Behaviour, ImageScript, SpecKeys};
use crate::engine::RegistryCredentials;
use crate::engine::{
    AttachedNetwork, CollectedVolume, ContainerId, ContainerRequest, ContainerStatus, EngineError,
    EngineEvent, GcMode, Health, KeptNetworks, LogLine, LogStream, ObservedContainer,
    ObservedImage, Owner, PullError, PullRequest, StartError, VolumeGc,
};

/// What the kernel says where nothing can be written.
const NO_SPACE: &str = "no space left on device";

/// Whether the engine is reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reachability {
    /// Reachable.
    Up,
    /// Unreachable; its containers continue.
    Down,
}

/// Whether the disk of the engine takes anything more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// It does.
    Left,
    /// Nothing can be pulled or created; containers that run go on, and stop and are removed.
    None,
}

/// A node's engine with its images and containers.
#[derive(Debug, Clone)]
pub struct FakeHost {
    pub(super) owner: Owner,
    reach: Reachability,
    space: Space,
    pub(super) images: BTreeMap<String, ImageScript>,
    /// Layers of pushed images that it has, by the SHA-256 of what is unpacked.
    pub(super) layers: BTreeSet<BlobDigest>,
    /// Digest that the registry returns for a name.
    registry: BTreeMap<String, ImageDigest>,
    /// Digest of a name at its last pull.
    fetched: BTreeMap<String, ImageDigest>,
    /// Name of each digest that the registry ever had.
    names: BTreeMap<ImageDigest, String>,
    /// Credentials required by registry; none required if absent.
    required_credentials: BTreeMap<RegistryName, RegistryCredentials>,
    scripts: BTreeMap<String, Behaviour>,
    pub(super) containers: BTreeMap<ContainerId, FakeContainer>,
    networks: BTreeSet<DeploymentName>,
    /// Networks of the cluster.
    pub(super) cluster_networks: BTreeMap<NetworkId, Subnet>,
    /// Addresses of networks that are not JACO's.
    foreign_networks: Vec<Ipv4Prefix>,
    /// Named volumes, with the deployments they were created for.
    pub(super) volumes: BTreeMap<String, DeploymentName>,
    pub(super) made: u64,
    /// Removed containers in order: an observer may miss a whole lifetime.
    removed: Vec<(InstanceId, ContainerId)>,
}

/// A container: its request and the operations on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FakeContainer {
    pub(super) request: ContainerRequest,
    /// What of its spec the fake evaluates: it is asked for at every look.
    pub(super) keys: SpecKeys,
    pub(super) started_at: Timestamp,
    pub(super) stop_asked_at: Option<Timestamp>,
    pub(super) killed: Option<(Timestamp, Exit)>,
    pub(super) forced_health: Option<Health>,
    pub(super) behaviour: Behaviour,
}

impl FakeHost {
    /// An empty engine where every image can be pulled and every container works.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            reach: Reachability::Up,
            space: Space::Left,
            images: BTreeMap::new(),
            layers: BTreeSet::new(),
            registry: BTreeMap::new(),
            fetched: BTreeMap::new(),
            names: BTreeMap::new(),
            required_credentials: BTreeMap::new(),
            scripts: BTreeMap::new(),
            containers: BTreeMap::new(),
            networks: BTreeSet::new(),
            cluster_networks: BTreeMap::new(),
            foreign_networks: Vec::new(),
            volumes: BTreeMap::new(),
            made: 0,
            removed: Vec::new(),
        }
    }

    /// Sets whether the engine is reachable.
    pub fn set_reachability(&mut self, reach: Reachability) {
        self.reach = reach;
    }

    /// Sets whether the disk takes anything more.
    pub fn set_space(&mut self, space: Space) {
        self.space = space;
    }

    /// Sets whether an image can be pulled.
    pub fn set_image(&mut self, image: &str, script: ImageScript) {
        self.images.insert(image.to_owned(), script);
    }

    /// The registry returns this digest for the name from now on. A pull by digest always returns
    /// the same image.
    pub fn move_tag(&mut self, image: &str, digest: &ImageDigest) {
        self.registry.insert(image.to_owned(), digest.clone());
        self.names.insert(digest.clone(), image.to_owned());
    }

    /// The image a container was requested with.
    #[must_use]
    pub fn image_of(&self, container: &ContainerId) -> Option<&str> {
        self.containers.get(container).map(|container| &*container.request.image)
    }

    /// The name of an image in scripts.
    #[must_use]
    pub fn name_of<'a>(&'a self, image: &'a str) -> &'a str {
        let name = ImageDigest::parse(image).and_then(|digest| self.names.get(&digest));
        name.map_or(image, String::as_str)
    }

    /// Sets the behaviour of containers of an image that start from now on; labels take precedence.
    pub fn set_behaviour(&mut self, image: &str, behaviour: Behaviour) {
        self.scripts.insert(image.to_owned(), behaviour);
    }

    /// Overrides the health of this instance from now on.
    pub fn set_health(&mut self, instance: &InstanceId, health: Health) {
        for container in self.containers.values_mut() {
            if container.request.instance == *instance {
                container.forced_health = Some(health.clone());
            }
        }
    }

    /// Makes the process of this instance exit now.
    pub fn kill(&mut self, instance: &InstanceId, exit: Exit, now: Timestamp) {
        for container in self.containers.values_mut() {
            if container.request.instance == *instance && container.ended(now).is_none() {
                container.killed = Some((now, exit));
            }
        }
    }

    /// Removes the container of this instance behind the agent's back.
    pub fn remove_by_hand(&mut self, instance: &InstanceId) {
        let ids = self.containers.iter().filter(|(_, c)| c.request.instance == *instance);
        let ids: Vec<ContainerId> = ids.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.take(&id);
        }
    }

    /// Power cycle: every process ends, all containers stay.
    pub fn power_cycle(&mut self, now: Timestamp) {
        let exit = Exit { code: 137, out_of_memory: false };
        for container in self.containers.values_mut() {
            if container.ended(now).is_none() {
                container.killed = Some((now, exit));
            }
        }
    }

    /// Deployments with networks here.
    #[must_use]
    pub fn networks(&self) -> &BTreeSet<DeploymentName> {
        &self.networks
    }

    /// Networks of the cluster here.
    #[must_use]
    pub fn cluster_networks(&self) -> &BTreeMap<NetworkId, Subnet> {
        &self.cluster_networks
    }

    /// Makes these the networks that other users have on this engine.
    pub fn set_foreign_networks(&mut self, networks: Vec<Ipv4Prefix>) {
        self.foreign_networks = networks;
    }

    /// The addresses of the containers that run now, by instance.
    #[must_use]
    pub fn addresses(&self, now: Timestamp) -> BTreeMap<InstanceId, Vec<InstanceAddress>> {
        let running = self.containers.values().filter(|container| container.ended(now).is_none());
        let addresses = running.map(|container| {
            let request = &container.request;
            (request.instance.clone(), request.networks.iter().map(address_in).collect())
        });
        addresses.collect()
    }

    /// Whether the engine is reachable.
    ///
    /// # Errors
    /// If it is not.
    pub fn answer(&self) -> Result<(), EngineError> {
        match self.reach {
            Reachability::Up => Ok(()),
            Reachability::Down => {
                Err(EngineError::Unreachable { reason: "the fake engine is down".to_owned() })
            }
        }
    }

    /// All containers, as of `now`.
    #[must_use]
    pub fn list(&self, now: Timestamp) -> Vec<ObservedContainer> {
        self.containers.iter().map(|(id, container)| self.show(id, container, now)).collect()
    }

    /// One of its containers, if there is any.
    #[must_use]
    pub fn any(&self, now: Timestamp) -> Option<ObservedContainer> {
        self.containers.iter().next().map(|(id, container)| self.show(id, container, now))
    }

    /// The next time after `now` at which a container changes by itself.
    #[must_use]
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        // Asked after each event of a simulation, in builds without optimisation.
        let mut next = None;
        for container in self.containers.values() {
            for at in container.changes() {
                if at > Some(now) && (next.is_none() || at < next) {
                    next = at;
                }
            }
        }
        next
    }

    /// Requires these credentials for pulls from their registry from now on.
    pub fn require_credentials(&mut self, credentials: RegistryCredentials) {
        self.required_credentials.insert(credentials.registry.clone(), credentials);
    }

    /// Duration and result of a pull.
    pub fn pull_outcome(
        &self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
    ) -> (Millis, Result<(), PullError>) {
        let registry = RegistryName::of_image(&pull.image);
        let required_credentials =
            registry.and_then(|registry| self.required_credentials.get(&registry));
        if required_credentials
            .is_some_and(|required_credentials| credentials != Some(required_credentials))
        {
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

    /// Script of an image requested by digest: that of its name, unless the digest is on the host.
    fn source_of(&self, image: &str) -> Option<&ImageScript> {
        self.images.get(self.name_of(image)).filter(|script| **script != ImageScript::Present)
    }

    /// See [`crate::ContainerEngine::find_image`].
    #[must_use]
    pub fn find_image(&self, pull: &PullRequest) -> Option<ObservedImage> {
        let is_here = self.images.get(&*pull.image) == Some(&ImageScript::Present);
        let fetched = || self.fetched.get(&*pull.image).cloned();
        let digest = || ImageDigest::parse(&pull.image).or_else(fetched);
        is_here.then(|| ObservedImage { digest: digest() })
    }

    /// Completes a pull.
    ///
    /// # Errors
    /// See [`PullError`].
    pub fn finish_pull(
        &mut self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
    ) -> Result<(), PullError> {
        let (_, outcome) = self.pull_outcome(pull, credentials);
        outcome?;
        let is_here = self.images.get(&*pull.image) == Some(&ImageScript::Present);
        if self.space == Space::None && !is_here {
            return Err(PullError::Refused { reason: NO_SPACE.to_owned() });
        }
        self.images.insert(pull.image.to_string(), ImageScript::Present);
        if let Some(digest) = self.registry.get(&*pull.image) {
            self.images.insert(digest.to_string(), ImageScript::Present);
            self.fetched.insert(pull.image.to_string(), digest.clone());
        }
        Ok(())
    }

    /// Duration of this start.
    #[must_use]
    pub fn start_takes(&self, request: &ContainerRequest) -> Millis {
        self.behaviour(request).start_takes
    }

    /// See [`crate::ContainerEngine::ensure_running`].
    ///
    /// # Errors
    /// As scripted, or because the image is absent.
    pub fn ensure_running(
        &mut self,
        request: &ContainerRequest,
        now: Timestamp,
    ) -> Result<ObservedContainer, StartError> {
        self.answer()?;
        let known = self.containers.iter().find(|(_, c)| c.request.instance == request.instance);
        if let Some((id, container)) = known {
            return Ok(self.show(id, container, now));
        }
        self.require_image(request)?;
        if self.space == Space::None {
            return Err(StartError::refused(NO_SPACE.to_owned()));
        }
        let behaviour = self.behaviour(request);
        if let Some(reason) = behaviour.refuse {
            return Err(StartError::refused(reason));
        }
        self.attach(request, now)?;
        self.made += 1;
        let id = ContainerId(format!("fake-{}-{}", self.owner.node, self.made).into());
        let deployment = &request.service.deployment;
        for name in volume_names(deployment, &request.container) {
            self.volumes.entry(name).or_insert_with(|| deployment.clone());
        }
        let container = FakeContainer {
            request: request.clone(),
            keys: SpecKeys::read(&request.container),
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

    /// Ensures the networks of a container, in which nobody else may have its addresses.
    fn attach(&mut self, request: &ContainerRequest, now: Timestamp) -> Result<(), StartError> {
        if request.networks.is_empty() {
            self.networks.insert(request.service.deployment.clone());
            return Ok(());
        }
        let wanted: Vec<InstanceAddress> = request.networks.iter().map(address_in).collect();
        let others = self.addresses(now);
        let mut taken = others.iter().flat_map(|(id, all)| all.iter().map(move |one| (id, one)));
        if let Some((holder, one)) = taken.find(|(_, one)| wanted.contains(one)) {
            let address = one.address;
            let reason = format!("address {address} is already in use by {}", holder.replica);
            return Err(StartError::refused(reason));
        }
        for network in &request.networks {
            let prefix = network.subnet.prefix();
            let known = self.cluster_networks.iter().filter(|(id, _)| **id != network.id);
            let known = known.map(|(_, subnet)| subnet.prefix());
            let mut others = known.chain(self.foreign_networks.iter().copied());
            if let Some(other) = others.find(|other| other.overlaps(prefix)) {
                return Err(StartError::SubnetInUse {
                    network: network.scope.to_string(),
                    subnet: prefix.to_string(),
                    reason: format!("pool overlaps with {other}"),
                });
            }
            self.cluster_networks.insert(network.id, network.subnet);
        }
        Ok(())
    }

    /// See [`crate::ContainerEngine::join_networks`].
    ///
    /// # Errors
    /// If the engine is unreachable, the container is gone, or another one has an address.
    pub fn join_networks(
        &mut self,
        id: &ContainerId,
        request: &ContainerRequest,
        now: Timestamp,
    ) -> Result<(), StartError> {
        self.answer()?;
        let Some(container) = self.containers.get(id) else {
            return Err(StartError::refused(format!("there is no container {id}")));
        };
        if container.request.networks == request.networks {
            return Ok(());
        }
        self.attach(request, now)?;
        if let Some(container) = self.containers.get_mut(id) {
            container.request.networks.clone_from(&request.networks);
        }
        Ok(())
    }

    fn require_image(&mut self, request: &ContainerRequest) -> Result<(), StartError> {
        if let Some(script) = SpecKeys::read(&request.container).image_script() {
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

    /// Sends the stop signal; returns the time of the exit.
    ///
    /// # Errors
    /// If the engine is unreachable.
    pub fn stop(&mut self, id: &ContainerId, now: Timestamp) -> Result<Timestamp, EngineError> {
        self.answer()?;
        let Some(container) = self.containers.get_mut(id) else { return Ok(now) };
        container.stop_asked_at.get_or_insert(now);
        Ok(container.end().map_or(now, |(at, _)| at.max(now)))
    }

    /// See [`crate::ContainerEngine::remove`].
    ///
    /// # Errors
    /// If the engine is unreachable.
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
    /// If the engine is unreachable.
    pub fn remove_networks(&mut self, keep: &KeptNetworks) -> Result<(), EngineError> {
        self.answer()?;
        let mut used = KeptNetworks::default();
        for FakeContainer { request, .. } in self.containers.values() {
            match request.networks.is_empty() {
                true => drop(used.deployments.insert(request.service.deployment.clone())),
                false => used.cluster.extend(request.networks.iter().map(|network| network.id)),
            }
        }
        let KeptNetworks { deployments, cluster } = keep;
        self.networks.retain(|name| deployments.contains(name) || used.deployments.contains(name));
        self.cluster_networks.retain(|id, _| cluster.contains(id) || used.cluster.contains(id));
        Ok(())
    }

    /// See [`crate::ContainerEngine::collect_volumes`].
    ///
    /// # Errors
    /// If the engine is unreachable.
    pub fn collect_volumes(
        &mut self,
        collection: &VolumeGc,
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
        let is_removed = collection.extent == GcMode::Remove;
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

    /// Log of a container until `now`: its start and its exit.
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

    fn show(
        &self,
        id: &ContainerId,
        container: &FakeContainer,
        now: Timestamp,
    ) -> ObservedContainer {
        ObservedContainer {
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
            Some((finished_at, exit)) => ContainerStatus::Exited {
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
        if !self.keys.is_checked(self.behaviour.image_check) {
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

    /// Exit until `now`, if there was one.
    pub(super) fn ended(&self, now: Timestamp) -> Option<(Timestamp, Exit)> {
        self.end().filter(|(at, _)| *at <= now)
    }

    /// Time and cause of its exit: the first of all possible ones.
    fn end(&self) -> Option<(Timestamp, Exit)> {
        let by_itself =
            self.behaviour.exit.map(|(after, exit)| (self.started_at.after(after), exit));
        let ends = [by_itself, self.killed, self.stop_asked_at.map(|at| self.end_of_stop(at))];
        ends.into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    fn end_of_stop(&self, asked_at: Timestamp) -> (Timestamp, Exit) {
        let grace = self.keys.grace();
        let hooks = match self.keys.has_pre_stop() {
            true => self.behaviour.pre_stop_takes,
            false => Millis(0),
        };
        let takes = Millis(hooks.min(grace).0.saturating_add(self.behaviour.stop_takes.0));
        let code = if takes > grace { 137 } else { 0 };
        (asked_at.after(takes.min(grace)), Exit { code, out_of_memory: false })
    }

    /// Times at which it changes by itself.
    fn changes(&self) -> [Option<Timestamp>; 3] {
        let after_start = |after: Millis| self.started_at.after(after);
        [
            Some(after_start(self.behaviour.healthy_after)),
            self.behaviour.unhealthy_after.map(after_start),
            self.end().map(|(at, _)| at),
        ]
    }
}

fn address_in(network: &AttachedNetwork) -> InstanceAddress {
    InstanceAddress { network: network.id, address: network.address }
}

/// Named volumes of a container; none if its spec cannot be read.
pub(super) fn volume_names(deployment: &DeploymentName, container: &str) -> BTreeSet<String> {
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

/// What an observer has seen of a host.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    containers: BTreeMap<ContainerId, ObservedContainer>,
    removed: usize,
}

impl Shown {
    /// An observer of changes from now on.
    pub(super) fn until(host: &FakeHost, now: Timestamp) -> Self {
        let mut shown = Self::default();
        drop(shown.news(host, now));
        shown
    }

    /// Changes since the last call.
    pub(super) fn news(&mut self, host: &FakeHost, now: Timestamp) -> Vec<EngineEvent> {
        let mut events = Vec::new();
        for (instance, container) in &host.removed[self.removed..] {
            self.containers.remove(container);
            let (instance, container) = (instance.clone(), container.clone());
            events.push(EngineEvent::Gone { instance, container });
        }
        self.removed = host.removed.len();
        for (id, container) in &host.containers {
            let seen = host.show(id, container, now);
            if self.containers.get(id) != Some(&seen) {
                self.containers.insert(id.clone(), seen.clone());
                events.push(EngineEvent::Changed(seen));
            }
        }
        events
    }
}

/// Container ids as plain text, for the records.
pub(super) fn container_id(text: &str) -> ContainerId {
    ContainerId(Arc::from(text))
}
