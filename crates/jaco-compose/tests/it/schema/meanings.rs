//! Keys whose values mean something beyond their shape: names of what is declared, closed lists that
//! the tables do not have, notations.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::values::{Scope, one_of, text};

/// A value of the key at `path`, or nothing if any value of its shape will do.
pub(super) fn value(path: &str, scope: Scope) -> Option<BoxedStrategy<Json>> {
    let namespace = |others: &[&str]| {
        let shared = scope.targets.iter().map(|target| format!("service:{target}"));
        let all: Vec<Json> =
            others.iter().map(|text| (*text).to_owned()).chain(shared).map(Json::from).collect();
        proptest::sample::select(all).boxed()
    };
    Some(match path {
        "name" => one_of(&["shop"]),
        "include[]" | "include[].path[]" => one_of(&["more.yaml"]),
        "include[].env_file[]" => one_of(&["a.env"]),
        "include[].project_directory" => one_of(&["."]),
        "services.*.image" => one_of(&[
            "web",
            "web:1.2",
            "host.example:5000/a/b_c:tag",
            "repo@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ]),
        "services.*.network_mode" => namespace(&["none", "host", "bridge"]),
        "services.*.pid" => prop_oneof![Just(Json::Null), namespace(&["host"])].boxed(),
        "services.*.ipc" => namespace(&["host", "private", "shareable"]),
        "services.*.uts" => one_of(&["host"]),
        "services.*.userns_mode" => one_of(&["host"]),
        "services.*.pull_policy" => one_of(&[
            "always",
            "never",
            "build",
            "if_not_present",
            "missing",
            "refresh",
            "daily",
            "weekly",
            "every_12h",
        ]),
        "services.*.restart" => {
            one_of(&["no", "always", "unless-stopped", "on-failure", "on-failure:3"])
        }
        "services.*.extends.service" => one_of(&["base"]),
        "services.*.extends.file" => one_of(&["other.yaml"]),
        "services.*.env_file[]" => prop_oneof![
            one_of(&["a.env"]),
            Just(json!({"path": "a.env", "required": false, "format": "raw"})),
            Just(json!({"path": "absent.env", "required": false})),
        ]
        .boxed(),
        "services.*.label_file[]" => one_of(&["a.env"]),
        "services.*.links" => named(scope, &["", ":alias"]),
        "services.*.volumes_from" => named(scope, &["", ":ro", ":rw"]),
        "services.*.profiles[]" => one_of(&["p", "q"]),
        "services.*.platform" => one_of(&["linux", "linux/arm64/v8", "amd64"]),
        "services.*.networks" => networks(),
        "services.*.depends_on" => depends_on(scope),
        "services.*.models" => one_of_json(vec![
            json!(["llm"]),
            json!({"llm": null}),
            json!({"llm": {"endpoint_var": "E", "model_var": "M"}}),
        ]),
        "services.*.configs[]" => file_mount(&["c", "d"]),
        "services.*.secrets[]" | "services.*.build.secrets[]" => file_mount(&["s", "t"]),
        "services.*.volumes[]" => mount(),
        "services.*.ports" => ports(),
        "services.*.dns[]" => one_of(&["1.1.1.1", "fe80::1"]),
        "services.*.blkio_config.weight" | "services.*.blkio_config.weight_device[].weight" => {
            prop_oneof![(10..=1_000_i64).prop_map(Json::from), one_of(&["0", "500"])].boxed()
        }
        "networks.*.ipam.config[].subnet" => one_of(&["10.5.0.0/24", "172.16.0.0/12", "fd00::/64"]),
        "networks.*.driver_opts" => one_of_json(vec![
            json!({}),
            json!({"com.docker.network.driver.mtu": 1400, "other": "x"}),
            json!({"com.docker.network.driver.mtu": "0"}),
        ]),
        "services.*.deploy.mode" => one_of(&["replicated", "global"]),
        "services.*.deploy.replicas" | "services.*.scale" => {
            prop_oneof![(0..5_i64).prop_map(Json::from), one_of(&["2"])].boxed()
        }
        "services.*.deploy.placement.constraints[]" => one_of(&[
            "node.labels.zone == a",
            "node.labels.$x != b",
            "node.hostname==n1",
            "node.role == worker",
            "node.platform.arch == x86_64",
        ]),
        "services.*.deploy.placement.preferences[].spread" => {
            one_of(&["node.labels.zone", "node.hostname"])
        }
        "services.*.deploy.restart_policy.condition" => {
            one_of(&["none", "on-failure", "any", "always", "unless-stopped"])
        }
        "services.*.deploy.update_config.failure_action" => {
            one_of(&["pause", "continue", "rollback"])
        }
        "services.*.deploy.rollback_config.failure_action" => one_of(&["pause", "continue"]),
        "services.*.deploy.update_config.max_failure_ratio"
        | "services.*.deploy.rollback_config.max_failure_ratio" => {
            one_of_json(vec![json!(0), json!(0.25), json!("0.5"), json!(1)])
        }
        "services.*.group_add" => one_of_json(vec![json!(["wheel", 5]), json!([0]), json!(["5"])]),
        "configs.*.environment" | "secrets.*.environment" => one_of(&["SET", "NOT_SET"]),
        "services.*.build.provenance" | "services.*.build.sbom" => {
            one_of_json(vec![json!(true), json!("mode=max")])
        }
        _ => return None,
    })
}

fn one_of_json(values: Vec<Json>) -> BoxedStrategy<Json> {
    proptest::sample::select(values).boxed()
}

/// A target with one of the suffixes; without targets there is nothing that can be named.
fn named(scope: Scope, suffixes: &'static [&'static str]) -> BoxedStrategy<Json> {
    let all = scope.targets.iter().flat_map(|target| suffixes.iter().map(move |end| (target, end)));
    let all: Vec<Json> = all.map(|(target, end)| json!(format!("{target}{end}"))).collect();
    if all.is_empty() {
        return Just(json!([])).boxed();
    }
    vec(proptest::sample::select(all), 0..3).prop_map(Json::from).boxed()
}

fn networks() -> BoxedStrategy<Json> {
    let attachment = || {
        let members = (
            proptest::option::of(vec("[a-z_]{1,4}(\\.[a-z]{1,3})?".prop_map(Json::from), 0..2)),
            proptest::option::of(0..9_i64),
            proptest::option::of(text()),
        );
        let attachment = members.prop_map(|(aliases, priority, address)| {
            let mut object = json!({});
            let members = [
                ("aliases", aliases.map(Json::from)),
                ("priority", priority.map(Json::from)),
                ("gw_priority", priority.map(Json::from)),
                ("mac_address", address.clone().map(Json::from)),
                ("ipv4_address", address.clone().map(Json::from)),
                ("ipv6_address", address.clone().map(Json::from)),
                ("interface_name", address.map(Json::from)),
            ];
            for (key, value) in members {
                if let Some(value) = value {
                    object[key] = value;
                }
            }
            object
        });
        prop_oneof![
            Just(Json::Null),
            Just(json!({"driver_opts": {"a": 1}, "link_local_ips": ["1"]})),
            attachment
        ]
    };
    let long = proptest::collection::btree_map(
        proptest::sample::select(vec!["n", "m", "default"]),
        attachment(),
        0..3,
    );
    let long =
        long.prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Json>());
    let short = proptest::sample::subsequence(vec!["n", "m", "default"], 0..=3);
    prop_oneof![long, short.prop_map(|names| json!(names))].boxed()
}

