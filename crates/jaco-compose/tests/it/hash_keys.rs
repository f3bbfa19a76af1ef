//! The container hash against the key table: every key that reaches a container flips it, every key
//! that only places or orders replicas leaves it alone, and no key is in neither list. R-HASH-1.

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::support::{Class, Inside, Object, Shape, TOP_LEVEL};
use proptest::prelude::*;

use crate::util::resolve_text;

/// What stands beside the service under test, so that every value of the table is a good one.
const BESIDE: &str = "
networks: {n: {}, m: {}}
volumes: {vol: {}, unused: {}}
configs: {c: {content: c}, d: {content: d}}
secrets: {s: {environment: S}, t: {environment: T}}
";

/// A key, and two values of it that mean different containers. `-` stands for the key being absent
/// where there is no second value.
pub(crate) const REACH: &[(&str, &str, &str)] = &[
    ("annotations", "annotations: {a: b}", "annotations: {a: c}"),
    (
        "blkio_config.device_read_bps[].path",
        "blkio_config: {device_read_bps: [{path: /dev/a, rate: 1k}]}",
        "blkio_config: {device_read_bps: [{path: /dev/b, rate: 1k}]}",
    ),
    (
        "blkio_config.device_read_bps[].rate",
        "blkio_config: {device_read_bps: [{path: /dev/a, rate: 1k}]}",
        "blkio_config: {device_read_bps: [{path: /dev/a, rate: 2k}]}",
    ),
    (
        "blkio_config.device_read_iops[].path",
        "blkio_config: {device_read_iops: [{path: /dev/a, rate: 1}]}",
        "blkio_config: {device_read_iops: [{path: /dev/b, rate: 1}]}",
    ),
    (
        "blkio_config.device_read_iops[].rate",
        "blkio_config: {device_read_iops: [{path: /dev/a, rate: 1}]}",
        "blkio_config: {device_read_iops: [{path: /dev/a, rate: 2}]}",
    ),
    (
        "blkio_config.device_write_bps[].path",
        "blkio_config: {device_write_bps: [{path: /dev/a, rate: 1k}]}",
        "blkio_config: {device_write_bps: [{path: /dev/b, rate: 1k}]}",
    ),
    (
        "blkio_config.device_write_bps[].rate",
        "blkio_config: {device_write_bps: [{path: /dev/a, rate: 1k}]}",
        "blkio_config: {device_write_bps: [{path: /dev/a, rate: 2k}]}",
    ),
    (
        "blkio_config.device_write_iops[].path",
        "blkio_config: {device_write_iops: [{path: /dev/a, rate: 1}]}",
        "blkio_config: {device_write_iops: [{path: /dev/b, rate: 1}]}",
    ),
    (
        "blkio_config.device_write_iops[].rate",
        "blkio_config: {device_write_iops: [{path: /dev/a, rate: 1}]}",
        "blkio_config: {device_write_iops: [{path: /dev/a, rate: 2}]}",
    ),
    ("blkio_config.weight", "blkio_config: {weight: 300}", "blkio_config: {weight: 400}"),
    (
        "blkio_config.weight_device[].path",
        "blkio_config: {weight_device: [{path: /dev/a, weight: 300}]}",
        "blkio_config: {weight_device: [{path: /dev/b, weight: 300}]}",
    ),
    (
        "blkio_config.weight_device[].weight",
        "blkio_config: {weight_device: [{path: /dev/a, weight: 300}]}",
        "blkio_config: {weight_device: [{path: /dev/a, weight: 400}]}",
    ),
    ("cap_add", "cap_add: [NET_ADMIN]", "cap_add: [SYS_TIME]"),
    ("cap_drop", "cap_drop: [ALL]", "cap_drop: [CHOWN]"),
    ("cgroup", "cgroup: host", "cgroup: private"),
    ("cgroup_parent", "cgroup_parent: /a", "cgroup_parent: /b"),
    ("command", "command: [a]", "command: [b]"),
    (
        "configs[].gid",
        "configs: [{source: c, target: /c, gid: '1'}]",
        "configs: [{source: c, target: /c, gid: '2'}]",
    ),
    (
        "configs[].mode",
        "configs: [{source: c, target: /c, mode: 0440}]",
        "configs: [{source: c, target: /c, mode: 0400}]",
    ),
    (
        "configs[].source",
        "configs: [{source: c, target: /c}]",
        "configs: [{source: d, target: /c}]",
    ),
    (
        "configs[].target",
        "configs: [{source: c, target: /c}]",
        "configs: [{source: c, target: /d}]",
    ),
    (
        "configs[].uid",
        "configs: [{source: c, target: /c, uid: '1'}]",
        "configs: [{source: c, target: /c, uid: '2'}]",
    ),
    ("container_name", "container_name: a", "container_name: b"),
    ("cpu_period", "cpu_period: 50000", "cpu_period: 60000"),
    ("cpu_quota", "cpu_quota: 50000", "cpu_quota: 60000"),
    ("cpu_rt_period", "cpu_rt_period: 1000", "cpu_rt_period: 2000"),
    ("cpu_rt_runtime", "cpu_rt_runtime: 1000", "cpu_rt_runtime: 2000"),
    ("cpu_shares", "cpu_shares: 512", "cpu_shares: 256"),
    ("cpus", "cpus: 0.5", "cpus: 0.25"),
    ("cpuset", "cpuset: '0'", "cpuset: '1'"),
    (
        "deploy.resources.limits.cpus",
        "deploy: {resources: {limits: {cpus: '0.5'}}}",
        "deploy: {resources: {limits: {cpus: '0.6'}}}",
    ),
    (
        "deploy.resources.limits.memory",
        "deploy: {resources: {limits: {memory: 64m}}}",
        "deploy: {resources: {limits: {memory: 65m}}}",
    ),
    (
        "deploy.resources.limits.pids",
        "deploy: {resources: {limits: {pids: 64}}}",
        "deploy: {resources: {limits: {pids: 65}}}",
    ),
    (
        "deploy.resources.reservations.devices[].capabilities",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}",
        "deploy: {resources: {reservations: {devices: [{capabilities: [tpu]}]}}}",
    ),
    (
        "deploy.resources.reservations.devices[].count",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: 1}]}}}",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: 2}]}}}",
    ),
    (
        "deploy.resources.reservations.devices[].device_ids",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], device_ids: ['0']}]}}}",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], device_ids: ['1']}]}}}",
    ),
    (
        "deploy.resources.reservations.devices[].driver",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], driver: nvidia}]}}}",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], driver: cdi}]}}}",
    ),
    (
        "deploy.resources.reservations.devices[].options",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], options: {a: b}}]}}}",
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], options: {a: c}}]}}}",
    ),
    (
        "deploy.resources.reservations.memory",
        "deploy: {resources: {reservations: {memory: 8m}}}",
        "deploy: {resources: {reservations: {memory: 9m}}}",
    ),
    (
        "device_cgroup_rules",
        "device_cgroup_rules: ['c 1:3 mr']",
        "device_cgroup_rules: ['c 1:3 r']",
    ),
    (
        "devices[].permissions",
        "devices: [{source: /dev/a, target: /dev/a, permissions: r}]",
        "devices: [{source: /dev/a, target: /dev/a, permissions: rw}]",
    ),
    (
        "devices[].source",
        "devices: [{source: /dev/a, target: /dev/a}]",
        "devices: [{source: /dev/b, target: /dev/a}]",
    ),
    (
        "devices[].target",
        "devices: [{source: /dev/a, target: /dev/a}]",
        "devices: [{source: /dev/a, target: /dev/b}]",
    ),
    ("dns", "dns: 1.1.1.1", "dns: 8.8.8.8"),
    ("dns_opt", "dns_opt: [use-vc]", "dns_opt: [no-tld-query]"),
    ("dns_search", "dns_search: a.example", "dns_search: b.example"),
    ("domainname", "domainname: a.example", "domainname: b.example"),
    ("entrypoint", "entrypoint: [/a]", "entrypoint: [/b]"),
    ("environment", "environment: {A: a}", "environment: {A: b}"),
    ("expose", "expose: ['80']", "expose: ['81']"),
    ("extra_hosts", "extra_hosts: {a: 10.0.0.1}", "extra_hosts: {a: 10.0.0.2}"),
    (
        "gpus[].capabilities",
        "gpus: [{capabilities: [gpu]}]",
        "gpus: [{capabilities: [gpu, utility]}]",
    ),
    ("gpus[].count", "gpus: [{count: 1}]", "gpus: [{count: 2}]"),
    ("gpus[].device_ids", "gpus: [{device_ids: ['0']}]", "gpus: [{device_ids: ['1']}]"),
    ("gpus[].driver", "gpus: [{driver: nvidia}]", "gpus: [{driver: cdi}]"),
    ("gpus[].options", "gpus: [{options: {a: b}}]", "gpus: [{options: {a: c}}]"),
    ("group_add", "group_add: ['1']", "group_add: ['2']"),
    ("healthcheck.disable", "healthcheck: {disable: true}", "healthcheck: {test: [CMD, x]}"),
    (
        "healthcheck.interval",
        "healthcheck: {test: x, interval: 1s}",
        "healthcheck: {test: x, interval: 2s}",
    ),
    (
        "healthcheck.retries",
        "healthcheck: {test: x, retries: 1}",
        "healthcheck: {test: x, retries: 2}",
    ),
    (
        "healthcheck.start_interval",
        "healthcheck: {test: x, start_interval: 1s}",
        "healthcheck: {test: x, start_interval: 2s}",
    ),
    (
        "healthcheck.start_period",
        "healthcheck: {test: x, start_period: 1s}",
        "healthcheck: {test: x, start_period: 2s}",
    ),
    ("healthcheck.test", "healthcheck: {test: x}", "healthcheck: {test: y}"),
    (
        "healthcheck.timeout",
        "healthcheck: {test: x, timeout: 1s}",
        "healthcheck: {test: x, timeout: 2s}",
    ),
    ("hostname", "hostname: a", "hostname: b"),
    ("image", "image: a", "image: b"),
    ("init", "init: true", "init: false"),
    ("ipc", "ipc: host", "ipc: shareable"),
    ("labels", "labels: {a: b}", "labels: {a: c}"),
    ("logging.driver", "logging: {driver: local}", "logging: {driver: none}"),
    ("logging.options", "logging: {options: {a: b}}", "logging: {options: {a: c}}"),
    ("mem_limit", "mem_limit: 64m", "mem_limit: 65m"),
    ("mem_reservation", "mem_reservation: 64m", "mem_reservation: 65m"),
    ("mem_swappiness", "mem_swappiness: '1'", "mem_swappiness: '2'"),
    ("memswap_limit", "memswap_limit: 64m", "memswap_limit: 65m"),
    ("network_mode", "network_mode: host", "network_mode: none"),
    ("networks.*.aliases", "networks: {n: {aliases: [a]}}", "networks: {n: {aliases: [b]}}"),
    (
        "networks.*.gw_priority",
        "networks: {n: {gw_priority: 1}}",
        "networks: {n: {gw_priority: 2}}",
    ),
    ("networks.*.priority", "networks: {n: {priority: 1}}", "networks: {n: {priority: 2}}"),
    ("oom_kill_disable", "oom_kill_disable: true", "-"),
    ("oom_score_adj", "oom_score_adj: 1", "oom_score_adj: 2"),
    ("pid", "pid: host", "-"),
    ("pids_limit", "pids_limit: 10", "pids_limit: 20"),
    ("platform", "platform: linux/amd64", "platform: linux/arm64"),
    ("pre_stop[].command", "pre_stop: [{command: a}]", "pre_stop: [{command: b}]"),
    (
        "pre_stop[].environment",
        "pre_stop: [{command: a, environment: {K: a}}]",
        "pre_stop: [{command: a, environment: {K: b}}]",
    ),
    (
        "pre_stop[].privileged",
        "{labels: {jaco.io/allow-privileged: 'true'}, pre_stop: [{command: a, privileged: true}]}",
        "{labels: {jaco.io/allow-privileged: 'true'}, pre_stop: [{command: a}]}",
    ),
    ("pre_stop[].user", "pre_stop: [{command: a, user: a}]", "pre_stop: [{command: a, user: b}]"),
    (
        "pre_stop[].working_dir",
        "pre_stop: [{command: a, working_dir: /a}]",
        "pre_stop: [{command: a, working_dir: /b}]",
    ),
    (
        "ports[].host_ip",
        "ports: [{target: 80, published: '80', host_ip: 127.0.0.1}]",
        "ports: [{target: 80, published: '80', host_ip: 127.0.0.2}]",
    ),
    (
        "ports[].protocol",
        "ports: [{target: 80, protocol: tcp}]",
        "ports: [{target: 80, protocol: udp}]",
    ),
    (
        "ports[].published",
        "ports: [{target: 80, published: '80'}]",
        "ports: [{target: 80, published: '81'}]",
    ),
    ("ports[].target", "ports: [{target: 80}]", "ports: [{target: 81}]"),
    (
        "privileged",
        "{labels: {jaco.io/allow-privileged: 'true'}, privileged: true}",
        "labels: {jaco.io/allow-privileged: 'true'}",
    ),
    ("read_only", "read_only: true", "-"),
    ("runtime", "runtime: runc", "runtime: runsc"),
    (
        "secrets[].gid",
        "secrets: [{source: s, target: s, gid: '1'}]",
        "secrets: [{source: s, target: s, gid: '2'}]",
    ),
    (
        "secrets[].mode",
        "secrets: [{source: s, target: s, mode: 0440}]",
        "secrets: [{source: s, target: s, mode: 0400}]",
    ),
    ("secrets[].source", "secrets: [{source: s, target: s}]", "secrets: [{source: t, target: s}]"),
    ("secrets[].target", "secrets: [{source: s, target: s}]", "secrets: [{source: s, target: t}]"),
    (
        "secrets[].uid",
        "secrets: [{source: s, target: s, uid: '1'}]",
        "secrets: [{source: s, target: s, uid: '2'}]",
    ),
    (
        "security_opt",
        "{labels: {jaco.io/allow-privileged: 'true'}, security_opt: [a]}",
        "{labels: {jaco.io/allow-privileged: 'true'}, security_opt: [b]}",
    ),
    ("shm_size", "shm_size: 64m", "shm_size: 65m"),
    ("stdin_open", "stdin_open: true", "-"),
    ("stop_grace_period", "stop_grace_period: 1s", "stop_grace_period: 2s"),
    ("stop_signal", "stop_signal: SIGINT", "stop_signal: SIGQUIT"),
    ("storage_opt", "storage_opt: {size: 1G}", "storage_opt: {size: 2G}"),
    ("sysctls", "sysctls: {net.core.somaxconn: 1}", "sysctls: {net.core.somaxconn: 2}"),
    ("tmpfs", "tmpfs: /a", "tmpfs: /b"),
    ("tty", "tty: true", "-"),
    (
        "ulimits.*.hard",
        "ulimits: {nofile: {soft: 1, hard: 2}}",
        "ulimits: {nofile: {soft: 1, hard: 3}}",
    ),
    (
        "ulimits.*.soft",
        "ulimits: {nofile: {soft: 1, hard: 3}}",
        "ulimits: {nofile: {soft: 2, hard: 3}}",
    ),
    ("user", "user: '1'", "user: '2'"),
    ("userns_mode", "userns_mode: host", "-"),
    ("uts", "uts: host", "-"),
    (
        "volumes[].bind.create_host_path",
        "volumes: [{type: bind, source: /a, target: /b, bind: {create_host_path: true}}]",
        "volumes: [{type: bind, source: /a, target: /b, bind: {create_host_path: false}}]",
    ),
    (
        "volumes[].bind.propagation",
        "volumes: [{type: bind, source: /a, target: /b, bind: {propagation: rslave}}]",
        "volumes: [{type: bind, source: /a, target: /b, bind: {propagation: rshared}}]",
    ),
    (
        "volumes[].bind.recursive",
        "volumes: [{type: bind, source: /a, target: /b, bind: {recursive: disabled}}]",
        "volumes: [{type: bind, source: /a, target: /b, bind: {recursive: readonly}}]",
    ),
    (
        "volumes[].bind.selinux",
        "volumes: [{type: bind, source: /a, target: /b, bind: {selinux: z}}]",
        "volumes: [{type: bind, source: /a, target: /b, bind: {selinux: Z}}]",
    ),
    (
        "volumes[].image.subpath",
        "volumes: [{type: image, source: i, target: /b, image: {subpath: a}}]",
        "volumes: [{type: image, source: i, target: /b, image: {subpath: b}}]",
    ),
    (
        "volumes[].read_only",
        "volumes: [{type: volume, source: vol, target: /b, read_only: true}]",
        "volumes: [{type: volume, source: vol, target: /b}]",
    ),
    (
        "volumes[].source",
        "volumes: [{type: volume, source: vol, target: /b}]",
        "volumes: [{type: volume, source: unused, target: /b}]",
    ),
    (
        "volumes[].target",
        "volumes: [{type: volume, source: vol, target: /b}]",
        "volumes: [{type: volume, source: vol, target: /c}]",
    ),
    (
        "volumes[].tmpfs.mode",
        "volumes: [{type: tmpfs, target: /b, tmpfs: {mode: 448}}]",
        "volumes: [{type: tmpfs, target: /b, tmpfs: {mode: 511}}]",
    ),
    (
        "volumes[].tmpfs.size",
        "volumes: [{type: tmpfs, target: /b, tmpfs: {size: 1m}}]",
        "volumes: [{type: tmpfs, target: /b, tmpfs: {size: 2m}}]",
    ),
    (
        "volumes[].type",
        "volumes: [{type: volume, target: /b}]",
        "volumes: [{type: tmpfs, target: /b}]",
    ),
    (
        "volumes[].volume.labels",
        "volumes: [{type: volume, source: vol, target: /b, volume: {labels: {a: b}}}]",
        "volumes: [{type: volume, source: vol, target: /b, volume: {labels: {a: c}}}]",
    ),
    (
        "volumes[].volume.nocopy",
        "volumes: [{type: volume, source: vol, target: /b, volume: {nocopy: true}}]",
        "volumes: [{type: volume, source: vol, target: /b}]",
    ),
    (
        "volumes[].volume.subpath",
        "volumes: [{type: volume, source: vol, target: /b, volume: {subpath: a}}]",
        "volumes: [{type: volume, source: vol, target: /b, volume: {subpath: b}}]",
    ),
    ("working_dir", "working_dir: /a", "working_dir: /b"),
];

