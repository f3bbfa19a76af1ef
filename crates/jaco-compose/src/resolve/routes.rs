//! Routes of jaco.yaml, checked against the services.

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::types::{JacoYaml, RouteOverlay, Tls};
use crate::project::Project;

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

pub(crate) fn routes(project: &Project, overlay: &JacoYaml, report: &mut Report) -> Vec<Route> {
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
