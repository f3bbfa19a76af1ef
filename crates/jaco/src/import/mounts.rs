//! Mounts of a container: named and anonymous volumes, paths of the host, memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::amount::bytes;
use super::found::{Data, Findings, StoredSecret};
use super::inspected::{Container, ImageConfig, Mount, MountOptions};
use super::label;
use super::scene::{Owner, Scene};
use super::section::{Section, pairs};

/// Where Docker Compose mounts secrets.
const SECRETS: &str = "/run/secrets/";

/// What the mounts of a service are.
#[derive(Debug, Default)]
pub(super) struct Mounted {
    pub(super) volumes: Vec<Value>,
    pub(super) secrets: Vec<Value>,
    /// The engine's names of named volumes.
    pub(super) named: Vec<String>,
}

/// The mounts of a container.
pub(super) fn mounted(
    service: &str,
    container: &Container,
    image: &ImageConfig,
    scene: &Scene<'_>,
    findings: &mut Findings,
) -> Mounted {
    let mut mounted = Mounted::default();
    let mut mounts: Vec<&Mount> = container.mounts.iter().collect();
    mounts.sort_by(|a, b| a.destination.cmp(&b.destination));
    for mount in mounts {
        let asked = asked(container, &mount.destination);
        match mount.kind.as_str() {
            "volume" if is_anonymous(mount, scene) => {
                findings.differs(
                    service,
                    format!(
                        "what is in {} stays here: its volume has no name; give it one in `volumes` to keep what is written \
                         there",
                        mount.destination
                    ),
                );
                if !image.volumes.contains_key(&mount.destination) {
                    mounted.volumes.push(json!({ "type": "volume", "target": mount.destination }));
                }
            }
            "volume" => {
                mounted.volumes.push(volume(mount, asked, scene));
                mounted.named.push(mount.name.clone());
            }
            "bind" => match secret_name(mount) {
                Some(name) => {
                    mounted.secrets.push(name.into());
                    let secret =
                        StoredSecret { name: name.to_owned(), file: Some(mount.source.clone()) };
                    findings.stored_secrets.push(secret);
                }
                None => {
                    mounted.volumes.push(bind(mount));
                    findings.differs(service, host_path(mount, container));
                }
            },
            "tmpfs" => mounted.volumes.extend(asked.map(memory)),
            other => findings.differs(
                service,
                format!(
                    "its mount of kind {other} at {} is left out: nodes have no such mounts",
                    mount.destination
                ),
            ),
        }
    }
    // Not every engine lists them with the others.
    for asked in container.host_config.mounts.iter().filter(|asked| asked.kind == "tmpfs") {
        if !container.mounts.iter().any(|mount| mount.destination == asked.target) {
            mounted.volumes.push(memory(asked));
        }
    }
    mounted
}

fn asked<'c>(container: &'c Container, target: &str) -> Option<&'c MountOptions> {
    container.host_config.mounts.iter().find(|asked| asked.target == target)
}

/// A volume whose name the engine made up.
fn is_anonymous(mount: &Mount, scene: &Scene<'_>) -> bool {
    let is_generated =
        mount.name.len() == 64 && mount.name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_generated && scene.volume_key(&mount.name).1 == Owner::Other
}

fn volume(mount: &Mount, asked: Option<&MountOptions>, scene: &Scene<'_>) -> Value {
    let (key, _) = scene.volume_key(&mount.name);
    let mut volume = Section::default();
    volume.set("type", "volume");
    volume.set("source", key);
    volume.set("target", mount.destination.as_str());
    volume.flag("read_only", !mount.is_writable);
    let mut options = Section::default();
    let no_copy = asked.is_some_and(|asked| asked.volume_options.no_copy);
    options.flag("nocopy", no_copy || mount.mode.split(',').any(|option| option == "nocopy"));
    if let Some(asked) = asked {
        options.put("subpath", asked.volume_options.subpath.as_str());
    }
    volume.put("volume", options);
    volume.into()
}

