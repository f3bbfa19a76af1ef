//! Whether real containers are what a compose model says: every key that the model uses is looked at,
//! and a key that is not known here is a disagreement.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

type Containers = BTreeMap<String, Vec<Value>>;

/// Each thing that a container has otherwise than its model.
pub(super) fn disagreements(model: &Value, containers: &Containers) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, service) in members(&model["services"]) {
        let found = containers.get(name).map(Vec::as_slice).unwrap_or_default();
        let wanted = service["deploy"]["replicas"].as_u64().unwrap_or(1);
        if found.len() as u64 != wanted {
            wrong.push(format!("{name}: {} containers, not {wanted}", found.len()));
        }
        for container in found {
            let scene = Scene { model, name, container, containers };
            for (key, value) in members(service) {
                let other = scene.disagreement(key, value);
                wrong.extend(other.map(|other| format!("{name}.{key}: {other}, not {value}")));
            }
        }
    }
    wrong
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// One container and its surroundings.
struct Scene<'a> {
    model: &'a Value,
    name: &'a str,
    container: &'a Value,
    containers: &'a Containers,
}

impl Scene<'_> {
    /// What the container has instead of `value`.
    fn disagreement(&self, key: &str, value: &Value) -> Option<Value> {
        let (config, host) = (&self.container["Config"], &self.container["HostConfig"]);
        let same = |actual: &Value| (actual != value).then(|| actual.clone());
        match key {
            "image" => same(&config["Image"]),
            "command" => same(&config["Cmd"]),
            "entrypoint" => same(&config["Entrypoint"]),
            "user" => same(&config["User"]),
            "hostname" => same(&config["Hostname"]),
            "working_dir" => same(&config["WorkingDir"]),
            "stop_signal" => same(&config["StopSignal"]),
            "tty" => same(&config["Tty"]),
            "stdin_open" => same(&config["OpenStdin"]),
            "init" => same(&host["Init"]),
            "environment" => self.environment(value),
            "labels" => members(value)
                .find(|(key, value)| config["Labels"][key.as_str()] != **value)
                .map(|_| config["Labels"].clone()),
            "healthcheck" => self.healthcheck(value),
            "ports" => items(value).find_map(|port| self.port(port)),
            "expose" => items(value)
                .find(|port| {
                    let port = port.as_str().unwrap_or_default();
                    let port =
                        if port.contains('/') { port.to_owned() } else { format!("{port}/tcp") };
                    config["ExposedPorts"].get(port).is_none()
                })
                .map(|_| config["ExposedPorts"].clone()),
            "volumes" => items(value).find_map(|mount| self.mount(mount)),
            "networks" => members(value).find_map(|(network, _)| self.network(network)),
            "depends_on" => members(value).find_map(|(other, how)| self.waited(other, how)),
            // The name is JACO's own; the one that the file gives is an alias.
            "container_name" => {
                let named = |end: &Value| items(&end["Aliases"]).any(|alias| alias == value);
                let networks = &self.container["NetworkSettings"]["Networks"];
                (!members(networks).all(|(_, end)| named(end))).then(|| networks.clone())
            }
            // JACO restarts by new containers; Docker must never bring an old one back.
            "restart" => {
                let policy = &host["RestartPolicy"]["Name"];
                (policy != "no").then(|| policy.clone())
            }
            // Replicas are counted by the caller; limits are looked at here.
            "deploy" => {
                let memory = value["resources"]["limits"]["memory"].as_str();
                let memory = memory.map_or(Ok(0), str::parse::<i64>).unwrap_or(-1);
                (host["Memory"] != memory).then(|| host["Memory"].clone())
            }
            "profiles" => None,
            _ => Some(json!("a key that this test does not know")),
        }
    }

    fn environment(&self, value: &Value) -> Option<Value> {
        let actual = &self.container["Config"]["Env"];
        let differs = |(name, value): &(&String, &Value)| match value.as_str() {
            Some(text) => {
                let pair = Value::String(format!("{name}={text}"));
                !items(actual).any(|actual| *actual == pair)
            }
            // Named without a value, and set by nobody: it is not in the container at all.
            None => {
                let start = format!("{name}=");
                items(actual).any(|pair| pair.as_str().is_some_and(|pair| pair.starts_with(&start)))
            }
        };
        let missing = members(value).find(differs);
        missing.map(|(name, _)| json!(format!("{name} is not as in {actual}")))
    }

    fn healthcheck(&self, value: &Value) -> Option<Value> {
        let actual = &self.container["Config"]["Healthcheck"];
        let nanos = |key: &str| value[key].as_str().map_or(0, nanos);
        let is = |key: &str| actual[key].as_i64().unwrap_or_default();
        let same = actual["Test"] == value["test"]
            && is("Interval") == nanos("interval")
            && is("Timeout") == nanos("timeout")
            && is("StartPeriod") == nanos("start_period")
            && is("Retries") == value["retries"].as_i64().unwrap_or_default()
            && self.container["State"]["Health"]["Status"] == "healthy";
        (!same).then(|| actual.clone())
    }

    fn port(&self, port: &Value) -> Option<Value> {
        let actual = &self.container["HostConfig"]["PortBindings"];
        let protocol = port["protocol"].as_str().unwrap_or("tcp");
        let bound = &actual[format!("{}/{protocol}", port["target"])];
        let published = port["published"].as_str().unwrap_or_default();
        let address = port["host_ip"].as_str().unwrap_or_default();
        let found =
            items(bound).any(|each| each["HostPort"] == published && each["HostIp"] == address);
        (!found).then(|| actual.clone())
    }

    fn mount(&self, mount: &Value) -> Option<Value> {
        let actual = &self.container["Mounts"];
        let writable = mount["read_only"] != true;
        let volume = mount["source"].as_str().map(|key| &self.model["volumes"][key]["name"]);
        let found = items(actual).any(|each| {
            let named = each["Name"].as_str().unwrap_or_default();
            each["Destination"] == mount["target"]
                && each["Type"] == mount["type"]
                && each["RW"] == writable
                && volume.and_then(Value::as_str).is_none_or(|name| named.ends_with(name))
        });
        (!found).then(|| actual.clone())
    }

    /// Attached under the service's own name.
    fn network(&self, key: &str) -> Option<Value> {
        let actual = &self.container["NetworkSettings"]["Networks"];
        let name = self.model["networks"][key]["name"].as_str().unwrap_or(key);
        let found = members(actual).any(|(network, end)| {
            network.ends_with(name) && items(&end["Aliases"]).any(|alias| alias == self.name)
        });
        (!found).then(|| actual.clone())
    }

    /// Started after the other one; after its first check could have been made, if it must be healthy.
    fn waited(&self, other: &str, how: &Value) -> Option<Value> {
        let started = |container: &Value| {
            let text = container["State"]["StartedAt"].as_str().unwrap_or_default();
            text.trim_end_matches('Z').to_owned()
        };
        let others = self.containers.get(other).map(Vec::as_slice).unwrap_or_default();
        let in_order = !others.is_empty()
            && others.iter().all(|other| {
                let healthy = other["State"]["Health"]["Status"] == "healthy";
                started(other) < started(self.container)
                    && (healthy || how["condition"] != "service_healthy")
            });
        (!in_order).then(|| json!(format!("{other} did not come first")))
    }
}

