//! From the checked tree of a jaco.yaml to typed values, with the rules of each key.

use std::collections::BTreeSet;

use super::service::service;
use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::notation::name::normalise_name;
use crate::overlay::constraints::{constraints, roles};
use crate::overlay::routes::{acme, check_routes, route};
use crate::overlay::rules::spread;
use crate::overlay::types::{Acme, JacoYaml};
use crate::overlay::value::scoring;
use crate::overlay::volumes::volumes;
use crate::yaml::node::{Map, Node};

pub(super) fn overlay(root: &Node, report: &mut Report) -> Option<JacoYaml> {
    let map = root.as_map()?;
    let text = |key: &str| map.get(key).and_then(Node::as_str).map(str::to_owned);
    let acme = acme(map.get("acme"), report);
    let mut overlay = JacoYaml {
        deployment: text("deployment"),
        environment: text("environment"),
        config_selector: text("config_selector"),
        acme,
        acme_email: text("acme_email").filter(|email| !email.is_empty()),
        spread: spread(map.get("spread"), report),
        spread_pos: map.get("spread").map(|node| node.pos).unwrap_or_default(),
        scoring: scoring(map.get("scoring")),
        // What is no amount was reported where the tree was checked.
        max_file_bytes: text("max_files").and_then(|bytes| bytes.parse().ok()),
        roles: roles(map.get("roles"), report),
        volumes: volumes(map.get("volumes"), report),
        ..JacoYaml::default()
    };
    overlay.constraints = constraints(map.get("constraints"), Some(&overlay.roles), report);
    check_top(map, &overlay, report);
    for (index, node) in items(map, "routes").iter().enumerate() {
        overlay.routes.extend(route(node, index, acme, report));
    }
    check_routes(map.get("routes"), &overlay.routes, report);
    for node in items(map, "services") {
        overlay.services.extend(service(node, &overlay.roles, report));
    }
    let mut seen = BTreeSet::new();
    for service in &overlay.services {
        if !seen.insert(&service.name) {
            let message = format!("service `{}` is declared twice", service.name);
            report.error(service.pos, Code::ValidationFailed, message);
        }
    }
    Some(overlay)
}

/// Keys whose values are checked but which nothing implements yet.
const NOT_IMPLEMENTED: [&str; 2] = ["acme", "acme_email"];

fn check_top(map: &Map, overlay: &JacoYaml, report: &mut Report) {
    for entry in NOT_IMPLEMENTED.iter().filter_map(|key| map.entry(key)) {
        let message = format!("`{}` has no effect: it is not implemented yet", entry.key);
        report.warning(entry.key_pos, Code::NoEffect, message);
    }
    if let (Some(node), Some(name)) = (map.get("deployment"), &overlay.deployment)
        && (name.is_empty() || normalise_name(name) != *name)
    {
        let message = format!("`{name}` is not a valid deployment name");
        report
            .error(node.pos, Code::InvalidName, message)
            .expected("lower-case letters, digits, `-` and `_`, starting with a letter or digit");
    }
    if let (Some(node), Some(email), Acme::On) =
        (map.get("acme_email"), &overlay.acme_email, overlay.acme)
        && !is_email(email)
    {
        report
            .error(node.pos, Code::ValidationFailed, format!("`{email}` is not an e-mail address"))
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
