//! What a node asks of a container engine, and what it learns from one.
//!
//! Every effect is idempotent: carried out twice, or after a crash half-way, it leaves what it
//! leaves when carried out once. An engine touches only what carries its owner's labels, whoever
//! else uses the same machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use jaco_state::collecting::Needed;
use jaco_types::{
    ClusterId, DeploymentName, Exit, ImageDigest, InstanceId, NodeId, RegistryName, ServiceKey,
    SpecHash, Timestamp,
};

use crate::exec::{ExecInputs, ExecOutputs, ExecRequest};
use crate::registry::RegistryCredentials;

/// Whose containers these are. Several nodes may share one engine, and neither touches what
/// belongs to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node of it.
    pub node: NodeId,
}

/// The engine's name for a container.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerId(pub Arc<str>);

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A container of this node, as the engine shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSeen {
    /// The instance that it is.
    pub instance: InstanceId,
    /// The service that it belongs to.
    pub service: ServiceKey,
    /// Whose it is, by its labels.
    pub owner: Owner,
    /// The engine's name for it.
    pub container: ContainerId,
    /// What it does.
    pub status: ContainerStatus,
    /// Where it answers on its node: `ip:port` by container port.
    pub ports: BTreeMap<u16, String>,
    /// The hash of the spec that it was made from, if its label can be read.
    pub spec_hash: Option<SpecHash>,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerStatus {
    /// It was made and never started.
    Created,
    /// Its process runs.
    Up {
        /// What its healthcheck says.
        health: Health,
        /// When it was started.
        started_at: Timestamp,
    },
    /// Its process ended.
    Ended {
        /// How.
        exit: Exit,
        /// The engine's words about it; empty where there are none.
        error: Box<str>,
        /// What it wrote last, where it ended with an error; empty where that is not known.
        output: Box<str>,
        /// When it was started.
        started_at: Option<Timestamp>,
        /// When it ended.
        finished_at: Timestamp,
    },
}

/// What a container's healthcheck says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// There is none.
    None,
    /// It has not passed yet.
    Starting,
    /// It passes.
    Healthy,
    /// It fails.
    Unhealthy {
        /// What its last run wrote.
        output: String,
    },
}

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequest {
    /// The instance.
    pub instance: InstanceId,
    /// The service that it belongs to.
    pub service: ServiceKey,
    /// The image it runs.
    pub image: Arc<str>,
    /// Canonical JSON of all that changes the container.
    pub container: Arc<str>,
    /// The hash of that.
    pub spec_hash: SpecHash,
    /// Where the files lie that were shipped for it.
    pub files: ShippedFiles,
    /// The ids of the GPUs that it has for itself; empty where it asks for none.
    pub gpus: Vec<Arc<str>>,
}

/// Where the files of a container lie on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShippedFiles {
    /// By the path that bind mounts name: what is mounted in its place.
    pub binds: BTreeMap<String, PathBuf>,
    /// Configs and secrets, mounted read-only.
    pub mounts: Vec<FileAt>,
}

/// A file of this node and where a container sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAt {
    /// Where it lies.
    pub host: PathBuf,
    /// Its path in the container.
    pub target: String,
}

/// An image to be fetched. Equal requests are served by one pull.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PullRequest {
    /// The image.
    pub image: Arc<str>,
    /// For which platform, where the manifest names one.
    pub platform: Option<Arc<str>>,
}

impl PullRequest {
    /// Whether the image comes from one of these registries.
    #[must_use]
    pub fn is_from(&self, registries: &BTreeSet<RegistryName>) -> bool {
        RegistryName::of_image(&self.image).is_some_and(|registry| registries.contains(&registry))
    }
}

/// An image of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSeen {
    /// What it is in the repository that its name says; absent where it did not come from there.
    pub digest: Option<ImageDigest>,
}

/// How far a pull is, over all layers whose size is known so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// Bytes fetched.
    pub done: u64,
    /// Bytes to fetch.
    pub total: u64,
}

