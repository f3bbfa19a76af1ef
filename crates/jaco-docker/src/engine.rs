//! Implements the engine trait with Docker's API, with as few calls as possible: a start is a
//! create and a start, a check is one list.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bollard::models::{ContainerCreateBody, ContainerSummary, EventMessage, NetworkConnectRequest};
use bollard::query_parameters::{
    CreateContainerOptions, EventsOptions, InspectContainerOptions, ListContainersOptions,
    RemoveContainerOptions, StartContainerOptions, StatsOptions, StopContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures::{StreamExt, TryStreamExt, stream};
use jaco_agent::RegistryCredentials;
use jaco_agent::engine::{
    CollectedVolume, ContainerEngine, ContainerId, ContainerRequest, ContainerStatus, Counters,
    EngineError, EngineEvent, EngineVersion, EventStream, Health, HeldVolume, KeptNetworks,
    LogLines, LogQuery, ObservedContainer, ObservedImage, Owner, ProgressSink, PullError,
    PullRequest, StartError, VolumeGc, VolumeTarget,
};
use jaco_agent::exec::{BesideRequest, ExecInputs, ExecOutputs, ExecRequest};
use jaco_agent::transfer::{Archive, ArchiveInput, BoxConnection, PathStat};
use jaco_compose::model::ContainerSpec;
use jaco_store::{Clock, SystemClock};
use jaco_types::pushed::local_name;
use jaco_types::{BlobDigest, DeploymentName, ImageDigest};
use tokio::sync::OnceCell;

use crate::error::{
    CONFLICT, NOT_FOUND, NOT_MODIFIED, SERVER_ERROR, allow, engine_error, pull_error, refusal,
    status,
};
use crate::network::Networks;
use crate::spec::{self, Check, NeededNetwork, Needs, SpecError};
use crate::volume_class::{VolumeFolders, VolumeHost};
use crate::{
    archive, auth, beside, connect, convert, exec, image, load, logs, names, pre_stop, pull,
    volume, volume_access, volume_content,
};

/// Time limit of a request. A machine that starts dozens of containers is slow, not down.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit of requests that wait by nature: a stop with a long grace period, the first log line
/// of a quiet container.
const LONG_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Concurrent inspects.
const INSPECTS_MAX: usize = 8;

/// Options of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerOptions {
    /// Owner of the containers.
    pub owner: Owner,
    /// Docker's socket.
    pub socket: PathBuf,
    /// The folder of each class of volumes that this node offers, as the machine of the engine knows it.
    pub volumes: VolumeFolders,
}

impl DockerOptions {
    /// Docker at its default socket.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        let socket = PathBuf::from("/var/run/docker.sock");
        Self { owner, socket, volumes: VolumeFolders::new() }
    }
}

/// Docker as one node uses it.
#[derive(Debug)]
pub struct DockerEngine {
    owner: Owner,
    socket: PathBuf,
    /// The client, once there is a socket, the API version is negotiated and nothing of an earlier process is left, which
    /// takes requests.
    prepared: OnceCell<Docker>,
    networks: Arc<Networks>,
    /// Details of each container, valid while its fingerprint in the list is unchanged.
    details: Mutex<HashMap<String, (String, ObservedContainer)>>,
    /// Held from the choice of a container to share a namespace with until the new container is
    /// created, so that siblings that start together choose different ones.
    joining: tokio::sync::Mutex<()>,
    /// Containers through which contents of volumes are read and written.
    accesses: volume_access::InUse,
    volume_folders: Arc<VolumeFolders>,
    /// Held while a volume of a class is made.
    making: Arc<tokio::sync::Mutex<()>>,
}

impl DockerEngine {
    /// Docker at a socket, which need not be there yet: a member of a cluster starts and votes without its engine.
    #[must_use]
    pub fn new(options: DockerOptions) -> Self {
        Self {
            owner: options.owner,
            socket: options.socket,
            prepared: OnceCell::new(),
            networks: Arc::default(),
            details: Mutex::default(),
            joining: tokio::sync::Mutex::default(),
            accesses: volume_access::InUse::default(),
            volume_folders: Arc::new(options.volumes),
            making: Arc::default(),
        }
    }