/// A key that places, orders, counts or restarts replicas, and a value of it.
pub(crate) const SCHEDULE: &[(&str, &str)] = &[
    ("depends_on.*.condition", "depends_on: {other: {condition: service_healthy}}"),
    ("depends_on.*.required", "depends_on: {other: {condition: service_started, required: false}}"),
    ("deploy.endpoint_mode", "deploy: {endpoint_mode: dnsrr}"),
    ("deploy.mode", "deploy: {mode: global}"),
    ("deploy.placement.constraints", "deploy: {placement: {constraints: [node.labels.a == b]}}"),
    ("deploy.placement.max_replicas_per_node", "deploy: {placement: {max_replicas_per_node: 2}}"),
    (
        "deploy.placement.preferences[].spread",
        "deploy: {placement: {preferences: [{spread: node.labels.zone}]}}",
    ),
    ("deploy.replicas", "deploy: {replicas: 4}"),
    ("deploy.resources.reservations.cpus", "deploy: {resources: {reservations: {cpus: '0.1'}}}"),
    ("deploy.restart_policy.condition", "deploy: {restart_policy: {condition: on-failure}}"),
    ("deploy.restart_policy.delay", "deploy: {restart_policy: {delay: 3s}}"),
    ("deploy.restart_policy.max_attempts", "deploy: {restart_policy: {max_attempts: 3}}"),
    ("deploy.restart_policy.window", "deploy: {restart_policy: {window: 3s}}"),
    ("deploy.rollback_config.delay", "deploy: {rollback_config: {delay: 3s}}"),
    ("deploy.rollback_config.failure_action", "deploy: {rollback_config: {failure_action: pause}}"),
    (
        "deploy.rollback_config.max_failure_ratio",
        "deploy: {rollback_config: {max_failure_ratio: 0.5}}",
    ),
    ("deploy.rollback_config.monitor", "deploy: {rollback_config: {monitor: 3s}}"),
    ("deploy.rollback_config.order", "deploy: {rollback_config: {order: stop-first}}"),
    ("deploy.rollback_config.parallelism", "deploy: {rollback_config: {parallelism: 3}}"),
    ("deploy.update_config.delay", "deploy: {update_config: {delay: 3s}}"),
    ("deploy.update_config.failure_action", "deploy: {update_config: {failure_action: pause}}"),
    ("deploy.update_config.max_failure_ratio", "deploy: {update_config: {max_failure_ratio: 0.5}}"),
    ("deploy.update_config.monitor", "deploy: {update_config: {monitor: 3s}}"),
    ("deploy.update_config.order", "deploy: {update_config: {order: stop-first}}"),
    ("deploy.update_config.parallelism", "deploy: {update_config: {parallelism: 3}}"),
    ("links", "links: [other]"),
    ("profiles", "profiles: [p]"),
    ("pull_policy", "pull_policy: always"),
    ("restart", "restart: 'no'"),
    ("scale", "scale: 4"),
];

