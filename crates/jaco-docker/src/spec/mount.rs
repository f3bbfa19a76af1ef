//! Volumes, binds and tmpfs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bollard::models::{
    HostConfig, Mount as DockerMount, MountBindOptions, MountBindOptionsPropagationEnum,
    MountImageOptions, MountTmpfsOptions, MountType, MountVolumeOptions,
    MountVolumeOptionsDriverConfig,
};
use jaco_agent::engine::{ContainerRequest, FileBind, Owner};
use jaco_compose::model::{ContainerSpec, Mount, MountKind, Volume};
use jaco_types::{DeploymentName, VolumeClass};

use super::{ClassedVolume, SpecError, some, to_map, yes};
use crate::names;

/// What the name of a volume that a folder is kept in has before its path.
const PATH_PREFIX: &str = "dir.";

/// Adds the mounts.
pub(super) fn mount(
    base: HostConfig,
    owner: &Owner,
    request: &ContainerRequest,
    container: &ContainerSpec,
) -> Result<HostConfig, SpecError> {
    let deployment = &request.service.deployment;
    let mut binds = Vec::new();
    let mut mounts: Vec<DockerMount> = request.files.mounts.iter().map(file_mount).collect();
    for mount in &container.service.volumes {
        match mount.kind {
            MountKind::Bind => match bind_source(request, mount)? {
                BindSource::Uploaded(path) => mounts.push(uploaded_mount(mount, path)?),
                BindSource::Kept(path) => mounts.push(kept_mount(owner, deployment, mount, path)),
                BindSource::Host(path) => match bind_text(mount, path) {
                    Some(text) => binds.push(text),
                    None => mounts.push(bind_mount(mount, path)?),
                },
            },
            MountKind::Volume => mounts.push(volume_mount(owner, deployment, container, mount)),
            MountKind::Tmpfs => mounts.push(tmpfs_mount(mount)),
            MountKind::Image => mounts.push(image_mount(mount)),
            MountKind::Cluster | MountKind::Npipe => {
                let reason =
                    format!("the mount at {:?} is not supported by this engine", mount.target);
                return Err(SpecError::Unsupported { key: "volumes", reason });
            }
        }
    }
    let tmpfs = container.service.tmpfs.iter().map(|text| {
        let (path, options) = text.split_once(':').unwrap_or((text, ""));
        (path.to_owned(), options.to_owned())
    });
    Ok(HostConfig {
        binds: some(binds),
        mounts: some(mounts),
        tmpfs: some(tmpfs.collect::<HashMap<_, _>>()),
        ..base
    })
}

/// The volumes of a container by the names that the manifest gives them, with the engine's: named ones, and folders below the
/// compose file, each of which may be kept in a volume. Which of those are uploaded instead is not known here.
pub(super) fn volumes(
    owner: &Owner,
    deployment: &DeploymentName,
    container: &ContainerSpec,
) -> BTreeMap<String, String> {
    let mounts = container.service.volumes.iter();
    let volumes = mounts.filter_map(|mount| {
        let key = mount.source.as_deref()?;
        match mount.kind {
            MountKind::Volume => {
                let name = volume_name(owner, deployment, key, container.volumes.get(key));
                Some((key.to_owned(), name))
            }
            MountKind::Bind if !key.starts_with('/') => {
                Some((folder_key(key), kept_name(owner, deployment, key)))
            }
            MountKind::Bind
            | MountKind::Tmpfs
            | MountKind::Cluster
            | MountKind::Npipe
            | MountKind::Image => None,
        }
    });
    volumes.collect()
}

/// What a manifest of this deployment calls a volume of this name.
pub(super) fn volume_key(owner: &Owner, deployment: &DeploymentName, name: &str) -> String {
    let own = name.strip_prefix(&names::scoped(owner, &format!("{deployment}_")));
    let Some(key) = own else { return name.to_owned() };
    decode_path(key).map_or_else(|| key.to_owned(), |path| folder_key(&path))
}

/// What a folder below the compose file is called beside volumes, which may have its name.
fn folder_key(path: &str) -> String {
    format!("./{path}")
}

/// External volumes, which must exist: Docker would silently create empty ones.
pub(super) fn external_volumes(container: &ContainerSpec) -> BTreeSet<String> {
    let named = container.service.volumes.iter().filter(|mount| mount.kind == MountKind::Volume);
    let keys = named.filter_map(|mount| mount.source.as_deref());
    let external = keys.filter_map(|key| {
        let volume = container.volumes.get(key).filter(|volume| volume.external)?;
        Some(volume.name.clone())
    });
    external.collect()
}

