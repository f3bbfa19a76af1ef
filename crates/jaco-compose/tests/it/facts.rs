//! From keys to facts: what the scheduler gets to know about a service. R-IN-1, R-RES-1, R-ROLL-4.

use expect_test::{Expect, expect};
use jaco_compose::facts::Facts;
use jaco_compose::{JacoYaml, Options, Override, resolve};

use crate::util::{load_text, problems_of};

/// Each fact with its name.
fn lines(facts: &Facts) -> Vec<String> {
    let update = &facts.update;
    vec![
        format!("image {}", facts.image),
        format!("pull {:?}", facts.pull),
        format!("placement {:?}", facts.placement),
        format!("replicas {}", facts.replicas),
        format!("min_allocations {}", facts.min_allocations),
        format!("max_replicas_per_node {:?}", facts.max_replicas_per_node),
        format!("ports {:?}", facts.ports),
        format!("restart {:?}", facts.restart),
        format!("mode {:?}", facts.mode),
        format!("depends_on {:?}", facts.depends_on),
        format!("shares_namespaces_with {:?}", facts.shares_namespaces_with),
        format!("volumes_from {:?}", facts.volumes_from),
        format!("reservation {:?}", facts.reservation),
        format!("bounds {:?}", facts.bounds),
        format!("limit {:?}", facts.limit),
        format!("storage {:?}", facts.storage),
        format!("healthcheck {:?}", facts.healthcheck),
        format!("parallelism {}", update.parallelism),
        format!("order {:?}", update.order),
        format!("step_timeout {:?}", update.step_timeout),
        format!("monitor {:?}", update.monitor),
        format!("delay {:?}", update.delay),
        format!("failure_action {:?} {}", update.failure_action, update.max_failure_permille),
        format!("rollback {:?}", update.rollback),
        format!("on_node_loss {:?}", facts.on_node_loss),
        format!("volumes {:?}", facts.volumes),
        format!("drain {:?}", facts.drain),
        format!("spread {:?}", facts.spread),
        format!("constraints {:?}", facts.constraints),
        format!("deployment_constraints {:?}", facts.deployment_constraints),
        format!("affinities {:?}", facts.affinities),
        format!("selectors {:?}", facts.selectors),
        format!("scoring {:?}", facts.scoring),
        format!("gpus {:?}", facts.gpus),
        format!("privileges {:?}", facts.privileges()),
        format!("names {:?}", facts.names),
        format!("networks {:?}", facts.networks),
        format!("dns {:?}", facts.dns),
    ]
}

/// The facts that differ from those of a service with an image alone, or the problems.
fn facts_of(members: &str, overlay: Option<&str>, options: &Options) -> String {
    let text = |members: &str| {
        let members = members.replace('\n', "\n    ");
        format!(
            "services:\n  db: {{image: d}}\n  web:\n    image: i\n    {members}\nnetworks: {{n: {{}}}}\nvolumes: {{data: {{}}}}\n"
        )
    };
    let facts = |members: &str, overlay: Option<&str>, options: &Options| {
        let project = load_text(&text(members)).map_err(|all| problems_of(&all))?.project;
        let overlay = overlay.map(|text| JacoYaml::parse("jaco.yaml", text.as_bytes()));
        let overlay = overlay.transpose().map_err(|all| problems_of(&all))?;
        let resolved = resolve(&project, overlay.as_ref(), options);
        let resolved = resolved.map_err(|all| problems_of(&all))?;
        Ok::<_, String>(lines(&resolved.services["web"].facts))
    };
    let base = facts("", None, &Options::default()).expect("an image is enough");
    match facts(members, overlay, options) {
        Ok(all) => {
            let other = all.into_iter().filter(|line| !base.contains(line));
            other.collect::<Vec<_>>().join("\n")
        }
        Err(problems) => problems,
    }
}

/// The facts that members of a compose service give.
fn compose(members: &str, expected: Expect) {
    expected.assert_eq(&facts_of(members, None, &Options::default()));
}