/// The secret of a file that Docker Compose mounts as one.
fn secret_name(mount: &Mount) -> Option<&str> {
    let name = mount.destination.strip_prefix(SECRETS)?;
    let is_name = !name.is_empty() && !name.contains('/');
    (is_name && !mount.is_writable).then_some(name)
}

fn bind(mount: &Mount) -> Value {
    let mut bind = Section::default();
    bind.set("type", "bind");
    bind.set("source", mount.source.as_str());
    bind.set("target", mount.destination.as_str());
    bind.flag("read_only", !mount.is_writable);
    let mut options = Section::default();
    if !matches!(mount.propagation.as_str(), "" | "rprivate") {
        options.set("propagation", mount.propagation.as_str());
    }
    let selinux = mount.mode.split(',').find(|option| matches!(*option, "z" | "Z"));
    options.put("selinux", selinux);
    bind.put("bind", options);
    bind.into()
}

/// What has to be done for a path of this host.
fn host_path(mount: &Mount, container: &Container) -> String {
    let source = &mount.source;
    let folder = container.config.labels.get(label::WORKING_DIR);
    let relative =
        folder.and_then(|folder| source.strip_prefix(folder.as_str())?.strip_prefix('/'));
    let target = &mount.destination;
    match (relative, mount.is_writable) {
        (Some(relative), false) => format!(
            "{source} at {target} is a path of each node now: copy it into the written folder, and write `./{relative}` as its \
             source, to have it shipped with each apply"
        ),
        (Some(_), true) | (None, _) => format!(
            "{source} at {target} is a path of each node now, and nothing is copied there: use a named volume for data, or a file \
             in the written folder for settings"
        ),
    }
}

fn memory(asked: &MountOptions) -> Value {
    let mut memory = Section::default();
    memory.set("type", "tmpfs");
    memory.set("target", asked.target.as_str());
    let mut options = Section::default();
    let options_asked = &asked.tmpfs_options;
    options.put("size", (options_asked.size_bytes > 0).then(|| bytes(options_asked.size_bytes)));
    // Engines have it as a decimal number.
    options.put("mode", (options_asked.mode > 0).then_some(options_asked.mode));
    memory.put("tmpfs", options);
    memory.into()
}

/// The volumes that services name, and how their data gets over.
pub(super) fn declared(
    users: &BTreeMap<String, Vec<(String, &Container)>>,
    scene: &Scene<'_>,
    findings: &mut Findings,
) -> BTreeMap<String, Section> {
    let mut declared = BTreeMap::new();
    for (name, users) in users {
        let (key, owner) = scene.volume_key(name);
        let mut section = Section::default();
        let volume = scene.volume(name);
        let mut elsewhere = None;
        if let Some(volume) = volume {
            let is_local = matches!(volume.driver.as_str(), "" | "local");
            section.put("driver", if is_local { "" } else { &volume.driver });
            section.put("driver_opts", pairs(&volume.options));
            section.put("labels", pairs(&label::own(&volume.labels, &BTreeMap::new())));
            let device = volume.options.get("device").cloned();
            elsewhere = device.or_else(|| (!is_local).then(|| format!("driver {}", volume.driver)));
        }
        if owner == Owner::Other {
            findings.differs(
                "",
                format!("volume {key} was there before this project: the deployment gets a volume of its own, which no other one mounts"),
            );
        }
        let Some((_, container)) = users.first() else { continue };
        let mount = container.mounts.iter().find(|mount| mount.name == *name);
        findings.data.push(Data {
            volume: key.clone(),
            engine_volume: name.clone(),
            services: users.iter().map(|(service, _)| service.clone()).collect(),
            container: Some(container.name.trim_start_matches('/').to_owned()),
            target: mount.map(|mount| mount.destination.clone()).unwrap_or_default(),
            elsewhere,
        });
        declared.insert(key, section);
    }
    declared
}
