//! Every short form, every scalar and their errors, one line for each key of the result. R-IN-2, R-IN-3.

use expect_test::{Expect, expect};
use serde_json::Value as Json;

use crate::util::{load_text, problems_of};

/// Loads a service that consists of `members` and shows its normalised keys, or the problems.
fn check(members: &str, expected: Expect) {
    let members = members.replace('\n', "\n    ");
    let beside = "networks: {n: {}, m: {}}\nvolumes: {data: {}, vol: {}}\n\
                  configs: {c: {content: x}, d: {content: y}}\nsecrets: {s: {environment: S}}\n";
    let text =
        format!("services:\n  db: {{image: d}}\n  web:\n    image: i\n    {members}\n{beside}");
    expected.assert_eq(&match load_text(&text) {
        Ok(loaded) => {
            let mut model = loaded.project.canonical_json();
            let web = model["services"]["web"].as_object_mut().expect("the service is there");
            web.remove("image");
            let is_default = |value: &Json| {
                let only = value.as_object().filter(|all| all.len() == 1);
                only.and_then(|all| all.get("default")).is_some_and(Json::is_null)
            };
            web.retain(|key, value| !(value.is_null() || key == "networks" && is_default(value)));
            let keys = web.iter().map(|(key, value)| format!("{key} = {value}"));
            keys.collect::<Vec<_>>().join("\n")
        }
        Err(problems) => problems_of(&problems),
    });
}

