//! What is in volumes, as tar archives: through a container that mounts the volume and is never started, so that no program has to
//! be in any image. Its own image is empty.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bollard::Docker;
use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions, Volume,
    VolumeCreateRequest,
};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, ListContainersOptions, RemoveContainerOptions,
    RemoveVolumeOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use jaco_agent::engine::{ContainerId, EngineError, ExistingVolume, Owner, VolumeTarget};
use jaco_agent::transfer::{Archive, ArchiveInput};
use tokio::sync::Mutex;

use crate::error::{NOT_FOUND, allow, engine_error, status};
use crate::{archive, names};

/// Label of the containers, with the scope of their owner. They have none that replicas have, so that nothing takes them for
/// one.
pub(crate) const LABEL: &str = "jaco.volume_access";

/// Label of those that write, with the volume: it is half written as long as there is one.
const WRITES: &str = "jaco.volume_writes";

/// Name and tag of the empty image.
const IMAGE: (&str, &str) = ("jaco-volume-access", "1");

/// Where the volume is in the container.
const TARGET: &str = "/volume";

/// Bytes of a block of a tar archive.
const BLOCK_BYTES: usize = 512;

/// An archive without entries: its end.
const EMPTY_ARCHIVE: [u8; 2 * BLOCK_BYTES] = [0; 2 * BLOCK_BYTES];

/// The containers of this process that are in use. Others with the label were left by a process that has ended.
pub(crate) type InUse = Arc<Mutex<BTreeSet<String>>>;

