//! Runs effects as concurrent tasks, whose results come back as events.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jaco_state::view::images::pushed;
use jaco_store::Store;
use jaco_types::{InstanceId, ServiceKey, Timestamp};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::{AgentStatus, Options};
use crate::core::{Effect, Event};
use crate::engine::{
    ContainerEngine, ContainerId, ContainerRequest, EngineError, Follow, LogLine, LogQuery,
    MountedFiles, ProgressSink, PullRequest, StartError,
};
use crate::files::{self, FileDirs};
use crate::images::{ProvidedImage, PushedImages};
use crate::network_gate::Gate;
use crate::registry;
use crate::removed::{LINES_MAX, RemovedAllocations};

/// Pause before the event stream is opened again, doubled up to [`RECONNECT_MAX`].
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// Time limit for reading the log of a container that is about to be removed.
const LOG_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Removal of the last container of an allocation.
pub(super) struct FinalRemoval {
    pub(super) service: ServiceKey,
    pub(super) instance: InstanceId,
    pub(super) container: ContainerId,
    /// Time of the removal.
    pub(super) at: Timestamp,
}

/// Tasks in progress.
pub(super) struct Work {
    engine: Arc<dyn ContainerEngine>,
    store: Arc<dyn Store>,
    file_dirs: FileDirs,
    gate: Gate,
    images: Option<PushedImages>,
    status: watch::Sender<AgentStatus>,
    tasks: JoinSet<Event>,
    starts: Arc<Semaphore>,
    /// Dropping a sender cancels the start.
    start_cancels: BTreeMap<InstanceId, oneshot::Sender<()>>,
    pulls: BTreeMap<PullRequest, AbortHandle>,
}

impl Work {
    pub(super) fn new(options: &Options, status: watch::Sender<AgentStatus>) -> Self {
        Self {
            engine: Arc::clone(&options.engine),
            store: Arc::clone(&options.store),
            file_dirs: options.file_dirs.clone(),
            gate: options.gate.clone(),
            images: options.images.clone(),
            status,
            tasks: JoinSet::new(),
            starts: Arc::new(Semaphore::new(options.starts_max.max(1))),
            start_cancels: BTreeMap::new(),
            pulls: BTreeMap::new(),
        }
    }

    /// Starts an effect.
    pub(super) fn begin(&mut self, effect: Effect) {
        let engine = Arc::clone(&self.engine);
        match effect {
            Effect::List => {
                self.spawn(async move { Event::Listed(engine.list_owned().await) });
            }
            Effect::Find(pull) => self.spawn(async move {
                let result = engine.find_image(&pull).await;
                Event::Found { pull, result }
            }),
            Effect::Pull(pull) => self.begin_pull(pull),
            Effect::CancelPull(pull) => {
                if let Some(task) = self.pulls.remove(&pull) {
                    task.abort();
                }
                self.status.send_modify(|status| {
                    status.pulls.remove(&pull.image);
                });
            }
            Effect::Start(request) => self.begin_start(request),
            Effect::CancelStart(instance) => drop(self.start_cancels.remove(&instance)),
            Effect::Stop { instance, container } => self.spawn(async move {
                let result = engine.stop(&container).await;
                if let Err(error) = &result {
                    tracing::warn!(%instance, %error, "container not stopped");
                }
                Event::Stopped { instance, result }
            }),
            Effect::Remove { instance, container } => self.spawn(async move {
                let result = engine.remove(&container).await;
                if let Err(error) = &result {
                    tracing::warn!(%instance, %error, "container not removed");
                }
                Event::Removed { instance, result }
            }),
            Effect::Join { request, container } => self.begin_join(request, container),
            Effect::RemoveNetworks { keep } => self.spawn(async move {
                let result = engine.remove_networks(&keep).await;
                if let Err(error) = &result {
                    tracing::warn!(%error, "unused networks not removed, will retry");
                }
                Event::NetworksRemoved(result)
            }),
            // Handled by the reporter.
            Effect::Report { .. } => {}
        }
    }

