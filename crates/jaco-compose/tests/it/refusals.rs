//! What `resolve` refuses and warns about, with position and advice. R-IN-2, R-IN-3, R-RES-4.

use expect_test::{Expect, expect};

use crate::util::{problems_of, resolve_text};

/// Resolves a service with `members` and shows warnings or errors.
fn check(members: &str, expected: Expect) {
    let members = members.replace('\n', "\n    ");
    let text = format!(
        "services:\n  db: {{image: d}}\n  web:\n    image: i\n    {members}\nnetworks: {{n: {{}}}}\nvolumes: {{data: {{}}}}\n"
    );
    expected.assert_eq(&match resolve_text(&text, None) {
        Ok(resolved) => problems_of(&resolved.warnings),
        Err(problems) => problems_of(&problems),
    });
}

/// Resolves two services with a jaco.yaml and shows warnings or errors.
fn overlay(overlay: &str, expected: Expect) {
    let text =
        "services:\n  web: {image: i, ports: ['80:80']}\n  db: {image: d}\nnetworks: {n: {}}\n";
    let overlay = format!("deployment: shop\n{overlay}\n");
    expected.assert_eq(&match resolve_text(text, Some(&overlay)) {
        Ok(resolved) => problems_of(&resolved.warnings),
        Err(problems) => problems_of(&problems),
    });
}

/// R-IN-2: a key without effect gives one warning at its position.
#[test]
fn keys_that_are_ignored() {
    check(
        "attach: false",
        expect![
            "5:5 warning no_effect: `services.web.attach` has no effect: Nothing is attached to a terminal; use `jaco logs`."
        ],
    );
    check(
        "cpu_count: 2",
        expect!["5:5 warning no_effect: `services.web.cpu_count` has no effect: Windows only."],
    );
    check(
        "isolation: default",
        expect!["5:5 warning no_effect: `services.web.isolation` has no effect: Windows only."],
    );
    check(
        "mac_address: 02:42:ac:11:65:43",
        expect![
            "5:5 warning no_effect: `services.web.mac_address` has no effect: Replicas cannot share an address; the engine chooses one."
        ],
    );
    check("develop: {watch: []}", expect![""]);
    check(
        "post_start: [{command: a}]",
        expect![
            "5:5 warning no_effect: `services.web.post_start` has no effect: It is not run; use the entrypoint of the image."
        ],
    );
    check(
        "networks: {n: {ipv4_address: 10.0.0.2}}",
        expect![
            "5:20 warning no_effect: `services.web.networks.n.ipv4_address` has no effect: Replicas cannot share an address; use the service's name."
        ],
    );
    check(
        "deploy: {labels: {a: b}}",
        expect![
            "5:14 warning no_effect: `services.web.deploy.labels` has no effect: Labels of Swarm services; use `labels` for containers."
        ],
    );
    check(
        "ports: [{target: 80, mode: host, name: x}]",
        expect![
            "5:38 warning no_effect: `services.web.ports.name` has no effect: Only information for other tools."
        ],
    );
    check(
        "pull_refresh_after: 1h",
        expect![
            "5:5 warning no_effect: `services.web.pull_refresh_after` has no effect: A rollout pins the digest; nothing is pulled because of its age."
        ],
    );
    check(
        "depends_on: {db: {condition: service_started, restart: true}}",
        expect![
            "5:51 warning no_effect: `services.web.depends_on.db.restart` has no effect: A rollout of the dependency does not restart this service."
        ],
    );
    check(
        "volumes: [{type: volume, source: data, target: /d, consistency: cached}]",
        expect![
            "5:56 warning no_effect: `services.web.volumes.consistency` has no effect: Docker Desktop only."
        ],
    );
}

