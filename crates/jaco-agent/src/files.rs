//! Writes the files that a container mounts to this node, and removes them again (R-IN-4, R-IN-5).
//!
//! Each instance gets its own copies: no other instance sees changes a process makes, and they are
//! removed with the instance. Secrets are kept apart, on tmpfs. A directory is completed under a
//! temporary name first, so containers never see a partial one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jaco_compose::model::{ContainerSpec, Content as Declared, FileMount, MountKind};
use jaco_compose::tree::{FileTree, TreeEntry};
use jaco_state::contents::Form;
use jaco_state::registries::RegistryLogin;
use jaco_state::{Content, Table};
use jaco_types::{ContentId, InstanceId, RegistryName};

use crate::engine::{FileBind, MountedFiles};

/// Default mode of configs and secrets, by the compose specification.
const DEFAULT_MODE: u32 = 0o444;

/// Where a process looks for its resolver.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Mode bits that are kept. No set-user-id: an uploaded file must not grant root on this machine.
const MODE_KEPT: u32 = 0o1777;

/// Opens sealed values of the state.
pub trait Unseal: Send + Sync {
    /// Opens the content with this id.
    ///
    /// # Errors
    /// Why it cannot be opened, without any of its content.
    fn unseal(&self, id: &ContentId, sealed: &[u8]) -> Result<Vec<u8>, String>;

    /// Opens the password of a registry login.
    ///
    /// # Errors
    /// Why it cannot be opened, without any of its content.
    fn unseal_password(
        &self,
        registry: &RegistryName,
        login: &RegistryLogin,
    ) -> Result<String, String>;
}

/// Directories for files, and access to sealed content.
#[derive(Clone)]
pub struct FileDirs {
    /// For uploaded files and configs; created if missing.
    pub files: PathBuf,
    /// For secrets, preferably on tmpfs; created if missing.
    pub secrets: PathBuf,
    /// For logs of removed allocations; created if missing.
    pub removed: PathBuf,
    /// Opens sealed content.
    pub unseal: Arc<dyn Unseal>,
}

impl std::fmt::Debug for FileDirs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("FileDirs");
        out.field("files", &self.files).field("secrets", &self.secrets);
        out.field("removed", &self.removed).finish_non_exhaustive()
    }
}

