//! Checks over a whole resolved project: privileges, host ports, paths of nodes.

use std::collections::BTreeMap;

use jaco_types::spec::{Healthcheck, MAX_REPLICAS, Placement, Protocol, ReachKind};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::facts::{Facts, PortMode, PublishedPort};
use crate::project::Project;
use crate::project::reference::{Reference, ReferenceKind};
use crate::resolve::audit;
use crate::resolve::ports::is_any;
use crate::resolve::resolved::ResolvedService;
use crate::yaml::node::{Map, Node};

/// The label with which a service may ask for privileges.
pub const ALLOW_PRIVILEGED_LABEL: &str = "jaco.io/allow-privileged";

/// A service that asks for privileges needs the label; whether the caller may, the server checks.
pub(crate) fn check_privileges(name: &str, service: &Map, facts: &Facts, report: &mut Report) {
    let labelled = service.get("labels").and_then(|labels| labels.get_str(ALLOW_PRIVILEGED_LABEL));
    let asks = |kind: ReachKind| facts.reaches.iter().any(|reach| reach.kind == kind);
    let key = match (asks(ReachKind::Privileged), asks(ReachKind::SecurityOpt)) {
        (true, _) => "privileged",
        (false, true) => "security_opt",
        (false, false) => return,
    };
    if labelled == Some("true") {
        return;
    }
    let pos = service.get(key).map(|node| node.pos).unwrap_or_default();
    report
        .error(
            pos,
            Code::ValidationFailed,
            format!("service `{name}` uses `{key}` without the label that allows it"),
        )
        .suggest(format!("add the label `{ALLOW_PRIVILEGED_LABEL}: \"true\"` to the service"));
}

/// Paths that exist on every Linux machine with the same meaning.
const EVERYWHERE: [&str; 5] = ["/dev", "/etc/localtime", "/etc/timezone", "/proc", "/sys"];

