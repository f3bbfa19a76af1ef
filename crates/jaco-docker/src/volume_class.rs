//! Volumes of a class: each is a folder below the folder of its class, which the engine's `local` driver mounts. The engine
//! makes and removes the folders, because it has the right to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::{Volume, VolumeCreateRequest};
use bollard::query_parameters::{RemoveVolumeOptions, UploadToContainerOptions};
use jaco_agent::engine::{EngineError, Owner, StartError};
use jaco_types::VolumeClass;
use jaco_types::unit::Bytes;
use tokio::sync::Mutex;

use crate::error::{NOT_FOUND, allow, engine_error, status};
use crate::tar_header;
use crate::volume_access::{Access, InUse, Mounted, TARGET};

/// The folder of each class on this node.
pub type VolumeFolders = BTreeMap<VolumeClass, PathBuf>;

/// The option of the driver that says where a volume is.
const DEVICE: &str = "device";

/// Bytes of a block as the file system counts them.
const BLOCK_BYTES: u64 = 512;

/// How long files are counted at most: a list of volumes is waited for.
const COUNT_TIME_MAX: Duration = Duration::from_secs(2);

/// Through what the volumes of an engine are reached.
#[derive(Debug, Clone)]
pub(crate) struct VolumeHost {
    pub(crate) docker: Docker,
    pub(crate) owner: Owner,
    pub(crate) in_use: InUse,
    pub(crate) folders: Arc<VolumeFolders>,
    /// Held while a volume of a class is made: replicas that start together make it once.
    pub(crate) making: Arc<Mutex<()>>,
}

/// Where a volume of a class is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) class: VolumeClass,
    /// The folder of the class.
    folder: PathBuf,
    /// The name of the volume's own folder there.
    name: String,
}

impl Place {
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// The options of the driver for it.
    pub(crate) fn options(&self) -> HashMap<String, String> {
        let device = self.path().display().to_string();
        let options = [("type", "none".to_owned()), ("o", "bind".to_owned()), (DEVICE, device)];
        options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

impl VolumeHost {
    /// A container that mounts this.
    ///
    /// # Errors
    /// If the engine does not make it.
    pub(crate) async fn access(&self, mounted: Mounted<'_>) -> Result<Access, EngineError> {
        Access::open(&self.docker, &self.owner, &self.in_use, mounted).await
    }

    /// Where the volume of this name is, if it is of this class.
    ///
    /// # Errors
    /// If this node does not offer the class.
    pub(crate) fn place(&self, class: &VolumeClass, name: &str) -> Result<Place, EngineError> {
        let folder = self.folders.get(class).ok_or_else(|| EngineError::Refused {
            reason: format!(
                "this node offers no volumes of class {class}: name its folder under `volume_classes` of jacod.yaml"
            ),
        })?;
        Ok(Place { class: class.clone(), folder: folder.clone(), name: name.to_owned() })
    }

    /// Where this volume is, if it is of a class that this node offers.
    pub(crate) fn place_of(&self, volume: &Volume) -> Option<Place> {
        let device = Path::new(volume.options.get(DEVICE)?);
        let mut offered = self.folders.iter();
        let (class, folder) = offered.find(|(_, folder)| device.parent() == Some(folder))?;
        // Whatever else is in the folder is not this volume's.
        (device.file_name()?.to_str()? == volume.name).then(|| Place {
            class: class.clone(),
            folder: folder.clone(),
            name: volume.name.clone(),
        })
    }

    /// Ensures that a volume of a class is there.
    ///
    /// # Errors
    /// If there is one of its name elsewhere, or it cannot be made.
    pub(crate) async fn ensure(
        &self,
        class: &VolumeClass,
        name: &str,
        labels: HashMap<String, String>,
    ) -> Result<(), StartError> {
        let place = self.place(class, name)?;
        let _making = self.making.lock().await;
        match self.docker.inspect_volume(name).await {
            Ok(found) if self.place_of(&found).as_ref() == Some(&place) => return Ok(()),
            Ok(found) => {
                let there = self.place_of(&found).map_or_else(
                    || "has no class".to_owned(),
                    |place| format!("is of class {}", place.class),
                );
                let reason = format!(
                    "volume {name} {there} on this node, and is to be of class {class}: give it back its \
                     former class, or back its data up, remove it and restore it (`jaco volume`)"
                );
                return Err(StartError::Refused { reason });
            }
            Err(error) if status(&error) == Some(NOT_FOUND) => {}
            Err(error) => return Err(engine_error(error).into()),
        }
        self.make_folder(&place).await?;
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            driver_opts: Some(place.options()),
            labels: Some(labels),
            ..VolumeCreateRequest::default()
        };
        self.docker.create_volume(request).await.map_err(engine_error)?;
        Ok(())
    }

    /// Makes the folder of a volume; one that is there stays, with what is in it.
    ///
    /// # Errors
    /// If the engine does not, for example because the folder of the class is missing.
    pub(crate) async fn make_folder(&self, place: &Place) -> Result<(), EngineError> {
        self.unpack(place, tar_header::folder(&place.name)).await
    }

    /// Removes a volume that no container mounts, with its folder. A missing one is no error.
    ///
    /// # Errors
    /// If the engine does not remove it, or what is in it.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), EngineError> {
        let found = match self.docker.inspect_volume(name).await {
            Ok(found) => found,
            Err(error) if status(&error) == Some(NOT_FOUND) => return Ok(()),
            Err(error) => return Err(engine_error(error)),
        };
        let removed = self.docker.remove_volume(name, None::<RemoveVolumeOptions>).await;
        allow(removed, &[NOT_FOUND])?;
        self.remove_folder(&found).await
    }

