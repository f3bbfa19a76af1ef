//! A service with the overlay's networks and the mounts that it takes from other services.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::overlay::types::ServiceOverlay;
use crate::project::Project;
use crate::project::containers::{ContainerNames, NAMESPACES};
use crate::yaml::access::texts;
use crate::yaml::node::{Map, Node, Value};

/// How many steps `volumes_from` is followed; real files take one.
const MAX_INHERITANCE: usize = 8;

/// How many mounts a service may take from others.
const MAX_INHERITED: usize = 256;

/// The networks that a service is attached to.
pub(crate) fn attached(service: &Map, own: Option<&ServiceOverlay>) -> BTreeSet<String> {
    if let Some(networks) = own.and_then(|own| own.networks.as_ref()) {
        return networks.iter().cloned().collect();
    }
    let networks = service.get("networks").and_then(Node::as_map);
    networks.into_iter().flat_map(Map::keys).map(str::to_owned).collect()
}

/// The service with the overlay's networks, the mounts it takes from others, the services that it
/// names by their containers, and the places of its configs.
pub(super) fn effective<'p>(
    project: &Project,
    containers: &ContainerNames<'_>,
    written: &'p Map,
    own: Option<&ServiceOverlay>,
    (compose, manifest): (&mut Report, &mut Report),
) -> Cow<'p, Map> {
    let mut service = Cow::Borrowed(written);
    name_services(containers, &mut service);
    let configs = written.get("configs").and_then(Node::as_seq).unwrap_or_default();
    if configs.iter().any(|config| config.get("target").is_none()) {
        place_configs(service.to_mut());
    }
    let networks = own.and_then(|own| Some((own, own.networks.as_ref()?)));
    if networks.is_none() && !written.contains("volumes_from") {
        return service;
    }
    let mut service = service.into_owned();
    if let Some((own, networks)) = networks {
        override_networks(project, &mut service, own, networks, manifest);
    }
    let mut inherited = Inherited { project, seen: BTreeSet::new(), mounts: Vec::new() };
    if !inherited.add_from(written, 0, false) {
        let pos = written.get("volumes_from").map(|node| node.pos).unwrap_or_default();
        compose.error(
            pos,
            Code::TooLarge,
            "`volumes_from` is nested too deeply or adds too many mounts",
        );
    }
    let mut mounts = inherited.mounts;
    if !mounts.is_empty() {
        let written = service.remove("volumes").map(|node| node.value);
        if let Some(Value::Seq(written)) = written {
            let taken: BTreeSet<&str> =
                written.iter().filter_map(|mount| mount.get_str("target")).collect();
            mounts.retain(|mount| mount.get_str("target").is_none_or(|to| !taken.contains(to)));
            mounts.splice(0..0, written.clone());
        }
        service.insert("volumes", Node::new(Value::Seq(mounts), Pos::default()));
    }
    Cow::Owned(service)
}

/// `container:NAME` of a service of the same file is `service:` and that service, which it waits for.
fn name_services(containers: &ContainerNames<'_>, service: &mut Cow<'_, Map>) {
    for key in NAMESPACES {
        let Some(node) = service.get(key) else { continue };
        let Some(other) = containers.service(node) else { continue };
        let pos = node.pos;
        let service = service.to_mut();
        service.insert(key, Node::text(format!("service:{other}"), pos));
        service.insert_default("depends_on", Value::Map(Map::default()), Pos::default());
        if let Some(depends_on) = service.get_mut("depends_on").and_then(Node::as_map_mut) {
            depends_on.insert_default(other, Value::Map(Map::default()), Pos::default());
        }
    }
}

/// A config without a target is a file at the root.
fn place_configs(service: &mut Map) {
    let configs = service.get_mut("configs").and_then(Node::as_seq_mut).into_iter().flatten();
    for config in configs.filter_map(Node::as_map_mut) {
        if let Some(source) = config.get("source").and_then(Node::as_str) {
            let target = format!("/{source}").into();
            config.insert_default("target", Value::Str(target), Pos::default());
        }
    }
}

fn override_networks(
    project: &Project,
    service: &mut Map,
    own: &ServiceOverlay,
    networks: &[String],
    report: &mut Report,
) {
    let declared = project.root.get("networks").and_then(Node::as_map);
    let mut attached = Map::default();
    for name in networks {
        if !declared.is_some_and(|map| map.contains(name)) {
            let message = format!("the compose file has no network `{name}`");
            report
                .error(own.place("networks"), Code::UnknownNetwork, message)
                .nearest(name, declared.into_iter().flat_map(Map::keys));
        }
        let written = service.get("networks").and_then(|node| node.get(name)).cloned();
        let node = written.unwrap_or_else(|| Node::new(Value::Null, Pos::default()));
        attached.insert(name, node);
    }
    if service.contains("network_mode") {
        let message = format!("service `{}` has a network_mode and cannot have networks", own.name);
        report.error(own.place("networks"), Code::Conflict, message);
    }
    service.insert("networks", Node::new(Value::Map(attached), Pos::default()));
}

/// Collects the mounts of the services named by `volumes_from`, and of those named there.
struct Inherited<'p> {
    project: &'p Project,
    seen: BTreeSet<&'p str>,
    mounts: Vec<Node>,
}

impl<'p> Inherited<'p> {
    /// Adds what `service` takes from others; `false` if it is too much.
    fn add_from(&mut self, service: &'p Map, depth: usize, read_only: bool) -> bool {
        if depth > MAX_INHERITANCE {
            return false;
        }
        for from in texts(service, "volumes_from") {
            let (name, mode) = from.split_once(':').unwrap_or((from, "rw"));
            let other = self.project.service(name).and_then(Node::as_map);
            let Some(other) = other.filter(|_| name != "container" && self.seen.insert(name))
            else {
                continue;
            };
            let read_only = read_only || mode == "ro";
            let own = other.get("volumes").and_then(Node::as_seq).unwrap_or_default();
            for mount in own {
                let mut mount = mount.clone();
                if let (true, Some(map)) = (read_only, mount.as_map_mut()) {
                    map.insert("read_only", Node::new(Value::Bool(true), Pos::default()));
                }
                self.mounts.push(mount);
            }
            if self.mounts.len() > MAX_INHERITED || !self.add_from(other, depth + 1, read_only) {
                return false;
            }
        }
        true
    }
}
