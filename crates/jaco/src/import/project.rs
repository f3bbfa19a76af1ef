//! A project of Docker Compose as a compose file, from what the engine says of its containers. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::found::{Findings, Imported, LocalImage, Origin};
use super::image_name::{self, Named};
use super::inspected::{Container, ImageConfig};
use super::mounts::{self, Mounted};
use super::scene::{ProjectSnapshot, Scene};
use super::section::{Section, pairs};
use super::{amount, attachment, host, label, ports, process};

/// Docker gives containers the first digits of their ids as names of hosts.
const SHORT_ID: usize = 12;

/// Makes a compose file of a project.
pub(crate) fn import_project(snapshot: &ProjectSnapshot) -> Imported {
    let scene = Scene::of(snapshot);
    let replicas = replicas(&snapshot.containers);
    let mut findings = Findings::default();
    let (mut services, mut users, mut secrets) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut networks = BTreeSet::new();
    for (name, containers) in &replicas {
        let Some((first, _)) = containers.split_first() else { continue };
        let image = scene.image(&first.image).map(|image| image.config.clone()).unwrap_or_default();
        let mounted = mounts::mounted(name, first, &image, &scene, &mut findings);
        note_users(name, first, &mounted, &mut users);
        note_secrets(&mounted, &mut secrets);
        if !first.host_config.network_mode.starts_with("container:") {
            networks.extend(first.network_settings.networks.keys().cloned());
        }
        let section = service(name, containers, &image, mounted, &scene, &replicas, &mut findings);
        process::find_secrets(name, &section, &mut findings);
        services.insert((*name).to_owned(), section);
    }
    let networks = networks.into_iter().filter(|name| !is_of_engine(name));
    let networks = attachment::declared(networks, &scene, &mut findings);
    let volumes = mounts::declared(&users, &scene, &mut findings);
    note_missing_order(&snapshot.containers, &mut findings);
    findings.stop.extend(stop(&snapshot.containers));
    findings.stored_secrets.sort_by(|a, b| a.name.cmp(&b.name));
    findings.stored_secrets.dedup_by(|a, b| a.name == b.name);
    Imported {
        name: snapshot.name.clone(),
        origin: Origin::Project,
        services,
        networks,
        volumes,
        configs: BTreeMap::new(),
        secrets,
        files: BTreeMap::new(),
        findings,
    }
}

/// The containers of each service, by their numbers. Those of `docker compose run` are left out.
fn replicas(containers: &[Container]) -> BTreeMap<&str, Vec<&Container>> {
    let mut services: BTreeMap<&str, Vec<&Container>> = BTreeMap::new();
    for container in containers {
        let labels = &container.config.labels;
        let is_one_off = labels.get(label::ONE_OFF).is_some_and(|value| value == "True");
        if let Some(service) = labels.get(label::SERVICE).filter(|_| !is_one_off) {
            services.entry(service).or_default().push(container);
        }
    }
    for containers in services.values_mut() {
        // One that runs says more about the project than one that has ended.
        containers.sort_by_key(|one| (!one.state.running, label::number(&one.config.labels)));
    }
    services
}

fn note_users<'c>(
    service: &str,
    container: &'c Container,
    mounted: &Mounted,
    users: &mut BTreeMap<String, Vec<(String, &'c Container)>>,
) {
    let named: BTreeSet<&String> = mounted.named.iter().collect();
    for volume in named {
        users.entry(volume.clone()).or_default().push((service.to_owned(), container));
    }
}

fn note_secrets(mounted: &Mounted, secrets: &mut BTreeMap<String, Section>) {
    for name in mounted.secrets.iter().filter_map(Value::as_str) {
        let mut section = Section::default();
        section.set("external", true);
        secrets.insert(name.to_owned(), section);
    }
}

/// Networks that every engine has.
fn is_of_engine(name: &str) -> bool {
    matches!(name, "bridge" | "host" | "none")
}

