//! Whether the parts of a project fit together: every name is declared, nothing contradicts.
//!
//! Looks at the completed tree, after profiles; reports everything, changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::node::{Entry, Map, Node};
use crate::problem::{Code, Report};
use crate::source::Pos;

/// Finds services that wait for themselves, over any number of steps.
pub(crate) fn check_cycles(services: &Map, report: &mut Report) {
    let mut state = Walk { services, done: BTreeSet::new(), report };
    for name in services.keys() {
        state.visit(name);
    }
}

struct Walk<'w> {
    services: &'w Map,
    done: BTreeSet<&'w str>,
    report: &'w mut Report,
}

impl<'w> Walk<'w> {
    /// Depth first with an explicit stack: a chain may be as long as the file.
    fn visit(&mut self, start: &'w str) {
        if self.done.contains(start) {
            return;
        }
        let mut way: Vec<(&str, std::vec::IntoIter<(&str, Pos)>)> =
            vec![(start, self.dependencies(start))];
        let mut on_way = BTreeSet::from([start]);
        while let Some((name, rest)) = way.last_mut() {
            let Some((next, pos)) = rest.next() else {
                self.done.insert(name);
                on_way.remove(name);
                way.pop();
                continue;
            };
            if on_way.contains(next) {
                if !self.report.has_room() {
                    return;
                }
                let mut names: Vec<&str> = way.iter().map(|(name, _)| *name).collect();
                let first = names.iter().position(|name| *name == next).unwrap_or(0);
                names.push(next);
                let circle = names[first..].join(" → ");
                self.report
                    .error(pos, Code::InvalidDependsOn, format!("`{next}` waits for itself"))
                    .suggest(format!("the circle: {circle}"));
            } else if !self.done.contains(next) {
                on_way.insert(next);
                way.push((next, self.dependencies(next)));
            }
        }
    }

    fn dependencies(&self, name: &str) -> std::vec::IntoIter<(&'w str, Pos)> {
        let depends_on = self.services.get(name).and_then(|node| node.get("depends_on"));
        let entries = depends_on.and_then(Node::as_map).into_iter().flat_map(Map::iter);
        entries
            .filter(|entry| self.services.contains(&entry.key))
            .map(|entry| (entry.key.as_str(), entry.key_pos))
            .collect::<Vec<_>>()
            .into_iter()
    }
}

/// Checks every service and every resource.
pub(crate) fn check(root: &Map, disabled: &BTreeSet<String>, report: &mut Report) {
    let empty = Map::default();
    let section = |name: &str| root.get(name).and_then(Node::as_map).unwrap_or(&empty);
    let project = Sections {
        services: section("services"),
        networks: section("networks"),
        volumes: section("volumes"),
        configs: section("configs"),
        secrets: section("secrets"),
        disabled,
    };
    let mut container_names = BTreeMap::new();
    for entry in project.services.iter() {
        if let Some(service) = entry.node.as_map() {
            let report = &mut *report;
            let mut check = ServiceCheck { project: &project, name: &entry.key, entry, report };
            check.run(service);
            check.container_name(service, &mut container_names);
        }
    }
    for (name, section) in [("configs", project.configs), ("secrets", project.secrets)] {
        check_contents(name, section, report);
    }
    check_external("volumes", project.volumes, report);
}

struct Sections<'s> {
    services: &'s Map,
    networks: &'s Map,
    volumes: &'s Map,
    configs: &'s Map,
    secrets: &'s Map,
    disabled: &'s BTreeSet<String>,
}

struct ServiceCheck<'s, 'r> {
    project: &'s Sections<'s>,
    name: &'s str,
    entry: &'s Entry,
    report: &'r mut Report,
}

