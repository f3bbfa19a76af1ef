//! What JACO makes of a project: the overlay laid over it, every service's container and facts.
//!
//! The last place where a person's mistake can be told; after it everything is data.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::audit::{self, Images};
use crate::complete::texts;
use crate::container::{self, Container, Contents};
use crate::facts::{Constraints, Facts, Placement, PublishedPort, Scoring, Tls};
use crate::links::Links;
use crate::node::{Map, Node, Value};
use crate::overlay::{self, Acme, JacoYaml, PlacementKind, RouteOverlay, ServiceOverlay};
use crate::problem::{Code, Problems, Report};
use crate::project::{Project, Reference, ReferenceKind};
use crate::service_facts;
use crate::source::Pos;

/// The key at the top of a compose file that says what every service asks of nodes, in the words of
/// jaco.yaml's `constraints`.
pub const CONSTRAINTS_EXTENSION: &str = "x-jaco-constraints";

/// The label that lets a service ask for privileges.
pub const ALLOW_PRIVILEGED_LABEL: &str = "jaco.io/allow-privileged";

/// How many steps `volumes_from` is followed; real files take one.
const MAX_INHERITANCE: usize = 8;

/// How many mounts a service may take from others.
const MAX_INHERITED: usize = 256;

/// Most bytes of canonical text of a deployment. A config that many services share counts for each,
/// and all of it is replicated.
const MAX_CANONICAL_BYTES: usize = 32 << 20;

/// What a resolve is done with, besides the project and the overlay.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What to do about services that must be built.
    pub images: Images,
    /// What stands for the contents of shipped files.
    pub contents: Contents,
    /// Reservations of the chosen environment, by service.
    pub overrides: BTreeMap<String, Override>,
}

/// The reservation of one service in the chosen environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Override {
    /// Memory, as in jaco.yaml: megabytes without a unit.
    pub memory: Option<String>,
    /// Processor time, as in jaco.yaml: megahertz without a unit.
    pub cpu: Option<String>,
}

/// A project as JACO runs it.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The deployment's name.
    pub name: String,
    /// The services by name.
    pub services: BTreeMap<String, ResolvedService>,
    /// Domains and the services behind them.
    pub routes: Vec<Route>,
    /// Whether certificates are ordered.
    pub acme: Acme,
    /// The contact given to the certificate authority.
    pub acme_email: Option<String>,
    /// What is worth a warning.
    pub warnings: Problems,
}

/// A service as JACO runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedService {
    /// What its containers are made of.
    pub container: Container,
    /// What decides where and how many.
    pub facts: Facts,
}

/// A domain and the service behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The host name of the request, in small letters.
    pub domain: String,
    /// A prefix of the path; empty takes every path.
    pub path: String,
    /// The service that answers.
    pub service: String,
    /// The port in the container.
    pub port: u16,
    /// TLS.
    pub tls: Tls,
    /// Whether the prefix is taken off.
    pub strip_path: bool,
}

/// Lays `overlay` over `project`.
///
/// # Errors
///
/// Every reason why JACO cannot run it.
pub fn resolve(
    project: &Project,
    overlay: Option<&JacoYaml>,
    options: &Options,
) -> Result<Resolved, Problems> {
    let none = JacoYaml::default();
    let overlay_given = overlay.is_some();
    let overlay = overlay.unwrap_or(&none);
    let mut compose = Report::default();
    let mut manifest = Report::default();
    audit::audit(&project.root, options.images, &mut compose);
    if overlay_given && overlay.deployment != project.name {
        let message = format!(
            "the project is named `{}` and the deployment `{}`",
            project.name, overlay.deployment
        );
        manifest
            .error_nowhere(Code::InvalidName, message)
            .suggest("load the compose file under the deployment's name");
    }
    check_names(project, overlay, &mut manifest);
    let routes = routes(project, overlay, &mut manifest);

    let empty = Map::default();
    let root = project.root.as_map().unwrap_or(&empty);
    let mut services = BTreeMap::new();
    let mut size = 0;
    let declared = root.get("services").and_then(Node::as_map).unwrap_or(&empty);
    let constraints = constraints(project, overlay, &mut compose);
    let links = Links::read(declared, |name, service| attached(service, overlay.service(name)));
    for entry in declared.iter() {
        let name = entry.key.as_str();
        let Some(service) = entry.node.as_map() else {
            continue;
        };
        let own = overlay.service(name);
        let mut service = effective(project, service, own, (&mut compose, &mut manifest));
        if links.concern(name) {
            links.add_to(name, service.to_mut());
        }
        let scene = service_facts::Scene {
            name,
            service: &service,
            overlay,
            constraints: &constraints,
            own,
            given: options.overrides.get(name),
            contents: &options.contents,
        };
        let facts = service_facts::facts(&scene, &mut compose, &mut manifest);
        check_privileges(name, &service, &facts, &mut compose);
        let container = container::container(&service, root, &options.contents);
        size += container.canonical.len();
        if size > MAX_CANONICAL_BYTES {
            compose
                .error(
                    entry.node.pos,
                    Code::TooLarge,
                    "the services share more content than can be stored",
                )
                .expected(format!("at most {MAX_CANONICAL_BYTES} bytes over all services"));
            break;
        }
        services.insert(name.to_owned(), ResolvedService { container, facts });
    }
    check_ports(project, &services, &mut compose);
    warn_of_host_paths(project, &mut compose);
    warn_of_relative_devices(root, &mut compose);
    finish(project, overlay, services, routes, (compose, manifest))
}

