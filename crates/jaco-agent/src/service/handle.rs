//! The handle to a running agent: its status, and what requests ask its engine for.

use std::sync::Arc;

use jaco_types::{DeploymentName, InstanceId};
use tokio::sync::watch;

use super::AgentStatus;
use crate::engine::exec::{BesideRequest, ExecInputs, ExecOutputs, ExecRequest};
use crate::engine::transfer::{Archive, ArchiveInput, BoxConnection, PathStat};
use crate::engine::{
    CollectedVolume, ContainerEngine, ContainerId, EngineError, HeldVolume, LogLines, LogQuery,
    VolumeGc, VolumeTarget,
};
use crate::removed::RemovedAllocations;

/// Handle to a running agent.
#[derive(Clone)]
pub struct AgentHandle {
    status: watch::Receiver<AgentStatus>,
    engine: Arc<dyn ContainerEngine>,
    removed: RemovedAllocations,
}

impl std::fmt::Debug for AgentHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentHandle").field("status", &self.status).finish_non_exhaustive()
    }
}

impl AgentHandle {
    pub(super) fn new(
        status: watch::Receiver<AgentStatus>,
        engine: Arc<dyn ContainerEngine>,
        removed: RemovedAllocations,
    ) -> Self {
        Self { status, engine, removed }
    }

    /// The agent's status, as it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<AgentStatus> {
        self.status.clone()
    }

    /// Lists, and removes if requested, unused volumes.
    ///
    /// # Errors
    /// If the engine is unreachable.
    pub async fn collect_volumes(
        &self,
        collection: &VolumeGc,
    ) -> Result<Vec<CollectedVolume>, EngineError> {
        self.engine.collect_volumes(collection).await
    }

    /// The volumes of this node.
    ///
    /// # Errors
    /// If the engine is unreachable.
    pub async fn volumes(&self) -> Result<Vec<HeldVolume>, EngineError> {
        self.engine.volumes().await
    }

    /// See [`ContainerEngine::volume_of`].
    #[must_use]
    pub fn volume_of(
        &self,
        deployment: &DeploymentName,
        key: &str,
        container: &str,
    ) -> Option<String> {
        self.engine.volume_of(deployment, key, container)
    }

    /// What is in a volume, as an archive.
    ///
    /// # Errors
    /// See [`ContainerEngine::read_volume`].
    pub async fn read_volume(&self, name: &str) -> Result<Archive, EngineError> {
        self.engine.read_volume(name).await
    }

    /// Makes a volume of an archive.
    ///
    /// # Errors
    /// See [`ContainerEngine::write_volume`].
    pub async fn write_volume(
        &self,
        volume: &VolumeTarget,
        archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        self.engine.write_volume(volume, archive).await
    }

    /// Records of allocations removed from this node.
    #[must_use]
    pub const fn removed_allocations(&self) -> &RemovedAllocations {
        &self.removed
    }

    /// Reads the log of an instance's container; `None` if it has none here.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn logs(
        &self,
        instance: &InstanceId,
        query: LogQuery,
    ) -> Result<Option<LogLines>, EngineError> {
        let container = self.status.borrow().containers.get(instance).cloned();
        match container {
            Some(container) => self.engine.logs(&container, query).await.map(Some),
            None => Ok(None),
        }
    }

    /// Runs a command in an instance's container; `None` if it has none here.
    ///
    /// # Errors
    /// If the container is not running or the engine is unreachable.
    pub async fn exec(
        &self,
        instance: &InstanceId,
        request: &ExecRequest,
        inputs: ExecInputs,
    ) -> Result<Option<ExecOutputs>, EngineError> {
        let Some(container) = self.container(instance) else { return Ok(None) };
        self.engine.exec(&container, request, inputs).await.map(Some)
    }

    /// Runs a command beside an instance's container; `None` if it has none here.
    ///
    /// # Errors
    /// See [`ContainerEngine::run_beside`].
    pub async fn run_beside(
        &self,
        instance: &InstanceId,
        request: &BesideRequest,
        inputs: ExecInputs,
    ) -> Result<Option<ExecOutputs>, EngineError> {
        let Some(container) = self.container(instance) else { return Ok(None) };
        self.engine.run_beside(&container, request, inputs).await.map(Some)
    }

    /// What is at a path of an instance's container; the outer `None` if it has none here.
    ///
    /// # Errors
    /// See [`ContainerEngine::stat`].
    pub async fn stat(
        &self,
        instance: &InstanceId,
        path: &str,
    ) -> Result<Option<Option<PathStat>>, EngineError> {
        let Some(container) = self.container(instance) else { return Ok(None) };
        self.engine.stat(&container, path).await.map(Some)
    }

    /// What is at a path of an instance's container as an archive; `None` if it has none here.
    ///
    /// # Errors
    /// See [`ContainerEngine::read_archive`].
    pub async fn read_archive(
        &self,
        instance: &InstanceId,
        path: &str,
    ) -> Result<Option<Archive>, EngineError> {
        let Some(container) = self.container(instance) else { return Ok(None) };
        self.engine.read_archive(&container, path).await.map(Some)
    }

    /// Unpacks an archive in a folder of an instance's container; `None` if it has none here.
    ///
    /// # Errors
    /// See [`ContainerEngine::write_archive`].
    pub async fn write_archive(
        &self,
        instance: &InstanceId,
        folder: &str,
        archive: ArchiveInput,
    ) -> Result<Option<()>, EngineError> {
        let Some(container) = self.container(instance) else { return Ok(None) };
        self.engine.write_archive(&container, folder, archive).await.map(Some)
    }

    /// Connects to a TCP port of an instance's container; `None` if it has none here.
    ///
    /// # Errors
    /// See [`ContainerEngine::connect`].
    pub async fn connect(
        &self,
        instance: &InstanceId,
        port: u16,
    ) -> Result<Option<BoxConnection>, EngineError> {
        let Some(container) = self.container(instance) else { return Ok(None) };
        self.engine.connect(&container, port).await.map(Some)
    }

    fn container(&self, instance: &InstanceId) -> Option<ContainerId> {
        self.status.borrow().containers.get(instance).cloned()
    }
}
