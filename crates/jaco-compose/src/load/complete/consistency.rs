//! Whether the parts of a project fit together: every name is declared, nothing contradicts.
//!
//! Looks at the completed tree, after profiles; reports everything, changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::{Finding, Report};
use crate::diagnostics::source::Pos;
use crate::load::complete::values;
use crate::yaml::access::items;
use crate::yaml::node::{Entry, Map, Node};

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
        models: section("models"),
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
    models: &'s Map,
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
                    format!("service `{}` has neither `image` nor `build`", self.name),
                )
                .suggest("add `image:`");
        }
        self.networks(service);
        self.depends_on(service);
        self.mounts(service);
        self.models(service);
        values::check(service, self.report);
    }

    fn networks(&mut self, service: &Map) {
        let networks = service.get("networks").and_then(Node::as_map);
        let project = self.project;
        for entry in networks.into_iter().flat_map(Map::iter) {
            if !project.networks.contains(&entry.key) {
                self.undeclared(entry.key_pos, Code::UnknownNetwork, "network", &entry.key)
                    .suggest(declare("networks", &entry.key))
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
                    "service `{}` depends on `{}`, whose profile is not active",
                    self.name, entry.key
                )
            } else {
                format!("service `{}` depends on `{}`, which does not exist", self.name, entry.key)
            };
            self.report
                .error(entry.key_pos, Code::UnknownDependsOnService, message)
                .nearest(&entry.key, self.project.services.keys());
        }
    }

    fn mounts(&mut self, service: &Map) {
        let project = self.project;
        for mount in items(service, "volumes") {
            // What is not a mapping was reported when its short form was read.
            if mount.as_map().is_some() && mount.get_str("target").is_none_or(str::is_empty) {
                let message = format!("a mount of service `{}` has no `target`", self.name);
                self.report.error(mount.pos, Code::MissingKey, message);
            }
            let Some(source) = mount.get_str("source") else {
                continue;
            };
            if mount.get_str("type") == Some("volume") && !project.volumes.contains(source) {
                self.undeclared(mount.pos, Code::UnknownVolume, "volume", source)
                    .suggest(declare("volumes", source))
                    .nearest(source, project.volumes.keys());
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

    fn models(&mut self, service: &Map) {
        let project = self.project;
        let models = service.get("models").and_then(Node::as_map);
        for entry in models.into_iter().flat_map(Map::iter) {
            if !project.models.contains(&entry.key) {
                self.undeclared(entry.key_pos, Code::UnknownModel, "model", &entry.key)
                    .suggest(declare("models", &entry.key))
                    .nearest(&entry.key, project.models.keys());
            }
        }
    }

    fn file_mount(&mut self, mount: &Node, code: Code, what: &str, declared: &Map) {
        if let Some(source) = mount.get_str("source")
            && !declared.contains(source)
        {
            self.undeclared(mount.pos, code, what, source)
                .suggest(declare(&format!("{what}s"), source))
                .nearest(source, declared.keys());
        }
    }

    fn container_name(&mut self, service: &'s Map, seen: &mut BTreeMap<&'s str, &'s str>) {
        let Some(node) = service.get("container_name") else {
            return;
        };
        let replicas = service.get("deploy").and_then(|deploy| deploy.get("replicas"));
        let replicas = replicas.or_else(|| service.get("scale")).and_then(Node::as_int);
        if replicas.is_some_and(|replicas| replicas > 1) {
            let message = format!(
                "service `{}` has several replicas but a single `container_name`",
                self.name
            );
            self.report.error(node.pos, Code::Conflict, message).suggest("remove `container_name`");
        }
        if let Some(name) = node.as_str()
            && let Some(first) = seen.insert(name, self.name)
        {
            let message = format!("`{name}` is already the container name of service `{first}`");
            self.report.error(node.pos, Code::Conflict, message);
        }
    }

    fn undeclared(&mut self, pos: Pos, code: Code, what: &str, name: &str) -> &mut Finding {
        let message =
            format!("service `{}` refers to {what} `{name}`, which is not declared", self.name);
        self.report.error(pos, code, message)
    }
}

fn declare(section: &str, name: &str) -> String {
    format!("declare it: a top-level `{section}:` with `{name}:`")
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

/// An external resource has no other keys.
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
