//! An engine whose operations are counted and timed, for metrics and traces. It changes nothing of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jaco_types::{BlobDigest, DeploymentName};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use crate::engine::exec::{BesideRequest, ExecInputs, ExecOutputs, ExecRequest};
use crate::engine::transfer::{Archive, ArchiveInput, BoxConnection, PathStat};
use crate::engine::{
    CollectedVolume, ContainerEngine, ContainerId, ContainerRequest, Counters, EngineError,
    EngineVersion, EventStream, HeldVolume, KeptNetworks, LogLines, LogQuery, ObservedContainer,
    ObservedImage, ProgressSink, PullError, PullRequest, RegistryCredentials, StartError, VolumeGc,
    VolumeTarget,
};

/// Upper bounds of the buckets of the time of an operation, in seconds: from a question to the pull of a large image.
const SECONDS: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// What an engine is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Whether it answers.
    Version,
    /// The containers, and changes of them.
    List,
    /// Fetching an image.
    Pull,
    /// A look for an image.
    FindImage,
    /// A pushed image is loaded.
    LoadImage,
    /// A container is created and started.
    Start,
    /// A container is stopped.
    Stop,
    /// A container is removed.
    Remove,
    /// Networks are made or removed.
    Networks,
    /// Volumes are listed, or unused ones removed.
    Volumes,
    /// The usage of a container.
    Stats,
    /// A log is read.
    Logs,
    /// A command is run.
    Exec,
    /// Files are looked at, read or written.
    Copy,
    /// A port is connected to.
    Connect,
}

impl Operation {
    /// Every one of them.
    pub const ALL: [Self; 15] = [
        Self::Version,
        Self::List,
        Self::Pull,
        Self::FindImage,
        Self::LoadImage,
        Self::Start,
        Self::Stop,
        Self::Remove,
        Self::Networks,
        Self::Volumes,
        Self::Stats,
        Self::Logs,
        Self::Exec,
        Self::Copy,
        Self::Connect,
    ];

    /// As metrics name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::List => "list",
            Self::Pull => "pull",
            Self::FindImage => "find_image",
            Self::LoadImage => "load_image",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Remove => "remove",
            Self::Networks => "networks",
            Self::Volumes => "volumes",
            Self::Stats => "stats",
            Self::Logs => "logs",
            Self::Exec => "exec",
            Self::Copy => "copy",
            Self::Connect => "connect",
        }
    }
}

/// The counts of one operation.
#[derive(Debug, Clone)]
pub struct OperationTally {
    /// How long it took, whatever came of it, in seconds.
    pub seconds: Histogram,
    /// How often it failed.
    pub failed: Counter,
}

impl Default for OperationTally {
    fn default() -> Self {
        Self { seconds: Histogram::new(SECONDS), failed: Counter::default() }
    }
}

/// The counts of all operations since the start of this process. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct EngineTally([OperationTally; Operation::ALL.len()]);

impl EngineTally {
    /// The counts by operation.
    pub fn operations(&self) -> impl Iterator<Item = (Operation, &OperationTally)> {
        Operation::ALL.into_iter().zip(&self.0)
    }

    async fn time<T, E>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let begun = Instant::now();
        let done = work.await;
        let counted = self.operations().find(|(one, _)| *one == operation);
        if let Some((_, counts)) = counted {
            counts.seconds.observe(begun.elapsed().as_secs_f64());
            if done.is_err() {
                counts.failed.inc();
            }
        }
        done
    }
}

/// Is told what the engine did for instances. Must not wait.
pub trait EngineObserver: Send + Sync + 'static {
    /// An image was fetched, or could not be.
    fn pulled(&self, pull: &PullRequest, took: Duration, result: Result<(), &PullError>);

    /// The networks of an instance were made, or could not be.
    fn networked(
        &self,
        request: &ContainerRequest,
        took: Duration,
        result: Result<(), &StartError>,
    );

    /// The container of an instance was created and started, or could not be.
    fn started(&self, request: &ContainerRequest, took: Duration, result: Result<(), &StartError>);
}

/// See the module.
#[allow(missing_debug_implementations, reason = "holds trait objects that have nothing to show")]
pub struct TimedEngine {
    engine: Arc<dyn ContainerEngine>,
    tally: EngineTally,
    observer: Option<Arc<dyn EngineObserver>>,
}

impl TimedEngine {
    /// Counts the operations of `engine` in `tally`.
    #[must_use]
    pub fn new(engine: Arc<dyn ContainerEngine>, tally: EngineTally) -> Self {
        Self { engine, tally, observer: None }
    }

    /// Tells `observer` as well.
    #[must_use]
    pub fn observed_by(mut self, observer: Option<Arc<dyn EngineObserver>>) -> Self {
        self.observer = observer;
        self
    }
}

#[async_trait]
impl ContainerEngine for TimedEngine {
    async fn version(&self) -> Result<EngineVersion, EngineError> {
        self.tally.time(Operation::Version, self.engine.version()).await
    }

    async fn list_owned(&self) -> Result<Vec<ObservedContainer>, EngineError> {
        self.tally.time(Operation::List, self.engine.list_owned()).await
    }

