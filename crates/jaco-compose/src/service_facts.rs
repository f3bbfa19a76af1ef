//! Reads the facts of one service out of its final tree and its overrides.
//!
//! Precedence everywhere: jaco.yaml, then the compose file, then the default.

use std::collections::BTreeSet;

use jaco_types::Millis;
use jaco_types::spec::{OnNodeLoss, Privilege};
use jaco_types::unit::{Bytes, MilliCores, Resources};

use crate::audit::is_engine_socket;
use crate::container::Contents;
use crate::facts::{
    Bounds, Condition, Constraints, Dependency, Facts, GpuRequest, Healthcheck, Limits, Placement,
    Protocol, PublishedPort, Pull, Required, Restart, Storage, UpdatePolicy,
};
use crate::node::{Map, Node, Value};
use crate::nodes;
use crate::overlay::{JacoYaml, ServiceOverlay, UpdateOverlay, read_cpu, read_memory, read_update};
use crate::problem::{Code, Report};
use crate::resolve::{self, Override};
use crate::units;

/// Docker's own default.
const DEFAULT_GRACE_NANOS: u64 = 10_000_000_000;

/// What the facts of a service are made from.
pub(crate) struct Scene<'s> {
    pub(crate) name: &'s str,
    pub(crate) service: &'s Map,
    pub(crate) overlay: &'s JacoYaml,
    pub(crate) constraints: &'s Constraints,
    pub(crate) own: Option<&'s ServiceOverlay>,
    pub(crate) given: Option<&'s Override>,
    pub(crate) contents: &'s Contents,
}

/// Reads everything; `compose` and `manifest` take problems of either file.
pub(crate) fn facts(scene: &Scene<'_>, compose: &mut Report, manifest: &mut Report) -> Facts {
    let (service, own) = (scene.service, scene.own);
    let deploy = service.get("deploy");
    let placement = resolve::placement(service, own);
    let bounds = own.map(|own| own.bounds).unwrap_or_default();
    let mut constraints = own.map(|own| own.constraints.clone()).unwrap_or_default();
    let mut spread = own.map(|own| own.spread.clone()).unwrap_or_default();
    nodes::placement(deploy, &mut constraints, &mut spread, compose);
    constraints.rules.extend(text(service, "platform").into_iter().flat_map(nodes::platform));
    spread.extend(scene.overlay.spread.iter().cloned());
    let update = update_policy(deploy, "update_config", own.map(|own| own.update), compose);
    let rollback = own.and_then(|own| own.rollback);
    let stop_grace_period_nanos = text(service, "stop_grace_period")
        .and_then(units::parse_duration_nanos)
        .unwrap_or(DEFAULT_GRACE_NANOS);
    Facts {
        image: text(service, "image").unwrap_or_default().to_owned(),
        platform: text(service, "platform").map(str::to_owned),
        pull: pull(service),
        replicas: replicas(scene, &placement, compose, manifest),
        min_allocations: own.and_then(|own| own.min_allocations).unwrap_or(0),
        max_replicas_per_node: deploy
            .and_then(|deploy| deploy.get("placement")?.get("max_replicas_per_node")?.as_int())
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0),
        ports: ports(service, compose),
        depends_on: depends_on(service),
        beside: beside(service),
        volumes_from: volumes_from(service),
        reservation: reservation(scene, bounds, manifest),
        bounds: effective_bounds(scene, bounds),
        limits: limits(service),
        storage: storage(service, scene.contents),
        healthcheck: healthcheck(service),
        restart: restart(service, compose),
        stop_grace_period_nanos,
        on_node_loss: on_node_loss(own, stop_grace_period_nanos),
        rollback: rollback_policy(deploy, rollback, compose),
        update,
        spread,
        constraints,
        deployment_constraints: scene.constraints.clone(),
        affinities: own.map(|own| own.affinities.clone()).unwrap_or_default(),
        selectors: own.map(|own| own.selectors.clone()).unwrap_or_default(),
        scoring: resolve::scoring(scene.overlay, own),
        gpus: gpus(service),
        networks: networks(service),
        privileges: privileges(service, scene.contents),
        placement,
    }
}

