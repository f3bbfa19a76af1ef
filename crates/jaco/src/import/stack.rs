//! A stack of Docker Swarm as a compose file, from what the engine says of its services. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::found::{Data, Findings, Imported, Origin, StoredSecret};
use super::inspected::{
    ContainerSpec, FileUse, MountOptions, Network, Service, TaskTemplate, Ulimit,
};
use super::section::{Section, pairs};
use super::{amount, label, process, swarm_deploy};

/// How long engines wait for a container to stop. Swarm writes it into every service.
const STOP_GRACE_NANOS: u64 = 10_000_000_000;

/// A stack as the engine says it is.
#[derive(Debug, Default)]
pub(crate) struct StackSnapshot {
    pub(crate) name: String,
    pub(crate) services: Vec<Service>,
    /// Those that the services are attached to.
    pub(crate) networks: Vec<Network>,
    /// Contents of configs, by their ids.
    pub(crate) configs: BTreeMap<String, Vec<u8>>,
}

/// Makes a compose file of a stack.
pub(crate) fn import_stack(snapshot: &StackSnapshot) -> Imported {
    let mut imported = Imported {
        name: snapshot.name.clone(),
        origin: Origin::Stack,
        services: BTreeMap::new(),
        networks: BTreeMap::new(),
        volumes: BTreeMap::new(),
        configs: BTreeMap::new(),
        secrets: BTreeMap::new(),
        files: BTreeMap::new(),
        findings: Findings::default(),
    };
    for service in &snapshot.services {
        let name = key(&service.spec.name, &snapshot.name);
        let section = import_service(&name, service, snapshot, &mut imported);
        process::find_secrets(&name, &section, &mut imported.findings);
        imported.services.insert(name, section);
        imported.findings.stop.push(stop(service));
    }
    imported.findings.stored_secrets.sort_by(|a, b| a.name.cmp(&b.name));
    imported.findings.stored_secrets.dedup_by(|a, b| a.name == b.name);
    imported
}

/// Stops a service. Those with a number keep their last containers, from which data can be copied.
fn stop(service: &Service) -> String {
    match &service.spec.mode.replicated {
        Some(_) => format!("docker service scale {}=0", service.spec.name),
        None => format!("docker service rm {}", service.spec.name),
    }
}

/// The name without that of the stack.
fn key(name: &str, stack: &str) -> String {
    let rest = name.strip_prefix(stack).and_then(|rest| rest.strip_prefix('_'));
    rest.unwrap_or(name).to_owned()
}

fn import_service(
    name: &str,
    service: &Service,
    snapshot: &StackSnapshot,
    imported: &mut Imported,
) -> Section {
    let (task, container) =
        (&service.spec.task_template, &service.spec.task_template.container_spec);
    let mut section = Section::default();
    section.set("image", container.image.as_str());
    if !container.image.contains('@') {
        let sentence = format!(
            "its image {} is not pinned, because Swarm knows no digest of it: nodes pull it by its tag, unless `jaco image push` has \
             brought it into the cluster",
            container.image
        );
        imported.findings.differs(name, sentence);
    }
    section.put("entrypoint", json!(container.command));
    section.put("command", json!(container.args));
    section.put("environment", json!(process::environment(&container.env, &[])));
    section.put("user", container.user.as_str());
    section.put("group_add", json!(container.groups));
    section.put("working_dir", container.dir.as_str());
    section.put("hostname", hostname(name, container, &mut imported.findings));
    section.flag("tty", container.tty);
    section.flag("stdin_open", container.open_stdin);
    section.flag("read_only", container.read_only);
    section.put("init", container.init);
    section.put("ports", swarm_deploy::ports(&service.spec.endpoint_spec));
    section.put("volumes", volumes(name, container, imported));
    section.put("configs", configs(&container.configs, snapshot, imported));
    section.put("secrets", secrets(&container.secrets, imported));
    put_networks(&mut section, name, service, snapshot, imported);
    section.put("healthcheck", process::healthcheck(container.healthcheck.as_ref(), None));
    section.put("stop_signal", container.stop_signal.as_str());
    let grace = container.stop_grace_period.filter(|nanos| *nanos != STOP_GRACE_NANOS);
    section.put("stop_grace_period", grace.map(amount::duration));
    section.put("labels", pairs(&label::own(&container.labels, &BTreeMap::new())));
    section.put("cap_add", json!(container.capability_add));
    section.put("cap_drop", json!(container.capability_drop));
    section.put("sysctls", pairs(&container.sysctls));
    let limit =
        |limit: &Ulimit| (limit.name.clone(), json!({ "soft": limit.soft, "hard": limit.hard }));
    section.put("ulimits", container.ulimits.iter().map(limit).collect::<Map<_, _>>());
    section.put("extra_hosts", extra_hosts(&container.hosts));
    section.put("dns", json!(container.dns_config.nameservers));
    section.put("dns_search", json!(container.dns_config.search));
    section.put("dns_opt", json!(container.dns_config.options));
    section.put("logging", logging(task));
    section.put("deploy", swarm_deploy::deploy(name, &service.spec, &mut imported.findings));
    put_privileges(&mut section, name, container, &mut imported.findings);
    section
}