    /// A client without more. The library refuses to make one while there is no socket.
    fn client(&self) -> Result<Docker, EngineError> {
        let socket = self.socket.to_string_lossy();
        let limit = REQUEST_TIMEOUT.as_secs();
        let docker = Docker::connect_with_unix(&socket, limit, API_DEFAULT_VERSION);
        let docker = docker.map_err(engine_error)?;
        Ok(docker.with_request_modifier(auth::url_safe_auth_header))
    }

    /// The client, with the API version negotiated. No container is started before half restored volumes are removed.
    async fn docker(&self) -> Result<&Docker, EngineError> {
        let prepare = async || {
            let docker = self.client()?.negotiate_version().await.map_err(engine_error)?;
            beside::remove_left(&docker, &self.owner).await?;
            volume_content::remove_left(&self.volumes_of(&docker)).await?;
            Ok(docker)
        };
        self.prepared.get_or_try_init(prepare).await
    }

    /// Through what volumes are reached.
    async fn volume_host(&self) -> Result<VolumeHost, EngineError> {
        Ok(self.volumes_of(self.docker().await?))
    }

    fn volumes_of(&self, docker: &Docker) -> VolumeHost {
        VolumeHost {
            docker: docker.clone(),
            owner: self.owner.clone(),
            in_use: Arc::clone(&self.accesses),
            folders: Arc::clone(&self.volume_folders),
            making: Arc::clone(&self.making),
        }
    }

    /// The engine makes volumes as containers ask for them, but for the folders of those of a class.
    async fn ensure_classed_volumes(&self, needs: &Needs) -> Result<(), StartError> {
        for volume in &needs.classed_volumes {
            let labels = volume.labels.clone();
            let host = self.volume_host().await?;
            host.ensure(&volume.class, &volume.name, labels).await?;
        }
        Ok(())
    }

    async fn inspect(docker: &Docker, id: &str) -> Result<Option<ObservedContainer>, EngineError> {
        match docker.inspect_container(id, None::<InspectContainerOptions>).await {
            Ok(inspected) => {
                let mut seen = convert::seen(inspected);
                if let Some(seen) = &mut seen {
                    Self::read_last_output(docker, seen).await;
                }
                Ok(seen)
            }
            Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
            Err(error) => Err(engine_error(error)),
        }
    }

    /// Reads the last output of a failed container. Errors are ignored.
    async fn read_last_output(docker: &Docker, seen: &mut ObservedContainer) {
        let ContainerStatus::Exited { exit, output, .. } = &mut seen.status else { return };
        if exit.code != 0 {
            *output = logs::last_output(docker.clone(), &seen.container).await.into();
        }
    }

    /// The containers of the services that share a namespace with this one; of several, the one
    /// whose network namespace the fewest siblings joined, then the newest.
    async fn namespace_peers(
        &self,
        docker: &Docker,
        request: &ContainerRequest,
        needs: &Needs,
    ) -> Result<BTreeMap<String, String>, EngineError> {
        let mut found = BTreeMap::new();
        if needs.namespace_peers.is_empty() {
            return Ok(found);
        }
        let own = request.service.service.as_str();
        let siblings = self.list(docker, request, own, &["created", "running"]).await?;
        // Docker lists the newest first. Of each sibling only the newest container counts, because
        // older ones will be removed; of this replica none, for the same reason.
        let mut seen = BTreeSet::from([request.instance.replica.to_string()]);
        let newest = siblings.into_iter().filter(|sibling| {
            let labels = sibling.labels.as_ref();
            let replica = labels.and_then(|labels| labels.get(names::REPLICA));
            replica.is_some_and(|replica| seen.insert(replica.clone()))
        });
        let joined: Vec<String> = newest
            .filter_map(|sibling| sibling.host_config?.network_mode)
            .filter_map(|mode| mode.strip_prefix("container:").map(str::to_owned))
            .collect();
        for service in &needs.namespace_peers {
            let listed = self.list(docker, request, service, &["running"]).await?;
            // `min_by_key` takes the first of equals, the newest.
            let ids = listed.into_iter().filter_map(|summary| summary.id);
            let calmest = ids.min_by_key(|id| joined.iter().filter(|other| *other == id).count());
            if let Some(id) = calmest {
                found.insert(service.clone(), id);
            }
        }
        Ok(found)
    }

