//! What is in volumes, as tar archives: through a container that mounts the volume and is never started, so that no program has to
//! be in any image. Its own image is empty.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use bollard::Docker;
use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions, Volume,
    VolumeCreateRequest,
};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, ListContainersOptions, RemoveContainerOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use jaco_agent::engine::{ContainerId, EngineError, ExistingVolume, Owner, VolumeTarget};
use jaco_agent::transfer::{Archive, ArchiveInput};
use tokio::sync::Mutex;

use crate::error::{NOT_FOUND, allow, engine_error, status};
use crate::volume_class::{Place, VolumeHost};
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
pub(crate) async fn remove_left(host: &VolumeHost) -> Result<(), EngineError> {
    let (docker, owner) = (&host.docker, &host.owner);
    let used = host.in_use.lock().await;
    let label = format!("{LABEL}={}", names::scope(owner));
    let options = ListContainersOptions {
        all: true,
        filters: Some(HashMap::from([("label".to_owned(), vec![label])])),
        ..ListContainersOptions::default()
    };
    let listed = docker.list_containers(Some(options)).await.map_err(engine_error)?;
    let mut half_written_ones = Vec::new();
    for container in listed {
        let Some(id) = container.id.filter(|id| !used.contains(id)) else { continue };
        let half_written = container.labels.unwrap_or_default().remove(WRITES);
        discard(docker, &id).await?;
        half_written_ones.extend(half_written);
    }
    // A folder is removed by a container of its own, which is noted among those in use.
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
    let docker = &host.docker;
    if find(docker, name).await?.is_none() {
        return Err(absent(name));
    }
    let access = Access::open(host, Mounted::Read(name)).await?;
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
        let access = Access::open(host, Mounted::Write(&volume.name)).await?;
        let written = unpack(docker, &access.id, root, archive).await;
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
pub(crate) mod tar {
    use std::ops::Range;

    use super::{BLOCK_BYTES, EMPTY_ARCHIVE};

    const NAME: Range<usize> = 0..100;
    const MODE: Range<usize> = 100..108;
    const UID: Range<usize> = 108..116;
    const GID: Range<usize> = 116..124;
    const SIZE: Range<usize> = 124..136;
    const TIME: Range<usize> = 136..148;
    const MAGIC: Range<usize> = 257..265;
    const CHECKSUM: Range<usize> = 148..156;
    const TYPE: usize = 156;
    const FOLDER: u8 = b'5';
    const FILE: u8 = b'0';
    /// Of an extension: what follows is the name of the next entry.
    const LONG_NAME: u8 = b'L';
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
        sum(header);
    }

    /// An archive of one empty folder, which is root's.
    pub(crate) fn folder(name: &str) -> Vec<u8> {
        archive(&format!("{name}/"), FOLDER, "0000755")
    }

    /// An archive of one empty file, which is root's.
    pub(crate) fn empty_file(name: &str) -> Vec<u8> {
        archive(name, FILE, "0000600")
    }

    fn archive(name: &str, kind: u8, mode: &str) -> Vec<u8> {
        let mut archive = Vec::new();
        if name.len() >= NAME.len() {
            archive.extend(header("././@LongLink", LONG_NAME, mode, name.len() + 1));
            archive.extend(name.as_bytes());
            archive.push(0);
            archive.resize(archive.len().next_multiple_of(BLOCK_BYTES), 0);
        }
        archive.extend(header(name, kind, mode, 0));
        archive.extend(EMPTY_ARCHIVE);
        archive
    }

    /// A header; of a name that is too long, only its beginning.
    fn header(name: &str, kind: u8, mode: &str, size: usize) -> [u8; BLOCK_BYTES] {
        let mut header = [0; BLOCK_BYTES];
        let name = &name.as_bytes()[..name.len().min(NAME.len() - 1)];
        header[..name.len()].copy_from_slice(name);
        header[TYPE] = kind;
        let mut put = |range: Range<usize>, text: &str| {
            header[range.start..range.start + text.len()].copy_from_slice(text.as_bytes());
        };
        put(MODE, mode);
        put(UID, "0000000");
        put(GID, "0000000");
        put(SIZE, &format!("{size:011o}"));
        put(TIME, "00000000000");
        put(MAGIC, "ustar  ");
        sum(&mut header);
        header
    }

    fn sum(header: &mut [u8]) {
        header[CHECKSUM].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        let digits = format!("{sum:06o}\0 ");
        header[CHECKSUM].copy_from_slice(digits.as_bytes());
    }
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
    pub(crate) async fn open(host: &VolumeHost, mounted: Mounted<'_>) -> Result<Self, EngineError> {
        let (docker, in_use) = (&host.docker, &host.in_use);
        let mut used = in_use.lock().await;
        let body = body(&host.owner, mounted)?;
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
    pub(crate) fn id(&self) -> &str {
        &self.id.0
    }

    /// Where in the container the volume or folder is.
    pub(crate) const fn target(&self) -> &'static str {
        TARGET
    }

    /// Removes the container now.
    pub(crate) async fn close(self) -> Result<(), EngineError> {
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

async fn discard(docker: &Docker, id: &str) -> Result<(), EngineError> {
    let options = RemoveContainerOptions { force: true, ..RemoveContainerOptions::default() };
    allow(docker.remove_container(id, Some(options)).await, &[NOT_FOUND])
}
