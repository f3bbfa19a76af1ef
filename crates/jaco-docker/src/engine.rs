//! The engine's trait, by Docker's API. As few calls as can be: a start is a create and a start, a
//! look is one list.

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
use jaco_agent::engine::{
    CollectedVolume, Collection, ContainerEngine, ContainerId, ContainerRequest, ContainerSeen,
    ContainerStatus, Counters, EngineError, EngineEvent, EngineVersion, EventStream, Health,
    ImageSeen, LogLines, LogQuery, Owner, ProgressSink, PullError, PullRequest, StartError,
};
use jaco_agent::exec::{ExecInputs, ExecOutputs, ExecRequest};
use jaco_agent::registry::RegistryCredentials;
use jaco_compose::model::ContainerSpec;
use jaco_store::{Clock, SystemClock};
use jaco_types::DeploymentName;
use tokio::sync::OnceCell;

use crate::error::{
    CONFLICT, NOT_FOUND, NOT_MODIFIED, SERVER_ERROR, allow, engine_error, pull_error, refusal,
    status,
};
use crate::network::Networks;
use crate::spec::{self, Check, Needs, SpecError};
use crate::{auth, convert, exec, image, logs, names, pull, volume};

/// How long an answer may take. A machine that starts dozens of containers is slow, not gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a call may take that waits for something by its nature: a stop with a long grace
/// period, the first line of a quiet container.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// How many containers are looked at in detail at the same time.
const INSPECTS_MAX: usize = 8;

/// Where Docker is, and for whom it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerOptions {
    /// Whose containers these are.
    pub owner: Owner,
    /// The socket it listens on.
    pub socket: PathBuf,
}

impl DockerOptions {
    /// Docker at its usual place.
    #[must_use]
    pub fn new(owner: Owner) -> Self {
        Self { owner, socket: PathBuf::from("/var/run/docker.sock") }
    }
}

/// Docker, as one node uses it.
#[derive(Debug)]
pub struct DockerEngine {
    owner: Owner,
    docker: Docker,
    /// Set once the version of the API is settled, which takes an answer from Docker.
    settled: OnceCell<()>,
    networks: Arc<Networks>,
    /// The details of each container, for as long as its face in the list stays the same.
    details: Mutex<HashMap<String, (String, ContainerSeen)>>,
    /// Held from the choice of a container to share with until it is made, so that siblings which
    /// start together do not choose the same one.
    joining: tokio::sync::Mutex<()>,
}

impl DockerEngine {
    /// Docker at a socket. It need not answer yet.
    ///
    /// # Errors
    /// When there can be no connection, for example because there is no such file.
    pub fn new(options: DockerOptions) -> Result<Self, EngineError> {
        let socket = options.socket.to_string_lossy();
        let docker =
            Docker::connect_with_unix(&socket, ANSWER_TIMEOUT.as_secs(), API_DEFAULT_VERSION)
                .map_err(engine_error)?;
        Ok(Self {
            owner: options.owner,
            docker: docker.with_request_modifier(auth::in_the_alphabet_of_urls),
            settled: OnceCell::new(),
            networks: Arc::default(),
            details: Mutex::default(),
            joining: tokio::sync::Mutex::default(),
        })
    }

    /// Docker, speaking a version of its API that it understands.
    async fn docker(&self) -> Result<&Docker, EngineError> {
        let settle = async || self.docker.clone().negotiate_version().await.map(drop);
        self.settled.get_or_try_init(settle).await.map_err(engine_error)?;
        Ok(&self.docker)
    }

    async fn inspect(docker: &Docker, id: &str) -> Result<Option<ContainerSeen>, EngineError> {
        match docker.inspect_container(id, None::<InspectContainerOptions>).await {
            Ok(inspected) => {
                let mut seen = convert::seen(inspected);
                if let Some(seen) = &mut seen {
                    Self::read_last_words(docker, seen).await;
                }
                Ok(seen)
            }
            Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
            Err(error) => Err(engine_error(error)),
        }
    }

    /// What a container wrote last that ended with an error. It is not worth an error of its own.
    async fn read_last_words(docker: &Docker, seen: &mut ContainerSeen) {
        let ContainerStatus::Ended { exit, output, .. } = &mut seen.status else { return };
        if exit.code != 0 {
            *output = logs::last_words(docker.clone(), &seen.container).await.into();
        }
    }

