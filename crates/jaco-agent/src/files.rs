//! Puts the files that a container needs where it can mount them, and takes them away again
//! (R-IN-4, R-IN-5).
//!
//! Each instance gets copies of its own: what a process writes into one is seen by nobody else and
//! goes with the instance. Secrets lie apart, in a folder that should be memory. Never writes where a
//! container can: a folder is made whole under another name before it has its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jaco_compose::model::{ContainerSpec, Content as Declared, FileMount, MountKind};
use jaco_compose::tree::{FileTree, TreeEntry};
use jaco_state::contents::Form;
use jaco_state::registries::RegistryLogin;
use jaco_state::{Content, Table};
use jaco_types::{ContentId, InstanceId, RegistryName};

use crate::engine::{FileAt, ShippedFiles};

/// Permission bits of a config or secret that asks for none, as the specification has it.
const DEFAULT_MODE: u32 = 0o444;

/// The permission bits that are kept. Without set-user-id: a file that was copied here must not make
/// anybody root on this machine.
const MODE_KEPT: u32 = 0o1777;

/// Opens what is sealed in the state.
pub trait Unseal: Send + Sync {
    /// The content of this name.
    ///
    /// # Errors
    /// Why it does not open, without anything of it.
    fn unseal(&self, id: &ContentId, sealed: &[u8]) -> Result<Vec<u8>, String>;

    /// The password of a login at a registry.
    ///
    /// # Errors
    /// Why it does not open, without anything of it.
    fn unseal_password(
        &self,
        registry: &RegistryName,
        login: &RegistryLogin,
    ) -> Result<String, String>;
}

/// Where files are put.
#[derive(Clone)]
pub struct Places {
    /// For files that anybody may read who can read the cluster's state; made if it is not there.
    pub files: PathBuf,
    /// For secrets, better in memory than on a disk; made if it is not there.
    pub secrets: PathBuf,
    /// For what removed allocations leave; made if it is not there.
    pub removed: PathBuf,
    /// Opens what is sealed.
    pub unseal: Arc<dyn Unseal>,
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Places");
        out.field("files", &self.files).field("secrets", &self.secrets);
        out.field("removed", &self.removed).finish_non_exhaustive()
    }
}