    /// Containers on this node of a service of the request's deployment, in one of these states.
    async fn list(
        &self,
        docker: &Docker,
        request: &ContainerRequest,
        service: &str,
        states: &[&str],
    ) -> Result<Vec<ContainerSummary>, EngineError> {
        let mut filters = names::owner_filter(&self.owner);
        let labels = filters.entry("label".to_owned()).or_default();
        labels.push(format!("{}={}", names::DEPLOYMENT, request.service.deployment));
        labels.push(format!("{}={service}", names::SERVICE));
        filters.insert("status".to_owned(), states.iter().map(|&state| state.to_owned()).collect());
        let options = ListContainersOptions {
            all: true,
            filters: Some(filters),
            ..ListContainersOptions::default()
        };
        docker.list_containers(Some(options)).await.map_err(engine_error)
    }

    async fn ensure_networks(
        &self,
        docker: &Docker,
        deployment: &DeploymentName,
        needs: &Needs,
    ) -> Result<(), StartError> {
        for network in &needs.networks {
            self.networks.ensure(docker, &self.owner, deployment, network).await?;
        }
        Ok(())
    }

    /// Docker would silently create an empty volume, so check before the container is created.
    async fn find_external_volumes(
        &self,
        docker: &Docker,
        needs: &Needs,
    ) -> Result<(), StartError> {
        for volume in &needs.external_volumes {
            match docker.inspect_volume(volume).await {
                Ok(_) => {}
                Err(error) if status(&error) == Some(NOT_FOUND) => {
                    let reason = format!("the external volume {volume:?} is not on this node");
                    return Err(StartError::Refused { reason });
                }
                Err(error) => return Err(engine_error(error).into()),
            }
        }
        Ok(())
    }

    /// Creates the container and its networks concurrently: Docker needs the network only at the
    /// start, and creating a network takes as long as creating a container. Docker versions that
    /// check earlier are asked again once the networks exist.
    async fn ensure_container_and_networks(
        &self,
        docker: &Docker,
        request: &ContainerRequest,
        container: &ContainerSpec,
        needs: &Needs,
        body: ContainerCreateBody,
    ) -> Result<Created, StartError> {
        let deployment = &request.service.deployment;
        let (networks, created) = tokio::join!(
            self.ensure_networks(docker, deployment, needs),
            self.ensure_created(docker, request, container, body.clone()),
        );
        match created {
            Err(CreateError::NetworkAbsent(_)) => {
                networks?;
                Ok(self.ensure_created(docker, request, container, body).await?)
            }
            Err(CreateError::Other(error)) => Err(error),
            Ok(created) => networks.map(|()| created),
        }
    }

    /// Creates the container, or finds the one that an earlier attempt created.
    async fn ensure_created(
        &self,
        docker: &Docker,
        request: &ContainerRequest,
        container: &ContainerSpec,
        body: ContainerCreateBody,
    ) -> Result<Created, CreateError> {
        let name = names::container(&self.owner, &request.instance);
        let platform = container.service.platform.clone().unwrap_or_default();
        let options = CreateContainerOptions { name: Some(name.clone()), platform };
        let created = match docker.create_container(Some(options.clone()), body.clone()).await {
            // A pushed image that is pinned is there under a tag of its own.
            Err(error)
                if is_image_absent(&error) && *local_name(&request.image) != *request.image =>
            {
                let image = Some(local_name(&request.image));
                docker.create_container(Some(options), ContainerCreateBody { image, ..body }).await
            }
            created => created,
        };
        match created {
            Ok(created) => Ok(Created::Now(created.id)),
            Err(error) if status(&error) == Some(CONFLICT) => {
                match Self::inspect(docker, &name).await.map_err(StartError::from)? {
                    Some(seen) if seen.owner == self.owner => Ok(Created::Before(Box::new(seen))),
                    Some(_) | None => Err(StartError::from(engine_error(error)).into()),
                }
            }
            Err(error) if is_image_absent(&error) => {
                Err(StartError::ImageAbsent { image: request.image.to_string() }.into())
            }
            Err(error) if is_network_absent(&error) => {
                Err(CreateError::NetworkAbsent(engine_error(error).into()))
            }
            Err(error) => Err(StartError::from(engine_error(error)).into()),
        }
    }

