//! What is in volumes, as tar archives: through a container that mounts the volume and is never started, so that no program has to
//! be in any image. Its own image is empty. What can be read without the engine's help is.

use bollard::Docker;
use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::ContainerArchiveInfoOptions;
use futures::{StreamExt, stream};
use jaco_agent::engine::{ContainerId, EngineError, ExistingVolume, Owner, VolumeTarget};
use jaco_agent::transfer::{Archive, ArchiveInput};

use crate::error::{NOT_FOUND, engine_error, status};
use crate::tar_header::{self, BLOCK_BYTES, EMPTY_ARCHIVE};
use crate::volume_access::{LABEL, Mounted, TARGET, WRITES};
use crate::volume_class::{Place, VolumeHost};
use crate::{archive, names, own_container, volume_folder};

/// Removes what a process before this one has left: its containers, and the volumes that it had not written to their end.
///
/// # Errors
/// If the engine is unreachable. A volume that a container has mounted since stays.
pub(crate) async fn remove_left(host: &VolumeHost) -> Result<(), EngineError> {
    let (docker, owner) = (&host.docker, &host.owner);
    let used = host.in_use.lock().await;
    let listed = own_container::labelled(docker, owner, LABEL).await?;
    let mut half_written_ones = Vec::new();
    for container in listed {
        let Some(id) = container.id.filter(|id| !used.contains(id)) else { continue };
        let half_written = container.labels.unwrap_or_default().remove(WRITES);
        own_container::discard(docker, &id).await?;
        half_written_ones.extend(half_written);
    }
    // A folder is removed by a container of its own, which is counted among those in use.
    drop(used);
    for volume in half_written_ones {
        match host.remove(&volume).await {
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
pub(crate) async fn read(host: &VolumeHost, name: &str) -> Result<Archive, EngineError> {
    let Some(volume) = find(&host.docker, name).await? else { return Err(absent(name)) };
    let access = host.access(Mounted::Read(name)).await?;
    let pieces = match pieces(host, &volume, access.container()).await {
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

/// The archive of what is mounted in the container: of the folder itself where that can be read, else from the engine.
async fn pieces(
    host: &VolumeHost,
    volume: &Volume,
    container: &ContainerId,
) -> Result<Archive, EngineError> {
    let options = ContainerArchiveInfoOptions { path: TARGET.to_owned() };
    let seen = host.docker.get_container_archive_info(&container.0, Some(options)).await;
    let seen = seen.map_err(engine_error)?;
    // Options of the driver may mount something in its place.
    let folder = match host.place_of(volume) {
        Some(place) => Some(place.path()),
        None if volume.driver == "local" && volume.options.is_empty() => {
            Some(volume.mountpoint.clone().into())
        }
        None => None,
    };
    // A folder on another machine may hold up whoever opens it.
    let opened = tokio::task::spawn_blocking(move || volume_folder::open(&folder?, &seen));
    let opened =
        opened.await.map_err(|error| EngineError::Refused { reason: error.to_string() })?;
    match opened {
        Some(folder) => Ok(volume_folder::read(folder)),
        None => archive::read(host.docker.clone(), container, &format!("{TARGET}/.")).await,
    }
}

/// See [`jaco_agent::ContainerEngine::write_volume`].
pub(crate) async fn write(
    host: &VolumeHost,
    volume: &VolumeTarget,
    archive: ArchiveInput,
) -> Result<(), EngineError> {
    let docker = &host.docker;
    // Nothing is removed for an archive that does not begin.
    let (root, archive) = with_root(archive).await?;
    let before = find(docker, &volume.name).await?;
    match (&before, volume.existing) {
        (None, _) => {}
        (Some(_), ExistingVolume::Replace) => host.remove(&volume.name).await?,
        (Some(_), ExistingVolume::Refuse) => {
            let reason = format!("there is a volume {} already", volume.name);
            return Err(EngineError::Refused { reason });
        }
    }
    let place = match (&before, &volume.class) {
        (Some(before), _) => host.place_of(before),
        (None, Some(class)) => Some(host.place(class, &volume.name)?),
        (None, None) => None,
    };
    if let Some(place) = &place {
        host.make_folder(place).await?;
    }
    let made = docker.create_volume(anew(&host.owner, volume, before, place)).await;
    made.map_err(engine_error)?;
    let written = async {
        let access = host.access(Mounted::Write(&volume.name)).await?;
        let written = unpack(docker, access.container(), root, archive).await;
        written.and(access.close().await)
    };
    let written = written.await;
    if written.is_err() {
        host.remove(&volume.name).await?;
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
    let root = stream::iter([Ok(root.into())]).boxed();
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
    if !tar_header::is_root(&root) {
        return Err(refused("the archive does not begin with its root, ./".to_owned()));
    }
    tar_header::rename(&mut root, TARGET.trim_start_matches('/'));
    root.extend(EMPTY_ARCHIVE);
    Ok((root, stream::iter([Ok(begin.into())]).chain(archive).boxed()))
}

/// The volume again, with what it had; one that there was not, with the labels of its deployment.
fn anew(
    owner: &Owner,
    target: &VolumeTarget,
    before: Option<Volume>,
    place: Option<Place>,
) -> VolumeCreateRequest {
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
            driver_opts: place.map(|place| place.options()),
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

fn absent(name: &str) -> EngineError {
    EngineError::Refused { reason: format!("there is no volume {name}") }
}