/// R-IN-2: numbers, addresses, ranges and protocols of published ports.
#[test]
fn port_forms() {
    check("ports: [80]", expect![[r#"ports = [{"mode":"ingress","protocol":"tcp","target":80}]"#]]);
    check(
        "ports: ['80']",
        expect![[r#"ports = [{"mode":"ingress","protocol":"tcp","target":80}]"#]],
    );
    check(
        "ports: ['8080:80']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"tcp","published":"8080","target":80}]"#
        ]],
    );
    check(
        "ports: ['127.0.0.1:8080:80']",
        expect![[
            r#"ports = [{"host_ip":"127.0.0.1","mode":"ingress","protocol":"tcp","published":"8080","target":80}]"#
        ]],
    );
    check(
        "ports: ['[::1]:8080:80']",
        expect![[
            r#"ports = [{"host_ip":"::1","mode":"ingress","protocol":"tcp","published":"8080","target":80}]"#
        ]],
    );
    check(
        "ports: ['8080:80/udp']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"udp","published":"8080","target":80}]"#
        ]],
    );
    check(
        "ports: ['8080:80/SCTP']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"sctp","published":"8080","target":80}]"#
        ]],
    );
    check(
        "ports: ['3000-3002']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"tcp","target":3000},{"mode":"ingress","protocol":"tcp","target":3001},{"mode":"ingress","protocol":"tcp","target":3002}]"#
        ]],
    );
    check(
        "ports: ['9090-9091:8080-8081']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"tcp","published":"9090","target":8080},{"mode":"ingress","protocol":"tcp","published":"9091","target":8081}]"#
        ]],
    );
    check(
        "ports: ['9090-9095:80']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"tcp","published":"9090-9095","target":80}]"#
        ]],
    );
    check(
        "ports: [{target: 80, published: 8080, mode: host}]",
        expect![[r#"ports = [{"mode":"host","protocol":"tcp","published":"8080","target":80}]"#]],
    );
    check(
        "ports: [{target: 80, published: '8080-8090', protocol: udp, host_ip: 10.0.0.1}]",
        expect![[
            r#"ports = [{"host_ip":"10.0.0.1","mode":"ingress","protocol":"udp","published":"8080-8090","target":80}]"#
        ]],
    );
    check(
        "ports: ['80:80', '80:80']",
        expect![[r#"ports = [{"mode":"ingress","protocol":"tcp","published":"80","target":80}]"#]],
    );
    check(
        "ports: ['80:80', '80:80/udp']",
        expect![[
            r#"ports = [{"mode":"ingress","protocol":"tcp","published":"80","target":80},{"mode":"ingress","protocol":"udp","published":"80","target":80}]"#
        ]],
    );
    check(
        "ports: ['127.0.0.1::80']",
        expect![[
            r#"ports = [{"host_ip":"127.0.0.1","mode":"ingress","protocol":"tcp","target":80}]"#
        ]],
    );
}

/// R-IN-3: ports that are no ports, with their position.
#[test]
fn port_errors() {
    check(
        "ports: ['web']",
        expect![[r#"
        5:13 error invalid_value: `services.web.ports` cannot be `web`
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: ['70000']",
        expect![[r#"
        5:13 error invalid_value: `services.web.ports` cannot be `70000`
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: ['0:80:90:100']",
        expect![[r#"
        5:13 error invalid_value: `services.web.ports` cannot be `0:80:90:100`
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: ['80:80/icmp']",
        expect![[r#"
        5:13 error invalid_value: `services.web.ports` cannot be `80:80/icmp`
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: ['9090-9092:80-81']",
        expect![[r#"
        5:13 error invalid_value: `services.web.ports` cannot be `9090-9092:80-81`
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: ['90-80']",
        expect![[r#"
        5:13 error invalid_value: `services.web.ports` cannot be `90-80`
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: ['-1:80']",
        expect![[r#"
        5:13 error invalid_value: `services.web.ports` cannot be `-1:80`
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: ['300.0.0.1:80:80']",
        expect![[r#"
        5:13 error invalid_value: `services.web.ports` cannot be `300.0.0.1:80:80`
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: 80",
        expect![[r#"
        5:12 error wrong_type: `services.web.ports` is a number
          expected a list of ports"#]],
    );
    check(
        "ports: [[80]]",
        expect![[r#"
        5:13 error wrong_type: `services.web.ports` is a list
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: [1.5]",
        expect![[r#"
        5:13 error wrong_type: `services.web.ports` is a number
          expected `[[ADDRESS:]PUBLISHED:]CONTAINER[/PROTOCOL]`, ports from 1 to 65535"#]],
    );
    check(
        "ports: [{target: x}]",
        expect![[r#"
        5:22 error invalid_value: `services.web.ports[0].target` cannot be `x`
          expected a whole number"#]],
    );
    check(
        "ports: [{target: 80, host_ip: nowhere}]",
        expect![[r#"
        5:35 error invalid_value: `nowhere` is not an IP address
          expected an IPv4 or IPv6 address"#]],
    );
    check(
        "ports: [{taget: 80}]",
        expect![[r#"
        5:14 error unknown_key: `services.web.ports[0]` has no key `taget`
          help did you mean `target`?"#]],
    );
}

/// R-IN-2: named volumes, binds and their options.
#[test]
fn volume_forms() {
    check("volumes: [/data]", expect![[r#"volumes = [{"target":"/data","type":"volume"}]"#]]);
    check(
        "volumes: ['data:/data']",
        expect![[r#"volumes = [{"source":"data","target":"/data","type":"volume"}]"#]],
    );
    check(
        "volumes: ['data:/data:ro']",
        expect![[
            r#"volumes = [{"read_only":true,"source":"data","target":"/data","type":"volume"}]"#
        ]],
    );
    check(
        "volumes: ['./a:/b']",
        expect![[
            r#"volumes = [{"bind":{"create_host_path":true},"source":"a","target":"/b","type":"bind"}]"#
        ]],
    );
    check(
        "volumes: ['../a:/b:ro,z']",
        expect![[
            r#"volumes = [{"bind":{"create_host_path":true,"selinux":"z"},"read_only":true,"source":"../a","target":"/b","type":"bind"}]"#
        ]],
    );
    check(
        "volumes: ['/srv//x/:/y/']",
        expect![[
            r#"volumes = [{"bind":{"create_host_path":true},"source":"/srv//x/","target":"/y","type":"bind"}]"#
        ]],
    );
    check(
        "volumes: ['~/x:/y']",
        expect![[
            r#"volumes = [{"bind":{"create_host_path":true},"source":"~/x","target":"/y","type":"bind"}]"#
        ]],
    );
    check(
        "volumes: ['data:/data:nocopy']",
        expect![[
            r#"volumes = [{"source":"data","target":"/data","type":"volume","volume":{"nocopy":true}}]"#
        ]],
    );
    check(
        "volumes: ['./a:/b:rshared']",
        expect![[
            r#"volumes = [{"bind":{"create_host_path":true,"propagation":"rshared"},"source":"a","target":"/b","type":"bind"}]"#
        ]],
    );
    check(
        "volumes: ['./a:/b:unknown']",
        expect![[
            r#"volumes = [{"bind":{"create_host_path":true},"source":"a","target":"/b","type":"bind"}]"#
        ]],
    );
    check(
        r#"volumes: ['C:\x:/y']"#,
        expect![[
            r#"volumes = [{"bind":{"create_host_path":true},"source":"C:\\x","target":"/y","type":"bind"}]"#
        ]],
    );
    check(
        "volumes: [{type: tmpfs, target: /t, tmpfs: {size: 64m, mode: 1770}}]",
        expect![[
            r#"volumes = [{"target":"/t","tmpfs":{"mode":1770,"size":"67108864"},"type":"tmpfs"}]"#
        ]],
    );
    check(
        "volumes: [{type: bind, source: ./a, target: /b, bind: {create_host_path: false, propagation: rslave}}]",
        expect![[
            r#"volumes = [{"bind":{"propagation":"rslave"},"source":"a","target":"/b","type":"bind"}]"#
        ]],
    );
    check(
        "volumes: [{type: volume, source: data, target: /d, volume: {nocopy: true, subpath: x}}]",
        expect![[
            r#"volumes = [{"source":"data","target":"/d","type":"volume","volume":{"nocopy":true,"subpath":"x"}}]"#
        ]],
    );
    check(
        "volumes: ['data:/d', 'vol:/d']",
        expect![[r#"volumes = [{"source":"vol","target":"/d","type":"volume"}]"#]],
    );
    check(
        "volumes: [{type: image, source: other, target: /o, image: {subpath: etc}}]",
        expect![[
            r#"volumes = [{"image":{"subpath":"etc"},"source":"other","target":"/o","type":"image"}]"#
        ]],
    );
}

/// R-IN-3: mounts without target, undeclared volumes and unknown kinds.
#[test]
fn volume_errors() {
    check(
        "volumes: ['']",
        expect![[r#"
            5:15 error invalid_value: `services.web.volumes[0]` cannot be ``
              expected `[SOURCE:]TARGET[:OPTIONS]`"#]],
    );
    check(
        "volumes: ['a:b:c:d']",
        expect![[
            r#"volumes = [{"bind":{"create_host_path":true},"source":"a:b","target":"c:d","type":"bind"}]"#
        ]],
    );
    check(
        "volumes: [':/x']",
        expect![[r#"
            5:15 error invalid_value: `services.web.volumes[0]` cannot be `:/x`
              expected `[SOURCE:]TARGET[:OPTIONS]`"#]],
    );
    check(
        "volumes: [{type: bind, source: ./a}]",
        expect!["5:15 error missing_key: a mount of service `web` has no `target`"],
    );
    check(
        "volumes: [{source: data, target: /d}]",
        expect!["5:15 error missing_key: `services.web.volumes[0]` has no `type`"],
    );
    check(
        "volumes: ['dta:/d']",
        expect![[r#"
            5:15 error unknown_volume: service `web` refers to volume `dta`, which is not declared
              help did you mean `data`?"#]],
    );
    check(
        "volumes: [{type: vol, source: data, target: /d}]",
        expect![[r#"
        5:22 error invalid_value: `services.web.volumes[0].type` cannot be `vol`
          expected `bind`, `volume`, `tmpfs`, `cluster`, `npipe`, `image`"#]],
    );
    check(
        "volumes: {data: /d}",
        expect![[r#"
        5:14 error wrong_type: `services.web.volumes` is a mapping
          expected a list
          help start each item with `- `"#]],
    );
    check(
        "volumes: [{type: tmpfs, target: /t, tmpfs: {size: huge}}]",
        expect![[r#"
        5:55 error invalid_value: `services.web.volumes[0].tmpfs.size` cannot be `huge`
          expected a size in bytes such as `512m` or `2g`"#]],
    );
}

/// R-IN-2: lists and mappings of dependencies, and what other keys imply.
#[test]
fn dependency_forms() {
    check(
        "depends_on: [db]",
        expect![[r#"depends_on = {"db":{"condition":"service_started","required":true}}"#]],
    );
    check(
        "depends_on: {db: {condition: service_healthy}}",
        expect![[r#"depends_on = {"db":{"condition":"service_healthy","required":true}}"#]],
    );
    check(
        "depends_on: {db: {condition: service_completed_successfully, required: false, restart: true}}",
        expect![[
            r#"depends_on = {"db":{"condition":"service_completed_successfully","required":false,"restart":true}}"#
        ]],
    );
    check(
        "links: ['db:database']",
        expect![[r#"
        depends_on = {"db":{"condition":"service_started","required":true,"restart":true}}
        links = ["db:database"]"#]],
    );
    check(
        "links: [db]",
        expect![[r#"
        depends_on = {"db":{"condition":"service_started","required":true,"restart":true}}
        links = ["db"]"#]],
    );
    check(
        "network_mode: 'service:db'",
        expect![[r#"
        depends_on = {"db":{"condition":"service_started","required":true,"restart":true}}
        network_mode = "service:db""#]],
    );
    check(
        "ipc: 'service:db'",
        expect![[r#"
        depends_on = {"db":{"condition":"service_started","required":true,"restart":true}}
        ipc = "service:db""#]],
    );
    check(
        "volumes_from: ['db:ro']",
        expect![[r#"
        depends_on = {"db":{"condition":"service_started","required":true}}
        volumes_from = ["db:ro"]"#]],
    );
    check(
        "depends_on: {db: {condition: service_started}}
links: [db]",
        expect![[r#"
            depends_on = {"db":{"condition":"service_started","required":true}}
            links = ["db"]"#]],
    );
}

/// R-IN-3: unknown services, missing conditions and cycles.
#[test]
fn dependency_errors() {
    check(
        "depends_on: [dbb]",
        expect![[r#"
        5:18 error unknown_depends_on_service: service `web` depends on `dbb`, which does not exist
          help did you mean `db`?"#]],
    );
    check(
        "depends_on: {db: {}}",
        expect![[r#"
        5:18 error missing_key: the dependency on `db` has no `condition`
          help add `condition: service_started`"#]],
    );
    check(
        "depends_on: {db: {condition: healthy}}",
        expect![[r#"
        5:34 error invalid_value: `services.web.depends_on.db.condition` cannot be `healthy`
          expected `service_started`, `service_healthy`, `service_completed_successfully`"#]],
    );
    check(
        "depends_on: [db, db]",
        expect!["5:22 error duplicate_value: `services.web.depends_on` contains `db` twice"],
    );
    check(
        "depends_on: [web]",
        expect![[r#"
        5:18 error invalid_depends_on: `web` depends on itself
          help dependency cycle: web → web"#]],
    );
    check(
        "depends_on: db",
        expect![[r#"
        5:17 error wrong_type: `services.web.depends_on` is a string
          expected a mapping"#]],
    );
    check(
        "depends_on: [1]",
        expect![[r#"
        5:18 error wrong_type: `services.web.depends_on` is a number
          expected a list of names"#]],
    );
    check(
        "depends_on: {db: {condition: service_started, requird: false}}",
        expect![[r#"
        5:51 error unknown_key: `services.web.depends_on.db` has no key `requird`
          help did you mean `required`?"#]],
    );
    check(
        "network_mode: 'service:bd'",
        expect![[r#"
        4:5 error unknown_depends_on_service: service `web` depends on `bd`, which does not exist
          help did you mean `db`?
        5:19 error unknown_service: service `web` refers to service `bd`, which is not declared
          help did you mean `db`?"#]],
    );
}

/// R-IN-2: lists and mappings of networks.
#[test]
fn network_forms() {
    check("networks: [n]", expect![[r#"networks = {"n":null}"#]]);
    check("networks: {n: }", expect![[r#"networks = {"n":null}"#]]);
    check(
        "networks: {n: {aliases: [a, a, b], priority: 5, ipv4_address: 10.0.0.2}}",
        expect![[
            r#"networks = {"n":{"aliases":["a","b"],"ipv4_address":"10.0.0.2","priority":5}}"#
        ]],
    );
    check("networks: [n, m]", expect![[r#"networks = {"m":null,"n":null}"#]]);
    check("network_mode: none", expect![[r#"network_mode = "none""#]]);
    check("network_mode: bridge", expect![[r#"network_mode = "bridge""#]]);
    check("networks: {}", expect![[""]]);
}

/// R-IN-3: undeclared networks and contradictions.
#[test]
fn network_errors() {
    check(
        "networks: [o]",
        expect![[r#"
            5:16 error unknown_network: service `web` refers to network `o`, which is not declared
              help declare it: a top-level `networks:` with `o:`"#]],
    );
    check(
        "networks: [n, n]",
        expect!["5:19 error duplicate_value: `services.web.networks` contains `n` twice"],
    );
    check(
        "networks: n",
        expect![[r#"
        5:15 error wrong_type: `services.web.networks` is a string
          expected a mapping"#]],
    );
    check(
        "networks: {n: {alias: a}}",
        expect!["5:20 error unknown_key: `services.web.networks.n` has no key `alias`"],
    );
    check(
        "network_mode: host
networks: [n]",
        expect![[r#"
            5:19 error conflict: service `web` has both `network_mode` and `networks`
              help keep one of them"#]],
    );
    check(
        "networks: {n: {priority: high}}",
        expect![[r#"
        5:30 error invalid_value: `services.web.networks.n.priority` cannot be `high`
          expected a number"#]],
    );
}

/// R-IN-2: lists and mappings of variables and labels.
#[test]
fn environment_forms() {
    check(
        "environment: [A=1, B=, C=x=y]",
        expect![[r#"environment = {"A":"1","B":"","C":"x=y"}"#]],
    );
    check(
        "environment: {A: 1, B: true, C: 1.5, D: '', E: text}",
        expect![[r#"environment = {"A":"1","B":"true","C":"1.5","D":"","E":"text"}"#]],
    );
    check("environment: [NOT_SET]", expect![[r#"environment = {"NOT_SET":null}"#]]);
    check("environment: {NOT_SET: }", expect![[r#"environment = {"NOT_SET":null}"#]]);
    check("labels: [a=b, c]", expect![[r#"labels = {"a":"b","c":""}"#]]);
    check("labels: {a: 1, c: }", expect![[r#"labels = {"a":"1","c":""}"#]]);
    check("annotations: [a=b]", expect![[r#"annotations = {"a":"b"}"#]]);
    check(
        "sysctls: {net.core.somaxconn: 1024}",
        expect![[r#"sysctls = {"net.core.somaxconn":"1024"}"#]],
    );
    check("sysctls: [a=1]", expect![[r#"sysctls = {"a":"1"}"#]]);
    check(
        "extra_hosts: ['a=1.2.3.4', 'b:5.6.7.8', 'v6=[::1]']",
        expect![[r#"extra_hosts = ["a=1.2.3.4","b=5.6.7.8","v6=::1"]"#]],
    );
    check(
        "extra_hosts: {b: 5.6.7.8, a: [1.1.1.1, 2.2.2.2]}",
        expect![[r#"extra_hosts = ["a=1.1.1.1","a=2.2.2.2","b=5.6.7.8"]"#]],
    );
    check(
        "logging: {driver: json-file, options: {max-size: 10m, max-file: 3}}",
        expect![[
            r#"logging = {"driver":"json-file","options":{"max-file":"3","max-size":"10m"}}"#
        ]],
    );
    check("storage_opt: {size: 1G}", expect![[r#"storage_opt = {"size":"1G"}"#]]);
}

/// R-IN-3: values that are neither a list nor a mapping.
#[test]
fn environment_errors() {
    check(
        "environment: A=1",
        expect![[r#"
        5:18 error wrong_type: `services.web.environment` is a string
          expected a mapping, or a list of `KEY=value`"#]],
    );
    check(
        "environment: [1]",
        expect![[r#"
        5:19 error wrong_type: `services.web.environment` is a number
          expected `KEY=value` as a string
          help put the value in quotes"#]],
    );
    check(
        "environment: [{A: 1}]",
        expect![[r#"
        5:19 error wrong_type: `services.web.environment` is a mapping
          expected `KEY=value` as a string
          help put the value in quotes"#]],
    );
    check(
        "environment: {A: [1]}",
        expect![[r#"
        5:22 error wrong_type: `services.web.environment.A` is a list
          expected a string, a number or a boolean"#]],
    );
    check(
        "labels: {a: {b: c}}",
        expect![[r#"
        5:17 error wrong_type: `services.web.labels.a` is a mapping
          expected a string, a number or a boolean"#]],
    );
    check(
        "extra_hosts: [a]",
        expect![[r#"
        5:19 error invalid_value: `services.web.extra_hosts` cannot be `a`
          expected `HOST=ADDRESS`"#]],
    );
    check(
        "extra_hosts: 5",
        expect![[r#"
        5:18 error wrong_type: `services.web.extra_hosts` is a number
          expected a mapping, or a list of `HOST=ADDRESS`"#]],
    );
    check(
        "extra_hosts: {a: 1}",
        expect![[r#"
        5:22 error wrong_type: `services.web.extra_hosts` is a number
          expected an address"#]],
    );
    check(
        "sysctls: x",
        expect![[r#"
        5:14 error wrong_type: `services.web.sysctls` is a string
          expected a mapping, or a list of `KEY=value`"#]],
    );
}

/// R-IN-2: command lines as strings and lists.
#[test]
fn command_forms() {
    check(
        "command: nginx -g 'daemon off;'",
        expect![[r#"command = ["nginx","-g","daemon off;"]"#]],
    );
    check("command: [a, 'b c']", expect![[r#"command = ["a","b c"]"#]]);
    check(r#"command: "sh -c 'echo $$HOME'""#, expect![[r#"command = ["sh","-c","echo $$HOME"]"#]]);
    check("command: ", expect![[""]]);
    check("command: []", expect!["command = []"]);
    check("command: ''", expect!["command = []"]);
    check("entrypoint: /run.sh a b", expect![[r#"entrypoint = ["/run.sh","a","b"]"#]]);
    check("entrypoint: []", expect!["entrypoint = []"]);
    check(r#"command: a\ b"#, expect![[r#"command = ["a b"]"#]]);
    check("command: echo hi && rm x", expect![[r#"command = ["echo","hi"]"#]]);
}

/// R-IN-3: unbalanced quotes and other types.
#[test]
fn command_errors() {
    check(
        r#"command: "a 'b""#,
        expect![[r#"
        5:14 error invalid_value: `services.web.command` is not a valid command line
          expected balanced quotes, and no parentheses outside of quotes
          help write it as a list, for example ["sh", "-c", "…"]"#]],
    );
    check(
        "command: 5",
        expect![[r#"
        5:14 error wrong_type: `services.web.command` is a number
          expected a command line as a string or a list"#]],
    );
    check(
        "command: {a: b}",
        expect![[r#"
        5:14 error wrong_type: `services.web.command` is a mapping
          expected a command line as a string or a list"#]],
    );
    check(
        "command: [1]",
        expect![[r#"
        5:15 error wrong_type: `services.web.command[0]` is a number
          expected a string
          help put the value in quotes"#]],
    );
    check(
        "entrypoint: a (b)",
        expect![[r#"
        5:17 error invalid_value: `services.web.entrypoint` is not a valid command line
          expected balanced quotes, and no parentheses outside of quotes
          help write it as a list, for example ["sh", "-c", "…"]"#]],
    );
}

/// R-IN-2: each scalar in its canonical form.
#[test]
fn scalar_forms() {
    check("stop_grace_period: 90s", expect![[r#"stop_grace_period = "1m30s""#]]);
    check("stop_grace_period: 1h30m", expect![[r#"stop_grace_period = "1h30m0s""#]]);
    check("stop_grace_period: 1.5s", expect![[r#"stop_grace_period = "1.5s""#]]);
    check("shm_size: 64m", expect![[r#"shm_size = "67108864""#]]);
    check("shm_size: 1gb", expect![[r#"shm_size = "1073741824""#]]);
    check("shm_size: 1024", expect![[r#"shm_size = "1024""#]]);
    check("mem_limit: 1.5g", expect![[r#"mem_limit = "1610612736""#]]);
    check("mem_swappiness: 60", expect![[r#"mem_swappiness = "60""#]]);
    check("memswap_limit: -1", expect![[r#"memswap_limit = "-1""#]]);
    check("cpus: 1.5", expect!["cpus = 1.5"]);
    check("cpus: '0.25'", expect!["cpus = 0.25"]);
    check("cpu_shares: 512", expect!["cpu_shares = 512"]);
    check("cpu_quota: '50000'", expect!["cpu_quota = 50000"]);
    check("init: true", expect!["init = true"]);
    check("init: 'yes'", expect!["init = true"]);
    check("tty: 'off'", expect![[""]]);
    check("privileged: no", expect![[""]]);
    check("scale: 3", expect!["scale = 3"]);
    check("scale: '2'", expect!["scale = 2"]);
    check("scale: 2.0", expect!["scale = 2"]);
    check("oom_score_adj: -500", expect!["oom_score_adj = -500"]);
    check("pids_limit: 100", expect!["pids_limit = 100"]);
    check("user: '1000:1000'", expect![[r#"user = "1000:1000""#]]);
    check("group_add: [1, users]", expect![[r#"group_add = ["1","users"]"#]]);
    check("expose: [80, '443', 80]", expect![[r#"expose = ["80","443"]"#]]);
    check("dns: 1.1.1.1", expect![[r#"dns = ["1.1.1.1"]"#]]);
    check("dns: [1.1.1.1, 1.1.1.1]", expect![[r#"dns = ["1.1.1.1"]"#]]);
    check("tmpfs: /run", expect![[r#"tmpfs = ["/run"]"#]]);
    check("tmpfs: [/run, /tmp]", expect![[r#"tmpfs = ["/run","/tmp"]"#]]);
    check("profiles: []", expect![[""]]);
    check("pull_policy: if_not_present", expect![[r#"pull_policy = "missing""#]]);
    check("pull_policy: every_12h", expect![[r#"pull_policy = "every_12h""#]]);
    check("platform: linux/arm64", expect![[r#"platform = "linux/arm64""#]]);
    check("domainname: example.org", expect![[r#"domainname = "example.org""#]]);
    check("hostname: h", expect![[r#"hostname = "h""#]]);
}

/// R-IN-3: wrong types and values, with what is expected.
#[test]
fn scalar_errors() {
    check(
        "stop_grace_period: 10",
        expect![[r#"
        5:24 error wrong_type: `services.web.stop_grace_period` is a number
          expected a duration such as `30s` or `1m30s`
          help write `10s` for seconds"#]],
    );
    check(
        "stop_grace_period: soon",
        expect![[r#"
        5:24 error invalid_value: `services.web.stop_grace_period` cannot be `soon`
          expected a duration such as `30s` or `1m30s`"#]],
    );
    check(
        "stop_grace_period: [1s]",
        expect![[r#"
        5:24 error wrong_type: `services.web.stop_grace_period` is a list
          expected a duration such as `30s` or `1m30s`"#]],
    );
    check(
        "shm_size: big",
        expect![[r#"
        5:15 error invalid_value: `services.web.shm_size` cannot be `big`
          expected a size in bytes such as `512m` or `2g`"#]],
    );
    check(
        "shm_size: -5",
        expect![[r#"
        5:15 error wrong_type: `services.web.shm_size` is a number
          expected a size in bytes such as `512m` or `2g`"#]],
    );
    check(
        "mem_limit: {a: b}",
        expect![[r#"
        5:16 error wrong_type: `services.web.mem_limit` is a mapping
          expected a size in bytes such as `512m` or `2g`"#]],
    );
    check(
        "cpus: many",
        expect![[r#"
            5:11 error invalid_value: `services.web.cpus` cannot be `many`
              expected a number"#]],
    );
    check(
        "cpus: [1]",
        expect![[r#"
            5:11 error wrong_type: `services.web.cpus` is a list
              expected a number"#]],
    );
    check(
        "init: maybe",
        expect![[r#"
        5:11 error invalid_value: `services.web.init` cannot be `maybe`
          expected `true` or `false`"#]],
    );
    check(
        "init: 1",
        expect![[r#"
        5:11 error wrong_type: `services.web.init` is a number
          expected `true` or `false`"#]],
    );
    check(
        "scale: 1.5",
        expect![[r#"
        5:12 error wrong_type: `services.web.scale` is a number
          expected a whole number"#]],
    );
    check(
        "scale: two",
        expect![[r#"
        5:12 error invalid_value: `services.web.scale` cannot be `two`
          expected a whole number"#]],
    );
    check(
        "scale: [1]",
        expect![[r#"
        5:12 error wrong_type: `services.web.scale` is a list
          expected a whole number"#]],
    );
    check(
        "user: 1000",
        expect![[r#"
        5:11 error wrong_type: `services.web.user` is a number
          expected a string
          help put the value in quotes"#]],
    );
    check(
        "user: [a]",
        expect![[r#"
        5:11 error wrong_type: `services.web.user` is a list
          expected a string
          help put the value in quotes"#]],
    );
    check(
        "restart: 5",
        expect![[r#"
        5:14 error wrong_type: `services.web.restart` is a number
          expected a string
          help put the value in quotes"#]],
    );
    check(
        "hostname: true",
        expect![[r#"
        5:15 error wrong_type: `services.web.hostname` is a boolean
          expected a string
          help put the value in quotes"#]],
    );
    check(
        "group_add: [1, 1]",
        expect!["5:20 error duplicate_value: `services.web.group_add` contains `1` twice"],
    );
    check(
        "expose: 80",
        expect![[r#"
        5:13 error wrong_type: `services.web.expose` is a number
          expected a list
          help start each item with `- `"#]],
    );
    check(
        "dns: [1]",
        expect![[r#"
        5:11 error wrong_type: `services.web.dns[0]` is a number
          expected a string
          help put the value in quotes"#]],
    );
    check(
        "pull_policy: sometimes",
        expect![[r#"
        5:18 error invalid_value: `sometimes` is not a pull policy
          expected `always`, `never`, `build`, `if_not_present`, `missing`, `refresh`, `daily`, `weekly` or `every_…`"#]],
    );
    check(
        "pull_policy: 5",
        expect![[r#"
        5:18 error wrong_type: `services.web.pull_policy` is a number
          expected a string
          help put the value in quotes
        5:18 error invalid_value: `` is not a pull policy
          expected `always`, `never`, `build`, `if_not_present`, `missing`, `refresh`, `daily`, `weekly` or `every_…`"#]],
    );
    check(
        "cgroup: shared",
        expect![[r#"
        5:13 error invalid_value: `services.web.cgroup` cannot be `shared`
          expected `host`, `private`"#]],
    );
    check(
        "security_opt: [a, a]",
        expect!["5:23 error duplicate_value: `services.web.security_opt` contains `a` twice"],
    );
    check(
        "tmpfs: 5",
        expect![[r#"
        5:12 error wrong_type: `services.web.tmpfs[0]` is a number
          expected a string
          help put the value in quotes"#]],
    );
    check(
        "mem_limt: 5m",
        expect![[r#"
        5:5 error unknown_key: `services.web` has no key `mem_limt`
          help did you mean `mem_limit`?"#]],
    );
    check(
        "imagee: x",
        expect![[r#"
        5:5 error unknown_key: `services.web` has no key `imagee`
          help did you mean `image`?"#]],
    );
    check(
        "log_driver: syslog",
        expect![[r#"
        5:5 error legacy_compose_field: `log_driver` belongs to an obsolete version of the compose format
          help write `logging.driver`"#]],
    );
    check(
        "net: host",
        expect![[r#"
        5:5 error legacy_compose_field: `net` belongs to an obsolete version of the compose format
          help write `network_mode`"#]],
    );
}

/// R-IN-2: devices, GPUs and limits of processes.
#[test]
fn device_forms() {
    check(
        "devices: ['/dev/a']",
        expect![[r#"devices = [{"permissions":"rwm","source":"/dev/a","target":"/dev/a"}]"#]],
    );
    check(
        "devices: ['/dev/a:/dev/b']",
        expect![[r#"devices = [{"permissions":"rwm","source":"/dev/a","target":"/dev/b"}]"#]],
    );
    check(
        "devices: ['/dev/a:/dev/b:r']",
        expect![[r#"devices = [{"permissions":"r","source":"/dev/a","target":"/dev/b"}]"#]],
    );
    check(
        "devices: ['/dev/a::rw']",
        expect![[r#"devices = [{"permissions":"rw","source":"/dev/a","target":"/dev/a"}]"#]],
    );
    check("devices: [{source: /dev/a}]", expect![[r#"devices = [{"source":"/dev/a"}]"#]]);
    check(
        "devices: ['nvidia.com/gpu=all']",
        expect![[
            r#"devices = [{"permissions":"rwm","source":"nvidia.com/gpu=all","target":"nvidia.com/gpu=all"}]"#
        ]],
    );
    check("gpus: all", expect![[r#"gpus = [{"count":-1}]"#]]);
    check("gpus: [{count: 2}]", expect![[r#"gpus = [{"count":2}]"#]]);
    check(
        "gpus: [{device_ids: ['0'], driver: nvidia, capabilities: [gpu]}]",
        expect![[r#"gpus = [{"capabilities":["gpu"],"device_ids":["0"],"driver":"nvidia"}]"#]],
    );
    check(
        "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: all}]}}}",
        expect![[
            r#"deploy = {"resources":{"reservations":{"devices":[{"capabilities":["gpu"],"count":-1}]}}}"#
        ]],
    );
    check(
        "ulimits: {nofile: 1024, nproc: {soft: 1, hard: 2}}",
        expect![[r#"ulimits = {"nofile":1024,"nproc":{"hard":2,"soft":1}}"#]],
    );
    check("ulimits: {core: 0}", expect![[r#"ulimits = {"core":0}"#]]);
    check(
        "ulimits: {core: {soft: 0, hard: 0}}",
        expect![[r#"ulimits = {"core":{"hard":0,"soft":0}}"#]],
    );
    check(
        "blkio_config: {weight: 300, device_read_bps: [{path: /dev/a, rate: 1k}]}",
        expect![[
            r#"blkio_config = {"device_read_bps":[{"path":"/dev/a","rate":"1024"}],"weight":300}"#
        ]],
    );
}

/// R-IN-3: incomplete devices and contradictions.
#[test]
fn device_errors() {
    check(
        "devices: ['a:b:c:d']",
        expect![[r#"
        5:15 error invalid_value: `services.web.devices[0]` cannot be `a:b:c:d`
          expected `SOURCE[:TARGET[:PERMISSIONS]]`"#]],
    );
    check(
        "devices: [5]",
        expect![[r#"
        5:15 error wrong_type: `services.web.devices[0]` is a number
          expected a mapping"#]],
    );
    check(
        "devices: [{target: /dev/a}]",
        expect!["5:15 error missing_key: `services.web.devices[0]` has no `source`"],
    );
    check(
        "gpus: some",
        expect![[r#"
        5:11 error wrong_type: `services.web.gpus` is a string
          expected a list
          help start each item with `- `"#]],
    );
    check(
        "gpus: [{count: 1, device_ids: ['0'], capabilities: [gpu]}]",
        expect![[r#"
        5:12 error conflict: `count` and `device_ids` are mutually exclusive
          help keep one of them"#]],
    );
    check(
        "deploy: {resources: {reservations: {devices: [{count: 1}]}}}",
        expect![
            "5:51 error missing_key: `services.web.deploy.resources.reservations.devices[0]` has no `capabilities`"
        ],
    );
    check(
        "ulimits: {nofile: {soft: 1}}",
        expect!["5:23 error missing_key: `services.web.ulimits.nofile` has no `hard`"],
    );
    check(
        "ulimits: {nofile: many}",
        expect![[r#"
        5:23 error invalid_value: `services.web.ulimits.nofile` cannot be `many`
          expected a whole number"#]],
    );
    check(
        "ulimits: 5",
        expect![[r#"
        5:14 error wrong_type: `services.web.ulimits` is a number
          expected a mapping"#]],
    );
    check(
        "blkio_config: {weigth: 1}",
        expect![[r#"
        5:20 error unknown_key: `services.web.blkio_config` has no key `weigth`
          help did you mean `weight`?"#]],
    );
}

/// R-IN-2: configs and secrets of a service.
#[test]
fn file_mount_forms() {
    check("configs: [c]", expect![[r#"configs = [{"source":"c"}]"#]]);
    check(
        "configs: [{source: c, target: /etc/c, mode: 0440, uid: '1', gid: '2'}]",
        expect![[
            r#"configs = [{"gid":"2","mode":"0440","source":"c","target":"/etc/c","uid":"1"}]"#
        ]],
    );
    check(
        "configs: [{source: c, mode: '0440'}]",
        expect![[r#"configs = [{"mode":"0440","source":"c"}]"#]],
    );
    check("secrets: [s]", expect![[r#"secrets = [{"source":"s","target":"/run/secrets/s"}]"#]]);
    check(
        "secrets: [{source: s, target: /run/x}]",
        expect![[r#"secrets = [{"source":"s","target":"/run/x"}]"#]],
    );
    check("configs: [c, c]", expect![[r#"configs = [{"source":"c"}]"#]]);
    check("configs: [c, d]", expect![[r#"configs = [{"source":"c"},{"source":"d"}]"#]]);
}

/// R-IN-3: undeclared configs and secrets, wrong modes.
#[test]
fn file_mount_errors() {
    check(
        "configs: [cc]",
        expect![[r#"
            5:15 error unknown_config: service `web` refers to config `cc`, which is not declared
              help declare it: a top-level `configs:` with `cc:`"#]],
    );
    check(
        "secrets: [c]",
        expect![[r#"
            5:15 error unknown_secret: service `web` refers to secret `c`, which is not declared
              help declare it: a top-level `secrets:` with `c:`"#]],
    );
    check("configs: [{target: /x}]", expect![[r#"configs = [{"target":"/x"}]"#]]);
    check(
        "configs: [{source: c, mode: 0999}]",
        expect![[r#"configs = [{"mode":"01747","source":"c"}]"#]],
    );
    check(
        "configs: [{source: c, mode: [1]}]",
        expect![[r#"
        5:33 error wrong_type: `services.web.configs[0].mode` is a list
          expected a file mode such as `0444`"#]],
    );
    check(
        "configs: c",
        expect![[r#"
        5:14 error wrong_type: `services.web.configs` is a string
          expected a list
          help start each item with `- `"#]],
    );
    check(
        "secrets: [{source: s, mod: 1}]",
        expect![[r#"
        5:27 error unknown_key: `services.web.secrets[0]` has no key `mod`
          help did you mean `mode`?"#]],
    );
}

/// R-IN-2: tests as strings and lists, durations, disabled tests.
#[test]
fn healthcheck_forms() {
    check(
        "healthcheck: {test: curl -f localhost}",
        expect![[r#"healthcheck = {"test":["CMD-SHELL","curl -f localhost"]}"#]],
    );
    check(
        "healthcheck: {test: [CMD, curl, localhost]}",
        expect![[r#"healthcheck = {"test":["CMD","curl","localhost"]}"#]],
    );
    check("healthcheck: {test: [NONE]}", expect![[r#"healthcheck = {"test":["NONE"]}"#]]);
    check("healthcheck: {disable: true}", expect![[r#"healthcheck = {"disable":true}"#]]);
    check(
        "healthcheck: {test: x, interval: 90s, timeout: 1500ms, retries: 3, start_period: 1m, start_interval: 5s}",
        expect![[
            r#"healthcheck = {"interval":"1m30s","retries":3,"start_interval":"5s","start_period":"1m0s","test":["CMD-SHELL","x"],"timeout":"1.5s"}"#
        ]],
    );
    check("healthcheck: {test: []}", expect![[""]]);
}

/// R-IN-3: tests that do not say how they run.
#[test]
fn healthcheck_errors() {
    check(
        "healthcheck: {test: [curl, localhost]}",
        expect![[r#"
        5:25 error invalid_value: `healthcheck.test` does not say how the test is run
          expected `CMD`, `CMD-SHELL` or `NONE` as its first item"#]],
    );
    check(
        "healthcheck: {test: {a: b}}",
        expect![[r#"
        5:25 error wrong_type: `services.web.healthcheck.test` is a mapping
          expected a list
          help start each item with `- `"#]],
    );
    check(
        "healthcheck: {interval: 5}",
        expect![[r#"
        5:29 error wrong_type: `services.web.healthcheck.interval` is a number
          expected a duration such as `30s` or `1m30s`
          help write `5s` for seconds"#]],
    );
    check(
        "healthcheck: {retries: x}",
        expect![[r#"
        5:28 error invalid_value: `services.web.healthcheck.retries` cannot be `x`
          expected a whole number"#]],
    );
    check(
        "healthcheck: {tset: x}",
        expect![[r#"
        5:19 error unknown_key: `services.web.healthcheck` has no key `tset`
          help did you mean `test`?"#]],
    );
    check(
        "healthcheck: off",
        expect![[r#"
        5:18 error wrong_type: `services.web.healthcheck` is a string
          expected a mapping"#]],
    );
}

/// R-IN-2: replicas, resources, rollouts and placement.
#[test]
fn deploy_forms() {
    check("deploy: {replicas: 3}", expect![[r#"deploy = {"replicas":3}"#]]);
    check("deploy: {mode: global}", expect![[r#"deploy = {"mode":"global"}"#]]);
    check("deploy: ", expect![[""]]);
    check(
        "deploy: {resources: {limits: {cpus: '0.5', memory: 64M, pids: 5}, reservations: {memory: 32M, cpus: 0.25}}}",
        expect![[
            r#"deploy = {"resources":{"limits":{"cpus":0.5,"memory":"67108864","pids":5},"reservations":{"cpus":0.25,"memory":"33554432"}}}"#
        ]],
    );
    check(
        "deploy: {update_config: {parallelism: 0, delay: 5s, order: start-first, failure_action: pause, monitor: 1m, max_failure_ratio: 0.1}}",
        expect![[
            r#"deploy = {"update_config":{"delay":"5s","failure_action":"pause","max_failure_ratio":0.1,"monitor":"1m0s","order":"start-first","parallelism":0}}"#
        ]],
    );
    check(
        "deploy: {rollback_config: {parallelism: 2, failure_action: continue}}",
        expect![[r#"deploy = {"rollback_config":{"failure_action":"continue","parallelism":2}}"#]],
    );
    check(
        "deploy: {placement: {constraints: ['node.labels.a == b'], preferences: [{spread: node.labels.zone}], max_replicas_per_node: 2}}",
        expect![[
            r#"deploy = {"placement":{"constraints":["node.labels.a == b"],"max_replicas_per_node":2,"preferences":[{"spread":"node.labels.zone"}]}}"#
        ]],
    );
    check(
        "deploy: {restart_policy: {condition: on-failure, delay: 5s, max_attempts: 3, window: 120s}}",
        expect![[
            r#"deploy = {"restart_policy":{"condition":"on-failure","delay":"5s","max_attempts":3,"window":"2m0s"}}"#
        ]],
    );
    check(
        "deploy: {labels: [a=b], endpoint_mode: dnsrr}",
        expect![[r#"deploy = {"endpoint_mode":"dnsrr","labels":{"a":"b"}}"#]],
    );
    check(
        "cpus: 1
deploy: {resources: {limits: {cpus: 1}}}",
        expect![[r#"
            cpus = 1
            deploy = {"resources":{"limits":{"cpus":1}}}"#]],
    );
}

/// R-IN-3: wrong types and contradictions between old and new keys.
#[test]
fn deploy_errors() {
    check(
        "deploy: {replicas: many}",
        expect![[r#"
        5:24 error invalid_value: `services.web.deploy.replicas` cannot be `many`
          expected a whole number"#]],
    );
    check(
        "deploy: {replica: 3}",
        expect![[r#"
        5:14 error unknown_key: `services.web.deploy` has no key `replica`
          help did you mean `replicas`?"#]],
    );
    check(
        "deploy: {resources: {limits: {memory: 64}}}",
        expect![[r#"
        5:43 error wrong_type: `services.web.deploy.resources.limits.memory` is a number
          expected a text such as `512m`"#]],
    );
    check(
        "deploy: {resources: {limits: {cpu: 1}}}",
        expect![[r#"
        5:35 error unknown_key: `services.web.deploy.resources.limits` has no key `cpu`
          help did you mean `cpus`?"#]],
    );
    check(
        "deploy: {update_config: {order: first}}",
        expect![[r#"
        5:37 error invalid_value: `services.web.deploy.update_config.order` cannot be `first`
          expected `start-first`, `stop-first`"#]],
    );
    check(
        "deploy: {update_config: {delay: 5}}",
        expect![[r#"
        5:37 error wrong_type: `services.web.deploy.update_config.delay` is a number
          expected a duration such as `30s` or `1m30s`
          help write `5s` for seconds"#]],
    );
    check(
        "scale: 2
deploy: {replicas: 3}",
        expect![[r#"
            5:12 error conflict: `scale` and `deploy.replicas` differ
              help keep one of them"#]],
    );
    check(
        "mem_limit: 1g
deploy: {resources: {limits: {memory: 2g}}}",
        expect![[r#"
            5:16 error conflict: `mem_limit` and `deploy.resources.limits.memory` differ
              help keep one of them"#]],
    );
    check(
        "pids_limit: 1
deploy: {resources: {limits: {pids: 2}}}",
        expect![[r#"
            5:17 error conflict: `pids_limit` and `deploy.resources.limits.pids` differ
              help keep one of them"#]],
    );
    check(
        "container_name: x
scale: 2",
        expect![[r#"
            5:21 error conflict: service `web` has several replicas but a single `container_name`
              help remove `container_name`"#]],
    );
    check(
        "deploy: 5",
        expect![[r#"
        5:13 error wrong_type: `services.web.deploy` is a number
          expected a mapping"#]],
    );
}

/// R-IN-2: build sections, which are read but not built.
#[test]
fn build_forms() {
    check("build: .", expect![[r#"build = {"context":".","dockerfile":"Dockerfile"}"#]]);
    check("build: ./app", expect![[r#"build = {"context":"app","dockerfile":"Dockerfile"}"#]]);
    check(
        "build: {context: app, args: [A=1], target: t}",
        expect![[
            r#"build = {"args":{"A":"1"},"context":"app","dockerfile":"Dockerfile","target":"t"}"#
        ]],
    );
    check(
        "build: https://example.org/x.git",
        expect![[r#"build = {"context":"https://example.org/x.git","dockerfile":"Dockerfile"}"#]],
    );
    check(
        "build: {dockerfile_inline: FROM x}",
        expect![[r#"build = {"context":".","dockerfile_inline":"FROM x"}"#]],
    );
    check(
        "build: {additional_contexts: {b: ../b}}",
        expect![[
            r#"build = {"additional_contexts":{"b":"../b"},"context":".","dockerfile":"Dockerfile"}"#
        ]],
    );
}

/// R-IN-3: build sections with unknown keys and wrong types.
#[test]
fn build_errors() {
    check(
        "build: {contxt: .}",
        expect![[r#"
        5:13 error unknown_key: `services.web.build` has no key `contxt`
          help did you mean `context`?"#]],
    );
    check(
        "build: 5",
        expect![[r#"
        5:12 error wrong_type: `services.web.build` is a number
          expected a mapping"#]],
    );
    check(
        "build: {args: x}",
        expect![[r#"
        5:19 error wrong_type: `services.web.build.args` is a string
          expected a mapping, or a list of `KEY=value`"#]],
    );
    check(
        "build: {ulimits: {nofile: {soft: 1}}}",
        expect!["5:31 error missing_key: `services.web.build.ulimits.nofile` has no `hard`"],
    );
    check(
        "develop: {watch: [{path: .}]}",
        expect!["5:23 error missing_key: `services.web.develop.watch[0]` has no `action`"],
    );
    check(
        "post_start: [{user: root}]",
        expect!["5:18 error missing_key: `services.web.post_start[0]` has no `command`"],
    );
    check(
        "pre_stop: [{user: root}]",
        expect!["5:16 error missing_key: `services.web.pre_stop[0]` has no `command`"],
    );
    check(
        "models: [m]",
        expect![[r#"
        5:14 error unknown_model: service `web` refers to model `m`, which is not declared
          help declare it: a top-level `models:` with `m:`"#]],
    );
    check(
        "provider: {options: {a: b}}",
        expect!["5:15 error missing_key: `services.web.provider` has no `type`"],
    );
}
