//! What containers reach of their nodes, found in what the engine is given.
//!
//! [`ReachKind`] is the table of it. What hardens a container, and what stays in namespaces of its own, is no reach.

mod text;

use std::borrow::Cow;
use std::collections::BTreeSet;

use jaco_types::spec::{Reach, ReachKind};

use self::text::{Container, Mount, Service, Volume};
use crate::model::{ModelError, MountKind};
use crate::notation::paths;

/// The capabilities that Docker gives every container. One that is dropped and added again reaches nothing more.
const USUAL_CAPABILITIES: [&str; 14] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// What a container of this canonical text reaches of its node.
///
/// # Errors
/// When the text was not made by this crate.
pub fn reaches(canonical: &str) -> Result<BTreeSet<Reach>, ModelError> {
    let container: Container<'_> = serde_json::from_str(canonical)?;
    let service = &container.service;
    let mut found = BTreeSet::new();
    if service.privileged || service.pre_stop.iter().any(|hook| hook.privileged) {
        found.insert(Reach::new(ReachKind::Privileged, ""));
    }
    found.extend(namespaces(service));
    found.extend(service.volumes.iter().filter_map(of_mount));
    found.extend(container.volumes.values().filter_map(of_volume));
    found.extend(service.cap_add.iter().filter_map(|name| capability(name)));
    found.extend(devices(service));
    let options = service.security_opt.iter().filter(|option| weakens(option));
    found.extend(options.map(|option| Reach::new(ReachKind::SecurityOpt, &**option)));
    let sysctls = service.sysctls.keys().filter(|name| !is_own_sysctl(name, service));
    found.extend(sysctls.map(|name| Reach::new(ReachKind::Sysctl, &**name)));
    found.extend(of_text(ReachKind::CgroupParent, service.cgroup_parent.as_deref()));
    found.extend(of_text(ReachKind::Runtime, service.runtime.as_deref()));
    found.extend(oom(service));
    found.extend(service.group_add.iter().map(|group| Reach::new(ReachKind::Group, &**group)));
    Ok(found)
}

fn of_text(kind: ReachKind, text: Option<&str>) -> Option<Reach> {
    text.filter(|text| !text.is_empty()).map(|text| Reach::new(kind, text))
}

fn namespaces(service: &Service<'_>) -> impl Iterator<Item = Reach> {
    let all = [
        ("network", &service.network_mode),
        ("pid", &service.pid),
        ("ipc", &service.ipc),
        ("uts", &service.uts),
        ("cgroup", &service.cgroup),
        ("user", &service.userns_mode),
    ];
    let of_host = all.into_iter().filter(|(_, mode)| mode.as_deref() == Some("host"));
    of_host.map(|(name, _)| Reach::new(ReachKind::HostNamespace, name))
}

/// What is below the compose file is no part of the node: it is uploaded, or data of the deployment, in a volume of its own.
fn of_mount(mount: &Mount<'_>) -> Option<Reach> {
    let source = mount.source.as_deref()?;
    let is_of_node = mount.kind == MountKind::Bind && source.starts_with('/');
    is_of_node.then(|| of_path(source))
}

/// A path of the node. Linux has `/var/run` as another name of `/run`.
fn of_path(path: &str) -> Reach {
    let path = paths::clean(path);
    let path = match path.strip_prefix("/var/run") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/run{rest}"),
        _ => path,
    };
    let kind = match path.as_str() {
        "/run/docker.sock"
        | "/run/containerd/containerd.sock"
        | "/run/crio/crio.sock"
        | "/run/podman/podman.sock" => ReachKind::EngineSocket,
        "/run/jaco" => ReachKind::ClusterSocket,
        other if other.starts_with("/run/jaco/") => ReachKind::ClusterSocket,
        _ => ReachKind::HostPath,
    };
    Reach::new(kind, path)
}

/// A volume of the local driver is what its options mount.
fn of_volume(volume: &Volume<'_>) -> Option<Reach> {
    if volume.external {
        return None;
    }
    match volume.driver.as_deref() {
        None | Some("" | "local") => {}
        Some(driver) => return Some(Reach::new(ReachKind::VolumeDriver, driver)),
    }
    let option = |name: &str| volume.driver_opts.get(name).map_or("", |value| &**value);
    let (kind, device, flags) = (option("type"), option("device"), option("o"));
    if flags.split(',').any(|flag| matches!(flag.trim(), "bind" | "rbind")) {
        return Some(of_path(device));
    }
    let is_elsewhere = matches!(kind, "nfs" | "nfs4" | "cifs" | "tmpfs");
    if is_elsewhere || (kind, device, flags) == ("", "", "") {
        return None;
    }
    let given = [("type", kind), ("device", device), ("o", flags)];
    let given = given.into_iter().filter(|(_, value)| !value.is_empty());
    let given: Vec<String> = given.map(|(name, value)| format!("{name}={value}")).collect();
    Some(Reach::new(ReachKind::VolumeDriver, given.join(",")))
}

fn capability(name: &str) -> Option<Reach> {
    let upper = name.to_ascii_uppercase();
    let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
    (!USUAL_CAPABILITIES.contains(&name)).then(|| Reach::new(ReachKind::Capability, name))
}

fn devices(service: &Service<'_>) -> Vec<Reach> {
    let device = |value: &str| Reach::new(ReachKind::Device, value);
    let mapped = service.devices.iter().map(|mapped| device(&mapped.source));
    let rules = service.device_cgroup_rules.iter().map(|rule| device(rule));
    let reserved = service.deploy.iter().flat_map(|deploy| &deploy.resources.reservations.devices);
    let reserved = service.gpus.iter().chain(reserved);
    // Devices of this driver are whatever files of the node say.
    let by_files = reserved.filter(|request| request.driver.as_deref() == Some("cdi"));
    mapped
        .chain(rules)
        .chain(by_files.flat_map(|one| one.device_ids.iter().map(|id| device(id))))
        .collect()
}

/// Whether an option may weaken what isolates the container.
fn weakens(option: &str) -> bool {
    const HARDENING: [&str; 5] = [
        "no-new-privileges",
        "no-new-privileges:true",
        "no-new-privileges=true",
        "apparmor=docker-default",
        "seccomp=builtin",
    ];
    !HARDENING.contains(&option)
}

/// Whether a parameter is one of a namespace that the container has to itself.
fn is_own_sysctl(name: &str, service: &Service<'_>) -> bool {
    let is_host = |mode: &Option<Cow<'_, str>>| mode.as_deref() == Some("host");
    let messages = ["fs.mqueue.", "kernel.msg", "kernel.shm"];
    match name {
        _ if name.starts_with("net.") => !is_host(&service.network_mode),
        "kernel.sem" => !is_host(&service.ipc),
        _ if messages.iter().any(|prefix| name.starts_with(prefix)) => !is_host(&service.ipc),
        _ => false,
    }
}

fn oom(service: &Service<'_>) -> impl Iterator<Item = Reach> {
    let disabled = service.oom_kill_disable.then(|| "oom_kill_disable".to_owned());
    let score = service.oom_score_adj.filter(|score| *score < 0);
    let score = score.map(|score| format!("oom_score_adj={score}"));
    disabled.into_iter().chain(score).map(|by| Reach::new(ReachKind::Oom, by))
}
