//! Routes, with what answers them.

use jaco_proto::v1::RouteInfo;
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// A route as JSON.
pub(crate) fn json(route: &RouteInfo) -> Value {
    let forwards = route.redirect.is_empty();
    without_null(json!({
        "domain": route.domain,
        "path": route.path,
        "deployment": route.deployment,
        "service": non_empty(&route.service),
        "port": forwards.then_some(route.port),
        "redirect": non_empty(&route.redirect),
        "tls": route.tls,
        "expires_at": time::rfc3339(route.expires_at_ms),
        "endpoints": forwards.then_some(route.endpoints),
        "wanted": forwards.then_some(route.wanted),
        "edges": route.edges,
        "nodes": route.nodes,
        "warning": non_empty(&route.warning),
        "since": time::rfc3339(route.since_ms),
    }))
}

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
