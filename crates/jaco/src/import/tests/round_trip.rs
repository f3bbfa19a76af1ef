//! A compose file, what the engine says of its containers, and the compose file that is made of that: the same services.
//!
//! The engine is played by [`engine_says`], which does what Docker Compose and the engine do with each key.

use std::collections::BTreeMap;

use jaco_compose::canonical::escape_dollars;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{project, services, written};
use crate::import::import_project;

/// What an image says.
const IMAGE_ENV: [&str; 2] = ["PATH=/bin", "LANG=C"];
const IMAGE_CMD: &str = "serve";

/// A service as a user thinks of it.
#[derive(Debug, Clone)]
struct Wanted {
    environment: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    command: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    user: String,
    ports: BTreeMap<u16, u16>,
    volumes: BTreeMap<String, bool>,
    memory_mib: Option<i64>,
    cpu_millis: Option<i64>,
    replicas: usize,
    restart: Option<&'static str>,
    health: Option<(Vec<String>, u64, u64)>,
    aliases: Vec<String>,
    caps: Vec<String>,
    is_read_only: bool,
    init: Option<bool>,
    grace_secs: Option<u64>,
    sysctls: BTreeMap<String, String>,
    hosts: Vec<String>,
}

fn text() -> impl Strategy<Value = String> {
    "[ -~\n\té✓]{0,10}"
}

fn words() -> impl Strategy<Value = Vec<String>> {
    vec(text().prop_filter("an argument", |word| !word.is_empty()), 1..4)
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let first = (
        btree_map("[A-Z]{1,4}", text(), 0..4),
        btree_map("[a-z]{1,4}\\.[a-z]{1,3}", text(), 0..3),
        proptest::option::of(words()),
        proptest::option::of(words()),
        prop_oneof![Just(String::new()), "[1-9][0-9]{0,3}(:[1-9][0-9]{0,2})?"],
        btree_map(1_u16..9000, 10_000_u16..60_000, 0..3),
        btree_map("[a-z]{1,5}", any::<bool>(), 0..3),
        proptest::option::of(6_i64..100_000),
        proptest::option::of(1_i64..64_000),
        1_usize..4,
    );
    let second = (
        prop_oneof![
            Just(None),
            Just(Some("always")),
            Just(Some("unless-stopped")),
            Just(Some("on-failure:3"))
        ],
        proptest::option::of((words(), 1_u64..100_000, 0_u64..5)),
        proptest::collection::btree_set("[a-z]{3,6}", 0..3),
        proptest::sample::subsequence(vec!["CHOWN", "KILL", "SETUID"], 0..3),
        any::<bool>(),
        any::<Option<bool>>(),
        proptest::option::of(1_u64..1000),
        btree_map("net\\.[a-z]{1,4}\\.[a-z]{1,4}", "[0-9]{1,4}", 0..2),
        btree_map("[a-z]{1,6}", "10\\.1\\.[0-9]\\.[0-9]", 0..2),
    );
    (first, second).prop_map(|(first, second)| Wanted {
        environment: first.0,
        labels: first.1,
        command: first.2,
        entrypoint: first.3,
        user: first.4,
        ports: first.5,
        volumes: first.6,
        memory_mib: first.7,
        cpu_millis: first.8,
        replicas: first.9,
        restart: second.0,
        health: second.1,
        aliases: second.2.into_iter().filter(|alias| alias != "web").collect(),
        caps: second.3.into_iter().map(str::to_owned).collect(),
        is_read_only: second.4,
        init: second.5,
        grace_secs: second.6,
        sysctls: second.7,
        hosts: second.8.into_iter().map(|(name, address)| format!("{name}={address}")).collect(),
    })
}

