//! Volumes, binds and tmpfs.

use std::collections::{BTreeSet, HashMap};

use bollard::models::{
    HostConfig, Mount as DockerMount, MountBindOptions, MountBindOptionsPropagationEnum,
    MountTmpfsOptions, MountType, MountVolumeOptions, MountVolumeOptionsDriverConfig,
};
use jaco_agent::engine::Owner;
use jaco_types::DeploymentName;

use super::{SpecError, quantity, some, texts};
use crate::model::{Container, Mount, Volume};
use crate::names;

/// Adds them.
pub(super) fn mount(
    base: HostConfig,
    owner: &Owner,
    deployment: &DeploymentName,
    container: &Container,
) -> Result<HostConfig, SpecError> {
    let mut binds = Vec::new();
    let mut mounts = Vec::new();
    for mount in &container.service.volumes {
        match mount.kind.as_str() {
            "bind" => match bind_text(mount) {
                Some(text) => binds.push(text),
                None => mounts.push(bind_mount(mount)?),
            },
            "volume" => mounts.push(volume_mount(owner, deployment, container, mount)),
            "tmpfs" => mounts.push(tmpfs_mount(mount)?),
            other => {
                let reason = format!("mounts of type {other:?} are not done by this engine");
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

/// Volumes that have to be there: Docker would make an empty one in silence.
pub(super) fn external_volumes(container: &Container) -> BTreeSet<String> {
    let named = container.service.volumes.iter().filter(|mount| mount.kind == "volume");
    let keys = named.filter_map(|mount| mount.source.as_deref());
    let external = keys.filter_map(|key| {
        let volume = container.volumes.get(key).filter(|volume| volume.external)?;
        Some(volume.name.clone().unwrap_or_else(|| key.to_owned()))
    });
    external.collect()
}

/// The old form of a bind makes the path on the host if it is not there, which the new one cannot
/// do before Docker 23. A path with a colon cannot be written in it.
fn bind_text(mount: &Mount) -> Option<String> {
    let source = mount.source.as_deref().unwrap_or_default();
    let wanted = mount.bind.create_host_path != Some(false) || mount.bind.selinux.is_some();
    if !wanted || source.contains(':') || mount.target.contains(':') {
        return None;
    }
    let mut options = Vec::new();
    options.push(if mount.read_only { "ro" } else { "rw" });
    options.extend(mount.bind.selinux.as_deref());
    options.extend(mount.bind.propagation.as_deref());
    Some(format!("{source}:{}:{}", mount.target, options.join(",")))
}

fn bind_mount(mount: &Mount) -> Result<DockerMount, SpecError> {
    let propagation = mount.bind.propagation.as_deref().map(propagation).transpose()?;
    let options = MountBindOptions { propagation, ..MountBindOptions::default() };
    Ok(DockerMount { bind_options: Some(options), ..plain(mount, MountType::BIND) })
}

fn propagation(text: &str) -> Result<MountBindOptionsPropagationEnum, SpecError> {
    text.parse().map_err(|_| SpecError::Value {
        key: "volumes.bind.propagation",
        value: text.to_owned(),
        expected: "a propagation such as rprivate",
    })
}

/// A named volume is this node's own, unless the manifest gives it a name: then it is the volume of
/// that name on the machine, whoever made it.
fn volume_mount(
    owner: &Owner,
    deployment: &DeploymentName,
    container: &Container,
    mount: &Mount,
) -> DockerMount {
    let declared = mount.source.as_deref().map(|key| (key, container.volumes.get(key)));
    let source = declared.map(|(key, volume)| volume_name(owner, deployment, key, volume));
    let volume = declared.and_then(|(_, volume)| volume);
    let mut labels = texts(&mount.volume.labels);
    if let Some(volume) = volume {
        labels.extend(texts(&volume.labels));
    }
    labels.extend(names::deployment_labels(owner, deployment));
    let external = volume.is_some_and(|volume| volume.external);
    let options = MountVolumeOptions {
        no_copy: mount.volume.nocopy,
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
    match volume.and_then(|volume| volume.name.clone()) {
        Some(name) if external || name != own_name => name,
        None if external => key.to_owned(),
        Some(_) | None => names::scoped(owner, &own_name),
    }
}

fn driver_config(volume: &Volume) -> Option<MountVolumeOptionsDriverConfig> {
    (volume.driver.is_some() || !volume.driver_opts.is_empty()).then(|| {
        MountVolumeOptionsDriverConfig {
            name: volume.driver.clone(),
            options: some(texts(&volume.driver_opts)),
        }
    })
}

fn tmpfs_mount(mount: &Mount) -> Result<DockerMount, SpecError> {
    let size = mount.tmpfs.size.as_ref();
    let options = MountTmpfsOptions {
        size_bytes: size.map(|text| quantity::bytes("volumes.tmpfs.size", &text.0)).transpose()?,
        mode: mount.tmpfs.mode,
        options: None,
    };
    Ok(DockerMount { source: None, tmpfs_options: Some(options), ..plain(mount, MountType::TMPFS) })
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