    /// Docker attaches one network at creation; the others are connected before the start, so that
    /// the process never runs without them.
    async fn connect<'n>(
        &self,
        docker: &Docker,
        id: &str,
        networks: impl Iterator<Item = &'n NeededNetwork> + Send,
    ) -> Result<(), StartError> {
        for network in networks {
            let endpoint_config = Some(network.endpoint.clone());
            let connect = NetworkConnectRequest { container: id.to_owned(), endpoint_config };
            match docker.connect_network(&network.name, connect).await {
                Ok(()) => {}
                // An interrupted attempt got this far.
                Err(error) if is_connected(&error) => {}
                Err(error) => {
                    self.networks.forget(&network.name);
                    return Err(engine_error(error).into());
                }
            }
        }
        Ok(())
    }

    async fn start(
        &self,
        docker: &Docker,
        id: &str,
        deployment: &DeploymentName,
        needs: &Needs,
    ) -> Result<(), StartError> {
        let start = async || docker.start_container(id, None::<StartContainerOptions>).await;
        match start().await {
            Err(error) if is_network_absent(&error) => {
                // Removed by another client, or since the last check: created again, once.
                for network in &needs.networks {
                    self.networks.forget(&network.name);
                }
                self.ensure_networks(docker, deployment, needs).await?;
                Ok(allow(start().await, &[NOT_MODIFIED])?)
            }
            result => Ok(allow(result, &[NOT_MODIFIED])?),
        }
    }

    /// Status of a container that was just started, without an inspect where it is known: not if
    /// Docker chose a port, or if the image may have a healthcheck.
    async fn started(
        &self,
        docker: &Docker,
        id: String,
        request: &ContainerRequest,
        container: &ContainerSpec,
    ) -> Result<ObservedContainer, StartError> {
        let service = &container.service;
        let check = spec::check_of(service);
        let is_known = service.ports.is_empty() && check != Check::OfImage;
        if !is_known && let Some(seen) = Self::inspect(docker, &id).await? {
            return Ok(seen);
        }
        let health = match check {
            Check::Declared | Check::OfImage => Health::Starting,
            Check::Off => Health::None,
        };
        Ok(ObservedContainer {
            instance: request.instance.clone(),
            service: request.service.clone(),
            owner: self.owner.clone(),
            container: ContainerId(id.into()),
            status: ContainerStatus::Up { health, started_at: SystemClock.now() },
            ports: BTreeMap::new(),
            spec_hash: Some(request.spec_hash),
        })
    }

    /// Details of a listed container: cached unless its fingerprint changed.
    async fn detail(
        &self,
        docker: &Docker,
        summary: ContainerSummary,
    ) -> Result<Option<(String, String, ObservedContainer)>, EngineError> {
        let fingerprint = convert::fingerprint(&summary);
        let Some(id) = summary.id else { return Ok(None) };
        let known = self.details.lock().expect("no holder of the lock panics").get(&id).cloned();
        let seen = match known {
            Some((known_face, seen)) if known_face == fingerprint => Some(seen),
            Some(_) | None => Self::inspect(docker, &id).await?,
        };
        Ok(seen.map(|seen| (id, fingerprint, seen)))
    }
}

/// A container, and whether it existed before.
enum Created {
    Now(String),
    Before(Box<ObservedContainer>),
}

/// Why a container was not created.
enum CreateError {
    /// One of its networks does not exist (yet).
    NetworkAbsent(StartError),
    Other(StartError),
}

impl From<StartError> for CreateError {
    fn from(error: StartError) -> Self {
        Self::Other(error)
    }
}

impl From<CreateError> for StartError {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::NetworkAbsent(error) | CreateError::Other(error) => error,
        }
    }
}

#[async_trait]
impl ContainerEngine for DockerEngine {
    async fn version(&self) -> Result<EngineVersion, EngineError> {
        let version = self.docker().await?.version().await.map_err(engine_error)?;
        let version = version.version.unwrap_or_default();
        Ok(EngineVersion { name: "docker".to_owned(), version })
    }