/// The volumes of a class that the container mounts, by name.
pub(super) fn classed_volumes(
    owner: &Owner,
    deployment: &DeploymentName,
    container: &ContainerSpec,
) -> Vec<ClassedVolume> {
    let named = container.service.volumes.iter().filter(|mount| mount.kind == MountKind::Volume);
    let keys: BTreeSet<&str> = named.filter_map(|mount| mount.source.as_deref()).collect();
    let classed = keys.into_iter().filter_map(|key| {
        let volume = container.volumes.get(key)?;
        let class = VolumeClass::new(volume.class.as_deref()?).ok()?;
        let mut labels = to_map(&volume.labels);
        labels.extend(names::deployment_labels(owner, deployment));
        let name = volume_name(owner, deployment, key, Some(volume));
        Some(ClassedVolume { name, class, labels })
    });
    classed.collect()
}

/// Source of a bind mount.
enum BindSource<'a> {
    /// A copy of an uploaded path.
    Uploaded(&'a str),
    /// An empty or missing directory below the compose file: data, kept in a volume on the node.
    Kept(&'a str),
    /// A path on the node.
    Host(&'a str),
}

fn bind_source<'a>(
    request: &'a ContainerRequest,
    mount: &'a Mount,
) -> Result<BindSource<'a>, SpecError> {
    let source = mount.source.as_deref().unwrap_or_default();
    match request.files.binds.get(source) {
        Some(path) => match path.to_str() {
            Some(path) => Ok(BindSource::Uploaded(path)),
            None => Err(SpecError::Unsupported {
                key: "volumes",
                reason: format!("{} cannot be passed to Docker", path.display()),
            }),
        },
        None if source.starts_with('/') => Ok(BindSource::Host(source)),
        None => Ok(BindSource::Kept(source)),
    }
}

fn file_mount(file: &FileBind) -> DockerMount {
    DockerMount {
        typ: Some(MountType::BIND),
        source: Some(file.host.to_string_lossy().into_owned()),
        target: Some(file.target.clone()),
        read_only: Some(true),
        ..DockerMount::default()
    }
}

/// A volume in place of a directory: the image's content at the mount point stays hidden, as with a
/// bind mount.
fn kept_mount(
    owner: &Owner,
    deployment: &DeploymentName,
    mount: &Mount,
    path: &str,
) -> DockerMount {
    let options = MountVolumeOptions {
        no_copy: Some(true),
        labels: Some(names::deployment_labels(owner, deployment)),
        ..MountVolumeOptions::default()
    };
    DockerMount {
        source: Some(kept_name(owner, deployment, path)),
        volume_options: Some(options),
        ..plain(mount, MountType::VOLUME)
    }
}

/// Name of the volume that a folder is kept in.
fn kept_name(owner: &Owner, deployment: &DeploymentName, path: &str) -> String {
    names::scoped(owner, &format!("{deployment}_{}", encode_path(path)))
}

/// Encodes a path in a volume name. Characters that are not allowed become their code points, so
/// that two paths never share a volume.
fn encode_path(path: &str) -> String {
    let mut word = String::from(PATH_PREFIX);
    for character in path.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => word.push(character),
            other => word.push_str(&format!("_{:x}_", u32::from(other))),
        }
    }
    word
}

/// The path that was encoded so; `None` if this is no such word.
fn decode_path(word: &str) -> Option<String> {
    let mut path = String::new();
    for (position, part) in word.strip_prefix(PATH_PREFIX)?.split('_').enumerate() {
        if position % 2 == 0 {
            path.push_str(part);
        } else {
            path.push(char::from_u32(u32::from_str_radix(part, 16).ok()?)?);
        }
    }
    Some(path)
}

/// The `binds` form creates a missing source path, which the `mounts` form cannot before Docker 23.
/// It cannot express paths with a colon or options for submounts.
fn bind_text(mount: &Mount, source: &str) -> Option<String> {
    let wanted = mount.bind.create_host_path || mount.bind.selinux.is_some();
    let new_form = matches!(mount.bind.recursive.as_deref(), Some(mode) if mode != "enabled");
    if !wanted || new_form || source.contains(':') || mount.target.contains(':') {
        return None;
    }
    let mut options = Vec::new();
    options.push(if mount.read_only { "ro" } else { "rw" });
    options.extend(mount.bind.selinux.as_deref());
    options.extend(mount.bind.propagation.as_deref());
    Some(format!("{source}:{}:{}", mount.target, options.join(",")))
}