    /// Removes the last container of an allocation after storing the end of its log. A log that
    /// cannot be read or stored does not prevent the removal.
    pub(super) fn begin_final_removal(&mut self, removal: FinalRemoval) {
        let engine = Arc::clone(&self.engine);
        let removed = RemovedAllocations::new(self.file_dirs.removed.clone());
        self.spawn(async move {
            let FinalRemoval { service, instance, container, at } = removal;
            let lines = tokio::time::timeout(LOG_READ_TIMEOUT, last_lines(&*engine, &container));
            let lines = match lines.await {
                Ok(Ok(lines)) => lines,
                Ok(Err(error)) => {
                    tracing::warn!(%instance, %error, "container log not read");
                    Vec::new()
                }
                Err(_) => {
                    tracing::warn!(%instance, "container log not read in time");
                    Vec::new()
                }
            };
            let of = instance.clone();
            let keep = move || removed.keep(&service, &of, at, &lines);
            let kept = tokio::task::spawn_blocking(keep).await;
            if let Err(error) = kept.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                tracing::warn!(%instance, %error, "container log not stored");
            }
            let result = engine.remove(&container).await;
            if let Err(error) = &result {
                tracing::warn!(%instance, %error, "container not removed");
            }
            Event::Removed { instance, result }
        });
    }

    /// The next result. Pends while no task runs.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(event)) => {
                    self.forget(&event);
                    return event;
                }
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => std::future::pending().await,
            }
        }
    }

    /// Cancels starts and pulls and waits for the other tasks: after the daemon ends nobody may
    /// complete a partial removal.
    pub(super) async fn finish(&mut self) {
        for pull in self.pulls.values() {
            pull.abort();
        }
        self.start_cancels.clear();
        while self.tasks.join_next().await.is_some() {}
    }

    fn forget(&mut self, event: &Event) {
        if let Event::Started { instance, .. } = event {
            self.start_cancels.remove(instance);
        }
        if let Event::Pulled { pull, .. } = event {
            self.pulls.remove(pull);
            self.status.send_modify(|status| {
                status.pulls.remove(&pull.image);
            });
        }
    }

    fn begin_pull(&mut self, pull: PullRequest) {
        let engine = Arc::clone(&self.engine);
        let progress = progress_sink(self.status.clone(), &pull);
        let state = self.store.snapshot();
        let pushed = self.images.clone().and_then(|images| {
            let (id, image) = pushed(&state, &pull.image)?;
            Some((images, ProvidedImage { id, image: image.clone() }))
        });
        let credentials =
            registry::for_image(&pull.image, &state.registries, &*self.file_dirs.unseal);
        let asked = pull.clone();
        let task = self.tasks.spawn(async move {
            let result = match (pushed, credentials) {
                // What was pushed under a name is what the name means, whatever a registry has under it.
                (Some((images, image)), _) => {
                    images.provide(&*engine, &asked, &image, &progress).await
                }
                (None, Ok(credentials)) => {
                    engine.pull(&asked, credentials.as_ref(), progress).await
                }
                (None, Err(error)) => Err(error),
            };
            if let Err(error) = &result {
                tracing::warn!(image = %asked.image, %error, "image pull failed");
            }
            Event::Pulled { pull: asked, result }
        });
        self.pulls.insert(pull, task);
    }

    fn begin_start(&mut self, mut request: ContainerRequest) {
        let engine = Arc::clone(&self.engine);
        let (store, file_dirs) = (Arc::clone(&self.store), self.file_dirs.clone());
        let (starts, gate) = (Arc::clone(&self.starts), self.gate.clone());
        let instance = request.instance.clone();
        let (cancel, cancelled) = oneshot::channel();
        self.start_cancels.insert(instance.clone(), cancel);
        self.spawn(async move {
            let start = async {
                let resolver = pass_gate(&*engine, gate, &request).await?;
                let _permit = starts.acquire().await;
                if files::are_needed(&request.container) || resolver.is_some() {
                    request.files = prepare_files(store, file_dirs, &request, resolver).await?;
                }
                engine.ensure_running(&request).await
            };
            let result = tokio::select! {
                result = start => result,
                _ = cancelled => Err(StartError::Cancelled),
            };
            Event::Started { instance, result }
        });
    }

    fn begin_join(&mut self, request: ContainerRequest, container: ContainerId) {
        let (engine, gate) = (Arc::clone(&self.engine), self.gate.clone());
        self.spawn(async move {
            let join = async {
                pass_gate(&*engine, gate, &request).await?;
                engine.join_networks(&container, &request).await
            };
            let (result, instance) = (join.await, request.instance.clone());
            match &result {
                Ok(()) => {
                    tracing::info!(%instance, "running container attached to the cluster's networks");
                }
                Err(error) => {
                    tracing::warn!(%instance, %error, "running container not attached to the cluster's networks, will retry");
                }
            }
            Event::Joined { instance, result }
        });
    }

    fn spawn(&mut self, task: impl Future<Output = Event> + Send + 'static) {
        // The result comes through the set.
        let _task: AbortHandle = self.tasks.spawn(task);
    }
}