/// What stops by itself is replaced once it has had its time to stop, rounded up.
fn on_node_loss(own: Option<&ServiceOverlay>, grace_nanos: u64) -> OnNodeLoss {
    match own.and_then(|own| own.on_node_loss).unwrap_or_default() {
        OnNodeLoss::StopSelf { after, .. } => {
            OnNodeLoss::StopSelf { after, grace: Millis(grace_nanos.div_ceil(1_000_000)) }
        }
        other @ (OnNodeLoss::Replace { .. } | OnNodeLoss::Wait) => other,
    }
}

fn text<'m>(map: &'m Map, key: &str) -> Option<&'m str> {
    map.get(key).and_then(Node::as_str)
}

fn items<'m>(map: &'m Map, key: &str) -> &'m [Node] {
    map.get(key).and_then(Node::as_seq).unwrap_or_default()
}

/// Walks `a.b.c` from a node.
fn below<'n>(node: Option<&'n Node>, path: &[&str]) -> Option<&'n Node> {
    path.iter().try_fold(node?, |node, key| node.get(key))
}

fn pull(service: &Map) -> Pull {
    let Some(node) = service.get("pull_policy") else {
        return Pull::Missing;
    };
    match node.as_str().unwrap_or_default() {
        "never" => Pull::Never,
        "missing" | "if_not_present" | "build" => Pull::Missing,
        // The rest begin with `every_`; anything else was refused when the file was loaded.
        _ => Pull::Always,
    }
}

fn replicas(
    scene: &Scene<'_>,
    placement: &Placement,
    compose: &mut Report,
    manifest: &mut Report,
) -> u32 {
    if matches!(placement, Placement::Global) {
        return 1;
    }
    if let Some(replicas) = scene.own.and_then(|own| own.replicas) {
        return replicas;
    }
    let deploy = scene.service.get("deploy");
    let Some(node) = below(deploy, &["replicas"]).or_else(|| scene.service.get("scale")) else {
        return 1;
    };
    let Some(replicas) = node.as_int().and_then(|number| u32::try_from(number).ok()) else {
        compose
            .error(node.pos, Code::InvalidValue, "the number of replicas is not one")
            .expected("a whole number from 0");
        return 1;
    };
    if let (Placement::Hosts(hosts), Some(own)) = (placement, scene.own)
        && replicas as usize > hosts.len()
    {
        let name = scene.name;
        let message =
            format!("service `{name}` wants {replicas} replicas on {} pinned hosts", hosts.len());
        manifest
            .error(own.place("hosts"), Code::ReplicasExceedPinnedHosts, message)
            .suggest("add hosts, or lower `replicas`");
    }
    replicas
}

fn ports(service: &Map, report: &mut Report) -> Vec<PublishedPort> {
    let mut ports = Vec::new();
    for node in items(service, "ports") {
        let target = node.get("target").and_then(Node::as_int).and_then(|n| u16::try_from(n).ok());
        let Some(target) = target.filter(|target| *target > 0) else {
            report
                .error(node.pos, Code::InvalidValue, "a port has no valid `target`")
                .expected("a number from 1 to 65535");
            continue;
        };
        let protocol = node.get_str("protocol").unwrap_or("tcp").to_ascii_lowercase();
        let protocol = match protocol.as_str() {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "sctp" => Protocol::Sctp,
            other => {
                report
                    .error(node.pos, Code::InvalidValue, format!("`{other}` is not a protocol"))
                    .expected("`tcp`, `udp` or `sctp`");
                continue;
            }
        };
        let published = node.get_str("published").unwrap_or("0");
        let (first, last) = published.split_once('-').unwrap_or((published, published));
        let (Ok(first), Ok(last)) = (first.parse(), last.parse()) else {
            report
                .error(node.pos, Code::InvalidValue, format!("`{published}` is not a host port"))
                .expected("a number from 1 to 65535, or a range");
            continue;
        };
        let host_ip = node.get_str("host_ip").map(str::to_owned);
        ports.push(PublishedPort { first, last, protocol, host_ip, target });
    }
    ports.sort();
    ports
}

