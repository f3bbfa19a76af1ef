//! `routes` and `acme`.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::types::{Acme, RouteOverlay, Tls};
use crate::yaml::node::{Node, Value};

/// `on` and `off` are texts in YAML 1.2 and truth values in 1.1; both are meant.
pub(crate) fn acme(node: Option<&Node>, report: &mut Report) -> Acme {
    let Some(node) = node else {
        return Acme::On;
    };
    match (&node.value, node.as_str().map(str::to_ascii_lowercase).as_deref()) {
        (Value::Bool(true) | Value::Null, _) | (_, Some("on" | "")) => Acme::On,
        (Value::Bool(false), _) | (_, Some("off")) => Acme::Off,
        _ => {
            report
                .error(node.pos, Code::ValidationFailed, "`acme` must be `on` or `off`")
                .expected("`on` or `off`");
            Acme::On
        }
    }
}

pub(crate) fn route(node: &Node, acme: Acme, report: &mut Report) -> Option<RouteOverlay> {
    let port = node.get("port")?;
    let number = port.as_int().and_then(|number| u16::try_from(number).ok()).filter(|n| *n > 0);
    if number.is_none() {
        report
            .error(
                port.pos,
                Code::ValidationFailed,
                "the port of the route is not a valid port number",
            )
            .expected("a number from 1 to 65535");
    }
    let default = if acme == Acme::Off { Tls::Off } else { Tls::Auto };
    let tls = match node.get("tls") {
        None => default,
        Some(tls) => match (&tls.value, tls.as_str()) {
            (Value::Bool(false), _) | (_, Some("off")) => Tls::Off,
            (_, Some("auto")) => Tls::Auto,
            _ => {
                report
                    .error(tls.pos, Code::ValidationFailed, "`tls` must be `auto` or `off`")
                    .expected("`auto` or `off`");
                default
            }
        },
    };
    let text = |key: &str| node.get_str(key).unwrap_or_default().to_owned();
    for key in ["domain", "service"] {
        if let Some(value) = node.get(key)
            && value.as_str() == Some("")
        {
            report.error(value.pos, Code::ValidationFailed, format!("the route has no {key}"));
        }
    }
    Some(RouteOverlay {
        domain: text("domain").to_ascii_lowercase(),
        service: text("service"),
        port: number?,
        tls,
        path: text("path"),
        strip_path: node.get("strip_path").and_then(Node::as_bool).unwrap_or(false),
        pos: node.pos,
    })
}

pub(crate) fn check_routes(routes: &[RouteOverlay], report: &mut Report) {
    let mut tls: BTreeMap<&str, Tls> = BTreeMap::new();
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for route in routes {
        let domain = route.domain.as_str();
        if *tls.entry(domain).or_insert(route.tls) != route.tls {
            let message = format!("the routes of `{domain}` set `tls` to both `auto` and `off`");
            report.error(route.pos, Code::RouteTlsMixed, message);
        }
        if seen.insert((domain, &route.path)) {
            continue;
        }
        if route.path.is_empty() {
            let message = format!("`{domain}` has a second route without a `path`");
            report.error(route.pos, Code::RouteMultipleCatchall, message);
        } else {
            let message = format!("`{domain}` has two routes for `{}`", route.path);
            report.error(route.pos, Code::ValidationFailed, message);
        }
    }
}
