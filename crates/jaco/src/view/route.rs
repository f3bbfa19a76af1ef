//! Routes, with what answers them.

pub(crate) use jaco_json::route::json;
use jaco_proto::v1::RouteInfo;

use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// Routes as a table.
pub(crate) fn table(routes: &[RouteInfo], frame: &Frame) -> String {
    let head = ["DOMAIN", "PATH", "SERVICE", "TLS", "EXPIRES", "ENDPOINTS", "EDGES"];
    let mut table = Table::new(&head);
    for route in routes {
        let endpoints = match route.redirect.is_empty() {
            true => format!("{}/{}", route.endpoints, route.wanted),
            false => "-".to_owned(),
        };
        table.row([
            route.domain.clone(),
            route.path.clone(),
            target(route),
            route.tls.clone(),
            time::left(route.expires_at_ms, frame.now_ms),
            endpoints,
            format!("{}/{}", route.edges, route.nodes),
        ]);
    }
    table.render()
}

/// `shop.example.com/api`
pub(crate) fn name(route: &RouteInfo) -> String {
    format!("{}{}", route.domain, route.path.trim_end_matches('/'))
}

fn target(route: &RouteInfo) -> String {
    match route.redirect.as_str() {
        "" => format!("{}/{}:{}", route.deployment, route.service, route.port),
        to => format!("{}: {to}", route.deployment),
    }
}
