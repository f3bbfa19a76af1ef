//! From the canonical container text to the body of Docker's create call. Pure: it asks nobody
//! anything, and what has to be found out first is named by [`Needs`].

mod mount;
mod resource;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bollard::models::{
    ContainerCreateBody, EndpointSettings, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum,
    HostConfigLogConfig, NetworkingConfig, PortBinding, PortMap, RestartPolicy,
    RestartPolicyNameEnum,
};
use jaco_agent::engine::{ContainerRequest, Owner};
use jaco_compose::model::{Attachment, ContainerSpec, Health, ModelError, Port, Service};
use jaco_types::DeploymentName;

use crate::names;

/// Why a spec cannot be carried out. It names the key.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The text is not what the cluster writes.
    #[error(transparent)]
    Unreadable(#[from] ModelError),
    /// A value means nothing to Docker.
    #[error("`{key}`: {value:?} is not {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What it says.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The key asks for something that this engine does not do.
    #[error("`{key}`: {reason}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// Why.
        reason: String,
    },
    /// A namespace is to be shared with a service of which nothing runs here.
    #[error("`{key}`: no container of service {service:?} runs on this node")]
    NoNeighbour {
        /// The key.
        key: &'static str,
        /// The service.
        service: String,
    },
}

/// What must be there before the container can be made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Needs {
    /// Networks, in the order of attachment.
    pub networks: Vec<NeededNetwork>,
    /// Volumes that somebody else has to have made.
    pub external_volumes: BTreeSet<String>,
    /// Services whose namespaces are shared.
    pub neighbours: BTreeSet<String>,
}

/// A network that the container is attached to.
#[derive(Debug, Clone, PartialEq)]
pub struct NeededNetwork {
    /// Its name on the engine.
    pub name: String,
    /// Whether there is a way out of it.
    pub reach: NetworkReach,
    /// Who makes it.
    pub maker: NetworkMaker,
    /// How the container is attached.
    pub endpoint: EndpointSettings,
}

/// Whether there is a way out of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkReach {
    /// There is.
    Outside,
    /// There is not.
    Internal,
}

/// Who makes a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkMaker {
    /// This node, for its own replicas.
    Node,
    /// Somebody else; it has to be there.
    Somebody,
}

/// Reads the canonical text.
///
/// # Errors
/// When it is not what the cluster writes.
pub fn read(text: &str) -> Result<ContainerSpec, SpecError> {
    Ok(ContainerSpec::parse(text)?)
}

/// The named volumes that a container mounts, by the engine's names.
pub(crate) fn volume_names(
    owner: &Owner,
    deployment: &DeploymentName,
    container: &ContainerSpec,
) -> BTreeSet<String> {
    mount::volume_names(owner, deployment, container)
}

/// What must be there before `container` can be made.
#[must_use]
pub fn needs(owner: &Owner, request: &ContainerRequest, container: &ContainerSpec) -> Needs {
    let service = &container.service;
    let modes = [&service.network_mode, &service.pid, &service.ipc];
    let neighbours = modes.into_iter().flatten().filter_map(|mode| mode.strip_prefix("service:"));
    Needs {
        networks: networks(owner, request, container),
        external_volumes: mount::external_volumes(container),
        neighbours: neighbours.map(str::to_owned).collect(),
    }
}

/// The create body. `neighbours` are the containers of the services that [`needs`] named.
///
/// # Errors
/// The first key that cannot be carried out.
pub fn body(
    owner: &Owner,
    request: &ContainerRequest,
    container: &ContainerSpec,
    needs: &Needs,
    neighbours: &BTreeMap<String, String>,
) -> Result<ContainerCreateBody, SpecError> {
    let service = &container.service;
    let first = needs.networks.first();
    let endpoints = first.map(|network| (network.name.clone(), network.endpoint.clone()));
    Ok(ContainerCreateBody {
        image: Some(request.image.to_string()),
        hostname: service.hostname.clone(),
        domainname: service.domainname.clone(),
        user: service.user.clone(),
        exposed_ports: some(exposed_ports(service)),
        tty: yes(service.tty),
        open_stdin: yes(service.stdin_open),
        env: some(environment(service)),
        cmd: service.command.clone(),
        entrypoint: service.entrypoint.clone(),
        working_dir: service.working_dir.clone(),
        healthcheck: service.healthcheck.as_ref().map(healthcheck),
        labels: Some(labels(owner, request, service)),
        stop_signal: service.stop_signal.clone(),
        stop_timeout: stop_timeout(service),
        host_config: Some(host_config(owner, request, container, needs, neighbours)?),
        networking_config: endpoints.map(|(name, endpoint)| NetworkingConfig {
            endpoints_config: Some(HashMap::from([(name, endpoint)])),
        }),
        ..ContainerCreateBody::default()
    })
}

