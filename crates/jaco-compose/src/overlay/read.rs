//! From the checked tree of a jaco.yaml to typed values, with the rules of each key.

use std::collections::{BTreeMap, BTreeSet};

use super::amounts::{bounds, update};
use super::constraints::{Roles, constraints, roles};
use super::rules::{affinities, selectors, spread};
use super::{Acme, JacoYaml, PlacementKind, RouteOverlay, ServiceOverlay};
use crate::facts::{Scoring, Tls};
use crate::node::{Map, Node, Value};
use crate::problem::{Code, Report};
use crate::project::normalise_name;

pub(super) fn overlay(root: &Node, report: &mut Report) -> Option<JacoYaml> {
    let map = root.as_map()?;
    let text = |key: &str| map.get(key).and_then(Node::as_str).map(str::to_owned);
    let acme = acme(map.get("acme"), report);
    let mut overlay = JacoYaml {
        deployment: text("deployment").unwrap_or_default(),
        environment: text("environment"),
        config_selector: text("config_selector"),
        acme,
        acme_email: text("acme_email").filter(|email| !email.is_empty()),
        spread: spread(map.get("spread"), report),
        scoring: scoring(map.get("scoring")),
        // What is no amount was reported where the tree was checked.
        max_file_bytes: text("max_files").and_then(|bytes| bytes.parse().ok()),
        roles: roles(map.get("roles"), report),
        ..JacoYaml::default()
    };
    overlay.constraints = constraints(map.get("constraints"), Some(&overlay.roles), report);
    check_top(map, &overlay, report);
    for node in items(map, "routes") {
        overlay.routes.extend(route(node, acme, report));
    }
    check_routes(&overlay.routes, report);
    for node in items(map, "services") {
        overlay.services.extend(service(node, &overlay.roles, report));
    }
    let mut seen = BTreeSet::new();
    for service in &overlay.services {
        if !seen.insert(&service.name) {
            let message = format!("service `{}` is there twice", service.name);
            report.error(service.pos, Code::ValidationFailed, message);
        }
    }
    Some(overlay)
}

fn check_top(map: &Map, overlay: &JacoYaml, report: &mut Report) {
    if let Some(node) = map.get("deployment").filter(|node| node.as_str().is_some())
        && (overlay.deployment.is_empty()
            || normalise_name(&overlay.deployment) != overlay.deployment)
    {
        let message = format!("`{}` is not a deployment name", overlay.deployment);
        report
            .error(node.pos, Code::InvalidName, message)
            .expected("small letters, digits, `-` and `_`, beginning with a letter or digit");
    }
    if let (Some(node), Some(email), Acme::On) =
        (map.get("acme_email"), &overlay.acme_email, overlay.acme)
        && !is_email(email)
    {
        report
            .error(node.pos, Code::ValidationFailed, format!("`{email}` is not a mail address"))
            .expected("`name@domain`");
    }
}

fn is_email(text: &str) -> bool {
    let printable = text.chars().all(|c| c.is_ascii_graphic() && !"<>,;\"".contains(c));
    match text.rsplit_once('@') {
        Some((name, domain)) => {
            printable && !name.is_empty() && !name.contains('@') && !domain.is_empty()
        }
        None => false,
    }
}

fn items<'m>(map: &'m Map, key: &str) -> &'m [Node] {
    map.get(key).and_then(Node::as_seq).unwrap_or_default()
}

/// `on` and `off` are texts in YAML 1.2 and truth values in 1.1; both are meant.
fn acme(node: Option<&Node>, report: &mut Report) -> Acme {
    let Some(node) = node else {
        return Acme::On;
    };
    match (&node.value, node.as_str().map(str::to_ascii_lowercase).as_deref()) {
        (Value::Bool(true) | Value::Null, _) | (_, Some("on" | "")) => Acme::On,
        (Value::Bool(false), _) | (_, Some("off")) => Acme::Off,
        _ => {
            report
                .error(node.pos, Code::ValidationFailed, "`acme` is neither on nor off")
                .expected("`on` or `off`");
            Acme::On
        }
    }
}