fn depends_on(service: &Map) -> Vec<Dependency> {
    let map = service.get("depends_on").and_then(Node::as_map);
    let entries = map.into_iter().flat_map(Map::iter);
    entries
        .map(|entry| Dependency {
            service: entry.key.to_string(),
            condition: match entry.node.get_str("condition") {
                Some("service_healthy") => Condition::Healthy,
                Some("service_completed_successfully") => Condition::CompletedSuccessfully,
                Some(_) | None => Condition::Started,
            },
            required: match entry.node.get("required").and_then(Node::as_bool) {
                Some(false) => Required::No,
                Some(true) | None => Required::Yes,
            },
        })
        .collect()
}

fn beside(service: &Map) -> BTreeSet<String> {
    let namespaces = ["network_mode", "ipc", "pid", "uts", "cgroup"]
        .into_iter()
        .filter_map(|key| text(service, key)?.strip_prefix("service:"));
    namespaces.map(str::to_owned).collect()
}

fn volumes_from(service: &Map) -> BTreeSet<String> {
    let mounts = items(service, "volumes_from").iter().filter_map(Node::as_str);
    let mounts = mounts
        .filter(|from| !from.starts_with("container:"))
        .map(|from| from.split(':').next().unwrap_or(from));
    mounts.map(str::to_owned).collect()
}

/// R-RES-2: the environment's override, the compose reservation, the manifest's maximum, nothing.
fn reservation(scene: &Scene<'_>, bounds: Bounds, report: &mut Report) -> Resources {
    let reservations = below(scene.service.get("deploy"), &["resources", "reservations"]);
    let written_memory = reservations
        .and_then(|node| node.get_str("memory"))
        .or_else(|| text(scene.service, "mem_reservation"))
        .and_then(|text| text.parse().ok());
    let written_cpu = reservations.and_then(|node| millis(node.get("cpus")?));
    let given = scene.given.cloned().unwrap_or_default();
    let given_memory = given_amount(scene, "memory", given.memory.as_deref(), read_memory, report);
    let given_cpu = given_amount(scene, "cpu", given.cpu.as_deref(), read_cpu, report);
    let memory = given_memory.or(written_memory).unwrap_or(bounds.memory_max.0);
    let cpu = given_cpu.or(written_cpu).unwrap_or(bounds.cpu_max.0);
    let checks = [
        ("memory", memory, bounds.memory_min.0, bounds.memory_max.0, "bytes"),
        ("cpu", cpu, bounds.cpu_min.0, bounds.cpu_max.0, "thousandths of a core"),
    ];
    for (what, amount, min, max, unit) in checks {
        if (max > 0 && amount > max) || amount < min {
            let name = scene.name;
            let message = format!(
                "service `{name}` reserves {amount} {unit} of {what}, outside of {min} to {max}"
            );
            let pos = scene.own.map(|own| own.place("resources")).unwrap_or_default();
            report.error(pos, Code::UnsupportedResourceConfiguration, message);
        }
    }
    Resources { cpu: MilliCores(cpu), memory: Bytes(memory) }
}

fn given_amount(
    scene: &Scene<'_>,
    what: &str,
    text: Option<&str>,
    read: fn(&str) -> Option<u64>,
    report: &mut Report,
) -> Option<u64> {
    let text = text?;
    let amount = read(text);
    if amount.is_none() {
        let message =
            format!("the override `{what}` of service `{}` cannot be `{text}`", scene.name);
        report.error_nowhere(Code::UnsupportedResourceConfiguration, message);
    }
    amount
}

/// Without bounds in the manifest, an override is both bounds.
fn effective_bounds(scene: &Scene<'_>, mut bounds: Bounds) -> Bounds {
    let Some(given) = scene.given else {
        return bounds;
    };
    if let Some(memory) = given.memory.as_deref().and_then(read_memory)
        && bounds.memory_max == Bytes(0)
    {
        (bounds.memory_min, bounds.memory_max) = (Bytes(memory), Bytes(memory));
    }
    if let Some(cpu) = given.cpu.as_deref().and_then(read_cpu)
        && bounds.cpu_max == MilliCores(0)
    {
        (bounds.cpu_min, bounds.cpu_max) = (MilliCores(cpu), MilliCores(cpu));
    }
    bounds
}