fn depends_on(scope: Scope) -> BoxedStrategy<Json> {
    let condition = proptest::sample::select(vec![
        json!({"condition": "service_started"}),
        json!({"condition": "service_healthy", "required": false}),
        json!({"condition": "service_completed_successfully", "restart": true}),
        json!({"condition": "service_started", "required": "no", "restart": "off"}),
    ]);
    let targets = proptest::sample::subsequence(scope.targets, 0..=scope.targets.len());
    let short = targets.clone().prop_map(|names| json!(names));
    let long = (targets, condition).prop_map(|(names, condition)| {
        names.iter().map(|name| ((*name).to_owned(), condition.clone())).collect::<Json>()
    });
    prop_oneof![short, long].boxed()
}

fn file_mount(names: &'static [&'static str]) -> BoxedStrategy<Json> {
    let source = proptest::sample::select(names);
    let long = (source.clone(), 0_u8..32).prop_map(|(source, bits)| {
        let mut mount = json!({"source": source});
        let members = [
            ("target", json!("/run/x")),
            ("uid", json!("103")),
            ("gid", json!("0")),
            ("mode", json!("0440")),
            ("mode", json!(288)),
        ];
        for (bit, (key, value)) in members.into_iter().enumerate() {
            if bits & (1 << bit) != 0 {
                mount[key] = value;
            }
        }
        mount
    });
    prop_oneof![source.prop_map(|name| json!(name)), long].boxed()
}

fn mount() -> BoxedStrategy<Json> {
    let long = |kind: &str, more: Json| {
        let mut mount = json!({"type": kind, "target": format!("/long/{kind}")});
        for (key, value) in more.as_object().into_iter().flatten() {
            mount[key] = value.clone();
        }
        mount
    };
    one_of_json(vec![
        json!("/anonymous"),
        json!("v:/v"),
        json!("v:/v:ro"),
        json!("data:/data:nocopy,ro"),
        json!("./html:/html"),
        json!("./html:/html/:ro,z"),
        json!("/abs:/abs:rshared,Z"),
        json!("../up:/up"),
        json!("c:\\win:/win"),
        long("volume", json!({})),
        long("volume", json!({"source": "data", "read_only": true, "consistency": "cached"})),
        long(
            "volume",
            json!({"source": "v", "volume": {"nocopy": true, "subpath": "a", "labels": ["a=b", "c"]}}),
        ),
        long("bind", json!({"source": "./conf", "bind": {"create_host_path": false}})),
        long(
            "bind",
            json!({"source": "/host", "bind": {"create_host_path": "yes", "propagation": "rslave", "recursive": "disabled", "selinux": "z"}}),
        ),
        long("bind", json!({"source": "/plain"})),
        long("tmpfs", json!({"tmpfs": {"size": "64m", "mode": 511}})),
        long("tmpfs", json!({"tmpfs": {"size": 0, "mode": "448"}})),
        long("image", json!({"source": "web:1", "image": {"subpath": "a"}})),
    ])
}

/// A list of ports in every notation.
pub(super) fn ports() -> BoxedStrategy<Json> {
    let port = one_of_json(vec![
        json!(80),
        json!("81"),
        json!("8082:82"),
        json!("127.0.0.1:8083:83/udp"),
        json!("[::1]:8084:84/sctp"),
        json!("3000-3002"),
        json!("9000-9002:90-92"),
        json!("9100-9110:93/TCP"),
        json!("10.0.0.1::94"),
        json!({"target": 95}),
        json!({"target": 99, "mode": "", "protocol": ""}),
        json!({"target": 96, "published": "8096", "protocol": "udp", "mode": "host", "host_ip": "0.0.0.0"}),
        json!({"target": "97", "published": 8097, "name": "x", "app_protocol": "http"}),
        json!({"target": 98, "published": "9200-9210"}),
    ]);
    vec(port, 0..4).prop_map(Json::from).boxed()
}