    async fn events(&self) -> Result<EventStream, EngineError> {
        self.tally.time(Operation::List, self.engine.events()).await
    }

    async fn pull(
        &self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
        progress: ProgressSink,
    ) -> Result<(), PullError> {
        let begun = Instant::now();
        let pulled = self.engine.pull(pull, credentials, progress);
        let pulled = self.tally.time(Operation::Pull, pulled).await;
        if let Some(observer) = &self.observer {
            observer.pulled(pull, begun.elapsed(), pulled.as_ref().map(|_| ()));
        }
        pulled
    }

    async fn find_image(&self, pull: &PullRequest) -> Result<Option<ObservedImage>, EngineError> {
        self.tally.time(Operation::FindImage, self.engine.find_image(pull)).await
    }

    async fn known_layers(&self, layers: &[BlobDigest]) -> Result<usize, EngineError> {
        self.tally.time(Operation::FindImage, self.engine.known_layers(layers)).await
    }

    async fn load_image(
        &self,
        image: &PullRequest,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        self.tally.time(Operation::LoadImage, self.engine.load_image(image, archive)).await
    }

    async fn join_networks(
        &self,
        container: &ContainerId,
        request: &ContainerRequest,
    ) -> Result<(), StartError> {
        let joined = self.engine.join_networks(container, request);
        self.tally.time(Operation::Networks, joined).await
    }

    async fn prepare_networks(&self, request: &ContainerRequest) -> Result<(), StartError> {
        let begun = Instant::now();
        let prepared = self.engine.prepare_networks(request);
        let prepared = self.tally.time(Operation::Networks, prepared).await;
        if let Some(observer) = &self.observer {
            observer.networked(request, begun.elapsed(), prepared.as_ref().map(|_| ()));
        }
        prepared
    }

    async fn ensure_running(
        &self,
        request: &ContainerRequest,
    ) -> Result<ObservedContainer, StartError> {
        let begun = Instant::now();
        let started = self.tally.time(Operation::Start, self.engine.ensure_running(request)).await;
        if let Some(observer) = &self.observer {
            observer.started(request, begun.elapsed(), started.as_ref().map(|_| ()));
        }
        started
    }

    async fn stop(&self, container: &ContainerId) -> Result<(), EngineError> {
        self.tally.time(Operation::Stop, self.engine.stop(container)).await
    }

    async fn remove(&self, container: &ContainerId) -> Result<(), EngineError> {
        self.tally.time(Operation::Remove, self.engine.remove(container)).await
    }

    async fn remove_networks(&self, keep: &KeptNetworks) -> Result<(), EngineError> {
        self.tally.time(Operation::Networks, self.engine.remove_networks(keep)).await
    }

    async fn collect_volumes(
        &self,
        collection: &VolumeGc,
    ) -> Result<Vec<CollectedVolume>, EngineError> {
        self.tally.time(Operation::Volumes, self.engine.collect_volumes(collection)).await
    }

    async fn volumes(&self) -> Result<Vec<HeldVolume>, EngineError> {
        self.tally.time(Operation::Volumes, self.engine.volumes()).await
    }

    fn volume_of(&self, deployment: &DeploymentName, key: &str, container: &str) -> Option<String> {
        self.engine.volume_of(deployment, key, container)
    }

    async fn read_volume(&self, name: &str) -> Result<Archive, EngineError> {
        self.tally.time(Operation::Copy, self.engine.read_volume(name)).await
    }

    async fn write_volume(
        &self,
        volume: &VolumeTarget,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        self.tally.time(Operation::Copy, self.engine.write_volume(volume, archive)).await
    }

    async fn used(&self, container: &ContainerId) -> Result<Option<Counters>, EngineError> {
        self.tally.time(Operation::Stats, self.engine.used(container)).await
    }

    async fn logs(
        &self,
        container: &ContainerId,
        query: LogQuery,
    ) -> Result<LogLines, EngineError> {
        self.tally.time(Operation::Logs, self.engine.logs(container, query)).await
    }

    async fn exec(
        &self,
        container: &ContainerId,
        request: &ExecRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError> {
        self.tally.time(Operation::Exec, self.engine.exec(container, request, inputs)).await
    }

    async fn run_beside(
        &self,
        container: &ContainerId,
        request: &BesideRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError> {
        self.tally.time(Operation::Exec, self.engine.run_beside(container, request, inputs)).await
    }

    async fn stat(
        &self,
        container: &ContainerId,
        path: &str,
    ) -> Result<Option<PathStat>, EngineError> {
        self.tally.time(Operation::Copy, self.engine.stat(container, path)).await
    }

    async fn read_archive(
        &self,
        container: &ContainerId,
        path: &str,
    ) -> Result<Archive, EngineError> {
        self.tally.time(Operation::Copy, self.engine.read_archive(container, path)).await
    }

    async fn write_archive(
        &self,
        container: &ContainerId,
        folder: &str,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        let written = self.engine.write_archive(container, folder, archive);
        self.tally.time(Operation::Copy, written).await
    }

    async fn connect(
        &self,
        container: &ContainerId,
        port: u16,
    ) -> Result<BoxConnection, EngineError> {
        self.tally.time(Operation::Connect, self.engine.connect(container, port)).await
    }
}