fn finish(
    project: &Project,
    overlay: &JacoYaml,
    services: BTreeMap<String, ResolvedService>,
    routes: Vec<Route>,
    (compose, manifest): (Report, Report),
) -> Result<Resolved, Problems> {
    let failed = compose.has_errors() || manifest.has_errors();
    let problems = manifest.finish(&overlay.sources).and(compose.finish(&project.sources));
    if failed {
        return Err(problems);
    }
    Ok(Resolved {
        name: project.name.clone(),
        services,
        routes,
        acme: overlay.acme,
        acme_email: overlay.acme_email.clone(),
        warnings: problems,
    })
}

/// A volume that stands for a folder by the local driver's options: a relative one is relative to
/// nothing on a node, and is not among what is sent.
fn warn_of_relative_devices(root: &Map, report: &mut Report) {
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
            "volume `{name}` binds `{path}`, which no node can find: a relative device is relative \
             to nothing there, and is not sent"
        );
        report.warning(device.pos, Code::HonouredDifferently, message).suggest(
            "mount the folder in the service by its relative path, or name an absolute path that \
             the nodes have",
        );
    }
}

/// What every service asks of nodes: what jaco.yaml says, and key by key over it what the compose
/// file's own extension says, which is where a command line's constraints travel (R-CONS-1).
fn constraints(project: &Project, overlay: &JacoYaml, report: &mut Report) -> Constraints {
    let more = project.root.get(CONSTRAINTS_EXTENSION);
    let more = overlay::read_constraints(more, Some(&overlay.roles), report);
    let mut all = overlay.constraints.clone();
    all.pairs.extend(more.pairs);
    all.rules.extend(more.rules);
    all
}

fn check_names(project: &Project, overlay: &JacoYaml, report: &mut Report) {
    for service in &overlay.services {
        if project.service(&service.name).is_none() {
            let message = format!("the compose file has no service `{}`", service.name);
            report
                .error(service.place("name"), Code::UnknownService, message)
                .nearest(&service.name, project.service_names());
        }
    }
}

fn routes(project: &Project, overlay: &JacoYaml, report: &mut Report) -> Vec<Route> {
    let mut routes = Vec::new();
    for route in &overlay.routes {
        check_route(project, route, report);
        routes.push(Route {
            domain: route.domain.clone(),
            path: route.path.clone(),
            service: route.service.clone(),
            port: route.port,
            tls: route.tls,
            strip_path: route.strip_path,
        });
    }
    routes.sort_by(|a, b| (&a.domain, &a.path).cmp(&(&b.domain, &b.path)));
    routes
}

fn check_route(project: &Project, route: &RouteOverlay, report: &mut Report) {
    let Some(service) = project.service(&route.service) else {
        let message = format!(
            "the route of `{}` goes to `{}`, which does not exist",
            route.domain, route.service
        );
        report
            .error(route.pos, Code::UnknownService, message)
            .nearest(&route.service, project.service_names());
        return;
    };
    if let Some(mode) = service.get_str("network_mode") {
        let message = format!(
            "the route of `{}` goes to `{}`, which has no network of its own (network_mode: {mode})",
            route.domain, route.service
        );
        report.error(route.pos, Code::ValidationFailed, message);
    }
}

/// The networks that a service is attached to.
fn attached(service: &Map, own: Option<&ServiceOverlay>) -> BTreeSet<String> {
    if let Some(networks) = own.and_then(|own| own.networks.as_ref()) {
        return networks.iter().cloned().collect();
    }
    let networks = service.get("networks").and_then(Node::as_map);
    networks.into_iter().flat_map(Map::keys).map(str::to_owned).collect()
}