impl<'s> ServiceCheck<'s, '_> {
    fn run(&mut self, service: &'s Map) {
        let image =
            service.get("image").and_then(Node::as_str).is_some_and(|text| !text.is_empty());
        if !image && !service.contains("build") && !service.contains("provider")
            // A base that could not be found was reported already.
            && !service.contains("extends")
        {
            self.report
                .error(
                    self.entry.key_pos,
                    Code::MissingImage,
                    format!("service `{}` has neither an image nor a build section", self.name),
                )
                .suggest("add `image:`");
        }
        self.networks(service);
        self.depends_on(service);
        self.mounts(service);
        self.healthcheck(service);
        self.amounts(service);
        self.ports(service);
        self.devices(service);
        self.pull_policy(service);
    }

    fn networks(&mut self, service: &Map) {
        let networks = service.get("networks").and_then(Node::as_map);
        let project = self.project;
        for entry in networks.into_iter().flat_map(Map::iter) {
            if !project.networks.contains(&entry.key) {
                self.undeclared(entry.key_pos, Code::UnknownNetwork, "network", &entry.key)
                    .nearest(&entry.key, project.networks.keys());
            }
        }
        let Some(mode) = service.get("network_mode") else {
            return;
        };
        if networks.is_some_and(|map| !map.is_empty()) {
            let message = format!("service `{}` has both `network_mode` and `networks`", self.name);
            self.report.error(mode.pos, Code::Conflict, message).suggest("keep one of them");
        }
        if let Some(other) = mode.as_str().and_then(|text| text.strip_prefix("service:"))
            && !project.services.contains(other)
        {
            self.undeclared(mode.pos, Code::UnknownService, "service", other)
                .nearest(other, project.services.keys());
        }
    }

    fn depends_on(&mut self, service: &Map) {
        let depends_on = service.get("depends_on").and_then(Node::as_map);
        for entry in depends_on.into_iter().flat_map(Map::iter) {
            if entry.node.as_map().is_some() && entry.node.get("condition").is_none() {
                let message = format!("the dependency on `{}` has no `condition`", entry.key);
                self.report
                    .error(entry.key_pos, Code::MissingKey, message)
                    .suggest("add `condition: service_started`");
            }
            let required = entry.node.get("required").and_then(Node::as_bool) != Some(false);
            if self.project.services.contains(&entry.key) {
                continue;
            }
            let disabled = self.project.disabled.contains(entry.key.as_str());
            if disabled && !required {
                continue;
            }
            let message = if disabled {
                format!(
                    "service `{}` waits for `{}`, whose profile is not active",
                    self.name, entry.key
                )
            } else {
                format!("service `{}` waits for `{}`, which does not exist", self.name, entry.key)
            };
            self.report
                .error(entry.key_pos, Code::UnknownDependsOnService, message)
                .nearest(&entry.key, self.project.services.keys());
        }
    }

    fn mounts(&mut self, service: &Map) {
        let project = self.project;
        for mount in items(service, "volumes") {
            if mount.get_str("target").is_none_or(str::is_empty) {
                let message = format!("a mount of service `{}` has no `target`", self.name);
                self.report.error(mount.pos, Code::MissingKey, message);
            }
            let Some(source) = mount.get_str("source") else {
                continue;
            };
            if mount.get_str("type") == Some("volume") && !project.volumes.contains(source) {
                self.undeclared(mount.pos, Code::UnknownVolume, "volume", source)
                    .nearest(source, project.volumes.keys())
                    .suggest(format!("declare it: a top-level `volumes:` with `{source}:`"));
            }
        }
        let build = service.get("build").and_then(Node::as_map);
        let built = build.into_iter().flat_map(|build| items(build, "secrets"));
        let secrets: Vec<_> = items(service, "secrets").iter().chain(built).collect();
        for mount in secrets {
            self.file_mount(mount, Code::UnknownSecret, "secret", self.project.secrets);
        }
        for mount in items(service, "configs") {
            self.file_mount(mount, Code::UnknownConfig, "config", self.project.configs);
        }
    }

    fn file_mount(&mut self, mount: &Node, code: Code, what: &str, declared: &Map) {
        if let Some(source) = mount.get_str("source")
            && !declared.contains(source)
        {
            self.undeclared(mount.pos, code, what, source).nearest(source, declared.keys());
        }
    }

    fn healthcheck(&mut self, service: &Map) {
        let Some(test) = service.get("healthcheck").and_then(|node| node.get("test")) else {
            return;
        };
        let first = test.as_seq().and_then(|items| items.first()).and_then(Node::as_str);
        if let Some(first) = first
            && !["CMD", "CMD-SHELL", "NONE"].contains(&first)
        {
            self.report
                .error(test.pos, Code::InvalidValue, "the health test does not say how to run it")
                .expected("`CMD`, `CMD-SHELL` or `NONE` as its first item");
        }
    }

    /// The old keys and the new ones must say the same.
    fn amounts(&mut self, service: &Map) {
        const PAIRS: [(&str, &[&str]); 5] = [
            ("scale", &["replicas"]),
            ("cpus", &["resources", "limits", "cpus"]),
            ("mem_limit", &["resources", "limits", "memory"]),
            ("mem_reservation", &["resources", "reservations", "memory"]),
            ("pids_limit", &["resources", "limits", "pids"]),
        ];
        for (old, new) in PAIRS {
            let newer = new
                .iter()
                .try_fold(service.get("deploy"), |node, key| node.map(|node| node.get(key)));
            if let (Some(old_node), Some(Some(newer))) = (service.get(old), newer)
                && !old_node.same(newer)
            {
                let message = format!("`{old}` and `deploy.{}` differ", new.join("."));
                self.report
                    .error(old_node.pos, Code::Conflict, message)
                    .suggest("keep one of them");
            }
        }
    }

    fn ports(&mut self, service: &Map) {
        for port in items(service, "ports") {
            if let Some(address) = port.get("host_ip")
                && let Some(text) = address.as_str()
                && text.parse::<IpAddr>().is_err()
            {
                self.report
                    .error(address.pos, Code::InvalidValue, format!("`{text}` is not an address"))
                    .expected("an IPv4 or IPv6 address");
            }
        }
    }

    fn devices(&mut self, service: &Map) {
        let reserved = ["resources", "reservations", "devices"]
            .iter()
            .try_fold(service.get("deploy"), |node, key| node.map(|node| node.get(key)))
            .flatten()
            .and_then(Node::as_seq)
            .unwrap_or_default();
        for request in items(service, "gpus").iter().chain(reserved) {
            if request.get("count").is_some() && request.get("device_ids").is_some() {
                let message = "`count` and `device_ids` exclude each other";
                self.report.error(request.pos, Code::Conflict, message).suggest("keep one of them");
            }
        }
    }

    fn pull_policy(&mut self, service: &Map) {
        const KNOWN: [&str; 8] =
            ["always", "never", "build", "if_not_present", "missing", "refresh", "daily", "weekly"];
        let Some(node) = service.get("pull_policy") else {
            return;
        };
        let text = node.as_str().unwrap_or_default();
        if !KNOWN.contains(&text) && !text.starts_with("every_") {
            let message = format!("`{text}` is not a pull policy");
            self.report
                .error(node.pos, Code::InvalidValue, message)
                .nearest(text, KNOWN.into_iter())
                .expected(KNOWN.map(|name| format!("`{name}`")).join(", ") + " or `every_…`");
        }
    }

    fn container_name(&mut self, service: &'s Map, seen: &mut BTreeMap<&'s str, &'s str>) {
        let Some(node) = service.get("container_name") else {
            return;
        };
        let replicas = service.get("deploy").and_then(|deploy| deploy.get("replicas"));
        let replicas = replicas.or_else(|| service.get("scale")).and_then(Node::as_int);
        if replicas.is_some_and(|replicas| replicas > 1) {
            let message =
                format!("service `{}` has several replicas and one container name", self.name);
            self.report.error(node.pos, Code::Conflict, message).suggest("drop `container_name`");
        }
        if let Some(name) = node.as_str()
            && let Some(first) = seen.insert(name, self.name)
        {
            let message = format!("`{name}` is already the container name of service `{first}`");
            self.report.error(node.pos, Code::Conflict, message);
        }
    }

    fn undeclared(
        &mut self,
        pos: Pos,
        code: Code,
        what: &str,
        name: &str,
    ) -> &mut crate::problem::Finding {
        let message =
            format!("service `{}` names the {what} `{name}`, which is not declared", self.name);
        self.report.error(pos, code, message)
    }
}