/// R-IN-2: a hook runs a program, and a service has at most 16; a privileged one needs the label.
#[test]
fn hooks_that_are_refused() {
    check("pre_stop: [{command: a b}, {command: [a, b]}]", expect![""]);
    check(&format!("pre_stop: [{}]", ["{command: a}"; 16].join(", ")), expect![""]);
    check(
        &format!("pre_stop: [{}]", ["{command: a}"; 17].join(", ")),
        expect![[r#"
        5:240 error invalid_value: `pre_stop` has too many hooks
          expected at most 16; one of them may run a script"#]],
    );
    check(
        "pre_stop: [{command: a}, {command: []}]",
        expect![[r#"
        5:30 error invalid_value: `pre_stop[1].command` is empty
          expected a program and its arguments"#]],
    );
    check(
        "pre_stop: [{command: ''}]",
        expect![[r#"
        5:16 error invalid_value: `pre_stop[0].command` is empty
          expected a program and its arguments"#]],
    );
    check(
        "pre_stop: [{command: a, privileged: true}]",
        expect![[r#"
        0:0 error validation_failed: service `web` uses `privileged` without the label that allows it
          help add the label `jaco.io/allow-privileged: "true"` to the service"#]],
    );
}

/// R-IN-2: a key with another effect than on a single host gives one warning.
#[test]
fn keys_that_work_differently() {
    check(
        "container_name: x",
        expect![
            "5:5 warning honoured_differently: `services.web.container_name` works differently on a cluster: JACO names containers itself, because replicas would have the same name; the given name is a network alias of the service."
        ],
    );
    check(
        "expose: [80]",
        expect![
            "5:5 warning honoured_differently: `services.web.expose` works differently on a cluster: Containers of a network reach each other on every port, so it only documents the port."
        ],
    );
    check(
        "links: [db]",
        expect![
            "5:5 warning honoured_differently: `services.web.links` works differently on a cluster: The alias resolves to the service on the networks that both services share."
        ],
    );
    check(
        "network_mode: host",
        expect![
            "5:5 warning honoured_differently: `services.web.network_mode` works differently on a cluster: `none`, `host` and `bridge` work as on a single host; with `service:NAME` replicas are colocated with that service and restart with it; `container:ID` is refused."
        ],
    );
    check(
        "restart: always",
        expect![
            "5:5 warning honoured_differently: `services.web.restart` works differently on a cluster: JACO restarts containers, with back-off and a restart budget. With `no` and `on-failure` an exit with 0 is completion, and a failure is retried as often as they say."
        ],
    );
    check(
        "pull_policy: daily",
        expect![
            "5:5 warning honoured_differently: `services.web.pull_policy` works differently on a cluster: `never` only uses images on the node; the others pull missing images, and `always` asks the registry at each start. A rollout pins the digest; only `always` looks for a newer one when the containers change."
        ],
    );
    check(
        "deploy: {endpoint_mode: vip}",
        expect![
            "5:14 warning honoured_differently: `services.web.deploy.endpoint_mode` works differently on a cluster: Names resolve to the addresses of the replicas, as with `dnsrr`."
        ],
    );
    check(
        "deploy: {update_config: {order: stop-first}}",
        expect![[r#"
            5:14 warning honoured_differently: `services.web.deploy.update_config` works differently on a cluster: How a rollout is carried out; see the keys below it.
            5:30 warning honoured_differently: `services.web.deploy.update_config.order` works differently on a cluster: The default is start-first, and stop-first for a service that writes to a named volume or a bind mount of the host's files. A host port always stops first."#]],
    );
    check(
        "deploy: {restart_policy: {condition: any}}",
        expect![[r#"
            5:14 warning honoured_differently: `services.web.deploy.restart_policy` works differently on a cluster: JACO restarts containers, with its own back-off.
            5:31 warning honoured_differently: `services.web.deploy.restart_policy.condition` works differently on a cluster: As `restart`."#]],
    );
    check(
        "volumes: ['/srv/x:/x']",
        expect![[r#"
            5:15 warning honoured_differently: service `web` mounts `/srv/x` of the node it runs on; files of this machine are not uploaded
              help pin the service to nodes that have the path, or put the files into the compose file's folder and mount them by a relative path"#]],
    );
    check(
        "volumes: ['/var/run/docker.sock:/var/run/docker.sock']",
        expect![[r#"
            5:15 warning honoured_differently: service `web` mounts the engine's socket: it controls the node it runs on, and sees only the containers of that node
              help pin it with `placement: hosts`, or run it everywhere with `global`"#]],
    );
    check(
        "volumes_from: [db]",
        expect![
            "5:5 warning honoured_differently: `services.web.volumes_from` works differently on a cluster: The mounts of the named service are added, and replicas are placed on nodes that run one of its replicas. `container:` is refused."
        ],
    );
}

/// R-IN-2: engines publish nothing of a container in its host's network; it has the port itself, which is reserved.
#[test]
fn ports_of_the_host_network() {
    let text = "services:\n  a: {image: i, network_mode: host, ports: ['8181:80', '127.0.0.1:9000-9001:90-91']}\n";
    let resolved = resolve_text(text, None).unwrap();
    let warned = problems_of(&resolved.warnings);
    for port in [80, 90, 91] {
        let words = format!("the container has port {port} of its node itself");
        assert!(warned.contains(&words), "{warned}");
    }
    let ports = &resolved.services["a"].facts.ports;
    let reserved: Vec<_> =
        ports.iter().map(|port| (port.first, port.last, &port.host_ip)).collect();
    assert_eq!(reserved, [(80, 80, &None), (90, 90, &None), (91, 91, &None)]);
}

/// R-IN-2, R-ROLL-7: who waits for health is told where nothing checks it.
#[test]
fn dependencies_without_a_healthcheck() {
    let healthy = "depends_on: {db: {condition: service_healthy}}";
    check(
        healthy,
        expect![[r#"
            5:34 warning honoured_differently: service `web` waits until `db` is healthy, which may be as soon as it runs: it has no healthcheck here, and its image may have none
              help give `db` a `healthcheck`"#]],
    );
    check("depends_on: [db]", expect![""]);
    let with = |check: &str| {
        let text = format!(
            "services:\n  db: {{image: d, healthcheck: {check}}}\n  web:\n    image: i\n    {healthy}\n"
        );
        match resolve_text(&text, None) {
            Ok(resolved) => problems_of(&resolved.warnings),
            Err(problems) => problems_of(&problems),
        }
    };
    assert_eq!(with("{test: [CMD, x]}"), "");
    assert!(with("{disable: true}").contains("its healthcheck is disabled"));
    assert!(with("{test: [NONE]}").contains("its healthcheck is disabled"));
    assert!(with("{interval: 1s}").contains("its image may have none"));
}

/// R-IN-2: a key without meaning across nodes is an error with advice.
#[test]
fn keys_that_are_refused() {
    check(
        "build: .",
        expect!["5:12 warning no_effect: service `web` is not built; nodes run the image `i`"],
    );
    check(
        "credential_spec: {file: x}",
        expect![[r#"
            5:5 error unsupported: `services.web.credential_spec` is not supported on a cluster
              help Windows only. Use `secrets` or `configs`."#]],
    );
    check(
        "external_links: [a]",
        expect![[r#"
            5:5 error unsupported: `services.web.external_links` is not supported on a cluster
              help Containers outside of the deployment cannot be linked. Use `extra_hosts`."#]],
    );
    check(
        "use_api_socket: true",
        expect![[r#"
            5:5 error unsupported: `services.web.use_api_socket` is not supported on a cluster
              help It would give the container control over the node's Docker and the user's registry credentials. Mount what it needs explicitly."#]],
    );
    check(
        "provider: {type: x}",
        expect![[r#"
            5:5 error unsupported: `services.web.provider` is not supported on a cluster
              help Runs a program on one machine. Deploy what it provides as a service."#]],
    );
    check(
        "models: {m: }",
        expect![[r#"
            5:14 error unknown_model: service `web` refers to model `m`, which is not declared
              help declare it: a top-level `models:` with `m:`"#]],
    );
    check(
        "network_mode: 'container:x'",
        expect![[r#"
            5:19 error unsupported: service `web` shares `network_mode` with a container that is named by its id
              help make it a service and write `network_mode: service:NAME`
            5:5 warning honoured_differently: `services.web.network_mode` works differently on a cluster: `none`, `host` and `bridge` work as on a single host; with `service:NAME` replicas are colocated with that service and restart with it; `container:ID` is refused."#]],
    );
    check(
        "pid: 'container:x'",
        expect![[r#"
            5:10 error unsupported: service `web` shares `pid` with a container that is named by its id
              help make it a service and write `pid: service:NAME`"#]],
    );
    check(
        "volumes_from: ['container:x']",
        expect![[r#"
            5:20 error unsupported: service `web` takes volumes from a container that is named by its id
              help name a service instead
            5:5 warning honoured_differently: `services.web.volumes_from` works differently on a cluster: The mounts of the named service are added, and replicas are placed on nodes that run one of its replicas. `container:` is refused."#]],
    );
    check(
        "volumes: [{type: npipe, source: x, target: /x}]",
        expect![[r#"
            5:15 error unsupported: service `web` has a mount of type `npipe`
              expected `bind`, `volume`, `tmpfs` or `image`"#]],
    );
    check(
        "deploy: {mode: job}",
        expect![[r#"
            5:20 error unsupported: service `web` has an unknown `deploy.mode`
              expected `replicated`, `global`, `replicated-job` or `global-job`"#]],
    );
    check(
        "privileged: true",
        expect![[r#"
            5:17 error validation_failed: service `web` uses `privileged` without the label that allows it
              help add the label `jaco.io/allow-privileged: "true"` to the service"#]],
    );
    check(
        "security_opt: [label=disable]",
        expect![[r#"
            5:19 error validation_failed: service `web` uses `security_opt` without the label that allows it
              help add the label `jaco.io/allow-privileged: "true"` to the service"#]],
    );
}

/// R-IN-3: values that only matter once the service is scheduled.
#[test]
fn values_that_are_refused() {
    check(
        "restart: sometimes",
        expect![[r#"
            5:14 error invalid_value: `sometimes` is not a restart policy
              expected `no`, `always`, `unless-stopped`, `on-failure` or `on-failure:N`
            5:5 warning honoured_differently: `services.web.restart` works differently on a cluster: JACO restarts containers, with back-off and a restart budget. With `no` and `on-failure` an exit with 0 is completion, and a failure is retried as often as they say."#]],
    );
    check(
        "restart: on-failure:x",
        expect![[r#"
            5:14 error invalid_value: `on-failure:x` is not a restart policy
              expected `no`, `always`, `unless-stopped`, `on-failure` or `on-failure:N`
            5:5 warning honoured_differently: `services.web.restart` works differently on a cluster: JACO restarts containers, with back-off and a restart budget. With `no` and `on-failure` an exit with 0 is completion, and a failure is retried as often as they say."#]],
    );
    check(
        "deploy: {restart_policy: {condition: sometimes}}",
        expect![[r#"
            5:42 error invalid_value: `sometimes` is not a restart condition
              expected `none`, `on-failure` or `any`
            5:14 warning honoured_differently: `services.web.deploy.restart_policy` works differently on a cluster: JACO restarts containers, with its own back-off.
            5:31 warning honoured_differently: `services.web.deploy.restart_policy.condition` works differently on a cluster: As `restart`."#]],
    );
    check(
        "deploy: {update_config: {failure_action: explode}}",
        expect![[r#"
            5:46 error invalid_value: unknown `failure_action`
              expected `pause`, `continue` or `rollback`
            5:14 warning honoured_differently: `services.web.deploy.update_config` works differently on a cluster: How a rollout is carried out; see the keys below it."#]],
    );
    check(
        "deploy: {update_config: {max_failure_ratio: 2}}",
        expect![[r#"
            5:49 error invalid_value: `max_failure_ratio` is not a valid ratio
              expected a number from 0 to 1
            5:14 warning honoured_differently: `services.web.deploy.update_config` works differently on a cluster: How a rollout is carried out; see the keys below it."#]],
    );
    check(
        "deploy: {rollback_config: {failure_action: rollback}}",
        expect![[r#"
            5:48 error invalid_value: `failure_action` of a rollback cannot be `rollback`
              expected `pause` or `continue`
            5:14 warning honoured_differently: `services.web.deploy.rollback_config` works differently on a cluster: How a rollback is carried out; see the keys below it."#]],
    );
    check(
        "deploy: {placement: {constraints: [zone=a]}}",
        expect![[r#"
            5:40 error invalid_value: `zone=a` is not a constraint
              expected `node.labels.KEY == VALUE`, or `!=`
            5:14 warning honoured_differently: `services.web.deploy.placement` works differently on a cluster: Mapped to JACO's constraints and spread criteria.
            5:26 warning honoured_differently: `services.web.deploy.placement.constraints` works differently on a cluster: `node.labels.KEY`, `node.hostname` and `node.platform.*` become JACO's constraints; `node.role` has no effect."#]],
    );
    check(
        "deploy: {placement: {constraints: ['zone == a']}}",
        expect![[r#"
            5:40 error invalid_value: `zone` is not a node attribute
              expected `node.labels.KEY`, `node.hostname`, `node.platform.os` or `node.platform.arch`
            5:14 warning honoured_differently: `services.web.deploy.placement` works differently on a cluster: Mapped to JACO's constraints and spread criteria.
            5:26 warning honoured_differently: `services.web.deploy.placement.constraints` works differently on a cluster: `node.labels.KEY`, `node.hostname` and `node.platform.*` become JACO's constraints; `node.role` has no effect."#]],
    );
    check(
        "deploy: {placement: {constraints: ['node.role == manager']}}",
        expect![[r#"
            5:14 warning honoured_differently: `services.web.deploy.placement` works differently on a cluster: Mapped to JACO's constraints and spread criteria.
            5:26 warning honoured_differently: `services.web.deploy.placement.constraints` works differently on a cluster: `node.labels.KEY`, `node.hostname` and `node.platform.*` become JACO's constraints; `node.role` has no effect.
            5:40 warning no_effect: `node.role == manager` has no effect: every node is both a manager and a worker
              help label nodes and write `node.labels.KEY == VALUE`"#]],
    );
    check(
        "deploy: {placement: {preferences: [{spread: zone}]}}",
        expect![[r#"
            5:40 error invalid_value: replicas cannot be spread over `zone`
              expected `node.labels.KEY`, `node.hostname`, `node.platform.os` or `node.platform.arch`
            5:14 warning honoured_differently: `services.web.deploy.placement` works differently on a cluster: Mapped to JACO's constraints and spread criteria.
            5:26 warning honoured_differently: `services.web.deploy.placement.preferences` works differently on a cluster: Become spread criteria.
            5:41 warning honoured_differently: `services.web.deploy.placement.preferences.spread` works differently on a cluster: Becomes a spread criterion."#]],
    );
    check(
        "deploy: {replicas: -1}",
        expect![[r#"
            5:24 error invalid_value: the number of replicas is not valid
              expected a whole number from 0 to 10000"#]],
    );
    check(
        "ports: [{target: 80, published: x}]",
        expect![[r#"
            5:13 error invalid_value: `x` is not a valid host port
              expected a number from 1 to 65535, or a range"#]],
    );
    check(
        "ports: [{target: 0}]",
        expect![[r#"
            5:13 error invalid_value: a published port has no valid `target`
              expected a number from 1 to 65535"#]],
    );
    check(
        "ports: [{target: 80, protocol: icmp}]",
        expect![[r#"
            5:13 error invalid_value: `icmp` is not a supported protocol
              expected `tcp`, `udp` or `sctp`"#]],
    );
}

/// R-IN-1: rules of jaco.yaml, each with its position.
#[test]
fn overlay_rules() {
    overlay(
        "services: [{name: wbe}]",
        expect![[r#"
            2:19 error unknown_service: the compose file has no service `wbe`
              help did you mean `web`?"#]],
    );
    overlay(
        "services: [{name: web}, {name: web}]",
        expect!["2:25 error validation_failed: service `web` is declared twice"],
    );
    overlay(
        "services: [{name: web, placement: hosts}]",
        expect![[r#"
        2:35 error validation_failed: service `web` uses placement=hosts without hosts
          help add `hosts: [NAME, …]`"#]],
    );
    overlay(
        "services: [{name: web, placement: hosts, hosts: [Node_1]}]",
        expect![[r#"
        2:35 error validation_failed: service `web` uses placement=hosts without hosts
          help add `hosts: [NAME, …]`
        2:50 error invalid_name: `Node_1` is not a host name
          expected use 1 to 253 of a-z, 0-9, '-' and '.', each label 1 to 63 long and not bounded by '-'"#]],
    );
    overlay(
        "services: [{name: web, hosts: [n1]}]",
        expect![[r#"
            2:31 warning no_effect: `hosts` of service `web` has no effect without `placement: hosts`
              help add `placement: hosts`"#]],
    );
    overlay(
        "services: [{name: web, placement: global, replicas: 2}]",
        expect![[
            r#"2:53 error validation_failed: service "web" uses placement=global; remove replicas (global runs one replica per ready node)"#
        ]],
    );
    overlay(
        "services: [{name: web, placement: hosts, hosts: [n1], replicas: 2}]",
        expect![[r#"
        2:65 error replicas_exceed_pinned_hosts: service `web` has 2 replicas but only 1 pinned hosts
          help add hosts, or lower `replicas`"#]],
    );
    overlay(
        "services: [{name: web, networks: [m]}]",
        expect!["2:34 error unknown_network: the compose file has no network `m`"],
    );
    overlay(
        "services: [{name: web, replicas: -1}]",
        expect![[r#"
            2:34 error validation_failed: `replicas` cannot be -1
              expected a whole number from 0 to 10000"#]],
    );
    overlay(
        "services: [{name: web, placement: anywhere}]",
        expect![[r#"
        2:35 error invalid_value: `services[0].placement` cannot be `anywhere`
          expected `spread`, `pack`, `hosts`, `global`"#]],
    );
    overlay(
        "services: [{name: web, scoring: mine}]",
        expect![[r#"
        2:33 error invalid_value: `services[0].scoring` cannot be `mine`
          expected `jaco`, `nomad`"#]],
    );
    overlay(
        "services: [{name: web, selectors: ssd}]",
        expect![[r#"
        2:35 error wrong_type: `selectors` is a string
          expected a list of labels, or `auto`"#]],
    );
    overlay(
        "services: [{name: web, selectors: ['']}]",
        expect!["2:36 error wrong_type: a selector is not a label"],
    );
    overlay(
        "services: [{name: web, on_node_loss: panic}]",
        expect![[r#"
        2:38 error invalid_value: `on_node_loss` cannot be `panic`
          expected `replace after D`, `wait` or `stop_self after D`, D from 8s to 8760h"#]],
    );
    overlay(
        "services: [{name: web, min_allocations_count: x}]",
        expect![[r#"
        2:47 error invalid_value: `services[0].min_allocations_count` cannot be `x`
          expected a whole number"#]],
    );
    overlay(
        "services: [{name: ''}]",
        expect!["2:19 error validation_failed: a service has no name"],
    );
    overlay(
        "services: [{replicas: 1}]",
        expect!["2:12 error missing_key: `services[0]` has no `name`"],
    );
    overlay(
        "servces: []",
        expect![[r#"
        2:1 error unknown_key: jaco.yaml has no key `servces`
          help did you mean `services`?"#]],
    );
    overlay(
        "scoring: 5",
        expect![[r#"
        2:10 error wrong_type: `scoring` is a number
          expected `jaco`, `nomad`"#]],
    );
}

/// R-CONS-5: pairs, rules, affinities and spread criteria that cannot be read.
#[test]
fn overlay_constraints() {
    overlay(
        "constraints: cpu=many",
        expect![[r#"
        2:14 error invalid_value: the constraint `cpu` cannot be `many`
          expected a number of cores, as 0.5 or 2, or max"#]],
    );
    overlay("constraints: cores=2", expect![""]);
    overlay(
        "constraints: zone",
        expect![[r#"
        2:14 error invalid_value: `zone` is not a constraint
          expected `KEY=VALUE` pairs, separated by spaces"#]],
    );
    overlay(
        "constraints: 5",
        expect![[r#"
        2:14 error wrong_type: `constraints` is a number
          expected a string such as "cpu=2 ram=3G", a mapping, or a list of rules"#]],
    );
    overlay(
        "constraints: {cpu: [1]}",
        expect!["2:20 error wrong_type: the constraint `cpu` is a list"],
    );
    overlay(
        "constraints: cpu=1 cpu=2",
        expect!["2:14 error duplicate_value: the constraint `cpu` is declared twice"],
    );
    overlay(
        "constraints: [{operator: '='}]",
        expect!["2:15 error missing_key: the rule has no `attribute`"],
    );
    overlay(
        "constraints: [{attribute: a, operator: '~'}]",
        expect![[r#"
        2:40 error invalid_value: `~` is not an operator
          expected `=`, `!=`, `<`, `<=`, `>`, `>=`, `is_set`, `is_not_set`, `version`, `semver`, `regexp`, `set_contains`, `set_contains_any`"#]],
    );
    overlay(
        "constraints: [{attribute: a, oprator: '='}]",
        expect![[r#"
        2:30 error unknown_key: unknown key `oprator`
          help did you mean `operator`?"#]],
    );
    overlay(
        "constraints: roles=none",
        expect![[r#"
        2:14 error unknown_key: there is no role `none`
          expected a name that is defined below `roles:` in jaco.yaml"#]],
    );
    overlay(
        "roles: {a: {roles: b}}",
        expect!["2:20 error invalid_value: a role cannot name other roles"],
    );
    overlay(
        "roles: {'a b': cpu=1}",
        expect![[r#"
        2:9 error invalid_name: `a b` is not the name of a role
          expected a name without commas, spaces and `=`"#]],
    );
    overlay(
        "roles: 5",
        expect![[r#"
        2:8 error wrong_type: `roles` is a number
          expected a mapping of names to constraints"#]],
    );
    overlay(
        "services: [{name: web, affinities: [{attribute: a, weight: 101}]}]",
        expect![[r#"
        2:60 error invalid_value: the weight is out of range
          expected a whole number from -100 to 100"#]],
    );
    overlay(
        "services: [{name: web, affinities: 5}]",
        expect![[r#"
        2:36 error wrong_type: `affinities` is a number
          expected a list of mappings"#]],
    );
    overlay(
        "spread: [{weight: 5}]",
        expect!["2:10 error missing_key: the spread criterion has no `attribute`"],
    );
    overlay(
        "spread: [{attribute: a, weight: -1}]",
        expect![[r#"
        2:33 error invalid_value: the weight is out of range
          expected a whole number from 0 to 100"#]],
    );
    overlay(
        "spread: [{attribute: a, targets: {x: 60, y: 60}}]",
        expect![[r#"
        2:34 error invalid_value: the shares add up to 120 percent
          expected at most 100"#]],
    );
    overlay(
        "spread: [{attribute: a, targets: [{value: x, percent: 101}]}]",
        expect![[r#"
        2:35 error invalid_value: the share of `x` is not a valid percentage
          expected `percent:` from 0 to 100"#]],
    );
    overlay(
        "spread: [{attribute: a, targets: [{value: x, percent: 1}, {value: x, percent: 2}]}]",
        expect!["2:59 error duplicate_value: `x` is declared twice"],
    );
    overlay(
        "services: [{name: web, resources: {memory: {min: 2GB, max: 1GB}}}]",
        expect!["2:44 error invalid_manifest: `memory.min` is more than `memory.max`"],
    );
    overlay(
        "services: [{name: web, resources: {cpu: {max: fast}}}]",
        expect![[r#"
        2:47 error invalid_manifest: `cpu.max` cannot be `fast`
          expected `500 MHz`, `2 GHz`"#]],
    );
    overlay(
        "services: [{name: web, update: {max_failure_ratio: 2}}]",
        expect![[r#"
        2:52 error invalid_value: `max_failure_ratio` is not a valid ratio
          expected a number from 0 to 1"#]],
    );
    overlay(
        "services: [{name: web, update: {parallelism: -1}}]",
        expect![[r#"
        2:46 error validation_failed: `parallelism` cannot be -1
          expected a whole number from 0"#]],
    );
    overlay(
        "services: [{name: web, update: {delay: 5}}]",
        expect![[r#"
        2:40 error wrong_type: `services[0].update.delay` is a number
          expected a duration such as `30s` or `1m30s`
          help write `5s` for seconds"#]],
    );
    overlay(
        "services: [{name: web, rollback: {step_timeout: 5s}}]",
        expect!["2:35 error unknown_key: `services[0].rollback` has no key `step_timeout`"],
    );
}

/// R-IN-1: routes and certificates are checked, ignored and warned about.
#[test]
fn keys_that_nothing_implements() {
    overlay(
        "acme: off",
        expect!["2:1 warning no_effect: `acme` has no effect: it is not implemented yet"],
    );
    overlay(
        "acme: perhaps",
        expect![[r#"
        2:7 error validation_failed: `acme` must be `on` or `off`
          expected `on` or `off`
        2:1 warning no_effect: `acme` has no effect: it is not implemented yet"#]],
    );
    overlay(
        "acme_email: a@b.c",
        expect!["2:1 warning no_effect: `acme_email` has no effect: it is not implemented yet"],
    );
    overlay(
        "acme_email: nobody",
        expect![[r#"
        2:13 error validation_failed: `nobody` is not an e-mail address
          expected `name@domain`
        2:1 warning no_effect: `acme_email` has no effect: it is not implemented yet"#]],
    );
    overlay("routes: []", expect![""]);
    overlay("routes: [{domain: a.b, service: web, port: 80}]", expect![""]);
    overlay(
        "routes: [{domain: a.b, service: wbe, port: 80}]",
        expect![[r#"
            2:10 error unknown_service: the route of `a.b` goes to `wbe`, which does not exist
              help did you mean `web`?"#]],
    );
    overlay(
        "routes: [{domain: a.b, service: web, port: 0}]",
        expect![[r#"
        2:44 error validation_failed: the port of the route is not a valid port number
          expected a number from 1 to 65535"#]],
    );
    overlay(
        "routes: [{domain: a.b, service: web, port: 80}, {domain: a.b, service: db, port: 80}]",
        expect![[r#"
            2:49 error route_multiple_catchall: `a.b` has a second route without a `path`"#]],
    );
    overlay(
        "routes: [{domain: a.b, service: web, port: 80, tls: off}, {domain: a.b, service: db, port: 80, path: /x}]",
        expect![[r#"
            2:59 error route_tls_mixed: the routes of `a.b` set `tls` to both `auto` and `off`"#]],
    );
    overlay("routes: [{domain: a.b, service: web, port: 80, tls: perhaps}]", expect![""]);
    overlay(
        "routes: [{domain: '', service: web, port: 80}]",
        expect![[r#"
        2:19 error validation_failed: the route has no domain"#]],
    );
    overlay(
        "routes: [{domain: a.b, service: web}]",
        expect![[r#"
        2:10 error missing_key: `routes[0]` has no `port`"#]],
    );
}