/// `1m30s`, `500ms` in nanoseconds.
fn nanos(text: &str) -> i64 {
    let mut total = 0;
    let mut rest = text;
    while let Some(end) = rest.find(|c: char| !c.is_ascii_digit()) {
        let number: i64 = rest[..end].parse().unwrap_or_default();
        let tail = &rest[end..];
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        total += number
            * match &tail[..unit] {
                "h" => 3_600_000_000_000,
                "m" => 60_000_000_000,
                "s" => 1_000_000_000,
                "ms" => 1_000_000,
                other => panic!("{text:?}: {other:?} is no unit of time that is known here"),
            };
        rest = &tail[unit..];
    }
    total
}

/// The comparison must be able to say no.
#[test]
fn differing_container_is_detected() {
    let container = json!({
        "Config": {"Image": "i", "Env": ["A=b"], "Healthcheck": {"Test": ["x"], "Interval": 90_000_000_000_i64}},
        "State": {"Health": {"Status": "healthy"}, "StartedAt": "2026-01-01T00:00:01Z"},
        "Mounts": [{"Type": "volume", "Name": "x-shop_data", "Destination": "/d", "RW": true}],
    });
    let check = |key: &str, value: Value| {
        let containers = BTreeMap::from([("web".to_owned(), vec![container.clone()])]);
        let model = json!({
            "services": {"web": {key: value}},
            "volumes": {"data": {"name": "shop_data"}},
        });
        disagreements(&model, &containers).is_empty()
    };
    assert!(check("image", json!("i")) && !check("image", json!("j")));
    assert!(check("environment", json!({"A": "b"})) && !check("environment", json!({"A": "c"})));
    assert!(check("environment", json!({"C": null})) && !check("environment", json!({"A": null})));
    assert!(check("healthcheck", json!({"test": ["x"], "interval": "1m30s"})));
    assert!(!check("healthcheck", json!({"test": ["x"], "interval": "1m31s"})));
    let mount = |source: &str| json!([{"type": "volume", "source": source, "target": "/d"}]);
    assert!(check("volumes", mount("data")));
    assert!(!check("volumes", json!([{"type": "volume", "source": "data", "target": "/e"}])));
    assert!(!check("depends_on", json!({"db": {"condition": "service_started"}})));
    assert!(!check("deploy", json!({"replicas": 2})));
    assert!(!check("unheard_of", json!(1)));
}
