//! What JACO makes of a project: the overlay laid over it, every service's container and facts.
//!
//! The last step that reports mistakes of the user; its result is plain data.

mod amounts;
mod audit;
mod checks;
mod container;
mod effective;
mod hooks;
mod host;
mod lifecycle;
mod links;
mod network_owner;
mod networks;
pub(crate) mod options;
mod ports;
mod ranges;
mod resolved;
mod rollout;
mod routes;
mod scene;
mod service;
mod swarm;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::spec::Reach;
use jaco_types::{Route, RouteKey, ServiceName};

use self::effective::effective;
use crate::diagnostics::code::Code;
use crate::diagnostics::problem::Problems;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::facts::{Constraints, NetworkFacts};
use crate::overlay::read_constraints;
use crate::overlay::types::JacoYaml;
use crate::project::containers::ContainerNames;
use crate::project::{CONSTRAINTS_EXTENSION, Project};
use crate::reach::reaches;
use crate::resolve::checks::{
    check_ports, check_privileges, check_total, warn_of_host_paths, warn_of_missing_healthchecks,
    warn_of_relative_devices,
};
use crate::resolve::container::{Surroundings, container};
use crate::resolve::effective::attached;
use crate::resolve::links::Links;
use crate::resolve::ports::Publishing;
use crate::resolve::routes::routes;
use crate::resolve::scene::Scene;
use crate::yaml::node::{Map, Node};

pub use checks::ALLOW_PRIVILEGED_LABEL;
pub use container::Container;
pub use options::{Contents, Images, NetworkIn, Networks, Options, Override};
pub use resolved::{Resolved, ResolvedService};

/// Most bytes of canonical text of a deployment. A config that many services share counts for each,
/// and all of it is replicated.
const MAX_CANONICAL_BYTES: usize = 32 << 20;

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
    let overlay = overlay.unwrap_or(&none);
    let (mut compose, mut manifest) = (Report::default(), Report::default());
    let root = project.root.as_map();
    let declared = root.and_then(|root| root.get("services")).and_then(Node::as_map);
    let containers = declared.map(ContainerNames::read).unwrap_or_default();
    audit::audit(&project.root, &containers, options.images, &mut compose);
    check_names(project, overlay, &mut manifest);
    volumes::check(project, overlay, &mut manifest);
    let routes = routes(project, overlay, &mut manifest);
    let classes = volumes::classes(overlay);

    let empty = Map::default();
    let (root, declared) = (root.unwrap_or(&empty), declared.unwrap_or(&empty));
    let mut services = BTreeMap::new();
    let mut size = 0;
    let constraints = constraints(project, overlay, &mut compose);
    let links = Links::read(declared, |name, service| attached(service, overlay.service(name)));
    for entry in declared.iter() {
        let name = entry.key.as_str();
        let Some(service) = entry.node.as_map() else {
            continue;
        };
        if let Err(invalid) = ServiceName::new(name) {
            let message = format!("`{}` is not a service name", invalid.text);
            compose.error(entry.key_pos, Code::InvalidName, message).expected(invalid.rule);
            continue;
        }
        let own = overlay.service(name);
        let mut service =
            effective(project, &containers, service, own, (&mut compose, &mut manifest));
        if links.concern(name) {
            links.add_to(name, service.to_mut());
        }
        let publishing = Publishing::of(&service, &options.networks);
        let scene = Scene {
            deployment: &project.name,
            name,
            service: &service,
            overlay,
            constraints: &constraints,
            own,
            given: options.overrides.get(name),
            contents: &options.contents,
            publishing,
        };
        let mut facts = service::facts(&scene, &mut compose, &mut manifest);
        facts.volumes = volumes::demands(&service, root, &classes);
        let surroundings = Surroundings { root, options, classes: &classes, publishing };
        let container = container(&project.name, &service, surroundings);
        facts.reaches = reaches_of(name, entry.node.pos, &container, &mut compose);
        check_privileges(name, &service, &facts, &mut compose);
        size += container.canonical.len();
        if size > MAX_CANONICAL_BYTES {
            compose
                .error(entry.node.pos, Code::TooLarge, "the resolved services are too large")
                .expected(format!("at most {MAX_CANONICAL_BYTES} bytes over all services"));
            break;
        }
        services.insert(name.to_owned(), ResolvedService { container, facts });
    }
    networks::check_links(declared, &mut compose);
    let networks = networks::networks(project, &services, &mut compose);
    check_total(declared, &services, &mut compose);
    check_ports(project, &services, &mut compose);
    lifecycle::check_schedules(overlay, &services, &mut manifest);
    warn_of_host_paths(project, &mut compose);
    warn_of_relative_devices(root, &mut compose);
    warn_of_missing_healthchecks(declared, &services, &mut compose);
    finish(project, overlay, services, networks, routes, (compose, manifest))
}

fn finish(
    project: &Project,
    overlay: &JacoYaml,
    services: BTreeMap<String, ResolvedService>,
    networks: BTreeMap<String, NetworkFacts>,
    routes: BTreeMap<RouteKey, Route>,
    (compose, manifest): (Report, Report),
) -> Result<Resolved, Problems> {
    let failed = compose.has_errors() || manifest.has_errors();
    let problems = manifest.finish(&overlay.sources).and(compose.finish(&project.sources));
    let problems = problems.and(overlay.warnings.clone());
    if failed {
        return Err(problems);
    }
    Ok(Resolved {
        name: project.name.clone(),
        services,
        networks,
        routes,
        acme: overlay.acme,
        acme_email: overlay.acme_email.clone(),
        warnings: problems,
    })
}

/// What containers of a service reach of their nodes. A text that cannot be read would hide it, so it is refused
/// where nothing else is wrong with the file.
fn reaches_of(name: &str, pos: Pos, container: &Container, report: &mut Report) -> BTreeSet<Reach> {
    match reaches(&container.canonical) {
        Ok(reaches) => reaches,
        Err(error) => {
            if !report.has_errors() {
                let message = format!("service `{name}` has a value that no container can have");
                let source = std::error::Error::source(&error).map(ToString::to_string);
                report
                    .error(pos, Code::InvalidValue, message)
                    .expected(source.unwrap_or_else(|| error.to_string()));
            }
            BTreeSet::new()
        }
    }
}

/// The constraints of every service: those of jaco.yaml, overridden key by key by the extension of the
/// compose file, in which constraints of the command line are sent (R-CONS-1).
fn constraints(project: &Project, overlay: &JacoYaml, report: &mut Report) -> Constraints {
    let more = project.root.get(CONSTRAINTS_EXTENSION);
    let more = read_constraints(more, Some(&overlay.roles), report);
    let mut all = overlay.constraints.clone();
    all.pairs.extend(more.pairs);
    all.rules.extend(more.rules);
    all
}

fn check_names(project: &Project, overlay: &JacoYaml, report: &mut Report) {
    if let Some(deployment) = overlay.deployment.as_ref().filter(|name| **name != project.name) {
        let message = format!(
            "the compose project is named `{}`, but the deployment is named `{deployment}`",
            project.name
        );
        report
            .error_nowhere(Code::InvalidName, message)
            .suggest("give the compose project the name of the deployment");
    }
    for service in &overlay.services {
        if project.service(&service.name).is_none() {
            let message = format!("the compose file has no service `{}`", service.name);
            report
                .error(service.place("name"), Code::UnknownService, message)
                .nearest(&service.name, project.service_names());
        }
    }
}