/// Keys that are gone once files are read: what they bring is in the keys of the tables above.
const READ_BY_THE_CLIENT: [&str; 7] = [
    "env_file[].format",
    "env_file[].path",
    "env_file[].required",
    "extends.file",
    "extends.service",
    "label_file",
    "volumes_from",
];

/// Keys that say which nodes answer on a port, and how: where edges do, the port is no part of the container, which
/// the tests of those ports show.
const OF_PORTS: [&str; 2] = ["ports[].mode", "ports[].x-jaco.proxy_protocol"];

/// The service under test with these members.
fn project(members: &BTreeMap<String, String>) -> String {
    let mut all = BTreeMap::from([("image".to_owned(), "i".to_owned())]);
    all.extend(members.clone());
    let lines: String = all.iter().map(|(key, value)| format!("    {key}: {value}\n")).collect();
    format!("services:\n  other: {{image: o}}\n  web:\n{lines}{BESIDE}")
}

/// The project of a row of the tables.
pub(crate) fn project_of(row: &str) -> String {
    project(&members(row))
}

/// `key: value`, or a mapping of several of them, as members of a service.
fn members(text: &str) -> BTreeMap<String, String> {
    let split = |member: &str| {
        let (key, value) = member.split_once(": ").expect("a member has a key and a value");
        (key.to_owned(), value.to_owned())
    };
    match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        None if text == "-" => BTreeMap::new(),
        None => [split(text)].into(),
        // The label that permits stands first.
        Some(several) => {
            let (label, key) = several.split_once("}, ").expect("a label and a key");
            [split(&format!("{label}}}")), split(key)].into()
        }
    }
}

