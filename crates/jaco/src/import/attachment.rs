//! The networks of a container: their keys, aliases, and what shares a network with another container.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::found::Findings;
use super::inspected::{Container, Endpoint};
use super::scene::{Owner, Scene};
use super::section::Section;

/// The network that services without `networks` are attached to.
const DEFAULT: &str = "default";

/// Adds `network_mode`, or `networks` unless they are the default network alone.
pub(super) fn put_networks(
    section: &mut Section,
    service: &str,
    container: &Container,
    scene: &Scene<'_>,
    findings: &mut Findings,
) {
    let mode = container.host_config.network_mode.as_str();
    if let Some(mode) = shared_mode(mode, service, scene, findings) {
        section.put("network_mode", mode);
        return;
    }
    let mut networks = Map::new();
    for (name, endpoint) in &container.network_settings.networks {
        let (key, _) = scene.network_key(name);
        let aliases = aliases(service, container, endpoint);
        networks.insert(
            key,
            if aliases.is_empty() { Value::Null } else { json!({ "aliases": aliases }) },
        );
        if [&endpoint.ipam_config.ipv4, &endpoint.ipam_config.ipv6].iter().any(|ip| !ip.is_empty())
        {
            findings.differs(
                service,
                format!("its fixed address in network {name} is left out: replicas cannot share one; use the name of the service"),
            );
        }
    }
    let is_default = networks.len() == 1 && networks.get(DEFAULT) == Some(&Value::Null);
    if !is_default {
        section.put("networks", networks);
    }
    section.put("links", links(container, scene));
}

/// A mode that is no network of its own; none if the container has networks.
fn shared_mode(
    mode: &str,
    service: &str,
    scene: &Scene<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    match mode {
        "host" | "none" | "bridge" => Some(mode.into()),
        "default" => Some("bridge".into()),
        _ => {
            let container = mode.strip_prefix("container:")?;
            let other = of_container(container, "network", service, scene, findings);
            Some(other.map_or(Value::Null, Value::from))
        }
    }
}

/// `service:NAME` of a container that another one shares a namespace with.
pub(super) fn of_container(
    container: &str,
    namespace: &str,
    service: &str,
    scene: &Scene<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let other = scene.service(container);
    if other.is_none() {
        findings.differs(
            service,
            format!("it shares the {namespace} of a container that is not of this project, which cannot be said: services of a \
                     deployment share with each other only"),
        );
    }
    other.map(|name| format!("service:{name}"))
}

/// The names that a user gave; the engine and Docker Compose add the service and the container.
fn aliases(service: &str, container: &Container, endpoint: &Endpoint) -> Vec<String> {
    let name = container.name.trim_start_matches('/');
    let is_own = |alias: &&String| {
        !alias.is_empty()
            && *alias != service
            && *alias != name
            && !container.id.starts_with(alias.as_str())
    };
    let mut aliases: Vec<String> = endpoint.aliases.iter().filter(is_own).cloned().collect();
    aliases.sort();
    aliases.dedup();
    aliases
}

/// Links with names that are not those of the services, which resolve without them.
fn links(container: &Container, scene: &Scene<'_>) -> Vec<String> {
    let all = container.network_settings.networks.values().flat_map(|endpoint| &endpoint.links);
    let link = |link: &String| {
        let (name, alias) = link.split_once(':')?;
        let service = scene.service(name)?;
        let is_own = alias != service && alias != name && !is_numbered(alias, service);
        is_own.then(|| format!("{service}:{alias}"))
    };
    let mut links: Vec<String> = all.filter_map(link).collect();
    links.sort();
    links.dedup();
    links
}

/// `db_1` of `db`, which Docker Compose 1 adds to each link.
fn is_numbered(alias: &str, service: &str) -> bool {
    let number = alias.strip_prefix(service).and_then(|rest| rest.strip_prefix('_'));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The networks that services name.
pub(super) fn declared(
    names: impl Iterator<Item = String>,
    scene: &Scene<'_>,
    findings: &mut Findings,
) -> BTreeMap<String, Section> {
    let mut declared = BTreeMap::new();
    for name in names {
        let (key, owner) = scene.network_key(&name);
        let mut section = Section::default();
        match owner {
            Owner::Other => {
                section.set("external", true);
                findings.differs(
                    "",
                    format!("network {name} is not of this project: make it for all deployments with `jaco network create {name}`"),
                );
            }
            Owner::Project => {
                section
                    .flag("internal", scene.network(&name).is_some_and(|network| network.internal));
                if name != format!("{}_{key}", scene.project) {
                    findings.differs(
                        "",
                        format!("network {key} loses its name {name}: it is the deployment's own; to share it, `jaco network create {name}`, \
                                 and write `external: true` and `name: {name}`"),
                    );
                }
            }
        }
        let says_nothing = key == DEFAULT && section == Section::default();
        if !says_nothing {
            declared.insert(key, section);
        }
    }
    declared
}