/// Swarm has its own words for the options of security.
fn put_privileges(
    section: &mut Section,
    service: &str,
    container: &ContainerSpec,
    findings: &mut Findings,
) {
    let privileges = &container.privileges;
    if privileges.get("NoNewPrivileges") == Some(&Value::Bool(true)) {
        section.set("security_opt", json!(["no-new-privileges:true"]));
    }
    let is_set = |key: &&str| {
        let value = privileges.get(*key);
        value.is_some_and(|value| value.as_object().is_none_or(|map| !map.is_empty()))
    };
    for key in
        ["CredentialSpec", "SELinuxContext", "Seccomp", "AppArmor"].into_iter().filter(is_set)
    {
        findings.differs(
            service,
            format!("its {key} is left out: say it with `security_opt`, if nodes are to have it"),
        );
    }
}

/// Swarm fills in templates, which JACO does not have.
fn hostname<'c>(service: &str, container: &'c ContainerSpec, findings: &mut Findings) -> &'c str {
    let templated = [&container.hostname].into_iter().chain(&container.env);
    if templated.into_iter().any(|text| text.contains("{{")) {
        findings.differs(
            service,
            "its templates (`{{…}}`) are not filled in: write what they stand for; a template as the name of its host is left out",
        );
    }
    if container.hostname.contains("{{") { "" } else { &container.hostname }
}

/// Swarm has lines of a hosts file.
fn extra_hosts(lines: &[String]) -> Vec<String> {
    let pairs = lines.iter().flat_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().unwrap_or_default().to_owned();
        words.map(move |name| format!("{name}={address}")).collect::<Vec<_>>()
    });
    pairs.collect()
}

fn logging(task: &TaskTemplate) -> Value {
    let Some(driver) = &task.log_driver else { return Value::Null };
    let mut section = Section::default();
    section.put("driver", driver.name.as_str());
    section.put("options", pairs(&driver.options));
    section.into()
}

fn volumes(service: &str, container: &ContainerSpec, imported: &mut Imported) -> Vec<Value> {
    let mut volumes = Vec::new();
    for mount in &container.mounts {
        let mut volume = Section::default();
        volume.set("type", mount.kind.as_str());
        let source = match mount.kind.as_str() {
            "volume" if mount.source.is_empty() => String::new(),
            "volume" => declare_volume(service, mount, imported),
            "bind" => {
                let sentence = format!(
                    "{} at {} is a path of each node now, and nothing is copied there: use a named volume for data, or a file in the \
                     written folder for settings",
                    mount.source, mount.target
                );
                imported.findings.differs(service, sentence);
                mount.source.clone()
            }
            "tmpfs" => String::new(),
            other => {
                let sentence = format!(
                    "its mount of kind {other} at {} is left out: nodes have no such mounts",
                    mount.target
                );
                imported.findings.differs(service, sentence);
                continue;
            }
        };
        volume.put("source", source);
        volume.set("target", mount.target.as_str());
        volume.flag("read_only", mount.read_only);
        let mut options = Section::default();
        options.flag("nocopy", mount.volume_options.no_copy);
        options.put("subpath", mount.volume_options.subpath.as_str());
        volume.put("volume", options);
        let mut options = Section::default();
        let propagation = mount.bind_options.propagation.as_str();
        options.put("propagation", if propagation == "rprivate" { "" } else { propagation });
        volume.put("bind", options);
        let mut options = Section::default();
        options.put("size", amount::bytes_if_set(mount.tmpfs_options.size_bytes));
        options.put("mode", (mount.tmpfs_options.mode > 0).then_some(mount.tmpfs_options.mode));
        volume.put("tmpfs", options);
        volumes.push(volume.into());
    }
    volumes
}