fn hash(members: &BTreeMap<String, String>) -> String {
    let text = project(members);
    let profiles = text.replace("profiles: [p]", "profiles: []");
    let resolved = resolve_text(&profiles, None);
    let resolved = resolved.unwrap_or_else(|problems| panic!("{text}: {problems}"));
    resolved.services["web"].container.hash.to_string()
}

/// Keys of a service that have an effect, where no further key stands below them.
fn effective(object: &'static Object, path: &str, keys: &mut BTreeSet<String>) {
    for key in object.keys {
        if matches!(key.class, Class::Honoured | Class::Differently) {
            let path =
                if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
            below(&key.shape, path, keys);
        }
    }
}

fn below(shape: &'static Shape, path: String, keys: &mut BTreeSet<String>) {
    match shape.inside() {
        Inside::Nothing => drop(keys.insert(path)),
        Inside::Itself(inner) => below(inner, path, keys),
        Inside::Items(item) if leads_to_keys(item) => below(item, format!("{path}[]"), keys),
        Inside::Values(value) if leads_to_keys(value) => below(value, format!("{path}.*"), keys),
        Inside::Items(_) | Inside::Values(_) => drop(keys.insert(path)),
        Inside::Keys(object) => effective(object, &path, keys),
    }
}

fn leads_to_keys(shape: &'static Shape) -> bool {
    match shape.inside() {
        Inside::Nothing => false,
        Inside::Itself(inner) | Inside::Items(inner) | Inside::Values(inner) => {
            leads_to_keys(inner)
        }
        Inside::Keys(_) => true,
    }
}