fn limits(service: &Map) -> Limits {
    let limits = below(service.get("deploy"), &["resources", "limits"]);
    let cpus = limits.and_then(|node| node.get("cpus")).or_else(|| service.get("cpus"));
    let memory = limits.and_then(|node| node.get_str("memory"));
    let memory = memory.or_else(|| text(service, "mem_limit"));
    let pids = limits.and_then(|node| node.get("pids")).or_else(|| service.get("pids_limit"));
    Limits {
        cpu: cpus.and_then(millis).filter(|millis| *millis > 0).map(MilliCores),
        memory: memory.and_then(|text| text.parse().ok()).map(Bytes),
        pids: pids.and_then(Node::as_int),
    }
}

/// Cores as thousandths, exactly: the number is read from its decimal form.
fn millis(node: &Node) -> Option<u64> {
    let text = match &node.value {
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Str(_) | Value::Seq(_) | Value::Map(_) => {
            return None;
        }
    };
    units::scale(&text, 1_000)
}

/// What is shipped is wherever the replica is, and ties it to no node.
fn storage(service: &Map, contents: &Contents) -> Storage {
    let keeps = items(service, "volumes").iter().any(|mount| {
        let stays = mount.get_str("source").is_some_and(|source| {
            !is_engine_socket(source) && !contents.binds.contains_key(source)
        });
        stays && matches!(mount.get_str("type"), Some("bind" | "volume"))
    });
    if keeps { Storage::Stateful } else { Storage::Stateless }
}

fn healthcheck(service: &Map) -> Healthcheck {
    let Some(node) = service.get("healthcheck") else {
        return Healthcheck::Image;
    };
    let test = node.get("test").and_then(Node::as_seq).unwrap_or_default();
    let first = test.first().and_then(Node::as_str);
    let off = node.get("disable").and_then(Node::as_bool) == Some(true) || first == Some("NONE");
    match (off, first) {
        (true, _) => Healthcheck::Disabled,
        (false, Some(_)) => Healthcheck::Declared,
        (false, None) => Healthcheck::Image,
    }
}

fn restart(service: &Map, report: &mut Report) -> Restart {
    let policy = below(service.get("deploy"), &["restart_policy"]);
    if let Some(condition) = policy.and_then(|policy| policy.get("condition")) {
        let attempts = policy.and_then(|policy| policy.get("max_attempts")?.as_int());
        let max_retries = attempts.and_then(|number| u32::try_from(number).ok());
        match condition.as_str().unwrap_or_default() {
            "none" => return Restart::Never,
            "on-failure" => return Restart::OnFailure { max_retries },
            "any" => return Restart::Always,
            other => {
                report
                    .error(
                        condition.pos,
                        Code::InvalidValue,
                        format!("`{other}` is not a condition"),
                    )
                    .expected("`none`, `on-failure` or `any`");
            }
        }
    }
    let Some(node) = service.get("restart") else {
        return Restart::Always;
    };
    let text = node.as_str().unwrap_or_default();
    match text.split_once(':').unwrap_or((text, "")) {
        ("no", "") => Restart::Never,
        ("always" | "unless-stopped", "") => Restart::Always,
        ("on-failure", "") => Restart::OnFailure { max_retries: None },
        ("on-failure", number) if number.parse::<u32>().is_ok() => {
            Restart::OnFailure { max_retries: number.parse().ok() }
        }
        _ => {
            report
                .error(node.pos, Code::InvalidValue, format!("`{text}` is not a restart policy"))
                .expected("`no`, `always`, `unless-stopped`, `on-failure` or `on-failure:N`");
            Restart::Always
        }
    }
}

/// What goes back has nothing to go back to.
fn rollback_policy(
    deploy: Option<&Node>,
    own: Option<UpdateOverlay>,
    report: &mut Report,
) -> UpdatePolicy {
    let action = below(deploy, &["rollback_config"]).and_then(|back| back.get("failure_action"));
    if let Some(action) = action.filter(|action| action.as_str() == Some("rollback")) {
        let message = "`failure_action` of a rollback cannot be `rollback`";
        report.error(action.pos, Code::InvalidValue, message).expected("`pause` or `continue`");
    }
    update_policy(deploy, "rollback_config", own, report)
}