/// Where a pull tells its progress.
pub type ProgressSink = Arc<dyn Fn(PullProgress) + Send + Sync>;

/// Something happened to a container of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEvent {
    /// It looks like this now.
    Changed(ContainerSeen),
    /// It is not there any more.
    Gone {
        /// The instance that it was.
        instance: InstanceId,
        /// The engine's name for it.
        container: ContainerId,
    },
}

/// Which engine this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineVersion {
    /// Its name, for example `docker`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Which lines of a container's output are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogQuery {
    /// Whether to wait for lines to come.
    pub follow: Follow,
    /// Only so many of the last lines; all where absent.
    pub tail: Option<u64>,
    /// Only lines written since then.
    pub since: Option<Timestamp>,
}

/// Whether to wait for lines to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Follow {
    /// End with the last line there is.
    No,
    /// End when the container does.
    Yes,
}

/// One line of a container's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Where it was written to.
    pub stream: LogStream,
    /// When, as far as the engine tells.
    pub at: Option<Timestamp>,
    /// The line without its end; bytes that are no text are replaced.
    pub text: String,
}

/// Where a container writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogStream {
    /// Its standard output; everything, where it has a terminal.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// Why the engine did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// It does not answer. It may answer later.
    #[error("the container engine does not answer: {reason}")]
    Unreachable {
        /// What the connection said.
        reason: String,
    },
    /// It answered with a refusal.
    #[error("the container engine refused: {reason}")]
    Refused {
        /// In its own words.
        reason: String,
    },
}

/// Why an image was not fetched. The words are shown to users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// The engine does not answer.
    #[error("the container engine does not answer: {reason}")]
    Unreachable {
        /// What the connection said.
        reason: String,
    },
    /// The registry or the engine refused.
    #[error("{reason}")]
    Refused {
        /// In its own words.
        reason: String,
    },
}

/// Why a container was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Its image is not on this node.
    #[error("image {image:?} is not on this node")]
    ImageAbsent {
        /// The image.
        image: String,
    },
    /// The engine does not answer. The container may or may not have been started.
    #[error("the container engine does not answer: {reason}")]
    Unreachable {
        /// What the connection said.
        reason: String,
    },
    /// The engine has no addresses left for one more network.
    #[error(
        "no address range is left for network {network:?}: the engine's address pools are used up"
    )]
    AddressPoolExhausted {
        /// The network that was to be made.
        network: String,
    },
    /// The engine has no runtime for the GPUs that it asks for.
    #[error(
        "the engine cannot hand out GPUs: {reason}; install the container toolkit of their vendor on \
         the node (for nvidia: nvidia-container-toolkit), restart the engine, and apply again"
    )]
    GpuRuntimeMissing {
        /// In the engine's words.
        reason: String,
    },
    /// The spec asks for what this engine cannot do.
    #[error("the spec cannot be carried out: {reason}")]
    Unsupported {
        /// Which key, and why.
        reason: String,
    },
    /// The engine refused to create or start it.
    #[error("{reason}")]
    Refused {
        /// In its own words.
        reason: String,
    },
    /// It was called off before it was done.
    #[error("the start was called off")]
    Cancelled,
}

impl StartError {
    /// The refusal that the engine put into these words.
    #[must_use]
    pub fn refused(reason: String) -> Self {
        match reason.contains("could not select device driver") {
            true => Self::GpuRuntimeMissing { reason },
            false => Self::Refused { reason },
        }
    }
}

impl From<EngineError> for StartError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unreachable { reason } => Self::Unreachable { reason },
            EngineError::Refused { reason } => Self::refused(reason),
        }
    }
}

/// What comes from a container as it happens.
pub type EventStream = BoxStream<'static, Result<EngineEvent, EngineError>>;

/// The output of a container, line by line.
pub type LogLines = BoxStream<'static, Result<LogLine, EngineError>>;

/// Which volumes are collected.
#[derive(Debug, Clone)]
pub struct Collection {
    /// Only those of this deployment; of all where none is named.
    pub deployment: Option<DeploymentName>,
    /// What is needed; all else goes.
    pub needed: Needed,
    /// Whether anything is done.
    pub extent: Extent,
}

