//! Converts a canonical container spec to the body of Docker's create request. Pure; [`Needs`]
//! lists what has to be looked up or created before.

mod mount;
mod resource;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bollard::models::{
    ContainerCreateBody, EndpointIpamConfig, EndpointSettings, HealthConfig, HostConfig,
    HostConfigCgroupnsModeEnum, HostConfigLogConfig, NetworkingConfig, PortBinding, PortMap,
    RestartPolicy, RestartPolicyNameEnum,
};
use jaco_agent::engine::{AttachedNetwork, ContainerRequest, Owner};
use jaco_compose::model::{Attachment, ContainerSpec, Health, ModelError, Port, Service};
use jaco_types::{DeploymentName, NetworkScope, VolumeClass};

use crate::names;

/// Why a spec cannot be converted. Names the key.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The spec cannot be parsed.
    #[error(transparent)]
    Unreadable(#[from] ModelError),
    /// A value that Docker does not accept.
    #[error("`{key}`: {value:?} is not {expected}")]
    Value {
        /// Key of the spec.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is expected.
        expected: &'static str,
    },
    /// The key is not supported by this engine.
    #[error("`{key}`: {reason}")]
    Unsupported {
        /// Key of the spec.
        key: &'static str,
        /// Reason.
        reason: String,
    },
    /// A namespace is shared with a service without a container on this node.
    #[error("`{key}`: no container of service {service:?} runs on this node")]
    NoNeighbour {
        /// Key of the spec.
        key: &'static str,
        /// The service.
        service: String,
    },
}

/// What must exist before the container is created.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Needs {
    /// Networks, in the order of attachment.
    pub networks: Vec<NeededNetwork>,
    /// External volumes.
    pub external_volumes: BTreeSet<String>,
    /// Volumes of a class, by name.
    pub classed_volumes: Vec<ClassedVolume>,
    /// Services whose namespaces are shared.
    pub namespace_peers: BTreeSet<String>,
}

/// A volume of a class that the container mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassedVolume {
    /// Its name on the engine.
    pub name: String,
    /// Its class.
    pub class: VolumeClass,
    /// The labels that it gets.
    pub labels: HashMap<String, String>,
}

/// A network of the container.
#[derive(Debug, Clone, PartialEq)]
pub struct NeededNetwork {
    /// Its name on the engine.
    pub name: String,
    /// Whether the network has external connectivity.
    pub reach: NetworkReach,
    /// Who creates it.
    pub origin: NetworkOrigin,
    /// Endpoint settings of the container.
    pub endpoint: EndpointSettings,
}

/// Whether the network has external connectivity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkReach {
    /// It has.
    Outside,
    /// It has not.
    Internal,
}

/// Who creates a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkOrigin {
    /// This node, for its own replicas.
    Node,
    /// This node, as every other one that has an instance in this network of the cluster.
    Cluster(AttachedNetwork),
    /// External: it must exist.
    External,
}

/// Parses a canonical spec.
///
/// # Errors
/// If it is not valid.
pub fn read(text: &str) -> Result<ContainerSpec, SpecError> {
    Ok(ContainerSpec::parse(text)?)
}

/// The volumes that a container may mount, by the names that its manifest gives them, with the engine's.
pub(crate) fn volumes(
    owner: &Owner,
    deployment: &DeploymentName,
    container: &ContainerSpec,
) -> BTreeMap<String, String> {
    mount::volumes(owner, deployment, container)
}

/// What a manifest of this deployment calls a volume of this name.
pub(crate) fn volume_key(owner: &Owner, deployment: &DeploymentName, name: &str) -> String {
    mount::volume_key(owner, deployment, name)
}