async fn last_lines(
    engine: &dyn ContainerEngine,
    container: &ContainerId,
) -> Result<Vec<LogLine>, EngineError> {
    let query = LogQuery { follow: Follow::No, tail: Some(LINES_MAX), since: None };
    engine.logs(container, query).await?.try_collect().await
}

/// Waits until what the container sends and is sent has a way: the networks of the engine come first, for the
/// router has its ports in their bridges. Returns the container's resolver, if there is a router.
async fn pass_gate(
    engine: &dyn ContainerEngine,
    gate: Gate,
    request: &ContainerRequest,
) -> Result<Option<Ipv4Addr>, StartError> {
    let (Some(gate), Some(first)) = (gate, request.networks.first()) else { return Ok(None) };
    engine.prepare_networks(request).await?;
    let networks: Vec<_> = request.networks.iter().map(|network| network.id).collect();
    let ready = gate.ready(&request.instance, &networks).await;
    match ready {
        Ok(()) => Ok(Some(first.subnet.router())),
        Err(reason) => Err(StartError::NetworkNotReady { reason }),
    }
}

/// Writes the files that a container mounts.
async fn prepare_files(
    store: Arc<dyn Store>,
    file_dirs: FileDirs,
    request: &ContainerRequest,
    resolver: Option<Ipv4Addr>,
) -> Result<MountedFiles, StartError> {
    let (instance, container) = (request.instance.clone(), Arc::clone(&request.container));
    let put =
        move || files::put(&file_dirs, &instance, &container, &store.snapshot().contents, resolver);
    let put = tokio::task::spawn_blocking(put).await;
    let put = put.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    put.map_err(|error| StartError::Refused { reason: error.to_string() })
}

fn progress_sink(status: watch::Sender<AgentStatus>, pull: &PullRequest) -> ProgressSink {
    let image = Arc::clone(&pull.image);
    Arc::new(move |progress| {
        status.send_modify(|status| {
            status.pulls.insert(Arc::clone(&image), progress);
        });
    })
}

/// Forwards engine events, as long as it is polled. After each reconnect everything is listed.
pub(super) async fn listen(engine: Arc<dyn ContainerEngine>, sender: mpsc::Sender<Event>) {
    let mut pause = RECONNECT_MIN;
    loop {
        if let Ok(mut events) = engine.events().await {
            // Only events before this moment can be lost.
            if sender.send(Event::EventsLost).await.is_err() {
                return;
            }
            while let Some(Ok(event)) = events.next().await {
                pause = RECONNECT_MIN;
                if sender.send(Event::Engine(event)).await.is_err() {
                    return;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}
