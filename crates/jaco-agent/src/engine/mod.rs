//! Interface of a container engine.
//!
//! Every operation is idempotent: repeated, also after a crash half-way, it has the same result. An
//! engine touches only containers with its owner's labels, whoever else uses the machine.

mod container;
mod credentials;
mod error;
pub mod exec;
mod image;
mod log;
pub mod transfer;
mod volume;

use async_trait::async_trait;
use futures::stream::BoxStream;
use jaco_types::{BlobDigest, DeploymentName, InstanceId};

use self::exec::{BesideRequest, ExecInputs, ExecOutputs, ExecRequest};
use self::transfer::{Archive, ArchiveInput, BoxConnection, PathStat};

pub use self::container::{
    ContainerId, ContainerRequest, ContainerStatus, FileBind, Health, KeptNetworks, MountedFiles,
    ObservedContainer, Owner,
};
pub use self::credentials::RegistryCredentials;
pub use self::error::{EngineError, PullError, StartError};
pub use self::image::{ObservedImage, ProgressSink, PullProgress, PullRequest};
pub use self::log::{Follow, LogLine, LogLines, LogQuery, LogStream};
pub use self::volume::{
    CollectedVolume, ExistingVolume, GcMode, HeldVolume, VolumeAccess, VolumeGc, VolumeMount,
    VolumeTarget,
};

pub use jaco_state::view::AttachedNetwork;

/// A change of a container of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEvent {
    /// The container was created or changed.
    Changed(ObservedContainer),
    /// The container was removed.
    Gone {
        /// The instance it ran.
        instance: InstanceId,
        /// Its id in the engine.
        container: ContainerId,
    },
}

/// Name and version of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineVersion {
    /// Its name, for example `docker`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Stream of container changes.
pub type EventStream = BoxStream<'static, Result<EngineEvent, EngineError>>;

/// Resource usage of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processor time since the start, in microseconds.
    pub cpu_micros: u64,
    /// Memory in use that the kernel cannot reclaim immediately, in bytes.
    pub memory_bytes: u64,
}