/// Removes what a process before this one has left: its containers, and the volumes that it had not written to their end.
///
/// # Errors
/// If the engine is unreachable. A volume that a container has mounted since stays.
pub(crate) async fn remove_left(
    docker: &Docker,
    owner: &Owner,
    in_use: &InUse,
) -> Result<(), EngineError> {
    let used = in_use.lock().await;
    let label = format!("{LABEL}={}", names::scope(owner));
    let options = ListContainersOptions {
        all: true,
        filters: Some(HashMap::from([("label".to_owned(), vec![label])])),
        ..ListContainersOptions::default()
    };
    let listed = docker.list_containers(Some(options)).await.map_err(engine_error)?;
    for container in listed {
        let Some(id) = container.id.filter(|id| !used.contains(id)) else { continue };
        let half_written = container.labels.unwrap_or_default().remove(WRITES);
        discard(docker, &id).await?;
        let Some(volume) = half_written else { continue };
        match remove(docker, &volume).await {
            Ok(()) => tracing::warn!(volume, "half restored volume removed"),
            Err(EngineError::Refused { reason }) => {
                tracing::error!(volume, reason, "half restored volume not removed");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// See [`jaco_agent::ContainerEngine::read_volume`].
pub(crate) async fn read(
    docker: &Docker,
    owner: &Owner,
    in_use: &InUse,
    name: &str,
) -> Result<Archive, EngineError> {
    if find(docker, name).await?.is_none() {
        return Err(absent(name));
    }
    let access = Access::open(docker, owner, in_use, name, Writing::No).await?;
    let pieces = match archive::read(docker.clone(), &access.id, &format!("{TARGET}/.")).await {
        Ok(pieces) => pieces,
        Err(error) => {
            access.close().await?;
            return Err(error);
        }
    };
    // The container goes with the archive, also if it is not read to its end.
    let pieces = stream::unfold((pieces, access), |(mut pieces, access)| async {
        let piece = pieces.next().await?;
        Some((piece, (pieces, access)))
    });
    Ok(pieces.boxed())
}

/// See [`jaco_agent::ContainerEngine::write_volume`].
pub(crate) async fn write(
    docker: &Docker,
    owner: &Owner,
    in_use: &InUse,
    volume: &VolumeTarget,
    archive: ArchiveInput,
) -> Result<(), EngineError> {
    // Nothing is removed for an archive that does not begin.
    let (root, archive) = with_root(archive).await?;
    let before = find(docker, &volume.name).await?;
    match (&before, volume.existing) {
        (None, _) => {}
        (Some(_), ExistingVolume::Replace) => remove(docker, &volume.name).await?,
        (Some(_), ExistingVolume::Refuse) => {
            let reason = format!("there is a volume {} already", volume.name);
            return Err(EngineError::Refused { reason });
        }
    }
    let made = docker.create_volume(anew(owner, volume, before)).await;
    made.map_err(engine_error)?;
    let written = async {
        let access = Access::open(docker, owner, in_use, &volume.name, Writing::Yes).await?;
        let written = unpack(docker, &access.id, root, archive).await;
        written.and(access.close().await)
    };
    let written = written.await;
    if written.is_err() {
        remove(docker, &volume.name).await?;
    }
    written
}

/// The engine leaves the folder that it unpacks in as it is, so its owner and mode come by an archive of their own.
async fn unpack(
    docker: &Docker,
    container: &ContainerId,
    root: Vec<u8>,
    contents: ArchiveInput,
) -> Result<(), EngineError> {
    let root = stream::iter([Ok(root)]).boxed();
    archive::write(docker.clone(), container, "/", root).await?;
    archive::write(docker.clone(), container, TARGET, contents).await
}

/// The archive of the root of this archive alone, by the name that it has in the container; and the whole archive.
async fn with_root(mut archive: ArchiveInput) -> Result<(Vec<u8>, ArchiveInput), EngineError> {
    let refused = |reason: String| EngineError::Refused { reason };
    let mut begin = Vec::new();
    while begin.len() < BLOCK_BYTES {
        let piece = archive.next().await.transpose();
        let piece = piece.map_err(|error| refused(error.to_string()))?;
        let piece = piece.ok_or_else(|| refused("unexpected end of the archive".to_owned()))?;
        begin.extend(piece);
    }
    let mut root = begin[..BLOCK_BYTES].to_vec();
    if !tar::is_root(&root) {
        return Err(refused("the archive does not begin with its root, ./".to_owned()));
    }
    tar::rename(&mut root, TARGET.trim_start_matches('/'));
    root.extend(EMPTY_ARCHIVE);
    Ok((root, stream::iter([Ok(begin)]).chain(archive).boxed()))
}

/// The headers of a tar archive, by POSIX.1-1988 (ustar).
mod tar {
    use std::ops::Range;

    const NAME: Range<usize> = 0..100;
    const CHECKSUM: Range<usize> = 148..156;
    const TYPE: usize = 156;
    const FOLDER: u8 = b'5';
    const PREFIX: Range<usize> = 345..500;

    /// Whether this header is of the root.
    pub(super) fn is_root(header: &[u8]) -> bool {
        let name = header[NAME].split(|byte| *byte == 0).next().unwrap_or_default();
        header[TYPE] == FOLDER && [&b"./"[..], b"."].contains(&name) && header[PREFIX.start] == 0
    }

    /// Gives the entry another name, of less than 99 bytes.
    pub(super) fn rename(header: &mut [u8], name: &str) {
        header[NAME].fill(0);
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[name.len()] = b'/';
        header[CHECKSUM].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        let digits = format!("{sum:06o}\0 ");
        header[CHECKSUM].copy_from_slice(digits.as_bytes());
    }
}

/// The volume again, with what it had; one that there was not, with the labels of its deployment.
fn anew(owner: &Owner, target: &VolumeTarget, before: Option<Volume>) -> VolumeCreateRequest {
    let name = Some(target.name.clone());
    match before {
        Some(Volume { driver, options, labels, .. }) => VolumeCreateRequest {
            name,
            driver: Some(driver),
            driver_opts: Some(options),
            labels: Some(labels),
            ..VolumeCreateRequest::default()
        },
        None => VolumeCreateRequest {
            name,
            labels: Some(names::deployment_labels(owner, &target.deployment)),
            ..VolumeCreateRequest::default()
        },
    }
}

async fn find(docker: &Docker, name: &str) -> Result<Option<Volume>, EngineError> {
    match docker.inspect_volume(name).await {
        Ok(volume) => Ok(Some(volume)),
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
        Err(error) => Err(engine_error(error)),
    }
}

/// Removes a volume that no container mounts.
async fn remove(docker: &Docker, name: &str) -> Result<(), EngineError> {
    allow(docker.remove_volume(name, None::<RemoveVolumeOptions>).await, &[NOT_FOUND])
}

fn absent(name: &str) -> EngineError {
    EngineError::Refused { reason: format!("there is no volume {name}") }
}

/// Whether the container may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    No,
    Yes,
}

/// A container that mounts a volume. Dropping it removes it a little later.
struct Access {
    docker: Docker,
    id: ContainerId,
    in_use: InUse,
}

impl Access {
    /// Makes the container.
    async fn open(
        docker: &Docker,
        owner: &Owner,
        in_use: &InUse,
        volume: &str,
        writing: Writing,
    ) -> Result<Self, EngineError> {
        let mut used = in_use.lock().await;
        let body = body(owner, volume, writing);
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

    /// Removes the container now.
    async fn close(self) -> Result<(), EngineError> {
        discard(&self.docker, &self.id.0).await
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let (docker, id, in_use) = (self.docker.clone(), self.id.clone(), Arc::clone(&self.in_use));
        tokio::spawn(async move {
            if let Err(error) = discard(&docker, &id.0).await {
                tracing::warn!(container = %id, %error, "container of a volume not removed");
            }
            in_use.lock().await.remove(&*id.0);
        });
    }
}

fn body(owner: &Owner, volume: &str, writing: Writing) -> ContainerCreateBody {
    let mut labels = HashMap::from([(LABEL.to_owned(), names::scope(owner))]);
    if writing == Writing::Yes {
        labels.insert(WRITES.to_owned(), volume.to_owned());
    }
    let mount = Mount {
        target: Some(TARGET.to_owned()),
        source: Some(volume.to_owned()),
        typ: Some(MountType::VOLUME),
        read_only: Some(writing == Writing::No),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    };
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

async fn discard(docker: &Docker, id: &str) -> Result<(), EngineError> {
    let options = RemoveContainerOptions { force: true, ..RemoveContainerOptions::default() };
    allow(docker.remove_container(id, Some(options)).await, &[NOT_FOUND])
}