/// What must exist before the container is created.
#[must_use]
pub fn needs(owner: &Owner, request: &ContainerRequest, container: &ContainerSpec) -> Needs {
    let service = &container.service;
    let modes = [&service.network_mode, &service.pid, &service.ipc];
    let namespace_peers =
        modes.into_iter().flatten().filter_map(|mode| mode.strip_prefix("service:"));
    Needs {
        networks: networks(owner, request, container),
        external_volumes: mount::external_volumes(container),
        classed_volumes: mount::classed_volumes(owner, &request.service.deployment, container),
        namespace_peers: namespace_peers.map(str::to_owned).collect(),
    }
}

/// The create body. `namespace_peers` are the containers of the services listed in [`needs`].
///
/// # Errors
/// The first unsupported key.
pub fn body(
    owner: &Owner,
    request: &ContainerRequest,
    container: &ContainerSpec,
    needs: &Needs,
    namespace_peers: &BTreeMap<String, String>,
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
        host_config: Some(host_config(owner, request, container, needs, namespace_peers)?),
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
    namespace_peers: &BTreeMap<String, String>,
) -> Result<HostConfig, SpecError> {
    let service = &container.service;
    let mode = |key, mode: &Option<String>| shared_mode(key, mode.as_deref(), namespace_peers);
    let base = HostConfig {
        annotations: some(to_map(&service.annotations)),
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
        network_mode: network_mode(service, needs, namespace_peers)?,
        oom_kill_disable: yes(service.oom_kill_disable),
        oom_score_adj: service.oom_score_adj,
        pid_mode: mode("pid", &service.pid)?,
        port_bindings: some(port_bindings(service)),
        privileged: yes(service.privileged),
        readonly_rootfs: yes(service.read_only),
        // JACO replaces instances; Docker must never restart an old one.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        runtime: service.runtime.clone(),
        security_opt: some(
            service.security_opt.iter().map(|option| security_opt(option)).collect(),
        ),
        storage_opt: some(to_map(&service.storage_opt)),
        sysctls: some(to_map(&service.sysctls)),
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
    if !request.networks.is_empty() {
        return cluster_networks(owner, request, container);
    }
    let nothing = Attachment::default();
    let mut attachments: Vec<(&str, &Attachment)> =
        service.networks.iter().map(|(key, attachment)| (key.as_str(), attachment)).collect();
    if attachments.is_empty() {
        attachments.push(("default", &nothing));
    }
    // The first network has the default route; the sort is stable, so names break ties.
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

/// The networks of the cluster that a container joins which was created in others. The default route stays where it is.
#[must_use]
pub fn joined(owner: &Owner, request: &ContainerRequest, container: &ContainerSpec) -> Needs {
    let mut networks = networks(owner, request, container);
    for network in &mut networks {
        network.endpoint.gw_priority = Some(-1);
    }
    Needs { networks, ..Needs::default() }
}

/// The networks of the cluster of a container. It asks the router for names. The aliases are for the engine's resolver,
/// which containers ask that were created in networks of the node and joined these later: it knows the containers of this
/// node alone.
fn cluster_networks(
    owner: &Owner,
    request: &ContainerRequest,
    container: &ContainerSpec,
) -> Vec<NeededNetwork> {
    let count = request.networks.len();
    let nothing = Attachment::default();
    let attachment = |scope: &NetworkScope| match scope {
        NetworkScope::Deployment { key, .. } => container.service.networks.get(key.as_str()),
        NetworkScope::Shared(_) => None,
    };
    let deployment = &request.service.deployment;
    let aliases = |scope| {
        let attachment = attachment(scope).unwrap_or(&nothing);
        aliases(deployment, request, container, attachment)
    };
    let needed = request.networks.iter().enumerate().map(|(place, network)| NeededNetwork {
        name: names::cluster_network(owner, network.id),
        reach: match network.reach {
            jaco_types::NetworkReach::Outside => NetworkReach::Outside,
            jaco_types::NetworkReach::Internal => NetworkReach::Internal,
        },
        origin: NetworkOrigin::Cluster(network.clone()),
        endpoint: EndpointSettings {
            ipam_config: Some(EndpointIpamConfig {
                ipv4_address: Some(network.address.to_string()),
                ..EndpointIpamConfig::default()
            }),
            // The first one has the default route; engines that do not know this take the one with the
            // lowest number.
            gw_priority: i64::try_from(count - place).ok(),
            aliases: Some(aliases(&network.scope)),
            ..EndpointSettings::default()
        },
    });
    needed.collect()
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
        origin: if external { NetworkOrigin::External } else { NetworkOrigin::Node },
        endpoint: EndpointSettings {
            aliases: Some(aliases(deployment, request, container, attachment)),
            gw_priority: attachment.gw_priority.map(whole),
            ..EndpointSettings::default()
        },
    }
}

/// Replicas of a service share its DNS names, so that a lookup returns all of them.
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
    namespace_peers: &BTreeMap<String, String>,
) -> Result<Option<String>, SpecError> {
    match needs.networks.first() {
        Some(network) => Ok(Some(network.name.clone())),
        None => shared_mode("network_mode", service.network_mode.as_deref(), namespace_peers),
    }
}