fn service_keys() -> BTreeSet<String> {
    let services = TOP_LEVEL.key("services").expect("there are services");
    let Inside::Values(service) = services.shape.inside() else { panic!("services have names") };
    let Inside::Keys(service) = service.inside() else { panic!("a service has keys") };
    let mut keys = BTreeSet::new();
    effective(service, "", &mut keys);
    keys
}

/// R-HASH-1: whoever adds a key that has an effect says here which kind of effect it is.
#[test]
fn every_key_with_an_effect_is_in_one_list() {
    let listed = REACH.iter().map(|row| row.0).chain(SCHEDULE.iter().map(|row| row.0));
    let listed: Vec<&str> = listed.chain(READ_BY_THE_CLIENT).chain(OF_PORTS).collect();
    let once: BTreeSet<String> = listed.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(once.len(), listed.len(), "a key is listed twice");
    let wanted = service_keys();
    let missing: Vec<_> = wanted.difference(&once).collect();
    let unknown: Vec<_> = once.difference(&wanted).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:#?}, unknown {unknown:#?}");
}

/// R-HASH-1
#[test]
fn every_key_that_reaches_the_container_flips_the_hash() {
    let without = hash(&BTreeMap::new());
    for (key, one, other) in REACH {
        let (one, other) = (hash(&members(one)), hash(&members(other)));
        assert_ne!(one, without, "{key}: the key changes nothing");
        assert_ne!(one, other, "{key}: the value changes nothing");
    }
}