fn host_config(
    owner: &Owner,
    request: &ContainerRequest,
    container: &ContainerSpec,
    needs: &Needs,
    neighbours: &BTreeMap<String, String>,
) -> Result<HostConfig, SpecError> {
    let service = &container.service;
    let mode = |key, mode: &Option<String>| shared_mode(key, mode.as_deref(), neighbours);
    let base = HostConfig {
        annotations: some(texts(&service.annotations)),
        cap_add: some(service.cap_add.clone()),
        cap_drop: some(service.cap_drop.clone()),
        cgroup_parent: service.cgroup_parent.clone(),
        cgroupns_mode: cgroupns_mode(service)?,
        dns: some(service.dns.clone()),
        dns_options: some(service.dns_opt.clone()),
        dns_search: some(service.dns_search.clone()),
        extra_hosts: some(extra_hosts(service)),
        group_add: some(service.group_add.clone()),
        init: service.init,
        ipc_mode: mode("ipc", &service.ipc)?,
        log_config: log_config(service),
        network_mode: network_mode(service, needs, neighbours)?,
        oom_kill_disable: yes(service.oom_kill_disable),
        oom_score_adj: service.oom_score_adj,
        pid_mode: mode("pid", &service.pid)?,
        port_bindings: some(port_bindings(service)),
        privileged: yes(service.privileged),
        readonly_rootfs: yes(service.read_only),
        // JACO restarts by a new instance; Docker must never bring an old one back.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        runtime: service.runtime.clone(),
        security_opt: some(
            service.security_opt.iter().map(|option| security_opt(option)).collect(),
        ),
        storage_opt: some(texts(&service.storage_opt)),
        sysctls: some(texts(&service.sysctls)),
        userns_mode: service.userns_mode.clone(),
        uts_mode: service.uts.clone(),
        ..HostConfig::default()
    };
    let base = resource::limit(base, service, &request.gpus);
    mount::mount(base, owner, request, container)
}

fn networks(
    owner: &Owner,
    request: &ContainerRequest,
    container: &ContainerSpec,
) -> Vec<NeededNetwork> {
    let service = &container.service;
    if service.network_mode.as_deref().is_some_and(|mode| !mode.is_empty()) {
        return Vec::new();
    }
    let nothing = Attachment::default();
    let mut attachments: Vec<(&str, &Attachment)> =
        service.networks.iter().map(|(key, attachment)| (key.as_str(), attachment)).collect();
    if attachments.is_empty() {
        attachments.push(("default", &nothing));
    }
    // The first one gives the default route; the sort is stable, so names settle ties.
    let priority = |attachment: &Attachment| {
        (attachment.gw_priority.unwrap_or_default(), attachment.priority.unwrap_or_default())
    };
    attachments.sort_by(|(_, a), (_, b)| {
        let ((gateway_a, a), (gateway_b, b)) = (priority(a), priority(b));
        gateway_b.total_cmp(&gateway_a).then(b.total_cmp(&a))
    });
    attachments
        .into_iter()
        .map(|(key, attachment)| needed_network(owner, request, container, key, attachment))
        .collect()
}

fn needed_network(
    owner: &Owner,
    request: &ContainerRequest,
    container: &ContainerSpec,
    key: &str,
    attachment: &Attachment,
) -> NeededNetwork {
    let declared = container.networks.get(key);
    let deployment = &request.service.deployment;
    let own_name = format!("{deployment}_{key}");
    let name = declared.map_or(own_name, |network| network.name.clone());
    let external = declared.is_some_and(|network| network.external);
    let internal = declared.is_some_and(|network| network.internal);
    NeededNetwork {
        name: if external { name } else { names::scoped(owner, &name) },
        reach: if internal { NetworkReach::Internal } else { NetworkReach::Outside },
        maker: if external { NetworkMaker::Somebody } else { NetworkMaker::Node },
        endpoint: EndpointSettings {
            aliases: Some(aliases(deployment, request, container, attachment)),
            gw_priority: attachment.gw_priority.map(whole),
            ..EndpointSettings::default()
        },
    }
}

/// Replicas of a service share its names, so that asking for one answers with all of them.
fn aliases(
    deployment: &DeploymentName,
    request: &ContainerRequest,
    container: &ContainerSpec,
    attachment: &Attachment,
) -> Vec<String> {
    let service = &request.service.service;
    let mut aliases = vec![service.to_string(), format!("{service}.{deployment}")];
    aliases.extend(container.service.container_name.clone());
    aliases.extend(attachment.aliases.iter().cloned());
    aliases
}

fn network_mode(
    service: &Service,
    needs: &Needs,
    neighbours: &BTreeMap<String, String>,
) -> Result<Option<String>, SpecError> {
    match needs.networks.first() {
        Some(network) => Ok(Some(network.name.clone())),
        None => shared_mode("network_mode", service.network_mode.as_deref(), neighbours),
    }
}

/// `service:<name>` becomes the container of that service beside this one.
fn shared_mode(
    key: &'static str,
    mode: Option<&str>,
    neighbours: &BTreeMap<String, String>,
) -> Result<Option<String>, SpecError> {
    let Some(service) = mode.and_then(|mode| mode.strip_prefix("service:")) else {
        return Ok(mode.map(str::to_owned));
    };
    match neighbours.get(service) {
        Some(container) => Ok(Some(format!("container:{container}"))),
        None => Err(SpecError::NoNeighbour { key, service: service.to_owned() }),
    }
}