    async fn list_owned(&self) -> Result<Vec<ObservedContainer>, EngineError> {
        let docker = self.docker().await?;
        let options = ListContainersOptions {
            all: true,
            filters: Some(names::owner_filter(&self.owner)),
            ..ListContainersOptions::default()
        };
        let listed = docker.list_containers(Some(options)).await.map_err(engine_error)?;
        let details = stream::iter(listed)
            .map(|summary| self.detail(docker, summary))
            .buffer_unordered(INSPECTS_MAX)
            .try_collect::<Vec<_>>()
            .await?;
        let mut known = HashMap::new();
        let mut all = Vec::new();
        for (id, fingerprint, seen) in details.into_iter().flatten() {
            known.insert(id, (fingerprint, seen.clone()));
            all.push(seen);
        }
        *self.details.lock().expect("no holder of the lock panics") = known;
        all.retain(|seen| seen.owner == self.owner);
        all.sort_by(|a, b| a.instance.cmp(&b.instance));
        Ok(all)
    }

    async fn events(&self) -> Result<EventStream, EngineError> {
        let docker = self.docker().await?.clone().with_timeout(LONG_TIMEOUT);
        let mut filters = names::owner_filter(&self.owner);
        filters.insert("type".to_owned(), vec!["container".to_owned()]);
        let kinds = ["die", "health_status", "destroy"];
        filters.insert("event".to_owned(), kinds.map(str::to_owned).to_vec());
        // The request is sent when the stream is first polled. With a start time Docker replays
        // events since then.
        let now = SystemClock.now().0;
        let since = Some(format!("{}.{:03}", now / 1000, now % 1000));
        let options = EventsOptions { since, until: None, filters: Some(filters) };
        let messages = docker.events(Some(options));
        let events = messages.then(move |message| {
            let docker = docker.clone();
            async move { translate(&docker, message.map_err(engine_error)?).await }
        });
        Ok(events.try_filter_map(async |event| Ok(event)).boxed())
    }

    async fn pull(
        &self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
        progress: ProgressSink,
    ) -> Result<(), PullError> {
        let docker = self.docker().await.map_err(pull_error)?;
        pull::pull(docker, pull, credentials, progress).await
    }

    async fn find_image(&self, pull: &PullRequest) -> Result<Option<ObservedImage>, EngineError> {
        let docker = self.docker().await?;
        match docker.inspect_image(&pull.image).await {
            Ok(image) => {
                let digests = image.repo_digests.unwrap_or_default();
                Ok(Some(ObservedImage { digest: image::digest_of(&pull.image, &digests) }))
            }
            Err(error) if status(&error) == Some(NOT_FOUND) => find_pushed(docker, pull).await,
            Err(error) => Err(engine_error(error)),
        }
    }

    async fn known_layers(&self, layers: &[BlobDigest]) -> Result<usize, EngineError> {
        load::known_layers(self.docker().await?, layers).await
    }

    async fn load_image(
        &self,
        image: &PullRequest,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        let docker = self.docker().await?.clone().with_timeout(LONG_TIMEOUT);
        load::load(docker, archive).await?;
        match self.find_image(image).await? {
            Some(_) => Ok(()),
            None => {
                let reason = format!("Docker loaded {} and does not have it", image.image);
                Err(EngineError::Refused { reason })
            }
        }
    }

    async fn prepare_networks(&self, request: &ContainerRequest) -> Result<(), StartError> {
        let docker = self.docker().await?;
        let container = spec::read(&request.container).map_err(unsupported)?;
        let needs = spec::needs(&self.owner, request, &container);
        self.ensure_networks(docker, &request.service.deployment, &needs).await
    }

    async fn join_networks(
        &self,
        container: &ContainerId,
        request: &ContainerRequest,
    ) -> Result<(), StartError> {
        let docker = self.docker().await?;
        let spec = spec::read(&request.container).map_err(unsupported)?;
        let needs = spec::joined(&self.owner, request, &spec);
        if needs.networks.is_empty() {
            let reason = "it has no network of its own".to_owned();
            return Err(StartError::Unsupported { reason });
        }
        self.ensure_networks(docker, &request.service.deployment, &needs).await?;
        self.connect(docker, &container.0, needs.networks.iter()).await
    }