/// R-HASH-1
#[test]
fn no_key_that_schedules_flips_the_hash() {
    let without = hash(&BTreeMap::new());
    for (key, value) in SCHEDULE {
        assert_eq!(hash(&members(value)), without, "{key}");
    }
}

/// R-HASH-1: what a container uses flips its hash where it is declared, too.
#[test]
fn what_a_container_uses_flips_its_hash() {
    let uses = "networks: {n: {}}\n    volumes: ['vol:/v']\n    configs: [c]\n    secrets: [s]";
    let hash = |from: &str, to: &str| {
        let beside = BESIDE.replace(from, to);
        assert!(from == to || beside != BESIDE, "the edit must hit: {from}");
        let text = format!("services:\n  web:\n    image: i\n    {uses}\n{beside}");
        let resolved = resolve_text(&text, None).unwrap_or_else(|problems| panic!("{problems}"));
        resolved.services["web"].container.hash
    };
    let base = hash("", "");
    for (from, to) in [
        ("n: {}", "n: {name: other}"),
        ("n: {}", "n: {internal: true}"),
        ("n: {}", "n: {external: true}"),
        ("vol: {}", "vol: {name: other}"),
        ("vol: {}", "vol: {external: true}"),
        ("vol: {}", "vol: {driver: d}"),
        ("vol: {}", "vol: {driver_opts: {a: b}}"),
        ("vol: {}", "vol: {labels: {a: b}}"),
        ("c: {content: c}", "c: {content: other}"),
        ("c: {content: c}", "c: {environment: C}"),
        ("c: {content: c}", "c: {content: c, name: other}"),
        ("s: {environment: S}", "s: {environment: OTHER}"),
        ("s: {environment: S}", "s: {environment: S, name: other}"),
    ] {
        assert_ne!(hash(from, to), base, "{to}");
    }
    for (from, to) in [
        ("n: {}", "n: {driver: overlay}"),
        ("n: {}", "n: {labels: {a: b}}"),
        ("m: {}", "m: {internal: true}"),
        ("unused: {}", "unused: {driver: d}"),
        ("d: {content: d}", "d: {content: other}"),
        ("t: {environment: T}", "t: {environment: OTHER}"),
    ] {
        assert_eq!(hash(from, to), base, "{to}");
    }
}

