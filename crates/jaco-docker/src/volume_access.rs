//! Containers that mount a volume or a folder of the node and are never started, so that no program has to be in any image: the
//! engine reads and writes their files. Their own image is empty.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions};
use bollard::query_parameters::{CreateContainerOptions, CreateImageOptions};
use futures::TryStreamExt;
use jaco_agent::engine::{ContainerId, EngineError, Owner};
use tokio::sync::Mutex;

use crate::error::{NOT_FOUND, engine_error, status};
use crate::tar_header::EMPTY_ARCHIVE;
use crate::{names, own_container};

/// Label of the containers, with the scope of their owner.
pub(crate) const LABEL: &str = "jaco.volume_access";

/// Label of those that write, with the volume: it is half written as long as there is one.
pub(crate) const WRITES: &str = "jaco.volume_writes";

/// Name and tag of the empty image.
const IMAGE: (&str, &str) = ("jaco-volume-access", "1");

/// Where the volume is in the container.
pub(crate) const TARGET: &str = "/volume";

/// The containers of this process that are in use. Others with the label were left by a process that has ended.
pub(crate) type InUse = Arc<Mutex<BTreeSet<String>>>;

/// What the container mounts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mounted<'m> {
    /// A volume that is read.
    Read(&'m str),
    /// A volume that is written.
    Write(&'m str),
    /// A folder of the node, whose folders are changed.
    Folder(&'m Path),
}

/// A container that mounts a volume or a folder. Dropping it removes it a little later.
pub(crate) struct Access {
    docker: Docker,
    id: ContainerId,
    in_use: InUse,
}

impl Access {
    /// Makes the container.
    ///
    /// # Errors
    /// If the engine does not.
    pub(crate) async fn open(
        docker: &Docker,
        owner: &Owner,
        in_use: &InUse,
        mounted: Mounted<'_>,
    ) -> Result<Self, EngineError> {
        let mut used = in_use.lock().await;
        let body = body(owner, mounted)?;
        let create = || docker.create_container(None::<CreateContainerOptions>, body.clone());
        let created = match create().await {
            Err(error) if status(&error) == Some(NOT_FOUND) => {
                make_image(docker).await?;
                create().await
            }
            created => created,
        };
        let id = created.map_err(engine_error)?.id;
        used.insert(id.clone());
        drop(used);
        Ok(Self { docker: docker.clone(), id: ContainerId(id.into()), in_use: Arc::clone(in_use) })
    }

    /// The container.
    pub(crate) const fn container(&self) -> &ContainerId {
        &self.id
    }

    /// Removes the container now.
    pub(crate) async fn close(self) -> Result<(), EngineError> {
        own_container::discard(&self.docker, &self.id.0).await
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let (docker, id, in_use) = (self.docker.clone(), self.id.clone(), Arc::clone(&self.in_use));
        tokio::spawn(async move {
            if let Err(error) = own_container::discard(&docker, &id.0).await {
                tracing::warn!(container = %id, %error, "container of a volume not removed");
            }
            in_use.lock().await.remove(&*id.0);
        });
    }
}

fn body(owner: &Owner, mounted: Mounted<'_>) -> Result<ContainerCreateBody, EngineError> {
    let mut labels = HashMap::from([(LABEL.to_owned(), names::scope(owner))]);
    if let Mounted::Write(volume) = mounted {
        labels.insert(WRITES.to_owned(), volume.to_owned());
    }
    let mount = match mounted {
        Mounted::Read(volume) => volume_mount(volume, Some(true)),
        Mounted::Write(volume) => volume_mount(volume, Some(false)),
        Mounted::Folder(folder) => Mount {
            target: Some(TARGET.to_owned()),
            source: Some(text_of(folder)?.to_owned()),
            typ: Some(MountType::BIND),
            ..Mount::default()
        },
    };
    Ok(create_body(labels, mount))
}

fn text_of(folder: &Path) -> Result<&str, EngineError> {
    folder.to_str().ok_or_else(|| EngineError::Refused {
        reason: format!("{} cannot be passed to Docker", folder.display()),
    })
}

fn volume_mount(volume: &str, read_only: Option<bool>) -> Mount {
    Mount {
        target: Some(TARGET.to_owned()),
        source: Some(volume.to_owned()),
        typ: Some(MountType::VOLUME),
        read_only,
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

fn create_body(labels: HashMap<String, String>, mount: Mount) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(format!("{}:{}", IMAGE.0, IMAGE.1)),
        cmd: Some(vec!["none".to_owned()]),
        labels: Some(labels),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            mounts: Some(vec![mount]),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

async fn make_image(docker: &Docker) -> Result<(), EngineError> {
    let options = CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some(IMAGE.0.to_owned()),
        tag: Some(IMAGE.1.to_owned()),
        ..CreateImageOptions::default()
    };
    let archive = bollard::body_full(EMPTY_ARCHIVE.to_vec().into());
    let made = docker.create_image(Some(options), Some(archive), None);
    made.try_for_each(|_| std::future::ready(Ok(()))).await.map_err(engine_error)
}