fn route(node: &Node, acme: Acme, report: &mut Report) -> Option<RouteOverlay> {
    let port = node.get("port")?;
    let number = port.as_int().and_then(|number| u16::try_from(number).ok()).filter(|n| *n > 0);
    if number.is_none() {
        report
            .error(port.pos, Code::ValidationFailed, "the port of the route is not a port")
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
                    .error(tls.pos, Code::ValidationFailed, "`tls` is neither auto nor off")
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

fn check_routes(routes: &[RouteOverlay], report: &mut Report) {
    let mut tls: BTreeMap<&str, Tls> = BTreeMap::new();
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for route in routes {
        let domain = route.domain.as_str();
        if *tls.entry(domain).or_insert(route.tls) != route.tls {
            let message = format!("the routes of `{domain}` have TLS both on and off");
            report.error(route.pos, Code::RouteTlsMixed, message);
        }
        if seen.insert((domain, &route.path)) {
            continue;
        }
        if route.path.is_empty() {
            let message = format!("`{domain}` has a second route that takes every path");
            report.error(route.pos, Code::RouteMultipleCatchall, message);
        } else {
            let message = format!("`{domain}` has two routes for `{}`", route.path);
            report.error(route.pos, Code::ValidationFailed, message);
        }
    }
}

fn service(node: &Node, roles: &Roles, report: &mut Report) -> Option<ServiceOverlay> {
    let map = node.as_map()?;
    let mut places = BTreeMap::new();
    for key in super::table::service_keys() {
        if let Some(value) = map.get(key) {
            places.insert(key, value.pos);
        }
    }
    let placement = placement(map.get("placement"));
    let networks: Option<Vec<String>> = map.get("networks").map(texts);
    let overlay = ServiceOverlay {
        name: node.get_str("name")?.to_owned(),
        replicas: count(map.get("replicas"), "replicas", report),
        placement,
        hosts: map.get("hosts").map(texts).unwrap_or_default(),
        networks: networks.filter(|networks| !networks.is_empty()),
        spread: spread(map.get("spread"), report),
        constraints: constraints(map.get("constraints"), Some(roles), report),
        affinities: affinities(map.get("affinities"), report),
        selectors: selectors(map.get("selectors"), report),
        bounds: bounds(map.get("resources"), report),
        update: update(map.get("update"), report),
        rollback: map.get("rollback").map(|node| update(Some(node), report)),
        on_node_loss: super::loss::read(map.get("on_node_loss"), report),
        min_allocations: count(map.get("min_allocations_count"), "min_allocations_count", report),
        scoring: scoring(map.get("scoring")),
        places,
        pos: node.pos,
    };
    check_service(&overlay, report);
    Some(overlay)
}

fn check_service(overlay: &ServiceOverlay, report: &mut Report) {
    let name = &overlay.name;
    if name.is_empty() {
        report.error(overlay.place("name"), Code::ValidationFailed, "a service has no name");
    }
    match overlay.placement {
        Some(PlacementKind::Hosts) if overlay.hosts.is_empty() => {
            let message = format!("service `{name}` uses placement=hosts without hosts");
            report
                .error(overlay.place("placement"), Code::ValidationFailed, message)
                .suggest("add `hosts: [NAME, …]`");
        }
        Some(PlacementKind::Global) if overlay.replicas.is_some() => {
            // The wording is part of the interface: scripts look for it.
            let message = format!(
                "service \"{name}\" uses placement=global; remove replicas (global runs one \
                 replica per ready node)"
            );
            report.error(overlay.place("replicas"), Code::ValidationFailed, message);
        }
        Some(PlacementKind::Hosts) => {
            let (wanted, hosts) = (overlay.replicas.unwrap_or(1) as usize, overlay.hosts.len());
            if wanted > hosts {
                let message =
                    format!("service `{name}` wants {wanted} replicas on {hosts} pinned hosts");
                report
                    .error(overlay.place("replicas"), Code::ReplicasExceedPinnedHosts, message)
                    .suggest("add hosts, or lower `replicas`");
            }
        }
        Some(PlacementKind::Spread | PlacementKind::Pack | PlacementKind::Global) | None => {
            if !overlay.hosts.is_empty() {
                let message = format!("the hosts of service `{name}` are not used");
                report
                    .warning(overlay.place("hosts"), Code::NoEffect, message)
                    .suggest("add `placement: hosts`");
            }
        }
    }
}

fn texts(node: &Node) -> Vec<String> {
    let items = node.as_seq().unwrap_or_default();
    items.iter().filter_map(Node::as_str).map(str::to_owned).collect()
}

pub(super) fn count(node: Option<&Node>, key: &str, report: &mut Report) -> Option<u32> {
    let node = node?;
    let number = node.as_int()?;
    let count = u32::try_from(number).ok();
    if count.is_none() {
        report
            .error(node.pos, Code::ValidationFailed, format!("`{key}` cannot be {number}"))
            .expected("a whole number from 0");
    }
    count
}

fn placement(node: Option<&Node>) -> Option<PlacementKind> {
    match node?.as_str()? {
        "spread" => Some(PlacementKind::Spread),
        "pack" => Some(PlacementKind::Pack),
        "hosts" => Some(PlacementKind::Hosts),
        "global" => Some(PlacementKind::Global),
        _ => None,
    }
}

fn scoring(node: Option<&Node>) -> Option<Scoring> {
    match node?.as_str()? {
        "nomad" => Some(Scoring::Nomad),
        "jaco" => Some(Scoring::Jaco),
        _ => None,
    }
}