/// The facts that members of a compose service give below the keys of a service in jaco.yaml.
fn overlay(members: &str, own: &str, expected: Expect) {
    let overlay = format!("deployment: shop\nservices:\n  - name: web\n    {own}\n");
    expected.assert_eq(&facts_of(members, Some(&overlay), &Options::default()));
}

/// The facts that keys at the top of jaco.yaml give.
fn deployment(keys: &str, expected: Expect) {
    let overlay = format!("deployment: shop\n{keys}\n");
    expected.assert_eq(&facts_of("", Some(&overlay), &Options::default()));
}

/// The facts with the reservations of an environment.
fn environment(own: &str, memory: &str, cpu: &str, expected: Expect) {
    let overlay = format!("deployment: shop\nservices:\n  - name: web\n    {own}\n");
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let given = Override { memory: text(memory), cpu: text(cpu) };
    let options = Options { overrides: [("web".to_owned(), given)].into(), ..Options::default() };
    expected.assert_eq(&facts_of("", Some(&overlay), &options));
}

/// R-IN-2: replicas, ports and dependencies of a compose file.
#[test]
fn compose_replicas_and_ports() {
    compose("scale: 3", expect!["replicas 3"]);
    compose("deploy: {replicas: 0}", expect!["replicas 0"]);
    compose("deploy: {mode: global, replicas: 3}", expect!["placement Global"]);
    compose(
        "deploy: {placement: {max_replicas_per_node: 2}}",
        expect!["max_replicas_per_node Some(2)"],
    );
    compose("deploy: {placement: {max_replicas_per_node: 0}}", expect![[""]]);
    compose(
        "ports: ['80:80', '53:53/udp', '127.0.0.1:90:90', '9000-9001:9000', 70]",
        expect![[
            r#"ports [PublishedPort { first: 0, last: 0, protocol: Tcp, host_ip: None, target: 70, mode: Host, proxy_protocol: Off }, PublishedPort { first: 53, last: 53, protocol: Udp, host_ip: None, target: 53, mode: Host, proxy_protocol: Off }, PublishedPort { first: 80, last: 80, protocol: Tcp, host_ip: None, target: 80, mode: Host, proxy_protocol: Off }, PublishedPort { first: 90, last: 90, protocol: Tcp, host_ip: Some("127.0.0.1"), target: 90, mode: Host, proxy_protocol: Off }, PublishedPort { first: 9000, last: 9001, protocol: Tcp, host_ip: None, target: 9000, mode: Host, proxy_protocol: Off }]"#
        ]],
    );
    compose(
        "ports: ['90:91/sctp', {target: 5, protocol: SCTP}]",
        expect![
            "ports [PublishedPort { first: 0, last: 0, protocol: Sctp, host_ip: None, target: 5, mode: Host, proxy_protocol: Off }, PublishedPort { first: 90, last: 90, protocol: Sctp, host_ip: None, target: 91, mode: Host, proxy_protocol: Off }]"
        ],
    );
    compose(
        "ports: ['82:80', '81:80']",
        expect![
            "ports [PublishedPort { first: 81, last: 81, protocol: Tcp, host_ip: None, target: 80, mode: Host, proxy_protocol: Off }, PublishedPort { first: 82, last: 82, protocol: Tcp, host_ip: None, target: 80, mode: Host, proxy_protocol: Off }]"
        ],
    );
    compose(
        "depends_on: {db: {condition: service_healthy, required: false}}",
        expect![[
            r#"depends_on [Dependency { service: "db", condition: Healthy, required: Optional }]"#
        ]],
    );
    compose(
        "depends_on: [db]",
        expect![[
            r#"depends_on [Dependency { service: "db", condition: Started, required: Required }]"#
        ]],
    );
    compose(
        "depends_on: {db: {condition: service_completed_successfully}}",
        expect![[
            r#"depends_on [Dependency { service: "db", condition: CompletedSuccessfully, required: Required }]"#
        ]],
    );
    compose(
        "network_mode: 'service:db'\nipc: 'service:db'",
        expect![[r#"
            depends_on [Dependency { service: "db", condition: Started, required: Required }]
            shares_namespaces_with {"db"}
            names {}
            networks []"#]],
    );
    compose(
        "volumes_from: ['db:ro']",
        expect![[r#"
        depends_on [Dependency { service: "db", condition: Started, required: Required }]
        volumes_from {"db"}"#]],
    );
}

/// R-IN-2: the pull policies and the platform of an image.
/// R-JOB-1: which policy follows the end of a container, and which services are jobs.
#[test]
fn compose_jobs() {
    let restart = |value: &str, expected: Expect| compose(&format!("restart: {value}"), expected);
    restart("'no'", expect!["restart Never"]);
    restart("on-failure", expect!["restart OnFailure { retries: None }"]);
    restart("on-failure:0", expect!["restart OnFailure { retries: None }"]);
    restart("on-failure:3", expect!["restart OnFailure { retries: Some(3) }"]);
    restart("always", expect![""]);
    restart("unless-stopped", expect![""]);
    let policy = |value: &str, expected: Expect| {
        compose(&format!("restart: always\ndeploy: {{restart_policy: {{{value}}}}}"), expected);
    };
    policy("condition: none", expect!["restart Never"]);
    policy("condition: on-failure", expect!["restart OnFailure { retries: None }"]);
    policy(
        "condition: on-failure, max_attempts: 2",
        expect!["restart OnFailure { retries: Some(2) }"],
    );
    policy("condition: any, max_attempts: 2", expect![""]);
    policy("max_attempts: 2", expect![""]);
    compose("deploy: {mode: replicated-job}", expect!["mode Job"]);
    compose(
        "deploy: {mode: global-job}",
        expect![[r#"
        placement Global
        mode Job"#]],
    );
}

/// R-IN-2: `gpus` asks for GPUs whatever else they have to do, a reserved device for what is written.
#[test]
fn compose_devices() {
    compose(
        "gpus: all",
        expect![[
            r#"gpus [GpuRequest { count: None, device_ids: [], driver: None, capabilities: ["gpu"] }]"#
        ]],
    );
    compose(
        "gpus: [{driver: nvidia, count: 2, capabilities: [utility]}]",
        expect![[
            r#"gpus [GpuRequest { count: Some(2), device_ids: [], driver: Some("nvidia"), capabilities: ["utility", "gpu"] }]"#
        ]],
    );
    compose(
        "gpus: [{device_ids: ['0', '3'], capabilities: [gpu]}]",
        expect![[
            r#"gpus [GpuRequest { count: None, device_ids: ["0", "3"], driver: None, capabilities: ["gpu"] }]"#
        ]],
    );
    let reserved = |device: &str, expected: Expect| {
        compose(
            &format!("deploy: {{resources: {{reservations: {{devices: [{device}]}}}}}}"),
            expected,
        );
    };
    reserved(
        "{capabilities: [tpu], driver: d}",
        expect![[
            r#"gpus [GpuRequest { count: None, device_ids: [], driver: Some("d"), capabilities: ["tpu"] }]"#
        ]],
    );
    reserved(
        "{capabilities: [gpu], count: all}, {capabilities: [x], count: 1}",
        expect![[
            r#"gpus [GpuRequest { count: None, device_ids: [], driver: None, capabilities: ["gpu"] }, GpuRequest { count: Some(1), device_ids: [], driver: None, capabilities: ["x"] }]"#
        ]],
    );
}

/// R-IN-2: who shares a namespace of another service waits for it and stands with it, whichever it is.
#[test]
fn compose_namespaces() {
    for key in ["network_mode", "ipc", "pid", "uts"] {
        let found = facts_of(&format!("{key}: 'service:db'"), None, &Options::default());
        assert!(found.contains("shares_namespaces_with {\"db\"}"), "{key}: {found}");
        assert!(found.contains("depends_on [Dependency { service: \"db\""), "{key}: {found}");
    }
}

#[test]
fn compose_images() {
    compose("pull_policy: always", expect!["pull Always"]);
    compose("pull_policy: never", expect!["pull Never"]);
    compose("pull_policy: missing", expect![[""]]);
    compose("pull_policy: if_not_present", expect![[""]]);
    compose("pull_policy: build", expect![[""]]);
    compose("pull_policy: daily", expect!["pull Always"]);
    compose("pull_policy: every_12h", expect!["pull Always"]);
    compose(
        "platform: linux/arm64/v8",
        expect![[
            r#"constraints Constraints { pairs: {}, rules: [Constraint { attribute: "node.os", operator: Equal, value: "linux" }, Constraint { attribute: "node.arch", operator: Equal, value: "arm64" }] }"#
        ]],
    );
    compose(
        "platform: windows",
        expect![[
            r#"constraints Constraints { pairs: {}, rules: [Constraint { attribute: "node.os", operator: Equal, value: "windows" }] }"#
        ]],
    );
    compose(
        "platform: aarch64",
        expect![[
            r#"constraints Constraints { pairs: {}, rules: [Constraint { attribute: "node.arch", operator: Equal, value: "arm64" }] }"#
        ]],
    );
}

/// R-RES-1: reservations and limits of a compose file.
#[test]
fn compose_resources() {
    compose(
        "deploy: {resources: {reservations: {memory: 64M, cpus: 0.5}}}",
        expect!["reservation Resources { cpu: MilliCores(500), memory: Bytes(67108864) }"],
    );
    compose(
        "deploy: {resources: {limits: {memory: 64M, cpus: '1.25', pids: 9}}}",
        expect!["limit Resources { cpu: MilliCores(1250), memory: Bytes(67108864) }"],
    );
    compose(
        "mem_limit: 1g\nmem_reservation: 512m\ncpus: 2",
        expect![[r#"
        reservation Resources { cpu: MilliCores(0), memory: Bytes(536870912) }
        limit Resources { cpu: MilliCores(2000), memory: Bytes(1073741824) }"#]],
    );
    compose("cpus: 0", expect![[""]]);
    compose(
        "deploy: {resources: {limits: {cpus: 0.0004}}}",
        expect![[r#"
        5:41 error invalid_value: `deploy.resources.limits.cpus` cannot be 0.0004
          expected 0, or a number from 0.001"#]],
    );
    compose(
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: 2, driver: nvidia}]}}}",
        expect![[
            r#"gpus [GpuRequest { count: Some(2), device_ids: [], driver: Some("nvidia"), capabilities: ["gpu"] }]"#
        ]],
    );
    compose(
        "gpus: all",
        expect![[
            r#"gpus [GpuRequest { count: None, device_ids: [], driver: None, capabilities: ["gpu"] }]"#
        ]],
    );
    compose(
        "gpus: [{device_ids: ['0', '1'], capabilities: [tpu]}]",
        expect![[
            r#"gpus [GpuRequest { count: None, device_ids: ["0", "1"], driver: None, capabilities: ["tpu", "gpu"] }]"#
        ]],
    );
}

/// R-PLACE-6: data that stays on a node, and health checks.
#[test]
fn compose_storage_and_health() {
    compose(
        "volumes: ['data:/d']",
        expect![[r#"
        storage Stateful
        order StopFirst
        rollback RollbackPolicy { parallelism: 1, order: StopFirst, delay: Millis(0), monitor: None, failure_action: Continue, max_failure_permille: 0 }"#]],
    );
    compose("volumes: ['data:/d:ro']", expect!["storage Stateful"]);
    compose(
        "volumes: ['data:/d']\ndeploy: {update_config: {order: start-first}, rollback_config: {order: start-first}}",
        expect!["storage Stateful"],
    );
    compose("volumes: [/anonymous]", expect![[""]]);
    compose(
        "volumes: ['/srv/x:/x']",
        expect![[r#"
            storage Stateful
            order StopFirst
            rollback RollbackPolicy { parallelism: 1, order: StopFirst, delay: Millis(0), monitor: None, failure_action: Continue, max_failure_permille: 0 }
            privileges {HostPath}"#]],
    );
    compose("volumes: ['/var/run/docker.sock:/s']", expect!["privileges {EngineSocket}"]);
    compose("volumes: [{type: tmpfs, target: /t}]", expect![[""]]);
    compose("tmpfs: /t", expect![[""]]);
    compose("healthcheck: {test: x}", expect!["healthcheck Declared"]);
    compose("healthcheck: {test: [NONE]}", expect![[""]]);
    compose("healthcheck: {disable: true}", expect![[""]]);
    compose("healthcheck: {test: x, disable: true}", expect![[""]]);
    compose("healthcheck: {interval: 5s}", expect![[""]]);
    compose("healthcheck: {test: []}", expect![[""]]);
}

/// R-ROLL-4: update and rollback policies of a compose file.
#[test]
fn compose_rollouts() {
    compose(
        "deploy: {update_config: {parallelism: 3, delay: 1s, monitor: 2s, order: stop-first, failure_action: continue, max_failure_ratio: 0.5}}",
        expect![[r#"
            parallelism 3
            order StopFirst
            monitor Some(Millis(2000))
            delay Millis(1000)
            failure_action Continue 500"#]],
    );
    compose("deploy: {update_config: {parallelism: 0}}", expect!["parallelism 4294967295"]);
    compose("deploy: {update_config: {failure_action: rollback}}", expect![[""]]);
    compose(
        "deploy: {rollback_config: {parallelism: 2, delay: 1500ms, monitor: 0s, order: stop-first, failure_action: pause, max_failure_ratio: 1}}",
        expect![
            "rollback RollbackPolicy { parallelism: 2, order: StopFirst, delay: Millis(1500), monitor: Some(Millis(0)), failure_action: Pause, max_failure_permille: 1000 }"
        ],
    );
    compose("deploy: {update_config: {max_failure_ratio: 0.0009}}", expect![[""]]);
    compose("deploy: {update_config: {delay: 999us}}", expect![[""]]);
}

/// R-IN-2: placement of Swarm as constraints and spread criteria.
#[test]
fn compose_placement() {
    compose(
        "deploy: {placement: {constraints: ['node.hostname == n1', 'node.labels.Disk != hdd', 'engine.labels.x==y', 'NODE.PLATFORM.ARCH == x86_64', 'node.platform.os==linux']}}",
        expect![[
            r#"constraints Constraints { pairs: {}, rules: [Constraint { attribute: "node.hostname", operator: Equal, value: "n1" }, Constraint { attribute: "meta.Disk", operator: NotEqual, value: "hdd" }, Constraint { attribute: "meta.x", operator: Equal, value: "y" }, Constraint { attribute: "node.arch", operator: Equal, value: "amd64" }, Constraint { attribute: "node.os", operator: Equal, value: "linux" }] }"#
        ]],
    );
    compose(
        "deploy: {placement: {preferences: [{spread: node.labels.zone}, {spread: node.hostname}]}}",
        expect![[
            r#"spread [SpreadCriterion { attribute: "meta.zone", weight: 50, targets: [] }, SpreadCriterion { attribute: "node.hostname", weight: 50, targets: [] }]"#
        ]],
    );
    compose("deploy: {placement: {constraints: ['node.role == worker']}}", expect![[""]]);
    compose("deploy: {restart_policy: {condition: always}}", expect![[""]]);
    compose("deploy: {restart_policy: {condition: unless-stopped}}", expect![[""]]);
}

/// R-CLI-5: privileges on the node.
#[test]
fn compose_privileges() {
    compose(
        "network_mode: host",
        expect![[r#"
            privileges {HostNetwork}
            names {}
            networks []"#]],
    );
    compose("pid: host", expect!["privileges {HostPid}"]);
    compose("ipc: host", expect!["privileges {HostIpc}"]);
    compose("userns_mode: host", expect!["privileges {HostUsers}"]);
    compose("cap_add: [SYS_ADMIN]", expect!["privileges {Capabilities}"]);
    compose("devices: [/dev/a]", expect!["privileges {Devices}"]);
    compose("device_cgroup_rules: ['c 1:3 mr']", expect!["privileges {Devices}"]);
    compose(
        "volumes: ['/etc:/e']",
        expect![[r#"
            storage Stateful
            order StopFirst
            rollback RollbackPolicy { parallelism: 1, order: StopFirst, delay: Millis(0), monitor: None, failure_action: Continue, max_failure_permille: 0 }
            privileges {HostPath}"#]],
    );
    compose("volumes: ['/run/docker.sock:/s']", expect!["privileges {EngineSocket}"]);
    compose(
        "labels: {jaco.io/allow-privileged: 'true'}\nprivileged: true",
        expect!["privileges {Privileged}"],
    );
    compose(
        "labels: {jaco.io/allow-privileged: 'true'}\nsecurity_opt: [label=disable]",
        expect!["privileges {SecurityOpt}"],
    );
    compose("cap_drop: [ALL]", expect![[""]]);
}

/// R-IN-1: jaco.yaml overrides the compose file key by key.
#[test]
fn overlay_overrides_compose() {
    overlay("scale: 3", "replicas: 5", expect!["replicas 5"]);
    overlay("deploy: {mode: global}", "placement: spread", expect![[""]]);
    overlay("", "placement: pack", expect!["placement Pack"]);
    overlay(
        "",
        "placement: hosts\n    hosts: [n2, n1]",
        expect![[r#"placement Hosts({"n1", "n2"})"#]],
    );
    overlay("", "placement: global", expect!["placement Global"]);
    overlay(
        "deploy: {update_config: {parallelism: 3, delay: 1s}}",
        "update: {parallelism: 2, step_timeout: 30s}",
        expect![[r#"
            parallelism 2
            step_timeout Millis(30000)
            delay Millis(1000)"#]],
    );
    overlay(
        "deploy: {rollback_config: {delay: 1s}}",
        "rollback: {delay: 2s, failure_action: pause}",
        expect![
            "rollback RollbackPolicy { parallelism: 1, order: StartFirst, delay: Millis(2000), monitor: None, failure_action: Pause, max_failure_permille: 0 }"
        ],
    );
    overlay(
        "deploy: {update_config: {order: stop-first}}",
        "update: {order: start-first, monitor: 5s}",
        expect!["monitor Some(Millis(5000))"],
    );
    overlay("", "min_allocations_count: 2", expect!["min_allocations 2"]);
    overlay("", "selectors: [ssd, eu]", expect![[r#"selectors {"eu", "ssd"}"#]]);
    overlay("", "selectors: auto", expect![[r#"selectors {"web"}"#]]);
    overlay("", "selectors: []", expect![[""]]);
    overlay("", "scoring: nomad", expect!["scoring Nomad"]);
    overlay(
        "stop_grace_period: 30s",
        "on_node_loss: stop_self after 1m",
        expect!["on_node_loss StopSelf { after: Millis(60000), grace: Millis(30000) }"],
    );
    overlay("", "on_node_loss: wait", expect!["on_node_loss Wait"]);
    overlay(
        "",
        "on_node_loss: replace after 5m",
        expect!["on_node_loss Replace { after: Millis(300000) }"],
    );
}

/// R-CONS-1, R-SPREAD-3: constraints, affinities and spread criteria of a service.
#[test]
fn overlay_constraints_and_spread() {
    overlay(
        "",
        "constraints: cpu=2 ram=3G zone=a",
        expect![[
            r#"constraints Constraints { pairs: {"cpu": "2", "ram": "3G", "zone": "a"}, rules: [] }"#
        ]],
    );
    overlay(
        "",
        "constraints: {cpu: 2, zone: a}",
        expect![[r#"constraints Constraints { pairs: {"cpu": "2", "zone": "a"}, rules: [] }"#]],
    );
    overlay(
        "",
        "constraints: [{attribute: '${node.arch}', operator: '!=', value: arm64}, zone=b]",
        expect![[
            r#"constraints Constraints { pairs: {"zone": "b"}, rules: [Constraint { attribute: "node.arch", operator: NotEqual, value: "arm64" }] }"#
        ]],
    );
    overlay(
        "",
        "constraints: [{attribute: x, operator: is_set}]",
        expect![[
            r#"constraints Constraints { pairs: {}, rules: [Constraint { attribute: "x", operator: IsSet, value: "" }] }"#
        ]],
    );
    overlay(
        "",
        "constraints: [{attribute: x, operator: '==', value: 1}]",
        expect![[
            r#"constraints Constraints { pairs: {}, rules: [Constraint { attribute: "x", operator: Equal, value: "1" }] }"#
        ]],
    );
    overlay(
        "",
        "affinities: [{attribute: zone, value: a, weight: -20}, {attribute: ssd, operator: is_set}]",
        expect![[
            r#"affinities [Affinity { constraint: Constraint { attribute: "zone", operator: Equal, value: "a" }, weight: -20 }, Affinity { constraint: Constraint { attribute: "ssd", operator: IsSet, value: "" }, weight: 50 }]"#
        ]],
    );
    overlay(
        "",
        "affinities: {attribute: zone, value: a}",
        expect![[
            r#"affinities [Affinity { constraint: Constraint { attribute: "zone", operator: Equal, value: "a" }, weight: 50 }]"#
        ]],
    );
    overlay(
        "",
        "spread: [{attribute: zone, weight: 100, targets: {a: 70, b: 30}}]",
        expect![[
            r#"spread [SpreadCriterion { attribute: "zone", weight: 100, targets: [SpreadTarget { value: "a", percent: 70 }, SpreadTarget { value: "b", percent: 30 }] }]"#
        ]],
    );
    overlay(
        "",
        "spread: {attribute: '${node.rack}', targets: [{value: r1, percent: 50}]}",
        expect![[
            r#"spread [SpreadCriterion { attribute: "node.rack", weight: 50, targets: [SpreadTarget { value: "r1", percent: 50 }] }]"#
        ]],
    );
    overlay(
        "deploy: {placement: {preferences: [{spread: node.labels.zone}]}}",
        "spread: [{attribute: rack}]",
        expect![[
            r#"spread [SpreadCriterion { attribute: "rack", weight: 50, targets: [] }, SpreadCriterion { attribute: "meta.zone", weight: 50, targets: [] }]"#
        ]],
    );
}

/// R-RES-1: bounds are reservations where nothing else is.
#[test]
fn overlay_bounds() {
    overlay(
        "",
        "resources: {memory: {min: 64, max: 128}}",
        expect![[r#"
        reservation Resources { cpu: MilliCores(0), memory: Bytes(134217728) }
        bounds Bounds { memory_min: Bytes(67108864), memory_max: Bytes(134217728), cpu_min: MilliCores(0), cpu_max: MilliCores(0) }"#]],
    );
    overlay(
        "",
        "resources: {memory: {min: 1 GB}}",
        expect![[r#"
        reservation Resources { cpu: MilliCores(0), memory: Bytes(1073741824) }
        bounds Bounds { memory_min: Bytes(1073741824), memory_max: Bytes(1073741824), cpu_min: MilliCores(0), cpu_max: MilliCores(0) }"#]],
    );
    overlay(
        "",
        "resources: {cpu: {max: 1.5 GHz}}",
        expect![[r#"
        reservation Resources { cpu: MilliCores(1500), memory: Bytes(0) }
        bounds Bounds { memory_min: Bytes(0), memory_max: Bytes(0), cpu_min: MilliCores(0), cpu_max: MilliCores(1500) }"#]],
    );
    overlay(
        "",
        "resources: {cpu: {min: 250 MHz, max: 500}}",
        expect![[r#"
        reservation Resources { cpu: MilliCores(500), memory: Bytes(0) }
        bounds Bounds { memory_min: Bytes(0), memory_max: Bytes(0), cpu_min: MilliCores(250), cpu_max: MilliCores(500) }"#]],
    );
    overlay(
        "deploy: {resources: {reservations: {memory: 64M}}}",
        "resources: {memory: {max: 128 MB}}",
        expect![[r#"
            reservation Resources { cpu: MilliCores(0), memory: Bytes(67108864) }
            bounds Bounds { memory_min: Bytes(0), memory_max: Bytes(134217728), cpu_min: MilliCores(0), cpu_max: MilliCores(0) }"#]],
    );
    overlay(
        "deploy: {resources: {reservations: {memory: 256M}}}",
        "resources: {memory: {max: 128 MB}}",
        expect![
            "5:49 error unsupported_resource_configuration: service `web` reserves 256 MiB of memory, outside of 0 B to 128 MiB"
        ],
    );
    overlay(
        "deploy: {resources: {reservations: {cpus: 0.1}}}",
        "resources: {cpu: {min: 500}}",
        expect![
            "5:47 error unsupported_resource_configuration: service `web` reserves 100m of cpu, outside of 500m to 500m"
        ],
    );
}

/// R-CONS-1: keys at the top of jaco.yaml hold for every service.
#[test]
fn deployment_wide_keys() {
    deployment(
        "constraints: zone=a cpu=1",
        expect![[
            r#"deployment_constraints Constraints { pairs: {"cpu": "1", "zone": "a"}, rules: [] }"#
        ]],
    );
    deployment(
        "constraints: [{attribute: ssd, operator: is_set}]",
        expect![[
            r#"deployment_constraints Constraints { pairs: {}, rules: [Constraint { attribute: "ssd", operator: IsSet, value: "" }] }"#
        ]],
    );
    deployment(
        "spread: [{attribute: zone}]",
        expect![[r#"spread [SpreadCriterion { attribute: "zone", weight: 50, targets: [] }]"#]],
    );
    deployment("scoring: nomad", expect!["scoring Nomad"]);
    deployment(
        "roles: {db: cpu=4 ssd=1}\nservices: [{name: web, constraints: roles=db cpu=2}]",
        expect![[r#"constraints Constraints { pairs: {"cpu": "2", "ssd": "1"}, rules: [] }"#]],
    );
    deployment(
        "roles: {a: zone=a, b: zone=b rack=r}\nservices: [{name: web, constraints: 'roles=a,b'}]",
        expect![[r#"constraints Constraints { pairs: {"rack": "r", "zone": "a"}, rules: [] }"#]],
    );
}

/// R-RES-2: an environment sets reservations within the bounds.
#[test]
fn reservations_of_an_environment() {
    environment(
        "resources: {memory: {min: 64, max: 512}}",
        "128",
        "",
        expect![[r#"
        reservation Resources { cpu: MilliCores(0), memory: Bytes(134217728) }
        bounds Bounds { memory_min: Bytes(67108864), memory_max: Bytes(536870912), cpu_min: MilliCores(0), cpu_max: MilliCores(0) }"#]],
    );
    environment(
        "resources: {memory: {min: 64, max: 512}}",
        "1 GB",
        "",
        expect![
            "4:16 error unsupported_resource_configuration: service `web` reserves 1 GiB of memory, outside of 64 MiB to 512 MiB"
        ],
    );
    environment(
        "resources: {memory: {min: 64, max: 512}}",
        "32 MB",
        "",
        expect![
            "4:16 error unsupported_resource_configuration: service `web` reserves 32 MiB of memory, outside of 64 MiB to 512 MiB"
        ],
    );
    environment(
        "replicas: 1",
        "256 MB",
        "500 MHz",
        expect![[r#"
        reservation Resources { cpu: MilliCores(500), memory: Bytes(268435456) }
        bounds Bounds { memory_min: Bytes(268435456), memory_max: Bytes(268435456), cpu_min: MilliCores(500), cpu_max: MilliCores(500) }"#]],
    );
    environment(
        "replicas: 1",
        "much",
        "",
        expect![
            "0:0 error unsupported_resource_configuration: the override `memory` of service `web` cannot be `much`"
        ],
    );
    environment(
        "replicas: 1",
        "",
        "fast",
        expect![
            "0:0 error unsupported_resource_configuration: the override `cpu` of service `web` cannot be `fast`"
        ],
    );
    environment(
        "resources: {cpu: {max: 1 GHz}}",
        "",
        "2 GHz",
        expect![
            "4:16 error unsupported_resource_configuration: service `web` reserves 2000m of cpu, outside of 0m to 1000m"
        ],
    );
}