/// `service:<name>` becomes the container of that service on this node.
fn shared_mode(
    key: &'static str,
    mode: Option<&str>,
    namespace_peers: &BTreeMap<String, String>,
) -> Result<Option<String>, SpecError> {
    let Some(service) = mode.and_then(|mode| mode.strip_prefix("service:")) else {
        return Ok(mode.map(str::to_owned));
    };
    match namespace_peers.get(service) {
        Some(container) => Ok(Some(format!("container:{container}"))),
        None => Err(SpecError::NoNeighbour { key, service: service.to_owned() }),
    }
}

fn labels(owner: &Owner, request: &ContainerRequest, service: &Service) -> HashMap<String, String> {
    let mut labels = to_map(&service.labels);
    labels.extend(names::container_labels(owner, request));
    // Written even if there is none: neither a label of the user nor one of the image can pass for a hook.
    let hooks = serde_json::to_string(&service.pre_stop).expect("hooks are plain data");
    labels.insert(names::PRE_STOP.to_owned(), hooks);
    labels
}

/// A variable without a value is removed from the image's environment.
fn environment(service: &Service) -> Vec<String> {
    let pairs = service.environment.iter();
    pairs
        .map(|(key, value)| value.as_ref().map_or(key.clone(), |value| format!("{key}={value}")))
        .collect()
}

fn extra_hosts(service: &Service) -> Vec<String> {
    let hosts = service.extra_hosts.iter();
    // Compose separates by `=`, because addresses may contain colons; Docker by the first colon.
    hosts.map(|host| host.replacen('=', ":", 1)).collect()
}

/// Source of a container's healthcheck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// The manifest.
    Declared,
    /// The image, if it has one: the manifest sets none, or only its timing.
    OfImage,
    /// Disabled.
    Off,
}

/// Source of the healthcheck of a service's containers.
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

/// Docker takes whole seconds; fractions are rounded up, so that the grace period is never shorter.
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
    // Options without a value are not set.
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

/// Old manifests separate by a colon, Docker by an equals sign, except for
/// `no-new-privileges:true`.
fn security_opt(option: &str) -> String {
    match option.split_once(':') {
        Some((name @ ("label" | "apparmor" | "seccomp"), value)) => format!("{name}={value}"),
        Some(_) | None => option.to_owned(),
    }
}

fn to_map(pairs: &BTreeMap<String, String>) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Docker takes signed numbers; larger values are practically unlimited.
fn int64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Compose allows any number where Docker takes an integer.
#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
fn whole(number: f64) -> i64 {
    number.round() as i64
}

/// `None` for false, so that defaults are not sent.
fn yes(wanted: bool) -> Option<bool> {
    wanted.then_some(true)
}

/// `None` if empty: Docker then uses the image's value or its default.
fn some<C: IntoIterator>(collection: C) -> Option<C>
where
    for<'a> &'a C: IntoIterator,
{
    let empty = (&collection).into_iter().next().is_none();
    (!empty).then_some(collection)
}