fn update_policy(
    deploy: Option<&Node>,
    key: &str,
    own: Option<UpdateOverlay>,
    report: &mut Report,
) -> UpdatePolicy {
    let written = read_update(below(deploy, &[key]), report);
    let own = own.unwrap_or_default();
    let default = UpdatePolicy::default();
    UpdatePolicy {
        parallelism: own.parallelism.or(written.parallelism).unwrap_or(default.parallelism),
        delay_nanos: own.delay_nanos.or(written.delay_nanos).unwrap_or(default.delay_nanos),
        monitor_nanos: own.monitor_nanos.or(written.monitor_nanos),
        step_timeout_nanos: own.step_timeout_nanos,
        max_failure_permille: own
            .max_failure_permille
            .or(written.max_failure_permille)
            .unwrap_or(default.max_failure_permille),
        failure_action: own
            .failure_action
            .or(written.failure_action)
            .unwrap_or(default.failure_action),
        order: own.order.or(written.order).unwrap_or(default.order),
    }
}

fn gpus(service: &Map) -> Vec<GpuRequest> {
    let reserved = below(service.get("deploy"), &["resources", "reservations", "devices"]);
    let reserved = reserved.and_then(Node::as_seq).unwrap_or_default();
    let texts = |node: &Node, key: &str| -> Vec<String> {
        let list = node.get(key).and_then(Node::as_seq).unwrap_or_default();
        list.iter().filter_map(Node::as_str).map(str::to_owned).collect()
    };
    let requested = items(service, "gpus").iter().map(|node| (node, true));
    requested
        .chain(reserved.iter().map(|node| (node, false)))
        .map(|(node, gpu)| {
            let mut capabilities = texts(node, "capabilities");
            if gpu && !capabilities.iter().any(|name| name == "gpu") {
                capabilities.push("gpu".to_owned());
            }
            GpuRequest {
                count: node
                    .get("count")
                    .and_then(Node::as_int)
                    .and_then(|number| u32::try_from(number).ok()),
                device_ids: texts(node, "device_ids"),
                driver: node.get_str("driver").map(str::to_owned),
                capabilities,
            }
        })
        .collect()
}

/// By priority, the highest first, then by name.
fn networks(service: &Map) -> Vec<String> {
    let map = service.get("networks").and_then(Node::as_map);
    let mut list: Vec<(i64, String)> = map
        .into_iter()
        .flat_map(Map::iter)
        .map(|entry| {
            let priority = entry.node.get("priority").and_then(Node::as_int).unwrap_or(0);
            (-priority, entry.key.to_string())
        })
        .collect();
    list.sort();
    list.into_iter().map(|(_, name)| name).collect()
}

fn privileges(service: &Map, contents: &Contents) -> BTreeSet<Privilege> {
    let on = |key: &str| service.get(key).and_then(Node::as_bool) == Some(true);
    let host = |key: &str| text(service, key) == Some("host");
    let has = |key: &str| !items(service, key).is_empty();
    let mounts = items(service, "volumes");
    let is_socket = |mount: &Node| mount.get_str("source").is_some_and(is_engine_socket);
    // What is shipped is no part of the node.
    let is_path = |mount: &Node| {
        let source = mount.get_str("source").filter(|path| !contents.binds.contains_key(*path));
        mount.get_str("type") == Some("bind") && source.is_some() && !is_socket(mount)
    };
    [
        (on("privileged"), Privilege::Privileged),
        (has("security_opt"), Privilege::SecurityOpt),
        (mounts.iter().any(is_socket), Privilege::EngineSocket),
        (host("network_mode"), Privilege::HostNetwork),
        (host("pid"), Privilege::HostPid),
        (host("ipc"), Privilege::HostIpc),
        (host("userns_mode"), Privilege::HostUsers),
        (mounts.iter().any(is_path), Privilege::HostPath),
        (has("devices") || has("device_cgroup_rules"), Privilege::Devices),
        (has("cap_add"), Privilege::Capabilities),
    ]
    .into_iter()
    .filter_map(|(asked, privilege)| asked.then_some(privilege))
    .collect()
}