/// Whether a collection does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// It only looks.
    Look,
    /// It removes what it finds.
    Remove,
}

/// A volume that nothing needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedVolume {
    /// The deployment that had it.
    pub deployment: DeploymentName,
    /// The engine's name for it.
    pub name: String,
    /// Why it stays all the same, in the engine's words; absent where it went, or would.
    pub kept: Option<String>,
}

/// What a container has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processor time since it was started, in microseconds.
    pub cpu_micros: u64,
    /// Memory at this moment that the kernel could not take back at once, in bytes.
    pub memory_bytes: u64,
}

/// A container engine, as one node uses it.
#[async_trait]
pub trait ContainerEngine: Send + Sync + 'static {
    /// Which engine it is; asked to learn whether it answers at all.
    ///
    /// # Errors
    /// When it does not answer.
    async fn version(&self) -> Result<EngineVersion, EngineError>;

    /// Every container of this owner, whatever it does. Called every few seconds, so it must cost
    /// one question to the engine while nothing changes.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn list_owned(&self) -> Result<Vec<ContainerSeen>, EngineError>;

    /// Tells what happens to containers of this owner from now on. Ends when the connection does;
    /// whoever listens then asks again, and lists.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn events(&self) -> Result<EventStream, EngineError>;

    /// Fetches an image, as whom its registry knows by `credentials`, or as nobody. Called off by
    /// dropping the future. The engine keeps no credentials and puts them into no error.
    ///
    /// # Errors
    /// What the registry or the engine said.
    async fn pull(
        &self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
        progress: ProgressSink,
    ) -> Result<(), PullError>;

    /// Looks for an image on this node; none where it is not there.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn find_image(&self, pull: &PullRequest) -> Result<Option<ImageSeen>, EngineError>;

    /// Makes sure that the container of this instance exists and was started, with its networks
    /// and volumes. One that runs is left alone; one that ended is not started again.
    ///
    /// # Errors
    /// Why it was not; whatever was made before stays for the next attempt.
    async fn ensure_running(&self, request: &ContainerRequest)
    -> Result<ContainerSeen, StartError>;

    /// Stops the container with the signal and the grace period that it was made with, and waits
    /// for its end. One that ended or is gone is fine.
    ///
    /// # Errors
    /// When the engine did not do it.
    async fn stop(&self, container: &ContainerId) -> Result<(), EngineError>;

    /// Removes the container and its anonymous volumes; named volumes stay. One that is gone is
    /// fine.
    ///
    /// # Errors
    /// When the engine did not do it.
    async fn remove(&self, container: &ContainerId) -> Result<(), EngineError>;

    /// Removes this owner's networks, except those of the deployments to `keep`. One that is still
    /// in use stays.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn remove_networks(&self, keep: &BTreeSet<DeploymentName>) -> Result<(), EngineError>;

    /// Looks for this owner's volumes that nothing needs, and removes them if it is to. One that a
    /// container uses stays.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn collect_volumes(
        &self,
        collection: &Collection,
    ) -> Result<Vec<CollectedVolume>, EngineError>;

    /// What the container has used so far, by the engine's own count; nothing where it does not count.
    /// Costs the engine milliseconds: asked only where the kernel's files cannot be read.
    ///
    /// # Errors
    /// When the container is gone, or the engine does not answer.
    async fn used(&self, container: &ContainerId) -> Result<Option<Counters>, EngineError>;

    /// What the container wrote.
    ///
    /// # Errors
    /// When the container is gone, or its log cannot be read.
    async fn logs(&self, container: &ContainerId, query: LogQuery)
    -> Result<LogLines, EngineError>;

    /// Runs a command in the container, beside its own process. A program that is not there is no error
    /// of the engine: the command ends with 126 or 127, and says why.
    ///
    /// # Errors
    /// When the container does not run, or the engine does not answer.
    async fn exec(
        &self,
        container: &ContainerId,
        request: &ExecRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError>;
}