fn bind_mount(mount: &Mount, source: &str) -> Result<DockerMount, SpecError> {
    let propagation = mount.bind.propagation.as_deref().map(propagation).transpose()?;
    let recursive = mount.bind.recursive.as_deref();
    let options = MountBindOptions {
        propagation,
        create_mountpoint: yes(mount.bind.create_host_path),
        non_recursive: yes(recursive == Some("disabled")),
        read_only_non_recursive: yes(recursive == Some("writable")),
        read_only_force_recursive: yes(recursive == Some("readonly")),
    };
    Ok(DockerMount {
        source: Some(source.to_owned()),
        bind_options: Some(options),
        ..plain(mount, MountType::BIND)
    })
}

/// The copy was written just before. If it were gone, a directory created by Docker would hide
/// that.
fn uploaded_mount(mount: &Mount, source: &str) -> Result<DockerMount, SpecError> {
    let made = bind_mount(mount, source)?;
    let options =
        made.bind_options.map(|options| MountBindOptions { create_mountpoint: None, ..options });
    Ok(DockerMount { bind_options: options, ..made })
}

fn propagation(text: &str) -> Result<MountBindOptionsPropagationEnum, SpecError> {
    text.parse().map_err(|_| SpecError::Value {
        key: "volumes.bind.propagation",
        value: text.to_owned(),
        expected: "a propagation such as rprivate",
    })
}

/// A named volume belongs to this node, unless the manifest sets a name: then it is the volume of
/// that name, whoever created it.
fn volume_mount(
    owner: &Owner,
    deployment: &DeploymentName,
    container: &ContainerSpec,
    mount: &Mount,
) -> DockerMount {
    let declared = mount.source.as_deref().map(|key| (key, container.volumes.get(key)));
    let source = declared.map(|(key, volume)| volume_name(owner, deployment, key, volume));
    let volume = declared.and_then(|(_, volume)| volume);
    let mut labels = to_map(&mount.volume.labels);
    if let Some(volume) = volume {
        labels.extend(to_map(&volume.labels));
    }
    labels.extend(names::deployment_labels(owner, deployment));
    let external = volume.is_some_and(|volume| volume.external);
    let options = MountVolumeOptions {
        no_copy: yes(mount.volume.nocopy),
        subpath: mount.volume.subpath.clone(),
        labels: (!external).then_some(labels),
        driver_config: volume.and_then(driver_config),
    };
    DockerMount { source, volume_options: Some(options), ..plain(mount, MountType::VOLUME) }
}

fn volume_name(
    owner: &Owner,
    deployment: &DeploymentName,
    key: &str,
    volume: Option<&Volume>,
) -> String {
    let own_name = format!("{deployment}_{key}");
    let external = volume.is_some_and(|volume| volume.external);
    match volume.map(|volume| volume.name.clone()) {
        Some(name) if external || name != own_name => name,
        Some(_) | None => names::scoped(owner, &own_name),
    }
}

fn driver_config(volume: &Volume) -> Option<MountVolumeOptionsDriverConfig> {
    (volume.driver.is_some() || !volume.driver_opts.is_empty()).then(|| {
        MountVolumeOptionsDriverConfig {
            name: volume.driver.clone(),
            options: some(to_map(&volume.driver_opts)),
        }
    })
}

fn tmpfs_mount(mount: &Mount) -> DockerMount {
    let options = MountTmpfsOptions {
        size_bytes: mount.tmpfs.size_bytes,
        mode: mount.tmpfs.mode.map(i64::from),
        options: None,
    };
    DockerMount { source: None, tmpfs_options: Some(options), ..plain(mount, MountType::TMPFS) }
}

/// Mounts the files of an image; the source is the image's name.
fn image_mount(mount: &Mount) -> DockerMount {
    let options = MountImageOptions { subpath: mount.image.subpath.clone() };
    DockerMount { image_options: Some(options), ..plain(mount, MountType::IMAGE) }
}

fn plain(mount: &Mount, typ: MountType) -> DockerMount {
    DockerMount {
        typ: Some(typ),
        source: mount.source.clone(),
        target: Some(mount.target.clone()),
        read_only: Some(mount.read_only),
        ..DockerMount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path is found again in the name of its volume, whatever is in it; other names are not taken for paths.
    #[test]
    fn paths_are_found_in_names_of_volumes() {
        for path in ["data", "my_data/./x.y", "é_ü", "_", "a b"] {
            assert_eq!(decode_path(&encode_path(path)).as_deref(), Some(path));
        }
        for word in ["data", "dir", "dir.a_zz_"] {
            assert_eq!(decode_path(word), None, "{word}");
        }
    }
}