/// Rows whose members can stand together: no key twice.
fn pick(rows: &[(usize, bool)]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (row, second) in rows {
        let (_, one, other) = REACH[row % REACH.len()];
        for (key, value) in members(if *second { other } else { one }) {
            // These two are mutually exclusive.
            let clash = match key.as_str() {
                "network_mode" => all.contains_key("networks"),
                "networks" => all.contains_key("network_mode"),
                _ => false,
            };
            if !clash {
                all.entry(key).or_insert(value);
            }
        }
    }
    all
}

fn rows() -> impl Strategy<Value = Vec<(usize, bool)>> {
    proptest::collection::vec((0..REACH.len(), any::<bool>()), 0..6)
}

proptest! {
    /// R-HASH-1: law: two services have the same hash exactly if they say the same about their
    /// containers, whatever they say about their replicas.
    #[test]
    fn services_are_told_apart(
        one in rows(),
        other in rows(),
        scheduled in 0..SCHEDULE.len(),
    ) {
        let (one, other) = (pick(&one), pick(&other));
        // Keys of the two tables can be the same, `deploy`; then there is nothing to add.
        let mut placed = other.clone();
        for (key, value) in members(SCHEDULE[scheduled].1) {
            placed.entry(key).or_insert(value);
        }
        let usable = |members: &BTreeMap<String, String>| resolve_text(&project(members), None).is_ok();
        prop_assume!(usable(&one) && usable(&other) && usable(&placed));
        prop_assert_eq!(hash(&one) == hash(&other), one == other);
        prop_assert_eq!(hash(&placed), hash(&other));
    }
}
