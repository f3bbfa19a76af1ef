//! Routes of jaco.yaml, checked against the services.

use std::collections::BTreeMap;

use jaco_types::{Route, RouteKey};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::types::{JacoYaml, RouteOverlay};
use crate::project::Project;

pub(crate) fn routes(
    project: &Project,
    overlay: &JacoYaml,
    report: &mut Report,
) -> BTreeMap<RouteKey, Route> {
    for route in &overlay.routes {
        check_route(project, route, report);
    }
    // One that was written twice was reported when jaco.yaml was read.
    overlay.routes.iter().map(|route| (route.key.clone(), route.route.clone())).collect()
}

fn check_route(project: &Project, route: &RouteOverlay, report: &mut Report) {
    let Some(upstream) = route.route.upstream() else { return };
    let (domain, name) = (&route.key.domain, upstream.service.as_str());
    let Some(service) = project.service(name) else {
        let message = format!("the route of `{domain}` goes to `{name}`, which does not exist");
        report
            .error(route.pos, Code::UnknownService, message)
            .nearest(name, project.service_names());
        return;
    };
    if let Some(mode) = service.get_str("network_mode") {
        let message = format!(
            "the route of `{domain}` goes to `{name}`, which has no network of its own (network_mode: {mode})"
        );
        report.error(route.pos, Code::ValidationFailed, message);
    }
}