    /// The containers of the services that share a namespace with this one; of several, the one whose
    /// network the fewest siblings have joined, and of those the newest.
    async fn neighbours(
        &self,
        docker: &Docker,
        request: &ContainerRequest,
        needs: &Needs,
    ) -> Result<BTreeMap<String, String>, EngineError> {
        let mut found = BTreeMap::new();
        if needs.neighbours.is_empty() {
            return Ok(found);
        }
        let own = request.service.service.as_str();
        let siblings = self.list(docker, request, own, &["created", "running"]).await?;
        // Docker lists the newest first. Of each sibling its newest container counts, because the
        // others go; of this replica none, for the same reason.
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
        for service in &needs.neighbours {
            let listed = self.list(docker, request, service, &["running"]).await?;
            // The first of equals is taken, which is the newest.
            let ids = listed.into_iter().filter_map(|summary| summary.id);
            let calmest = ids.min_by_key(|id| joined.iter().filter(|other| *other == id).count());
            if let Some(id) = calmest {
                found.insert(service.clone(), id);
            }
        }
        Ok(found)
    }

    /// The containers here of a service of the request's deployment, in one of these states.
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

    /// Docker would make an empty volume in silence, so this comes before the container is made.
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

    /// Makes the container and its networks side by side: Docker looks for a network when the
    /// container starts, and a network takes as long to make as a container. A Docker that looks
    /// earlier is asked again once they are there.
    async fn ensure_made(
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

    /// Makes the container, or finds the one that an earlier attempt left.
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
        match docker.create_container(Some(options), body).await {
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

    /// Docker takes one network when it makes a container; the others are connected before it
    /// starts, so that it never sees itself without them.
    async fn connect(&self, docker: &Docker, id: &str, needs: &Needs) -> Result<(), StartError> {
        for network in needs.networks.iter().skip(1) {
            let endpoint_config = Some(network.endpoint.clone());
            let connect = NetworkConnectRequest { container: id.to_owned(), endpoint_config };
            match docker.connect_network(&network.name, connect).await {
                Ok(()) => {}
                // An attempt that was interrupted got this far.
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
                // Removed behind our back, or since we last looked: made anew, once.
                for network in &needs.networks {
                    self.networks.forget(&network.name);
                }
                self.ensure_networks(docker, deployment, needs).await?;
                Ok(allow(start().await, &[NOT_MODIFIED])?)
            }
            result => Ok(allow(result, &[NOT_MODIFIED])?),
        }
    }

    /// What a container looks like that was started just now, without asking, where that is known:
    /// not where Docker chose a port, and not where the image may come with a healthcheck.
    async fn started(
        &self,
        docker: &Docker,
        id: String,
        request: &ContainerRequest,
        container: &ContainerSpec,
    ) -> Result<ContainerSeen, StartError> {
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
        Ok(ContainerSeen {
            instance: request.instance.clone(),
            service: request.service.clone(),
            owner: self.owner.clone(),
            container: ContainerId(id.into()),
            status: ContainerStatus::Up { health, started_at: SystemClock.now() },
            ports: BTreeMap::new(),
            spec_hash: Some(request.spec_hash),
        })
    }

    /// The details of a listed container: from memory, unless its face has changed.
    async fn detail(
        &self,
        docker: &Docker,
        summary: ContainerSummary,
    ) -> Result<Option<(String, String, ContainerSeen)>, EngineError> {
        let face = convert::face(&summary);
        let Some(id) = summary.id else { return Ok(None) };
        let known = self.details.lock().expect("no holder of the lock panics").get(&id).cloned();
        let seen = match known {
            Some((known_face, seen)) if known_face == face => Some(seen),
            Some(_) | None => Self::inspect(docker, &id).await?,
        };
        Ok(seen.map(|seen| (id, face, seen)))
    }
}

/// A container, and whether it was there before.
enum Created {
    Now(String),
    Before(Box<ContainerSeen>),
}

/// Why a container was not made.
enum CreateError {
    /// A network of it is not there, or not yet.
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

    async fn list_owned(&self) -> Result<Vec<ContainerSeen>, EngineError> {
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
        for (id, face, seen) in details.into_iter().flatten() {
            known.insert(id, (face, seen.clone()));
            all.push(seen);
        }
        *self.details.lock().expect("no holder of the lock panics") = known;
        all.retain(|seen| seen.owner == self.owner);
        all.sort_by(|a, b| a.instance.cmp(&b.instance));
        Ok(all)
    }

    async fn events(&self) -> Result<EventStream, EngineError> {
        let docker = self.docker().await?.clone().with_timeout(PATIENT_TIMEOUT);
        let mut filters = names::owner_filter(&self.owner);
        filters.insert("type".to_owned(), vec!["container".to_owned()]);
        let kinds = ["die", "health_status", "destroy"];
        filters.insert("event".to_owned(), kinds.map(str::to_owned).to_vec());
        // The connection is made when the stream is first read. Docker remembers what happened in
        // the meantime, if it is told since when.
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

    async fn find_image(&self, pull: &PullRequest) -> Result<Option<ImageSeen>, EngineError> {
        match self.docker().await?.inspect_image(&pull.image).await {
            Ok(image) => {
                let digests = image.repo_digests.unwrap_or_default();
                Ok(Some(ImageSeen { digest: image::digest_of(&pull.image, &digests) }))
            }
            Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
            Err(error) => Err(engine_error(error)),
        }
    }

    async fn ensure_running(
        &self,
        request: &ContainerRequest,
    ) -> Result<ContainerSeen, StartError> {
        let docker = self.docker().await?;
        let container = spec::read(&request.container).map_err(unsupported)?;
        let needs = spec::needs(&self.owner, request, &container);
        let joining = match needs.neighbours.is_empty() {
            true => None,
            false => Some(self.joining.lock().await),
        };
        let neighbours = self.neighbours(docker, request, &needs).await?;
        let body = spec::body(&self.owner, request, &container, &needs, &neighbours)
            .map_err(unsupported)?;
        let deployment = &request.service.deployment;
        self.find_external_volumes(docker, &needs).await?;
        let id = match self.ensure_made(docker, request, &container, &needs, body).await? {
            Created::Now(id) => id,
            Created::Before(seen) => match seen.status {
                ContainerStatus::Up { .. } | ContainerStatus::Ended { .. } => return Ok(*seen),
                ContainerStatus::Created => seen.container.to_string(),
            },
        };
        drop(joining);
        self.connect(docker, &id, &needs).await?;
        self.start(docker, &id, deployment, &needs).await?;
        self.started(docker, id, request, &container).await
    }

    async fn stop(&self, container: &ContainerId) -> Result<(), EngineError> {
        // No time is given: Docker takes the one that the container was made with.
        let docker = self.docker().await?.clone().with_timeout(PATIENT_TIMEOUT);
        let stopped = docker.stop_container(&container.0, None::<StopContainerOptions>).await;
        allow(stopped, &[NOT_MODIFIED, NOT_FOUND])
    }

    async fn remove(&self, container: &ContainerId) -> Result<(), EngineError> {
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        let docker = self.docker().await?;
        let removed = docker.remove_container(&container.0, Some(options)).await;
        // A conflict means that it is being removed.
        allow(removed, &[NOT_FOUND, CONFLICT])
    }

    async fn remove_networks(&self, keep: &BTreeSet<DeploymentName>) -> Result<(), EngineError> {
        self.networks.remove_unused(self.docker().await?, &self.owner, keep).await
    }

    async fn collect_volumes(
        &self,
        collection: &Collection,
    ) -> Result<Vec<CollectedVolume>, EngineError> {
        volume::collect(self.docker().await?, &self.owner, collection).await
    }

    async fn used(&self, container: &ContainerId) -> Result<Option<Counters>, EngineError> {
        let docker = self.docker().await?;
        // Without `one_shot` it would wait for a second look, a second later.
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
        let docker = self.docker().await?.clone().with_timeout(PATIENT_TIMEOUT);
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
}

/// What an event of Docker means; `None` for one that says nothing new.
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

/// An engine that is part of a swarm asks the swarm for a network that it does not have, and tells
/// of that with another status and in other words.
fn is_network_absent(error: &bollard::errors::Error) -> bool {
    let here = says(error, NOT_FOUND, "network") && !says(error, NOT_FOUND, "container");
    here || says(error, SERVER_ERROR, "could not attach to network")
}

fn is_connected(error: &bollard::errors::Error) -> bool {
    says(error, 403, "already exists in network")
}

/// Docker has one status for many causes; its words tell them apart.
fn says(error: &bollard::errors::Error, code: u16, words: &str) -> bool {
    refusal(error).is_some_and(|(status, message)| {
        status == code && message.to_ascii_lowercase().contains(&words.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that cannot be read is refused with the place that is wrong in it.
    #[test]
    fn a_refused_spec_says_what_is_wrong_in_it() {
        let error = spec::read(r#"{"service":{"stop_grace_period":"soon"}}"#).unwrap_err();
        let refused = unsupported(error).to_string();
        assert!(refused.contains("cannot be read: \"soon\" is not a length of time"), "{refused}");
    }

    /// The words of Docker 20.10, alone and as part of a swarm; a container that is absent is not a
    /// network that is.
    #[test]
    fn an_absent_network_is_recognised() {
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
