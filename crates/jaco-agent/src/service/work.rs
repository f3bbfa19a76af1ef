//! Effects as tasks: each runs beside the others, and its answer comes back as an event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jaco_store::Store;
use jaco_types::{InstanceId, ServiceKey, Timestamp};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::{AgentStatus, Options};
use crate::core::{Effect, Event};
use crate::engine::{
    ContainerEngine, ContainerId, ContainerRequest, EngineError, Follow, LogLine, LogQuery,
    ProgressSink, PullRequest, ShippedFiles, StartError,
};
use crate::files::{self, Places};
use crate::registry;
use crate::remains::{LINES_MAX, Remains};

/// The pause before the engine's events are asked for again, doubled up to [`RECONNECT_MAX`].
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// How long the log of a container is read before it is removed without.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(5);

/// The last container of an allocation, which is to be removed.
pub(super) struct Farewell {
    pub(super) service: ServiceKey,
    pub(super) instance: InstanceId,
    pub(super) container: ContainerId,
    /// When that was noticed.
    pub(super) at: Timestamp,
}

/// The work under way.
pub(super) struct Work {
    engine: Arc<dyn ContainerEngine>,
    store: Arc<dyn Store>,
    places: Places,
    status: watch::Sender<AgentStatus>,
    tasks: JoinSet<Event>,
    starts: Arc<Semaphore>,
    /// Dropped to call a start off.
    start_cancels: BTreeMap<InstanceId, oneshot::Sender<()>>,
    pulls: BTreeMap<PullRequest, AbortHandle>,
}

impl Work {
    pub(super) fn new(options: &Options, status: watch::Sender<AgentStatus>) -> Self {
        Self {
            engine: Arc::clone(&options.engine),
            store: Arc::clone(&options.store),
            places: options.places.clone(),
            status,
            tasks: JoinSet::new(),
            starts: Arc::new(Semaphore::new(options.starts_max.max(1))),
            start_cancels: BTreeMap::new(),
            pulls: BTreeMap::new(),
        }
    }

    /// Begins what the core asked for.
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
            Effect::RemoveNetworks { keep } => self.spawn(async move {
                let result = engine.remove_networks(&keep).await;
                if let Err(error) = &result {
                    tracing::warn!(%error, "unused networks not removed; tried again");
                }
                Event::NetworksRemoved(result)
            }),
            // For the cluster, and not the engine's business.
            Effect::Report { .. } => {}
        }
    }

    /// Removes the last container of an allocation, once what it wrote last is kept. It goes also where
    /// that could not be read or written.
    pub(super) fn begin_farewell(&mut self, farewell: Farewell) {
        let engine = Arc::clone(&self.engine);
        let remains = Remains::new(self.places.removed.clone());
        self.spawn(async move {
            let Farewell { service, instance, container, at } = farewell;
            let lines = tokio::time::timeout(FAREWELL_PATIENCE, last_lines(&*engine, &container));
            let lines = match lines.await {
                Ok(Ok(lines)) => lines,
                Ok(Err(error)) => {
                    tracing::warn!(%instance, %error, "last lines of a container not read");
                    Vec::new()
                }
                Err(_) => {
                    tracing::warn!(%instance, "last lines of a container not read in time");
                    Vec::new()
                }
            };
            let of = instance.clone();
            let keep = move || remains.keep(&service, &of, at, &lines);
            let kept = tokio::task::spawn_blocking(keep).await;
            if let Err(error) = kept.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                tracing::warn!(%instance, %error, "last lines of a container not kept");
            }
            let result = engine.remove(&container).await;
            if let Err(error) = &result {
                tracing::warn!(%instance, %error, "container not removed");
            }
            Event::Removed { instance, result }
        });
    }

    /// The next answer. Waits forever while nothing is under way.
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

    /// Calls starts and pulls off and waits for the rest: what is half removed when a daemon ends may be
    /// nobody's work afterwards.
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
        let registries = self.store.snapshot().registries;
        let credentials = registry::for_image(&pull.image, &registries, &*self.places.unseal);
        let asked = pull.clone();
        let task = self.tasks.spawn(async move {
            let result = match credentials {
                Ok(credentials) => engine.pull(&asked, credentials.as_ref(), progress).await,
                Err(error) => Err(error),
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
        let (store, places) = (Arc::clone(&self.store), self.places.clone());
        let starts = Arc::clone(&self.starts);
        let instance = request.instance.clone();
        let (cancel, cancelled) = oneshot::channel();
        self.start_cancels.insert(instance.clone(), cancel);
        self.spawn(async move {
            let start = async {
                let _permit = starts.acquire().await;
                if files::are_needed(&request.container) {
                    request.files = put_files(store, places, &request).await?;
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

    fn spawn(&mut self, task: impl Future<Output = Event> + Send + 'static) {
        // The answer comes through the set; there is nothing to hold on to.
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

/// Puts the files that a container needs where it can mount them.
async fn put_files(
    store: Arc<dyn Store>,
    places: Places,
    request: &ContainerRequest,
) -> Result<ShippedFiles, StartError> {
    let (instance, container) = (request.instance.clone(), Arc::clone(&request.container));
    let put = move || files::put(&places, &instance, &container, &store.snapshot().contents);
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

/// Passes the engine's events on, for as long as it is polled. After each gap everything is looked
/// at once.
pub(super) async fn listen(engine: Arc<dyn ContainerEngine>, heard: mpsc::Sender<Event>) {
    let mut pause = RECONNECT_MIN;
    loop {
        if let Ok(mut events) = engine.events().await {
            // Only what happened before this moment can have been missed.
            if heard.send(Event::EventsLost).await.is_err() {
                return;
            }
            while let Some(Ok(event)) = events.next().await {
                pause = RECONNECT_MIN;
                if heard.send(Event::Engine(event)).await.is_err() {
                    return;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RECONNECT_MAX);
    }
}