fn service(
    name: &str,
    containers: &[&Container],
    image: &ImageConfig,
    mounted: Mounted,
    scene: &Scene<'_>,
    services: &BTreeMap<&str, Vec<&Container>>,
    findings: &mut Findings,
) -> Section {
    let container = containers[0];
    let (config, host) = (&container.config, &container.host_config);
    let mut section = Section::default();
    section.set("image", image_of(name, container, scene, findings));
    section.put("container_name", container_name(name, container, scene));
    process::put_command(&mut section, config, image);
    section.put("environment", json!(process::environment(&config.env, &image.env)));
    section.put("user", differing(&config.user, &image.user));
    section.put("working_dir", differing(&config.working_dir, &image.working_dir));
    section.put("hostname", hostname(container));
    section.put("domainname", config.domainname.as_str());
    section.flag("tty", config.tty);
    section.flag("stdin_open", config.open_stdin);
    section.put("ports", ports::published(&host.port_bindings));
    section.put("volumes", mounted.volumes);
    let tmpfs = host.tmpfs.iter().map(|(path, options)| match options.as_str() {
        "" => path.clone(),
        options => format!("{path}:{options}"),
    });
    section.put("tmpfs", tmpfs.collect::<Vec<_>>());
    section.put("secrets", mounted.secrets);
    attachment::put_networks(&mut section, name, container, scene, findings);
    section.put("depends_on", depends_on(name, container, services, findings));
    let health = (config.healthcheck.as_ref(), image.healthcheck.as_ref());
    section.put("healthcheck", process::healthcheck(health.0, health.1));
    section.put("restart", restart(name, container, findings));
    section.put("stop_signal", differing(&config.stop_signal, &image.stop_signal));
    section.put("stop_grace_period", config.stop_timeout.map(|seconds| format!("{seconds}s")));
    section.put("labels", pairs(&label::own(&config.labels, &image.labels)));
    section.put("deploy", deploy(name, containers, findings));
    host::put_options(&mut section, name, host, scene, findings);
    if !config.mac_address.is_empty() {
        findings.differs(name, "its hardware address is left out: replicas cannot share one");
    }
    section
}

/// A text that the image does not say.
fn differing<'t>(text: &'t str, of_image: &str) -> &'t str {
    if text == of_image { "" } else { text }
}

fn image_of(
    service: &str,
    container: &Container,
    scene: &Scene<'_>,
    findings: &mut Findings,
) -> String {
    let built_as = ["-", "_"].map(|between| format!("{}{between}{service}", scene.project));
    let image = scene.image(&container.image);
    match image_name::name(&container.config.image, image, &built_as) {
        Named::Pinned(name) => name,
        Named::Local(name) => {
            let image = LocalImage { service: service.to_owned(), image: name.clone() };
            findings.local_images.push(image);
            name
        }
        Named::Nameless(id) => {
            let name = format!("{}/{service}:imported", scene.project);
            findings.differs(
                service,
                format!("its image has no name any more: name it before it is pushed, `docker tag {id} {name}`"),
            );
            let image = LocalImage { service: service.to_owned(), image: name.clone() };
            findings.local_images.push(image);
            name
        }
    }
}