/// The compose file of a service.
fn compose(wanted: &Wanted) -> String {
    let mut service = json!({ "image": "web:1" });
    let mut put = |key: &str, value: Value| {
        let says_nothing = value.is_null()
            || value.as_str() == Some("")
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty)
            || value == json!(false) && key == "read_only";
        if !says_nothing {
            service[key] = value;
        }
    };
    put("environment", json!(wanted.environment));
    put("labels", json!(wanted.labels));
    put("command", json!(wanted.command));
    put("entrypoint", json!(wanted.entrypoint));
    put("user", json!(wanted.user));
    let ports = wanted.ports.iter().map(|(target, published)| format!("{published}:{target}"));
    put("ports", ports.collect());
    let volumes = wanted.volumes.iter().map(|(name, is_writable)| {
        format!("{name}:/{name}{}", if *is_writable { "" } else { ":ro" })
    });
    put("volumes", volumes.collect());
    let mut limits = Map::new();
    if let Some(mib) = wanted.memory_mib {
        limits.insert("memory".to_owned(), format!("{mib}m").into());
    }
    if let Some(millis) = wanted.cpu_millis {
        limits.insert("cpus".to_owned(), format!("{}.{:03}", millis / 1000, millis % 1000).into());
    }
    let mut deploy = Map::new();
    if wanted.replicas > 1 {
        deploy.insert("replicas".to_owned(), wanted.replicas.into());
    }
    if !limits.is_empty() {
        deploy.insert("resources".to_owned(), json!({ "limits": limits }));
    }
    put("deploy", deploy.into());
    put("restart", json!(wanted.restart));
    if let Some((test, interval_ms, retries)) = &wanted.health {
        let test: Vec<&str> =
            std::iter::once("CMD").chain(test.iter().map(String::as_str)).collect();
        let mut health = json!({ "test": test, "interval": format!("{interval_ms}ms") });
        if *retries > 0 {
            health["retries"] = (*retries).into();
        }
        put("healthcheck", health);
    }
    if !wanted.aliases.is_empty() {
        put("networks", json!({ "default": { "aliases": wanted.aliases } }));
    }
    put("cap_add", json!(wanted.caps));
    put("read_only", json!(wanted.is_read_only));
    put("init", json!(wanted.init));
    put("stop_grace_period", json!(wanted.grace_secs.map(|secs| format!("{secs}s"))));
    put("sysctls", json!(wanted.sysctls));
    put("extra_hosts", json!(wanted.hosts));
    let volumes: Map<String, Value> =
        wanted.volumes.keys().map(|name| (name.clone(), json!({}))).collect();
    escape_dollars(json!({ "name": "shop", "services": { "web": service }, "volumes": volumes }))
        .to_string()
}