fn labels(owner: &Owner, request: &ContainerRequest, service: &Service) -> HashMap<String, String> {
    let mut labels = texts(&service.labels);
    labels.extend(names::container_labels(owner, request));
    labels
}

/// A name alone takes the variable out of the image's environment.
fn environment(service: &Service) -> Vec<String> {
    let pairs = service.environment.iter();
    pairs
        .map(|(key, value)| value.as_ref().map_or(key.clone(), |value| format!("{key}={value}")))
        .collect()
}

fn extra_hosts(service: &Service) -> Vec<String> {
    let hosts = service.extra_hosts.iter();
    // Compose separates by `=`, because an address may contain colons; Docker by the first colon.
    hosts.map(|host| host.replacen('=', ":", 1)).collect()
}

/// Whose healthcheck a container gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// The manifest's.
    Declared,
    /// The image's, if that has one: the manifest says nothing, or only how often to look.
    OfImage,
    /// None, whatever the image says.
    Off,
}

/// Whose healthcheck a container of this service gets.
pub(crate) fn check_of(service: &Service) -> Check {
    let Some(check) = &service.healthcheck else { return Check::OfImage };
    match check.test.first().map(String::as_str) {
        _ if check.disable => Check::Off,
        Some("NONE") => Check::Off,
        Some(_) => Check::Declared,
        None => Check::OfImage,
    }
}

fn healthcheck(check: &Health) -> HealthConfig {
    if check.disable {
        let test = Some(vec!["NONE".to_owned()]);
        return HealthConfig { test, ..HealthConfig::default() };
    }
    HealthConfig {
        test: some(check.test.clone()),
        interval: check.interval_nanos.map(int64),
        timeout: check.timeout_nanos.map(int64),
        retries: check.retries,
        start_period: check.start_period_nanos.map(int64),
        start_interval: check.start_interval_nanos.map(int64),
    }
}

/// Docker counts whole seconds; a part of one is a whole one, so that nobody gets less than asked.
fn stop_timeout(service: &Service) -> Option<i64> {
    service.stop_grace_period_nanos.map(|nanos| int64(nanos.div_ceil(1_000_000_000)))
}

fn exposed_ports(service: &Service) -> Vec<String> {
    let ports = service.ports.iter().map(port_key);
    let exposed = service.expose.iter().map(|port| match port.contains('/') {
        true => port.clone(),
        false => format!("{port}/tcp"),
    });
    let all: BTreeSet<String> = ports.chain(exposed).collect();
    all.into_iter().collect()
}

fn port_bindings(service: &Service) -> PortMap {
    let mut bindings: PortMap = HashMap::new();
    for port in &service.ports {
        let published = port.published.clone().unwrap_or_default();
        let binding = PortBinding { host_ip: port.host_ip.clone(), host_port: Some(published) };
        bindings.entry(port_key(port)).or_default().get_or_insert_default().push(binding);
    }
    bindings
}

fn port_key(port: &Port) -> String {
    format!("{}/{}", port.target, port.protocol.as_deref().unwrap_or("tcp"))
}

fn log_config(service: &Service) -> Option<HostConfigLogConfig> {
    let logging = service.logging.as_ref()?;
    // An option without a value is one that was not set.
    let options = logging.options.iter();
    let options: HashMap<_, _> =
        options.filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
    Some(HostConfigLogConfig { typ: logging.driver.clone(), config: some(options) })
}

fn cgroupns_mode(service: &Service) -> Result<Option<HostConfigCgroupnsModeEnum>, SpecError> {
    match service.cgroup.as_deref() {
        None => Ok(None),
        Some("host") => Ok(Some(HostConfigCgroupnsModeEnum::HOST)),
        Some("private") => Ok(Some(HostConfigCgroupnsModeEnum::PRIVATE)),
        Some(other) => Err(SpecError::Value {
            key: "cgroup",
            value: other.to_owned(),
            expected: "`host` or `private`",
        }),
    }
}

/// Old manifests separate by a colon, Docker by an equals sign; `no-new-privileges:true` is the
/// one that Docker knows with a colon.
fn security_opt(option: &str) -> String {
    match option.split_once(':') {
        Some((name @ ("label" | "apparmor" | "seccomp"), value)) => format!("{name}={value}"),
        Some(_) | None => option.to_owned(),
    }
}

fn texts(pairs: &BTreeMap<String, String>) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Docker counts in signed numbers; what does not fit is as good as endless.
fn int64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Compose takes any number where Docker takes a whole one.
#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
fn whole(number: f64) -> i64 {
    number.round() as i64
}

/// `None` for no, so that what is not asked for is not sent.
fn yes(wanted: bool) -> Option<bool> {
    wanted.then_some(true)
}

/// `None` for what is empty: Docker then takes what the image or its own default says.
fn some<C: IntoIterator>(collection: C) -> Option<C>
where
    for<'a> &'a C: IntoIterator,
{
    let empty = (&collection).into_iter().next().is_none();
    (!empty).then_some(collection)
}