    /// Removes what was in a volume that is removed, if it was of a class. The engine can only replace a folder: an empty file
    /// of its name stays.
    ///
    /// # Errors
    /// If the engine does not.
    pub(crate) async fn remove_folder(&self, volume: &Volume) -> Result<(), EngineError> {
        match self.place_of(volume) {
            Some(place) => self.unpack(&place, tar_header::empty_file(&place.name)).await,
            None => Ok(()),
        }
    }

    /// Unpacks an archive in the folder of the class. What is there under the name of an entry is replaced, unless both are
    /// folders.
    async fn unpack(&self, place: &Place, archive: Vec<u8>) -> Result<(), EngineError> {
        let access = self.access(Mounted::Folder(&place.folder)).await?;
        let options = UploadToContainerOptions {
            path: TARGET.to_owned(),
            ..UploadToContainerOptions::default()
        };
        let body = bollard::body_full(archive.into());
        let unpacked =
            self.docker.upload_to_container(&access.container().0, Some(options), body).await;
        unpacked.map_err(engine_error).and(access.close().await)
    }

    /// The space that files below these folders take, in the order of the folders; nothing of what cannot be read, or counted
    /// in time.
    pub(crate) async fn used(&self, folders: Vec<PathBuf>) -> Vec<Option<Bytes>> {
        let number = folders.len();
        let until = Instant::now() + COUNT_TIME_MAX;
        let count = move || folders.iter().map(|folder| used(folder, until)).collect();
        let counted = tokio::task::spawn_blocking(count).await;
        counted.unwrap_or_else(|_| vec![None; number])
    }
}

/// What is below a folder, each file once whatever its names, without other file systems that are mounted there.
fn used(folder: &Path, until: Instant) -> Option<Bytes> {
    let root = fs::symlink_metadata(folder).ok()?;
    let (mut left, mut seen) = (vec![folder.to_owned()], BTreeSet::new());
    let mut blocks = root.blocks();
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).ok()? {
            if Instant::now() >= until {
                return None;
            }
            // What is removed meanwhile takes nothing.
            let Ok(entry) = entry else { continue };
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() != root.dev() {
                continue;
            }
            if metadata.is_dir() {
                left.push(entry.path());
            } else if metadata.nlink() > 1 && !seen.insert(metadata.ino()) {
                continue;
            }
            blocks = blocks.saturating_add(metadata.blocks());
        }
    }
    Some(Bytes(blocks.saturating_mul(BLOCK_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-RES-3: what is used is counted once for each file, holes and other names of it left out.
    #[test]
    fn files_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let empty = used(folder.path(), Instant::now() + COUNT_TIME_MAX).unwrap();
        fs::write(inner.join("a"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(inner.join("a"), inner.join("b")).unwrap();
        std::os::unix::fs::symlink("/", inner.join("root")).unwrap();
        let hole = fs::File::create(inner.join("hole")).unwrap();
        hole.set_len(1 << 40).unwrap();
        let full = used(folder.path(), Instant::now() + COUNT_TIME_MAX).unwrap();
        let grown = full.0 - empty.0;
        assert!((1 << 20..(1 << 20) + (64 << 10)).contains(&grown), "{grown}");
        assert_eq!(used(&folder.path().join("none"), Instant::now() + COUNT_TIME_MAX), None);
        assert_eq!(used(folder.path(), Instant::now()), None, "there is a bound in time");
    }
}
