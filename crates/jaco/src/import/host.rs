//! What a container has of its host besides mounts and networks: limits, capabilities, namespaces, devices.

use serde_json::{Map, Value, json};

use super::amount::{bytes, bytes_if_set, cores_if_set};
use super::attachment::of_container;
use super::found::Findings;
use super::inspected::{Device, DeviceRequest, HostConfig, Ulimit};
use super::scene::Scene;
use super::section::{Section, pairs};

/// What the engine gives every container.
const SHM_BYTES: i64 = 64 << 20;
const RUNTIMES: [&str; 3] = ["", "runc", "io.containerd.runc.v2"];
const LOG_DRIVER: &str = "json-file";

/// `deploy.resources`; nothing if there are no limits.
pub(super) fn resources(host: &HostConfig) -> Value {
    let mut limits = Section::default();
    limits.put("cpus", cores_if_set(host.nano_cpus));
    limits.put("memory", bytes_if_set(host.memory));
    limits.put("pids", (host.pids_limit > 0).then_some(host.pids_limit));
    let mut reservations = Section::default();
    reservations.put("memory", bytes_if_set(host.memory_reservation));
    let devices: Vec<Value> = host.device_requests.iter().map(device_request).collect();
    reservations.put("devices", devices);
    let mut resources = Section::default();
    resources.put("limits", limits);
    resources.put("reservations", reservations);
    resources.into()
}

fn device_request(request: &DeviceRequest) -> Value {
    let mut section = Section::default();
    section.put("driver", request.driver.as_str());
    section.put("device_ids", json!(request.device_ids));
    match request.count {
        -1 => section.set("count", "all"),
        count => section.number("count", count),
    }
    section.put("capabilities", json!(request.capabilities.first().cloned().unwrap_or_default()));
    section.put("options", pairs(&request.options));
    section.into()
}

/// Adds the keys of a service that have no place of their own.
pub(super) fn put_options(
    section: &mut Section,
    service: &str,
    host: &HostConfig,
    scene: &Scene<'_>,
    findings: &mut Findings,
) {
    section.flag("privileged", host.privileged);
    section.put("cap_add", json!(host.cap_add));
    section.put("cap_drop", json!(host.cap_drop));
    section.put("security_opt", json!(security_options(host)));
    section.flag("read_only", host.readonly_rootfs);
    section.put("init", host.init);
    section.put("sysctls", pairs(&host.sysctls));
    section.put("ulimits", ulimits(host));
    section.put("group_add", json!(host.group_add));
    section.put("devices", devices(host));
    section.put("device_cgroup_rules", json!(host.device_cgroup_rules));
    put_namespaces(section, service, host, scene, findings);
    section.put("dns", json!(host.dns));
    section.put("dns_opt", json!(host.dns_options));
    section.put("dns_search", json!(host.dns_search));
    section.put("extra_hosts", json!(host.extra_hosts));
    put_amounts(section, host);
    section.put("storage_opt", pairs(&host.storage_opt));
    section.put("cgroup_parent", host.cgroup_parent.as_str());
    let runtime = host.runtime.as_str();
    section.put("runtime", if RUNTIMES.contains(&runtime) { "" } else { runtime });
    section.put("logging", logging(host));
    if host.publish_all_ports {
        findings.differs(
            service,
            "ports that its image exposes are not published by themselves: list them in `ports`",
        );
    }
}

/// The options that a user gave. Engines add one to containers that share namespaces which SELinux would keep apart.
fn security_options(host: &HostConfig) -> Vec<&String> {
    let shares = |mode: &String| mode == "host" || mode.starts_with("container:");
    let is_shared = host.privileged || shares(&host.ipc_mode) || shares(&host.pid_mode);
    let is_added = |option: &str| is_shared && option.starts_with("label=");
    host.security_opt.iter().filter(|option| !is_added(option)).collect()
}

fn put_amounts(section: &mut Section, host: &HostConfig) {
    let is_own = host.shm_size != 0 && host.shm_size != SHM_BYTES;
    section.put("shm_size", is_own.then(|| bytes(host.shm_size)));
    // Without a limit of its own, swap is as much as memory again.
    match host.memory_swap {
        -1 => section.set("memswap_limit", -1),
        swap if swap == host.memory.saturating_mul(2) => {}
        swap => section.put("memswap_limit", bytes_if_set(swap)),
    }
    section.put("mem_swappiness", host.memory_swappiness.filter(|share| *share >= 0));
    section.number("cpu_shares", host.cpu_shares);
    section.number("cpu_period", host.cpu_period);
    section.number("cpu_quota", host.cpu_quota);
    section.number("cpu_rt_period", host.cpu_realtime_period);
    section.number("cpu_rt_runtime", host.cpu_realtime_runtime);
    section.put("cpuset", host.cpuset_cpus.as_str());
    if host.blkio_weight != 0 {
        section.set("blkio_config", json!({ "weight": host.blkio_weight }));
    }
    section.number("oom_score_adj", host.oom_score_adj);
    section.flag("oom_kill_disable", host.oom_kill_disable);
}

fn put_namespaces(
    section: &mut Section,
    service: &str,
    host: &HostConfig,
    scene: &Scene<'_>,
    findings: &mut Findings,
) {
    for (key, mode) in [("ipc", &host.ipc_mode), ("pid", &host.pid_mode)] {
        match mode.strip_prefix("container:") {
            Some(container) => {
                let namespace = format!("{key} namespace");
                section.put(key, of_container(container, &namespace, service, scene, findings));
            }
            None if matches!(mode.as_str(), "host" | "none") => section.set(key, mode.as_str()),
            None => {}
        }
    }
    section.put("uts", host.uts_mode.as_str());
    section.put("userns_mode", host.userns_mode.as_str());
}

fn ulimits(host: &HostConfig) -> Value {
    let pair =
        |limit: &Ulimit| (limit.name.clone(), json!({ "soft": limit.soft, "hard": limit.hard }));
    Value::Object(host.ulimits.iter().map(pair).collect::<Map<_, _>>())
}

fn devices(host: &HostConfig) -> Vec<String> {
    let device = |device: &Device| {
        format!(
            "{}:{}:{}",
            device.path_on_host, device.path_in_container, device.cgroup_permissions
        )
    };
    host.devices.iter().map(device).collect()
}

/// The log driver, unless it is the engine's default without options.
fn logging(host: &HostConfig) -> Value {
    let log = &host.log_config;
    if log.config.is_empty() && matches!(log.driver.as_str(), "" | LOG_DRIVER) {
        return Value::Null;
    }
    let mut section = Section::default();
    section.put("driver", log.driver.as_str());
    section.put("options", pairs(&log.config));
    section.into()
}