/// The service with the overlay's networks and the mounts it takes from others.
fn effective<'p>(
    project: &Project,
    written: &'p Map,
    own: Option<&ServiceOverlay>,
    (compose, manifest): (&mut Report, &mut Report),
) -> Cow<'p, Map> {
    let networks = own.and_then(|own| Some((own, own.networks.as_ref()?)));
    if networks.is_none() && !written.contains("volumes_from") {
        return Cow::Borrowed(written);
    }
    let mut service = written.clone();
    if let Some((own, networks)) = networks {
        override_networks(project, &mut service, own, networks, manifest);
    }
    let mut inherited = Inherited { project, seen: BTreeSet::new(), mounts: Vec::new() };
    if !inherited.add_from(written, 0, false) {
        let pos = written.get("volumes_from").map(|node| node.pos).unwrap_or_default();
        compose.error(pos, Code::TooLarge, "`volumes_from` goes too far or brings too much");
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

/// Both fences: the service says so, and the caller may (checked by the server).
fn check_privileges(name: &str, service: &Map, facts: &Facts, report: &mut Report) {
    use jaco_types::spec::Privilege::{Privileged, SecurityOpt};
    let labelled = service.get("labels").and_then(|labels| labels.get_str(ALLOW_PRIVILEGED_LABEL));
    let asks = facts.privileges.contains(&Privileged) || facts.privileges.contains(&SecurityOpt);
    if !asks || labelled == Some("true") {
        return;
    }
    let key = if facts.privileges.contains(&Privileged) { "privileged" } else { "security_opt" };
    let pos = service.get(key).map(|node| node.pos).unwrap_or_default();
    report
        .error(
            pos,
            Code::ValidationFailed,
            format!("service `{name}` uses `{key}` without saying so"),
        )
        .suggest(format!("add the label `{ALLOW_PRIVILEGED_LABEL}: \"true\"` to the service"));
}

/// Paths that every Linux machine has, and that mean the same on each.
const EVERYWHERE: [&str; 5] = ["/dev", "/etc/localtime", "/etc/timezone", "/proc", "/sys"];

/// What a path of the node holds is the node's, whatever this machine has under it.
fn warn_of_host_paths(project: &Project, report: &mut Report) {
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
            "service `{owner}` mounts `{path}` of the node that it runs on; nothing is sent there"
        );
        report
            .warning(
                mount.map(|node| node.pos).unwrap_or_default(),
                Code::HonouredDifferently,
                message,
            )
            .suggest(
                "pin the service to nodes that have it, or put the files below the compose file's \
                 folder and mount them by a relative path",
            );
    }
}

/// R-RES-4: two services cannot take the same port of a host.
fn check_ports(
    project: &Project,
    services: &BTreeMap<String, ResolvedService>,
    report: &mut Report,
) {
    let mut taken: BTreeMap<(u16, crate::facts::Protocol), Vec<(&str, &PublishedPort)>> =
        BTreeMap::new();
    for (name, service) in services {
        for port in &service.facts.ports {
            let Some(number) = port.fixed() else {
                continue;
            };
            let others = taken.entry((number, port.protocol)).or_default();
            let clash = others.iter().find(|(other, there)| {
                *other != name && overlap(port, there) && may_meet(services, name, other)
            });
            if let Some((other, _)) = clash {
                let pos = project.service(name).and_then(|node| node.get("ports"));
                let message = format!("services `{other}` and `{name}` both publish port {number}");
                report
                    .error(
                        pos.map(|node| node.pos).unwrap_or_default(),
                        Code::PortConflict,
                        message,
                    )
                    .suggest("publish another port, or pin the services to different hosts");
            }
            others.push((name, port));
        }
    }
}

/// Two addresses share a port unless both are given and differ.
fn overlap(a: &PublishedPort, b: &PublishedPort) -> bool {
    let any = |ip: &Option<String>| ip.as_deref().is_none_or(|ip| matches!(ip, "0.0.0.0" | "::"));
    any(&a.host_ip) || any(&b.host_ip) || a.host_ip == b.host_ip
}

/// Services that are pinned to different hosts never meet.
fn may_meet(services: &BTreeMap<String, ResolvedService>, a: &str, b: &str) -> bool {
    match (&services[a].facts.placement, services.get(b).map(|service| &service.facts.placement)) {
        (Placement::Hosts(a), Some(Placement::Hosts(b))) => !a.is_disjoint(b),
        _ => true,
    }
}

/// The placement that the overlay or the compose file asks for.
pub(crate) fn placement(service: &Map, own: Option<&ServiceOverlay>) -> Placement {
    match own.and_then(|own| Some((own.placement?, &own.hosts))) {
        Some((PlacementKind::Spread, _)) => Placement::Spread,
        Some((PlacementKind::Pack, _)) => Placement::Pack,
        Some((PlacementKind::Hosts, hosts)) => Placement::Hosts(hosts.iter().cloned().collect()),
        Some((PlacementKind::Global, _)) => Placement::Global,
        None => match service.get("deploy").and_then(|deploy| deploy.get_str("mode")) {
            Some("global") => Placement::Global,
            Some(_) | None => Placement::Spread,
        },
    }
}

/// The scoring that the service, or else the deployment, asks for.
pub(crate) fn scoring(overlay: &JacoYaml, own: Option<&ServiceOverlay>) -> Scoring {
    own.and_then(|own| own.scoring).or(overlay.scoring).unwrap_or_default()
}