fn items<'m>(map: &'m Map, key: &str) -> &'m [Node] {
    map.get(key).and_then(Node::as_seq).unwrap_or_default()
}

/// A config or secret has exactly one source.
fn check_contents(section: &str, resources: &Map, report: &mut Report) {
    let sources: &[&str] = if section == "configs" {
        &["file", "environment", "content"]
    } else {
        &["file", "environment"]
    };
    for entry in resources.iter() {
        let external = entry.node.get("external").and_then(Node::as_bool) == Some(true);
        // A content that came from a variable stands beside its name.
        let from_env = entry.node.get("environment").is_some();
        let count = sources
            .iter()
            .filter(|key| !(from_env && **key == "content"))
            .filter(|key| entry.node.get(key).is_some())
            .count();
        let path = format!("{section}.{}", entry.key);
        let list = sources.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        if count > 1 {
            report
                .error(entry.key_pos, Code::Conflict, format!("`{path}` has several sources"))
                .expected(format!("one of {list}"));
        } else if count == 0 && !external && entry.node.get("driver").is_none() {
            report
                .error(entry.key_pos, Code::MissingKey, format!("`{path}` has no source"))
                .expected(format!("one of {list}, or `external: true`"));
        }
    }
}

/// What exists outside cannot be described.
fn check_external(section: &str, resources: &Map, report: &mut Report) {
    for entry in resources.iter() {
        let Some(map) = entry.node.as_map() else {
            continue;
        };
        if map.get("external").and_then(Node::as_bool) != Some(true) {
            continue;
        }
        for other in map.iter() {
            let key = other.key.as_str();
            if !matches!(key, "external" | "name") && !key.starts_with("x-") {
                let message =
                    format!("`{section}.{}` is external and cannot have `{key}`", entry.key);
                report.error(other.key_pos, Code::Conflict, message);
            }
        }
    }
}