/// A container engine as one node uses it.
#[async_trait]
pub trait ContainerEngine: Send + Sync + 'static {
    /// Name and version; also used to probe the engine.
    ///
    /// # Errors
    /// If the engine is unreachable.
    async fn version(&self) -> Result<EngineVersion, EngineError>;

    /// All containers of this owner in any status. Called every few seconds: must cost a single
    /// request while nothing changes.
    ///
    /// # Errors
    /// If the engine is unreachable.
    async fn list_owned(&self) -> Result<Vec<ObservedContainer>, EngineError>;

    /// Streams changes of this owner's containers from now on. After the stream ends, subscribe
    /// again and list.
    ///
    /// # Errors
    /// If the engine is unreachable.
    async fn events(&self) -> Result<EventStream, EngineError>;

    /// Pulls an image, with `credentials` or anonymously. Dropping the future cancels the pull.
    /// Credentials are not stored and appear in no error.
    ///
    /// # Errors
    /// See [`PullError`].
    async fn pull(
        &self,
        pull: &PullRequest,
        credentials: Option<&RegistryCredentials>,
        progress: ProgressSink,
    ) -> Result<(), PullError>;

    /// Looks up an image on this node.
    ///
    /// # Errors
    /// If the engine is unreachable.
    async fn find_image(&self, pull: &PullRequest) -> Result<Option<ObservedImage>, EngineError>;

    /// How many of these layers, the lowest first and by the SHA-256 of what is unpacked, need not be in an archive for
    /// [`ContainerEngine::load_image`]. Zero is always right.
    ///
    /// # Errors
    /// If the engine is unreachable.
    async fn known_layers(&self, layers: &[BlobDigest]) -> Result<usize, EngineError>;

    /// Loads an image from an archive in the format of `docker save`, which may leave out layers that this engine has, and
    /// has it under the name that it is asked for by. The archive has one image, tagged with
    /// [`jaco_types::pushed::local_name`] of that name.
    ///
    /// # Errors
    /// If the archive is damaged or incomplete, its contents are not what it says, or the engine is unreachable.
    async fn load_image(
        &self,
        image: &PullRequest,
        archive: ArchiveInput,
    ) -> Result<(), EngineError>;

    /// Ensures the networks that a container is attached to, before it is made: the router of the node has its ports
    /// in them. An engine without networks of its own has nothing to do.
    ///
    /// # Errors
    /// Why one of them cannot be made.
    async fn prepare_networks(&self, _request: &ContainerRequest) -> Result<(), StartError> {
        Ok(())
    }

    /// Attaches the container of this instance, which runs in networks of its node, to its networks of the cluster, in
    /// which it has exactly the requested addresses. Its other networks, its default route and its names stay. One that is
    /// attached already is no error.
    ///
    /// # Errors
    /// Why it was not; networks that it was attached to before stay.
    async fn join_networks(
        &self,
        container: &ContainerId,
        request: &ContainerRequest,
    ) -> Result<(), StartError>;

    /// Ensures that the container of this instance exists and was started, with its networks and
    /// volumes. In a network of the cluster it has exactly the requested address. A running one is not changed; an exited one is not restarted.
    ///
    /// # Errors
    /// Why it was not; whatever was made before stays for the next attempt.
    async fn ensure_running(
        &self,
        request: &ContainerRequest,
    ) -> Result<ObservedContainer, StartError>;

    /// Stops the container with the hooks, signal and grace period of its spec, and waits for its exit. The
    /// `pre_stop` hooks run first and share the grace period with the signal, which is sent whatever becomes of
    /// them. A container that exited or is gone is no error; no hook is run then.
    ///
    /// # Errors
    /// If the engine did not do it.
    async fn stop(&self, container: &ContainerId) -> Result<(), EngineError>;

    /// Removes the container and its anonymous volumes; named volumes stay. A container that is
    /// gone is no error.
    ///
    /// # Errors
    /// If the engine did not do it.
    async fn remove(&self, container: &ContainerId) -> Result<(), EngineError>;

    /// Removes this owner's networks and those of its cluster, except the ones in `keep`. A network in
    /// use stays.
    ///
    /// # Errors
    /// If the engine is unreachable.
    async fn remove_networks(&self, keep: &KeptNetworks) -> Result<(), EngineError>;

    /// Lists, and removes if requested, this owner's unused volumes. A volume that a container uses
    /// stays.
    ///
    /// # Errors
    /// If the engine is unreachable.
    async fn collect_volumes(
        &self,
        collection: &VolumeGc,
    ) -> Result<Vec<CollectedVolume>, EngineError>;

    /// This owner's volumes, by deployment and key.
    ///
    /// # Errors
    /// If the engine is unreachable.
    async fn volumes(&self) -> Result<Vec<HeldVolume>, EngineError>;

    /// The engine's id of the volume that a manifest of this deployment names so, as this container mounts it; `None` if it
    /// does not, or if the volume is external.
    fn volume_of(&self, deployment: &DeploymentName, key: &str, container: &str) -> Option<String>;

    /// What is in a volume as a tar archive, whose root is `./`. No program is run for it. What containers write meanwhile
    /// may be in it or not, or half.
    ///
    /// # Errors
    /// If there is no such volume, or the engine is unreachable.
    async fn read_volume(&self, name: &str) -> Result<Archive, EngineError>;

    /// Makes a volume that has exactly what is in a tar archive, whose root is `./`, with its owners and modes. One of that
    /// name is removed before, if it may be; its driver, options and labels stay.
    ///
    /// # Errors
    /// If there is one that may not be replaced, a container mounts it, the archive is damaged or incomplete, or the engine is
    /// unreachable. A volume that was not written to its end is removed, also if nobody waits for this any more.
    async fn write_volume(
        &self,
        volume: &VolumeTarget,
        archive: ArchiveInput,
    ) -> Result<(), EngineError>;

    /// Resource usage by the engine's accounting; `None` if it has none. Takes milliseconds, so it
    /// is used only where the kernel's files cannot be read.
    ///
    /// # Errors
    /// If the container is gone or the engine is unreachable.
    async fn used(&self, container: &ContainerId) -> Result<Option<Counters>, EngineError>;

    /// Reads the log of the container.
    ///
    /// # Errors
    /// If the container is gone or its log cannot be read.
    async fn logs(&self, container: &ContainerId, query: LogQuery)
    -> Result<LogLines, EngineError>;

    /// Runs a command in the container. A missing program is not an engine error: the command exits
    /// with 126 or 127 and a message.
    ///
    /// # Errors
    /// If the container is not running or the engine is unreachable.
    async fn exec(
        &self,
        container: &ContainerId,
        request: &ExecRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError>;

    /// Runs a command in a container of its own: made like this one, in its network, and removed once the command exits or
    /// the output is dropped. Nothing takes it for the instance.
    ///
    /// # Errors
    /// If the container is not running, the command cannot be started, or the engine is unreachable.
    async fn run_beside(
        &self,
        container: &ContainerId,
        request: &BesideRequest,
        inputs: ExecInputs,
    ) -> Result<ExecOutputs, EngineError>;

    /// What is at a path of the container; `None` if there is nothing. Links are followed.
    ///
    /// # Errors
    /// If the container is gone, a link leads nowhere, or the engine is unreachable.
    async fn stat(
        &self,
        container: &ContainerId,
        path: &str,
    ) -> Result<Option<PathStat>, EngineError>;

    /// What is at a path of the container as a tar archive, whose root has the last name of the path. Nothing in the
    /// container is run for it.
    ///
    /// # Errors
    /// If there is nothing at the path, or the engine is unreachable.
    async fn read_archive(
        &self,
        container: &ContainerId,
        path: &str,
    ) -> Result<Archive, EngineError>;

    /// Unpacks a tar archive in a folder of the container. Files are replaced; a file never replaces a folder, nor a
    /// folder a file.
    ///
    /// # Errors
    /// If there is no such folder, the archive is damaged or incomplete, or the engine is unreachable. What was unpacked
    /// before stays.
    async fn write_archive(
        &self,
        container: &ContainerId,
        folder: &str,
        archive: ArchiveInput,
    ) -> Result<(), EngineError>;

    /// Connects to a TCP port of the container, from this node: at the container's address, so that the port need not be
    /// published.
    ///
    /// # Errors
    /// If the container has no network or nothing listens there.
    async fn connect(
        &self,
        container: &ContainerId,
        port: u16,
    ) -> Result<BoxConnection, EngineError>;
}