    async fn ensure_running(
        &self,
        request: &ContainerRequest,
    ) -> Result<ObservedContainer, StartError> {
        let docker = self.docker().await?;
        let container = spec::read(&request.container).map_err(unsupported)?;
        let needs = spec::needs(&self.owner, request, &container);
        let joining = match needs.namespace_peers.is_empty() {
            true => None,
            false => Some(self.joining.lock().await),
        };
        let namespace_peers = self.namespace_peers(docker, request, &needs).await?;
        let body = spec::body(&self.owner, request, &container, &needs, &namespace_peers)
            .map_err(unsupported)?;
        let deployment = &request.service.deployment;
        self.find_external_volumes(docker, &needs).await?;
        self.ensure_classed_volumes(&needs).await?;
        let id = match self
            .ensure_container_and_networks(docker, request, &container, &needs, body)
            .await?
        {
            Created::Now(id) => id,
            Created::Before(seen) => match seen.status {
                ContainerStatus::Up { .. } | ContainerStatus::Exited { .. } => return Ok(*seen),
                ContainerStatus::Created => seen.container.to_string(),
            },
        };
        drop(joining);
        self.connect(docker, &id, needs.networks.iter().skip(1)).await?;
        self.start(docker, &id, deployment, &needs).await?;
        self.started(docker, id, request, &container).await
    }

    async fn stop(&self, container: &ContainerId) -> Result<(), EngineError> {
        let docker = self.docker().await?.clone().with_timeout(LONG_TIMEOUT);
        // Without a timeout Docker uses the one of the container.
        let left = pre_stop::run(&docker, container).await?;
        let options = StopContainerOptions { t: left, ..StopContainerOptions::default() };
        let stopped = docker.stop_container(&container.0, Some(options)).await;
        allow(stopped, &[NOT_MODIFIED, NOT_FOUND])
    }

    async fn remove(&self, container: &ContainerId) -> Result<(), EngineError> {
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        let docker = self.docker().await?;
        let removed = docker.remove_container(&container.0, Some(options)).await;
        // A conflict means that removal is in progress.
        allow(removed, &[NOT_FOUND, CONFLICT])
    }

    async fn remove_networks(&self, keep: &KeptNetworks) -> Result<(), EngineError> {
        self.networks.remove_unused(self.docker().await?, &self.owner, keep).await
    }

    async fn collect_volumes(
        &self,
        collection: &VolumeGc,
    ) -> Result<Vec<CollectedVolume>, EngineError> {
        volume::collect(&self.volume_host().await?, collection).await
    }

    async fn volumes(&self) -> Result<Vec<HeldVolume>, EngineError> {
        volume::held(&self.volume_host().await?).await
    }

    fn volume_of(&self, deployment: &DeploymentName, key: &str, container: &str) -> Option<String> {
        let container = spec::read(container).ok()?;
        let name = spec::volumes(&self.owner, deployment, &container).remove(key)?;
        let is_external = container.volumes.get(key).is_some_and(|volume| volume.external);
        (!is_external).then_some(name)
    }

    async fn read_volume(&self, name: &str) -> Result<Archive, EngineError> {
        volume_content::read(&self.volume_host().await?, name).await
    }

    async fn write_volume(
        &self,
        volume: &VolumeTarget,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        let (host, volume) = (self.volume_host().await?, volume.clone());
        let write = async move { volume_content::write(&host, &volume, archive).await };
        // A task goes on if nobody waits for it any more: only at its end a half volume is removed.
        let ended = tokio::spawn(write).await;
        ended.map_err(|error| EngineError::Unreachable { reason: error.to_string() })?
    }

    async fn used(&self, container: &ContainerId) -> Result<Option<Counters>, EngineError> {
        let docker = self.docker().await?;
        // Without `one_shot` Docker waits a second for another sample.
        let options = StatsOptions { stream: false, one_shot: true };
        let mut stats = Box::pin(docker.stats(&container.0, Some(options)));
        let stats = stats.try_next().await.map_err(engine_error)?;
        Ok(stats.and_then(|stats| convert::counters(&stats)))
    }

    async fn logs(
        &self,
        container: &ContainerId,
        query: LogQuery,
    ) -> Result<LogLines, EngineError> {
        let docker = self.docker().await?.clone().with_timeout(LONG_TIMEOUT);
        Ok(logs::read(docker, container, query))
    }

