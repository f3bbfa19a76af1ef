//! Routes, with what answers them.

use jaco_proto::v1::RouteInfo;
use serde_json::{Value, json};

use crate::fields::{non_empty, without_null};
use crate::time::rfc3339;

/// A route as JSON.
#[must_use]
pub fn json(route: &RouteInfo) -> Value {
    let forwards = route.redirect.is_empty();
    without_null(json!({
        "domain": route.domain,
        "path": route.path,
        "deployment": route.deployment,
        "service": non_empty(&route.service),
        "port": forwards.then_some(route.port),
        "redirect": non_empty(&route.redirect),
        "tls": route.tls,
        "expires_at": rfc3339(route.expires_at_ms),
        "endpoints": forwards.then_some(route.endpoints),
        "wanted": forwards.then_some(route.wanted),
        "edges": route.edges,
        "nodes": route.nodes,
        "warning": non_empty(&route.warning),
        "since": rfc3339(route.since_ms),
    }))
}