/// A bind mount shows the files of the node, whatever this machine has at that path.
pub(crate) fn warn_of_host_paths(project: &Project, report: &mut Report) {
    let everywhere = |path: &str| {
        EVERYWHERE.iter().any(|known| {
            path.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let hosts = project.references().iter().filter(|reference| {
        reference.kind == ReferenceKind::HostBind
            && !everywhere(&reference.path)
            && !audit::is_engine_socket(&reference.path)
    });
    for Reference { path, owner, .. } in hosts {
        let mounts = project.service(owner).and_then(|service| service.get("volumes"));
        let mounts = mounts.and_then(Node::as_seq).unwrap_or_default().iter();
        let mount = mounts.into_iter().find(|mount| mount.get_str("source") == Some(path));
        let message = format!(
            "service `{owner}` mounts `{path}` of the node it runs on; files of this machine are not uploaded"
        );
        report
            .warning(
                mount.map(|node| node.pos).unwrap_or_default(),
                Code::HonouredDifferently,
                message,
            )
            .suggest(
                "pin the service to nodes that have the path, or put the files into the compose \
                 file's folder and mount them by a relative path",
            );
    }
}

/// R-RES-4: two services cannot take the same port of a host.
pub(crate) fn check_ports(
    project: &Project,
    services: &BTreeMap<String, ResolvedService>,
    report: &mut Report,
) {
    let mut taken: BTreeMap<(u16, Protocol), Vec<(&str, &PublishedPort)>> = BTreeMap::new();
    for (name, service) in services {
        for port in &service.facts.ports {
            let Some(number) = port.fixed() else {
                continue;
            };
            let others = taken.entry((number, port.protocol)).or_default();
            let clash = others.iter().find(|(other, there)| {
                overlap(port, there)
                    && (other == name
                        || is_everywhere(port, there)
                        || may_meet(services, name, other))
            });
            if let Some((other, first)) = clash {
                let nth = usize::from(other == name && first.target == port.target);
                let pos = port_pos(project, name, port, nth);
                let (message, advice) = if other == name {
                    let message = format!("service `{name}` publishes port {number} twice");
                    (message, "publish another port")
                } else {
                    let message =
                        format!("services `{other}` and `{name}` both publish port {number}");
                    let advice = match is_everywhere(port, first) {
                        true => "publish another port: every node answers on it",
                        false => "publish another port, or pin the services to different hosts",
                    };
                    (message, advice)
                };
                report.error(pos, Code::PortConflict, message).suggest(advice);
            }
            others.push((name, port));
        }
    }
}

/// Where the `nth` entry of a service that publishes `port` was written.
fn port_pos(project: &Project, service: &str, port: &PublishedPort, nth: usize) -> Pos {
    let ports = project.service(service).and_then(|node| node.get("ports"));
    let items = ports.and_then(Node::as_seq).unwrap_or_default().iter();
    let is_it = |item: &&Node| {
        item.get("target").and_then(Node::as_int) == Some(port.target.into())
            && item.get_str("published").and_then(|text| text.parse().ok()) == Some(port.first)
            && item.get_str("host_ip") == port.host_ip.as_deref()
    };
    let found = items.filter(is_it).nth(nth).or(ports);
    found.map(|node| node.pos).unwrap_or_default()
}

/// The services together have no more replicas than a cluster plans for at once.
pub(crate) fn check_total(
    declared: &Map,
    services: &BTreeMap<String, ResolvedService>,
    report: &mut Report,
) {
    let total: u64 = services.values().map(|service| u64::from(service.facts.replicas)).sum();
    if total > u64::from(MAX_REPLICAS) {
        let pos = declared.iter().next().map(|entry| entry.key_pos).unwrap_or_default();
        report
            .error(pos, Code::TooLarge, format!("the deployment has {total} replicas"))
            .expected(format!("at most {MAX_REPLICAS}"))
            .suggest("split it into several deployments");
    }
}

/// Whether every node has one of the two.
fn is_everywhere(a: &PublishedPort, b: &PublishedPort) -> bool {
    [a.mode, b.mode].contains(&PortMode::Ingress)
}

/// Two addresses share a port unless both are given and differ.
fn overlap(a: &PublishedPort, b: &PublishedPort) -> bool {
    let any = |ip: &Option<String>| ip.as_deref().is_none_or(is_any);
    any(&a.host_ip) || any(&b.host_ip) || a.host_ip == b.host_ip
}

/// Services that are pinned to different hosts never run on the same node.
fn may_meet(services: &BTreeMap<String, ResolvedService>, a: &str, b: &str) -> bool {
    match (&services[a].facts.placement, services.get(b).map(|service| &service.facts.placement)) {
        (Placement::Hosts(a), Some(Placement::Hosts(b))) => !a.is_disjoint(b),
        _ => true,
    }
}

/// A volume that binds a folder by options of the local driver: nodes cannot resolve a relative path,
/// and the folder is not uploaded.
pub(crate) fn warn_of_relative_devices(root: &Map, report: &mut Report) {
    let volumes = root.get("volumes").and_then(Node::as_map);
    for entry in volumes.into_iter().flat_map(Map::iter) {
        let Some(options) = entry.node.get("driver_opts") else { continue };
        let binds = options
            .get_str("o")
            .is_some_and(|list| list.split(',').any(|o| matches!(o.trim(), "bind" | "rbind")));
        let Some(device) = options.get("device") else { continue };
        let path = device.as_str().unwrap_or_default();
        if !binds || path.starts_with('/') {
            continue;
        }
        let name = &entry.key;
        let message = format!(
            "volume `{name}` binds the relative path `{path}`, which nodes cannot resolve; its files are not uploaded"
        );
        report.warning(device.pos, Code::HonouredDifferently, message).suggest(
            "mount the folder in the service by its relative path, or use an absolute path that \
             exists on the nodes",
        );
    }
}

/// A dependency that is waited for until it is healthy, where the files have nothing that would tell.
pub(crate) fn warn_of_missing_healthchecks(
    declared: &Map,
    services: &BTreeMap<String, ResolvedService>,
    report: &mut Report,
) {
    let has_check = |name: &str| {
        services.get(name).is_none_or(|other| other.facts.healthcheck == Healthcheck::Declared)
    };
    for waiting in declared.iter() {
        let depends_on = waiting.node.get("depends_on").and_then(Node::as_map);
        for entry in depends_on.into_iter().flat_map(Map::iter) {
            let (other, condition) = (&entry.key, entry.node.get("condition"));
            let healthy = |node: &&Node| node.as_str() == Some("service_healthy");
            let Some(condition) = condition.filter(healthy) else { continue };
            if has_check(other) {
                continue;
            }
            let why = match declared.get(other).is_some_and(is_healthcheck_disabled) {
                true => "its healthcheck is disabled",
                false => "it has no healthcheck here, and its image may have none",
            };
            let message = format!(
                "service `{}` waits until `{other}` is healthy, which may be as soon as it runs: {why}",
                waiting.key
            );
            report
                .warning(condition.pos, Code::HonouredDifferently, message)
                .suggest(format!("give `{other}` a `healthcheck`"));
        }
    }
}

fn is_healthcheck_disabled(service: &Node) -> bool {
    let Some(check) = service.get("healthcheck") else { return false };
    let test = check.get("test").and_then(Node::as_seq).and_then(<[Node]>::first);
    check.get("disable").and_then(Node::as_bool) == Some(true)
        || test.and_then(Node::as_str) == Some("NONE")
}