    async fn exec(
        &self,
        container: &ContainerId,
        request: &ExecRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError> {
        exec::run(self.docker().await?.clone(), container, request, inputs).await
    }

    async fn run_beside(
        &self,
        container: &ContainerId,
        request: &BesideRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError> {
        let docker = self.docker().await?.clone();
        beside::run(docker, &self.owner, container, request, inputs).await
    }

    async fn stat(
        &self,
        container: &ContainerId,
        path: &str,
    ) -> Result<Option<PathStat>, EngineError> {
        archive::stat(self.docker().await?, container, path).await
    }

    async fn read_archive(
        &self,
        container: &ContainerId,
        path: &str,
    ) -> Result<Archive, EngineError> {
        let docker = self.docker().await?.clone().with_timeout(LONG_TIMEOUT);
        archive::read(docker, container, path).await
    }

    async fn write_archive(
        &self,
        container: &ContainerId,
        folder: &str,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        let docker = self.docker().await?.clone().with_timeout(LONG_TIMEOUT);
        archive::write(docker, container, folder, archive).await
    }

    async fn connect(
        &self,
        container: &ContainerId,
        port: u16,
    ) -> Result<BoxConnection, EngineError> {
        connect::connect(self.docker().await?, container, port).await
    }
}

/// A pushed image that is pinned, which Docker has under a tag of its own: of a digest that no registry gave it knows
/// nothing.
async fn find_pushed(
    docker: &Docker,
    pull: &PullRequest,
) -> Result<Option<ObservedImage>, EngineError> {
    let local = local_name(&pull.image);
    if *local == *pull.image {
        return Ok(None);
    }
    match docker.inspect_image(&local).await {
        Ok(_) => Ok(Some(ObservedImage { digest: ImageDigest::parse(&pull.image) })),
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
        Err(error) => Err(engine_error(error)),
    }
}

/// Converts an event; `None` for an irrelevant one.
async fn translate(
    docker: &Docker,
    message: EventMessage,
) -> Result<Option<EngineEvent>, EngineError> {
    let Some(actor) = message.actor else { return Ok(None) };
    let (Some(id), Some(labels)) = (actor.id, actor.attributes) else { return Ok(None) };
    let Some(identity) = names::identity(&labels) else { return Ok(None) };
    let gone = EngineEvent::Gone {
        instance: identity.instance,
        container: ContainerId(id.as_str().into()),
    };
    if message.action.as_deref() == Some("destroy") {
        return Ok(Some(gone));
    }
    let seen = DockerEngine::inspect(docker, &id).await?;
    Ok(Some(seen.map_or(gone, EngineEvent::Changed)))
}

fn unsupported(error: SpecError) -> StartError {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    StartError::Unsupported { reason }
}

fn is_image_absent(error: &bollard::errors::Error) -> bool {
    says(error, NOT_FOUND, "No such image")
}

/// An engine in swarm mode asks the swarm for an unknown network and reports that with another
/// status and message.
fn is_network_absent(error: &bollard::errors::Error) -> bool {
    let here = says(error, NOT_FOUND, "network") && !says(error, NOT_FOUND, "container");
    here || says(error, SERVER_ERROR, "could not attach to network")
}

fn is_connected(error: &bollard::errors::Error) -> bool {
    says(error, 403, "already exists in network")
}

/// Docker uses one status for several causes; the message tells them apart.
fn says(error: &bollard::errors::Error, code: u16, words: &str) -> bool {
    refusal(error).is_some_and(|(status, message)| {
        status == code && message.to_ascii_lowercase().contains(&words.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An invalid spec is refused with the offending value.
    #[test]
    fn refused_spec_names_the_invalid_value() {
        let error = spec::read(r#"{"service":{"stop_grace_period":"soon"}}"#).unwrap_err();
        let refused = unsupported(error).to_string();
        assert!(refused.contains("cannot be read: \"soon\" is not a duration"), "{refused}");
    }

    /// Messages of Docker 20.10, standalone and in swarm mode; an absent container is not an absent
    /// network.
    #[test]
    fn absent_network_is_recognised() {
        let absent = |status_code, message: &str| {
            let message = message.to_owned();
            is_network_absent(&bollard::errors::Error::DockerResponseServerError {
                status_code,
                message,
            })
        };
        assert!(absent(404, "network shop_default not found"));
        assert!(absent(
            500,
            "Could not attach to network shop_default: rpc error: code = NotFound desc = network shop_default not found"
        ));
        assert!(!absent(404, "No such container: network-probe"));
        assert!(!absent(500, "driver failed programming external connectivity"));
    }
}