/// Why the files of a container are not where it can mount them.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The container's description cannot be read.
    #[error("the container's description cannot be read")]
    Spec,
    /// A piece is not in the state.
    #[error("{what}: its content {id} is not in the cluster")]
    Missing {
        /// Whose.
        what: String,
        /// Which.
        id: String,
    },
    /// What is in the state makes no sense.
    #[error("{what}: {reason}")]
    Broken {
        /// Whose.
        what: String,
        /// Why.
        reason: String,
    },
    /// The disk refused.
    #[error("{what}: {} cannot be written: {source}", path.display())]
    Disk {
        /// Whose.
        what: String,
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Who owns what is put there; absent is whoever the daemon runs as.
type Owner = Option<(u32, u32)>;

/// One file or folder to be put.
struct Delivery {
    /// For messages: whose it is.
    what: String,
    /// Its name in the folder of the instance.
    name: String,
    source: Source,
    owner: Owner,
    /// Instead of the file's own.
    mode: Option<u32>,
}

enum Source {
    /// The tree of this id.
    Tree(ContentId),
    /// A text of the manifest itself.
    Text(String),
}

/// What a container needs, by the place where it goes.
#[derive(Default)]
struct Deliveries {
    files: Vec<Delivery>,
    secrets: Vec<Delivery>,
    shipped: ShippedFiles,
}

/// Whether a container may need files at all. Most do not, and their start should not wait for that.
#[must_use]
pub fn are_needed(container: &str) -> bool {
    ["\"configs\"", "\"files\"", "\"secrets\""].iter().any(|key| container.contains(key))
}

/// Puts everything that `container` needs, and says where.
///
/// # Errors
/// When something is not in the state, or the disk refuses.
pub fn put(
    places: &Places,
    instance: &InstanceId,
    container: &str,
    contents: &Table<ContentId, Content>,
) -> Result<ShippedFiles, FilesError> {
    let spec = ContainerSpec::parse(container).map_err(|_| FilesError::Spec)?;
    let wanted = deliveries(places, instance, &spec)?;
    for (place, deliveries) in [(&places.files, wanted.files), (&places.secrets, wanted.secrets)] {
        if !deliveries.is_empty() {
            fill(&folder(place, instance), &deliveries, contents, &*places.unseal)?;
        }
    }
    Ok(wanted.shipped)
}

/// The instances for which something was put, by the names of their folders.
#[must_use]
pub fn found(places: &Places) -> BTreeSet<String> {
    let names =
        [&places.files, &places.secrets].into_iter().filter_map(|place| fs::read_dir(place).ok());
    let names = names.flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// The name of the folder of an instance.
#[must_use]
pub fn folder_name(instance: &InstanceId) -> String {
    instance.to_string()
}

/// Takes away what was put under this name. What is gone is fine.
///
/// # Errors
/// When the disk refuses.
pub fn remove(places: &Places, name: &str) -> io::Result<()> {
    for place in [&places.secrets, &places.files] {
        absent(&place.join(name))?;
        absent(&unfinished(&place.join(name)))?;
    }
    Ok(())
}

/// What a folder is called until it is whole.
fn unfinished(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}

fn absent(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn folder(place: &Path, instance: &InstanceId) -> PathBuf {
    place.join(folder_name(instance))
}

fn deliveries(
    places: &Places,
    instance: &InstanceId,
    spec: &ContainerSpec,
) -> Result<Deliveries, FilesError> {
    let mut all = Deliveries::default();
    let user = spec.service.user.as_deref().and_then(numeric_user);
    let mounts = spec.service.volumes.iter().filter(|mount| mount.kind == MountKind::Bind);
    let paths: BTreeSet<&str> = mounts.filter_map(|mount| mount.source.as_deref()).collect();
    for (number, path) in paths.into_iter().enumerate() {
        let Some(version) = spec.files.get(path) else { continue };
        let what = format!("the shipped path {path:?}");
        let source = tree(&what, version)?;
        let name = format!("bind-{number}");
        let at = folder(&places.files, instance).join(&name);
        all.shipped.binds.insert(path.to_owned(), at);
        all.files.push(Delivery { what, name, source, owner: user, mode: None });
    }
    for (number, mount) in spec.service.configs.iter().enumerate() {
        let what = format!("config {:?}", mount.source);
        let declared = spec.configs.get(&mount.source);
        let delivery = file(what, format!("config-{number}"), mount, declared)?;
        let place = folder(&places.files, instance);
        all.shipped.mounts.push(mounted(&place, &delivery, mount, "/"));
        all.files.push(delivery);
    }
    for (number, mount) in spec.service.secrets.iter().enumerate() {
        let what = format!("secret {:?}", mount.source);
        let declared = spec.secrets.get(&mount.source);
        let delivery = file(what, format!("secret-{number}"), mount, declared)?;
        let place = folder(&places.secrets, instance);
        all.shipped.mounts.push(mounted(&place, &delivery, mount, "/run/secrets/"));
        all.secrets.push(delivery);
    }
    Ok(all)
}

/// Where a container sees it: a target that is only a name is below `default`.
fn mounted(place: &Path, delivery: &Delivery, mount: &FileMount, default: &str) -> FileAt {
    let target = match mount.target.starts_with('/') {
        true => mount.target.clone(),
        false => format!("{default}{}", mount.target),
    };
    FileAt { host: place.join(&delivery.name), target }
}

fn file(
    what: String,
    name: String,
    mount: &FileMount,
    declared: Option<&Declared>,
) -> Result<Delivery, FilesError> {
    let source = match declared {
        Some(Declared { version: Some(version), .. }) => tree(&what, version)?,
        Some(Declared { content: Some(text), .. }) => Source::Text(text.clone()),
        Some(_) | None => {
            let reason = "the cluster was not given its content".to_owned();
            return Err(FilesError::Broken { what, reason });
        }
    };
    let id = |key: &str, text: &Option<String>| match text.as_deref().map(str::parse) {
        None => Ok(None),
        Some(Ok(id)) => Ok(Some(id)),
        Some(Err(_)) => Err(FilesError::Broken {
            what: what.clone(),
            reason: format!("its {key} is no number"),
        }),
    };
    let owner = match (id("uid", &mount.uid)?, id("gid", &mount.gid)?) {
        (None, None) => None,
        (user, group) => Some((user.unwrap_or(0), group.unwrap_or(0))),
    };
    let mode = Some(mount.mode.unwrap_or(DEFAULT_MODE));
    Ok(Delivery { what, name, source, owner, mode })
}

fn tree(what: &str, version: &str) -> Result<Source, FilesError> {
    ContentId::from_hex(version).map(Source::Tree).ok_or_else(|| FilesError::Broken {
        what: what.to_owned(),
        reason: format!("{version:?} is no version"),
    })
}

/// A user that is numbers; names are the image's to know.
fn numeric_user(text: &str) -> Option<(u32, u32)> {
    let (user, group) = text.split_once(':').unwrap_or((text, "0"));
    Some((user.parse().ok()?, group.parse().ok()?))
}

/// Makes a folder with all of `deliveries` in it. One that is there is whole: it was made under
/// another name first.
fn fill(
    folder: &Path,
    deliveries: &[Delivery],
    contents: &Table<ContentId, Content>,
    unseal: &dyn Unseal,
) -> Result<(), FilesError> {
    if folder.exists() {
        return Ok(());
    }
    let unfinished = unfinished(folder);
    let disk = |source| FilesError::Disk {
        what: deliveries.iter().map(|each| each.what.as_str()).collect::<Vec<_>>().join(", "),
        path: folder.to_owned(),
        source,
    };
    absent(&unfinished).map_err(disk)?;
    // Nobody else on this machine gets through it, whatever the modes of the files in it.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&unfinished).map_err(disk)?;
    for delivery in deliveries {
        Writer { delivery, contents, unseal }.write(&unfinished.join(&delivery.name))?;
    }
    fs::rename(&unfinished, folder).map_err(disk)
}

/// Writes one delivery.
struct Writer<'a> {
    delivery: &'a Delivery,
    contents: &'a Table<ContentId, Content>,
    unseal: &'a dyn Unseal,
}

impl Writer<'_> {
    fn write(&self, root: &Path) -> Result<(), FilesError> {
        let id = match &self.delivery.source {
            Source::Text(text) => {
                return self.file(root, DEFAULT_MODE, [Ok(text.clone().into_bytes())]);
            }
            Source::Tree(id) => id,
        };
        let tree = FileTree::parse(&self.bytes(id)?).map_err(|error| FilesError::Broken {
            what: self.delivery.what.clone(),
            reason: error.to_string(),
        })?;
        let mut folders = BTreeMap::new();
        for (path, entry) in tree.entries() {
            let at = if path.is_empty() { root.to_owned() } else { root.join(path) };
            match entry {
                TreeEntry::Folder { mode } => {
                    let made = fs::DirBuilder::new().mode(0o700).create(&at);
                    made.map_err(|error| self.disk(&at, error))?;
                    folders.insert(at, *mode);
                }
                TreeEntry::File { mode, pieces, .. } => {
                    self.file(&at, *mode, pieces.iter().map(|id| self.bytes(id)))?;
                }
                TreeEntry::Link { target } => {
                    symlink(target, &at).map_err(|error| self.disk(&at, error))?;
                }
            }
        }
        // Innermost first: a folder that may not be written to is closed once it is full.
        for (at, mode) in folders.into_iter().rev() {
            self.settle(&at, mode)?;
        }
        Ok(())
    }

    fn file(
        &self,
        at: &Path,
        mode: u32,
        parts: impl IntoIterator<Item = Result<Vec<u8>, FilesError>>,
    ) -> Result<(), FilesError> {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(at);
        let mut file: File = made.map_err(|error| self.disk(at, error))?;
        for part in parts {
            file.write_all(&part?).map_err(|error| self.disk(at, error))?;
        }
        self.settle(at, self.delivery.mode.unwrap_or(mode))
    }

    /// Gives it its mode and its owner, in this order: only an owner may change a mode.
    fn settle(&self, at: &Path, mode: u32) -> Result<(), FilesError> {
        fs::set_permissions(at, Permissions::from_mode(mode & MODE_KEPT))
            .and_then(|()| match self.delivery.owner {
                Some((user, group)) => chown(at, Some(user), Some(group)),
                None => Ok(()),
            })
            .map_err(|error| self.disk(at, error))
    }

    fn bytes(&self, id: &ContentId) -> Result<Vec<u8>, FilesError> {
        let what = || self.delivery.what.clone();
        let content = self.contents.get(id);
        let content =
            content.ok_or_else(|| FilesError::Missing { what: what(), id: id.to_string() })?;
        match content.form {
            Form::Plain => Ok(content.bytes.0.to_vec()),
            Form::Sealed => self
                .unseal
                .unseal(id, &content.bytes.0)
                .map_err(|reason| FilesError::Broken { what: what(), reason }),
        }
    }

    fn disk(&self, path: &Path, source: io::Error) -> FilesError {
        FilesError::Disk { what: self.delivery.what.clone(), path: path.to_owned(), source }
    }
}