/// The name of a container that a user chose; names with numbers are those of Docker Compose.
fn container_name(service: &str, container: &Container, scene: &Scene<'_>) -> String {
    let name = container.name.trim_start_matches('/');
    let is_numbered = ["-", "_"].iter().any(|between| {
        let rest = name.strip_prefix(&format!("{}{between}{service}{between}", scene.project));
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    if is_numbered { String::new() } else { name.to_owned() }
}

fn hostname(container: &Container) -> &str {
    let hostname = container.config.hostname.as_str();
    let is_given = hostname.len() == SHORT_ID && container.id.starts_with(hostname);
    // Of another container, or of the host.
    let mode = container.host_config.network_mode.as_str();
    let is_shared = mode == "host" || mode.starts_with("container:");
    if is_given || is_shared { "" } else { hostname }
}

fn depends_on(
    service: &str,
    container: &Container,
    services: &BTreeMap<&str, Vec<&Container>>,
    findings: &mut Findings,
) -> Value {
    let mut dependencies = label::depends_on(&container.config.labels);
    dependencies.retain(|other, _| {
        let is_there = services.contains_key(other.as_str());
        if !is_there {
            findings.differs(
                service,
                format!(
                    "it does not depend on {other} any more: no container of that service is here"
                ),
            );
        }
        is_there
    });
    json!(dependencies)
}

/// What a user wrote cannot be told apart from the default `no`. A container that has ended well was to end.
fn restart(service: &str, container: &Container, findings: &mut Findings) -> String {
    let (policy, state) = (&container.host_config.restart_policy, &container.state);
    let is_default = matches!(policy.name.as_str(), "" | "no");
    if is_default && !state.running && state.exit_code == 0 {
        findings.differs(
            service,
            "its container has ended with 0 and is not restarted: it is taken for a job, which runs to its end once per revision; \
             leave out `restart` if it is to stay",
        );
        return "no".to_owned();
    }
    if !state.running {
        findings.differs(
            service,
            format!(
                "its container does not run, it has ended with {}: on the cluster it is started, leave the service out otherwise",
                state.exit_code
            ),
        );
    }
    match policy.name.as_str() {
        _ if is_default => String::new(),
        "on-failure" if policy.maximum_retry_count > 0 => {
            format!("on-failure:{}", policy.maximum_retry_count)
        }
        name => name.to_owned(),
    }
}

fn deploy(service: &str, containers: &[&Container], findings: &mut Findings) -> Value {
    let mut deploy = Section::default();
    if containers.len() > 1 {
        deploy.set("replicas", containers.len());
    }
    deploy.put("resources", host::resources(&containers[0].host_config));
    let hashes: BTreeSet<_> =
        containers.iter().map(|one| one.config.labels.get(label::CONFIG_HASH)).collect();
    let images: BTreeSet<_> = containers.iter().map(|one| &one.image).collect();
    if hashes.len() > 1 || images.len() > 1 {
        findings.differs(
            service,
            format!(
                "its containers differ: all replicas become like {}",
                containers[0].name.trim_start_matches('/')
            ),
        );
    }
    let host = &containers[0].host_config;
    if host.nano_cpus % 1_000_000 != 0 {
        let cores = amount::cores_if_set(host.nano_cpus).unwrap_or_default();
        findings.differs(
            service,
            format!(
                "its limit of processors is rounded up to {cores} cores: JACO counts in thousandths"
            ),
        );
    }
    deploy.into()
}

/// Stops the containers that run, all at once. They stay, so that their data can be copied.
fn stop(containers: &[Container]) -> Option<String> {
    let running = containers.iter().filter(|container| container.state.running);
    let mut names: Vec<&str> = running.map(|one| one.name.trim_start_matches('/')).collect();
    names.sort_unstable();
    (!names.is_empty()).then(|| format!("docker stop {}", names.join(" ")))
}

/// Docker Compose 1 does not tell the engine what depends on what.
fn note_missing_order(containers: &[Container], findings: &mut Findings) {
    let is_first_generation = |container: &Container| {
        container.config.labels.get(label::VERSION).is_some_and(|version| version.starts_with("1."))
    };
    if containers.iter().any(is_first_generation) {
        findings.differs(
            "",
            "the order of starts is not known, because docker-compose 1 does not record it: add `depends_on` where it matters",
        );
    }
}

/// The compose files of a project, and when its first container was created.
pub(crate) fn originals(snapshot: &ProjectSnapshot) -> (Vec<String>, String) {
    let labels = snapshot.containers.first().map(|container| &container.config.labels);
    let created = snapshot.containers.iter().map(|container| container.created.clone()).min();
    (labels.map(label::files).unwrap_or_default(), created.unwrap_or_default())
}