/// Declares the volume of a mount, and says how its data gets over. Returns its key.
fn declare_volume(service: &str, mount: &MountOptions, imported: &mut Imported) -> String {
    let key = key(&mount.source, &imported.name);
    let driver = &mount.volume_options.driver_config;
    let is_local = matches!(driver.name.as_str(), "" | "local");
    let mut section = Section::default();
    section.put("driver", if is_local { "" } else { &driver.name });
    section.put("driver_opts", pairs(&driver.options));
    let labels = label::own(&mount.volume_options.labels, &BTreeMap::new());
    section.put("labels", pairs(&labels));
    imported.volumes.insert(key.clone(), section);
    let data = &mut imported.findings.data;
    match data.iter_mut().find(|data| data.volume == key) {
        Some(data) if data.services.iter().any(|name| name == service) => {}
        Some(data) => data.services.push(service.to_owned()),
        None => data.push(Data {
            volume: key.clone(),
            engine_volume: mount.source.clone(),
            services: vec![service.to_owned()],
            container: None,
            target: mount.target.clone(),
            elsewhere: driver
                .options
                .get("device")
                .cloned()
                .or_else(|| (!is_local).then(|| format!("driver {}", driver.name))),
        }),
    }
    key
}

fn file_use(uses: &FileUse, key: &str) -> Section {
    let mut section = Section::default();
    section.set("source", key);
    if let Some(file) = &uses.file {
        section.put("target", file.name.as_str());
        section.put("uid", if file.uid == "0" { "" } else { &file.uid });
        section.put("gid", if file.gid == "0" { "" } else { &file.gid });
        let is_usual = file.mode == 0 || file.mode == 0o444;
        section.put("mode", (!is_usual).then(|| format!("{:04o}", file.mode)));
    }
    section
}

/// Configs, as files of the folder: their contents can be read.
fn configs(uses: &[FileUse], snapshot: &StackSnapshot, imported: &mut Imported) -> Vec<Value> {
    let mut list = Vec::new();
    for config in uses {
        let key = key(&config.name, &snapshot.name);
        let mut section = Section::default();
        let content = snapshot.configs.get(&config.config_id);
        match content.filter(|_| is_file_name(&key)) {
            Some(content) => {
                let path = format!("configs/{key}");
                section.set("file", format!("./{path}"));
                imported.files.insert(path, content.clone());
            }
            None => {
                section.set("external", true);
                let sentence = format!(
                    "config {key} could not be read: store it with `jaco config set {key} FILE`"
                );
                imported.findings.differs("", sentence);
            }
        }
        imported.configs.insert(key.clone(), section);
        list.push(file_use(config, &key).into());
    }
    list
}

/// Whether a name may be one of a file: the folder is left by none.
fn is_file_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)
}

/// Secrets, whose contents no engine tells.
fn secrets(uses: &[FileUse], imported: &mut Imported) -> Vec<Value> {
    let mut list = Vec::new();
    for secret in uses {
        let key = key(&secret.name, &imported.name);
        let mut section = Section::default();
        section.set("external", true);
        imported.secrets.insert(key.clone(), section);
        let stored = StoredSecret { name: key.clone(), file: None };
        imported.findings.stored_secrets.push(stored);
        list.push(file_use(secret, &key).into());
    }
    list
}

fn put_networks(
    section: &mut Section,
    name: &str,
    service: &Service,
    snapshot: &StackSnapshot,
    imported: &mut Imported,
) {
    let mut networks = Map::new();
    for attachment in service.attachments() {
        let is_meant = |network: &&Network| {
            network.id == attachment.target || network.name == attachment.target
        };
        let Some(network) = snapshot.networks.iter().find(is_meant) else {
            let sentence =
                format!("network {} is left out: the engine does not know it", attachment.target);
            imported.findings.differs(name, sentence);
            continue;
        };
        if matches!(network.name.as_str(), "host" | "bridge" | "none") {
            section.set("network_mode", network.name.as_str());
            return;
        }
        let key = declare_network(network, snapshot, imported);
        let mut aliases: Vec<&String> =
            attachment.aliases.iter().filter(|alias| *alias != name).collect();
        aliases.sort();
        let attached = if aliases.is_empty() { Value::Null } else { json!({ "aliases": aliases }) };
        networks.insert(key, attached);
    }
    let is_default = networks.len() == 1 && networks.get("default") == Some(&Value::Null);
    if !is_default {
        section.put("networks", networks);
    }
}

/// Declares a network. Returns its key.
fn declare_network(network: &Network, snapshot: &StackSnapshot, imported: &mut Imported) -> String {
    let is_own = network.labels.get(label::STACK) == Some(&snapshot.name);
    let key = if is_own { key(&network.name, &snapshot.name) } else { network.name.clone() };
    let mut section = Section::default();
    if is_own {
        section.flag("internal", network.internal);
    } else {
        section.set("external", true);
        let sentence = format!(
            "network {key} is not of this stack: make it for all deployments with `jaco network create {key}`"
        );
        imported.findings.differs("", sentence);
    }
    if key != "default" || section != Section::default() {
        imported.networks.insert(key.clone(), section);
    }
    key
}