/// What the engine says once Docker Compose has started the service.
fn engine_says(wanted: &Wanted) -> Value {
    let mut env: Vec<String> =
        wanted.environment.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let is_set = |entry: &&&str| !wanted.environment.contains_key(entry.split('=').next().unwrap());
    env.extend(IMAGE_ENV.iter().filter(is_set).map(|entry| (*entry).to_owned()));
    // An entrypoint takes the command of the image away.
    let command = match (&wanted.command, &wanted.entrypoint) {
        (Some(command), _) => json!(command),
        (None, Some(_)) => Value::Null,
        (None, None) => json!([IMAGE_CMD]),
    };
    let mut labels = wanted.labels.clone();
    labels.insert("com.docker.compose.project".to_owned(), "shop".to_owned());
    labels.insert("com.docker.compose.service".to_owned(), "web".to_owned());
    let health = wanted.health.as_ref().map(|(test, interval_ms, retries)| {
        let test: Vec<&str> =
            std::iter::once("CMD").chain(test.iter().map(String::as_str)).collect();
        json!({ "Test": test, "Interval": interval_ms * 1_000_000, "Retries": retries })
    });
    let ports: Map<String, Value> = wanted
        .ports
        .iter()
        .map(|(target, published)| {
            (format!("{target}/tcp"), json!([{ "HostIp": "", "HostPort": published.to_string() }]))
        })
        .collect();
    let mounts: Vec<Value> = wanted.volumes.iter().map(|(name, is_writable)| json!({
        "Type": "volume", "Name": format!("shop_{name}"), "Source": format!("/var/lib/docker/volumes/shop_{name}/_data"),
        "Destination": format!("/{name}"), "Driver": "local", "Mode": "rw", "RW": is_writable, "Propagation": "",
    })).collect();
    let (restart, retries) = match wanted.restart {
        None => ("no", 0),
        Some("on-failure:3") => ("on-failure", 3),
        Some(name) => (name, 0),
    };
    let memory = wanted.memory_mib.unwrap_or_default() << 20;
    let container = |number: usize| {
        let mut labels = labels.clone();
        labels.insert("com.docker.compose.container-number".to_owned(), number.to_string());
        let id = format!("{number:064x}");
        let mut aliases = wanted.aliases.clone();
        aliases.extend(["web".to_owned(), id[..12].to_owned()]);
        json!({
            "Id": id, "Name": format!("/shop_web_{number}"), "Image": "sha256:1", "Created": "2026-11-27T01:00:00Z",
            "State": { "Running": true, "ExitCode": 0 },
            "Config": {
                "Hostname": id[..12], "Domainname": "", "User": wanted.user, "Tty": false, "OpenStdin": false, "Env": env,
                "Cmd": command, "Entrypoint": wanted.entrypoint, "Image": "web:1", "WorkingDir": "", "Labels": labels,
                "Healthcheck": health, "StopTimeout": wanted.grace_secs, "Volumes": null, "OnBuild": null,
            },
            "HostConfig": {
                "NetworkMode": "shop_default", "PortBindings": ports, "CapAdd": wanted.caps, "CapDrop": null,
                "RestartPolicy": { "Name": restart, "MaximumRetryCount": retries },
                "LogConfig": { "Type": "json-file", "Config": {} }, "Memory": memory, "MemorySwap": memory * 2,
                "NanoCpus": wanted.cpu_millis.unwrap_or_default() * 1_000_000, "PidsLimit": null, "ReadonlyRootfs": wanted.is_read_only,
                "Init": wanted.init, "Sysctls": wanted.sysctls, "IpcMode": "private", "ShmSize": 67_108_864, "Runtime": "runc",
                "ExtraHosts": wanted.hosts.iter().map(|host| host.replace('=', ":")).collect::<Vec<_>>(), "Devices": null,
            },
            "Mounts": mounts,
            "NetworkSettings": { "Networks": { "shop_default": { "Aliases": aliases, "IPAMConfig": null, "Links": null } } },
        })
    };
    let labelled =
        |key: &str, value: &str| json!({ "com.docker.compose.project": "shop", key: value });
    let volumes = wanted.volumes.keys().map(|name| json!({
        "Name": format!("shop_{name}"), "Driver": "local", "Options": null, "Labels": labelled("com.docker.compose.volume", name),
    }));
    json!({
        "containers": (1..=wanted.replicas).map(container).collect::<Vec<_>>(),
        "images": [{
            "Id": "sha256:1", "RepoTags": ["web:1"], "RepoDigests": [],
            "Config": { "Env": IMAGE_ENV, "Cmd": [IMAGE_CMD], "Entrypoint": null, "Labels": null },
        }],
        "networks": [{ "Name": "shop_default", "Id": "1", "Labels": labelled("com.docker.compose.network", "default") }],
        "volumes": volumes.collect::<Vec<_>>(),
    })
}

proptest! {
    /// R-IN-1, R-IN-2: importing what the engine says of a compose file gives the same services, and a cluster takes them.
    #[test]
    fn an_import_is_what_was_started(wanted in wanted()) {
        let imported = import_project(&project("shop", engine_says(&wanted)));
        let (text, problems) = written(&imported);
        prop_assert!(problems.errors().next().is_none(), "{problems}\n{text}");
        prop_assert_eq!(services(&text), services(&compose(&wanted)), "{}", text);
        prop_assert!(imported.findings.differences.is_empty(), "{:?}", imported.findings.differences);
    }
}