/// Why the files of a container could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The container's description cannot be read.
    #[error("the container's description cannot be read")]
    Spec,
    /// Content is missing in the state.
    #[error("{what}: its content {id} is not in the cluster")]
    Missing {
        /// The file or mount.
        what: String,
        /// Id of the content.
        id: String,
    },
    /// The content or the mount is invalid.
    #[error("{what}: {reason}")]
    Broken {
        /// The file or mount.
        what: String,
        /// Reason.
        reason: String,
    },
    /// I/O error.
    #[error("{what}: {} cannot be written: {source}", path.display())]
    Disk {
        /// The file or mount.
        what: String,
        /// Path on the node.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Owner of a file; `None` is the daemon's user.
type Owner = Option<(u32, u32)>;

/// A file or directory to write.
struct Delivery {
    /// Description for messages.
    what: String,
    /// Name in the directory of the instance.
    name: String,
    source: Source,
    owner: Owner,
    /// Overrides the file's own mode.
    mode: Option<u32>,
}

enum Source {
    /// An uploaded tree.
    Tree(ContentId),
    /// Inline content of the manifest.
    Text(String),
}

/// Files of a container, by destination.
#[derive(Default)]
struct Deliveries {
    files: Vec<Delivery>,
    secrets: Vec<Delivery>,
    shipped: MountedFiles,
}

/// Whether a container may mount files. Most do not, and their start should not wait.
#[must_use]
pub fn are_needed(container: &str) -> bool {
    ["\"configs\"", "\"files\"", "\"secrets\""].iter().any(|key| container.contains(key))
}

/// Writes all files of `container`; returns where they are. With a resolver, the one of its first network of the
/// cluster, it gets a `/etc/resolv.conf` of its own.
///
/// # Errors
/// If content is missing or on an I/O error.
pub fn put(
    file_dirs: &FileDirs,
    instance: &InstanceId,
    container: &str,
    contents: &Table<ContentId, Content>,
    resolver: Option<Ipv4Addr>,
) -> Result<MountedFiles, FilesError> {
    let spec = ContainerSpec::parse(container).map_err(|_| FilesError::Spec)?;
    let mut wanted = deliveries(file_dirs, instance, &spec)?;
    if let Some(resolver) = resolver {
        add_resolver(file_dirs, instance, &spec, resolver, &mut wanted);
    }
    for (place, deliveries) in
        [(&file_dirs.files, wanted.files), (&file_dirs.secrets, wanted.secrets)]
    {
        if !deliveries.is_empty() {
            fill(&folder(place, instance), &deliveries, contents, &*file_dirs.unseal)?;
        }
    }
    Ok(wanted.shipped)
}

/// Directories of instances for which files were written.
#[must_use]
pub fn found(file_dirs: &FileDirs) -> BTreeSet<String> {
    let names = [&file_dirs.files, &file_dirs.secrets]
        .into_iter()
        .filter_map(|place| fs::read_dir(place).ok());
    let names = names.flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// Name of an instance's directory.
#[must_use]
pub fn folder_name(instance: &InstanceId) -> String {
    instance.to_string()
}

/// Removes the files of this directory name. A missing directory is no error.
///
/// # Errors
/// On an I/O error.
pub fn remove(file_dirs: &FileDirs, name: &str) -> io::Result<()> {
    for place in [&file_dirs.secrets, &file_dirs.files] {
        absent(&place.join(name))?;
        absent(&unfinished(&place.join(name)))?;
    }
    Ok(())
}

/// Temporary name of a directory until it is complete.
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
    file_dirs: &FileDirs,
    instance: &InstanceId,
    spec: &ContainerSpec,
) -> Result<Deliveries, FilesError> {
    let mut all = Deliveries::default();
    let user = spec.service.user.as_deref().and_then(numeric_user);
    let mounts = spec.service.volumes.iter().filter(|mount| mount.kind == MountKind::Bind);
    let paths: BTreeSet<&str> = mounts.filter_map(|mount| mount.source.as_deref()).collect();
    for (number, path) in paths.into_iter().enumerate() {
        let Some(version) = spec.files.get(path) else { continue };
        let what = format!("the uploaded path {path:?}");
        let source = tree(&what, version)?;
        let name = format!("bind-{number}");
        let at = folder(&file_dirs.files, instance).join(&name);
        all.shipped.binds.insert(path.to_owned(), at);
        all.files.push(Delivery { what, name, source, owner: user, mode: None });
    }
    for (number, mount) in spec.service.configs.iter().enumerate() {
        let what = format!("config {:?}", mount.source);
        let declared = spec.configs.get(&mount.source);
        let delivery = file(what, format!("config-{number}"), mount, declared)?;
        let place = folder(&file_dirs.files, instance);
        all.shipped.mounts.push(mounted(&place, &delivery, mount, "/"));
        all.files.push(delivery);
    }
    for (number, mount) in spec.service.secrets.iter().enumerate() {
        let what = format!("secret {:?}", mount.source);
        let declared = spec.secrets.get(&mount.source);
        let delivery = file(what, format!("secret-{number}"), mount, declared)?;
        let place = folder(&file_dirs.secrets, instance);
        all.shipped.mounts.push(mounted(&place, &delivery, mount, "/run/secrets/"));
        all.secrets.push(delivery);
    }
    Ok(all)
}

/// The container asks the resolver of its router, which asks the node's about other names. The engine's own
/// would answer with containers of this node, and forwards nothing from internal networks.
fn add_resolver(
    file_dirs: &FileDirs,
    instance: &InstanceId,
    spec: &ContainerSpec,
    resolver: Ipv4Addr,
    all: &mut Deliveries,
) {
    let volumes = spec.service.volumes.iter().map(|mount| mount.target.as_str());
    let mut targets = volumes.chain(all.shipped.mounts.iter().map(|bind| bind.target.as_str()));
    // What the file mounts there itself is what its user wants.
    if targets.any(|target| target == RESOLV_CONF) {
        return;
    }
    let line = |key: &str, words: &[String]| match words {
        [] => String::new(),
        words => format!("{key} {}\n", words.join(" ")),
    };
    let service = &spec.service;
    let search = line("search", &service.dns_search);
    let text = format!("nameserver {resolver}\n{search}{}", line("options", &service.dns_opt));
    let name = "resolv.conf".to_owned();
    let host = folder(&file_dirs.files, instance).join(&name);
    all.shipped.mounts.push(FileBind { host, target: RESOLV_CONF.to_owned() });
    let (what, source) = (RESOLV_CONF.to_owned(), Source::Text(text));
    all.files.push(Delivery { what, name, source, owner: None, mode: Some(DEFAULT_MODE) });
}

/// Path in the container: a target that is only a name is below `default`.
fn mounted(place: &Path, delivery: &Delivery, mount: &FileMount, default: &str) -> FileBind {
    let target = match mount.target.starts_with('/') {
        true => mount.target.clone(),
        false => format!("{default}{}", mount.target),
    };
    FileBind { host: place.join(&delivery.name), target }
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
            reason: format!("its {key} is not a number"),
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
        reason: format!("{version:?} is not a version"),
    })
}

/// A numeric user; names are known only to the image.
fn numeric_user(text: &str) -> Option<(u32, u32)> {
    let (user, group) = text.split_once(':').unwrap_or((text, "0"));
    Some((user.parse().ok()?, group.parse().ok()?))
}

/// Creates a directory with `deliveries`. An existing one is complete.
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
    // No other user of this machine gets past it, whatever the modes of the files.
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
        // Innermost first: a directory that is not writable is set so once it is complete.
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

    /// Sets mode, then owner: only the owner may change the mode.
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
