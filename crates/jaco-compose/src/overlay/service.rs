//! The overrides of one service.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::Hostname;
use jaco_types::spec::Placement;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::amounts::{bounds, update};
use crate::overlay::constraints::constraints;
use crate::overlay::roles::Roles;
use crate::overlay::rules::{affinities, selectors, spread};
use crate::overlay::types::ServiceOverlay;
use crate::overlay::value::{count, drain, replicas, scoring};
use crate::overlay::{loss, schedule, table};
use crate::yaml::node::Node;

pub(super) fn service(node: &Node, roles: &Roles, report: &mut Report) -> Option<ServiceOverlay> {
    let map = node.as_map()?;
    let mut places = BTreeMap::new();
    for key in table::service_keys() {
        if let Some(value) = map.get(key) {
            places.insert(key, value.pos);
        }
    }
    let hosts = hosts(map.get("hosts"), report);
    let placement = placement(map.get("placement"), hosts);
    let networks: Option<Vec<String>> = map.get("networks").map(texts);
    let overlay = ServiceOverlay {
        name: node.get_str("name")?.to_owned(),
        replicas: replicas(map.get("replicas"), report),
        placement,
        networks: networks.filter(|networks| !networks.is_empty()),
        spread: spread(map.get("spread"), report),
        constraints: constraints(map.get("constraints"), Some(roles), report),
        affinities: affinities(map.get("affinities"), report),
        selectors: selectors(map.get("selectors"), report),
        bounds: bounds(map.get("resources"), report),
        update: update(map.get("update"), report),
        rollback: map.get("rollback").map(|node| update(Some(node), report)),
        on_node_loss: loss::read(map.get("on_node_loss"), report),
        drain: drain(map.get("drain"), report),
        schedule: schedule::read(map.get("schedule"), report),
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
    match &overlay.placement {
        Some(Placement::Hosts(hosts)) if hosts.is_empty() => {
            let message = format!("service `{name}` uses placement=hosts without hosts");
            report
                .error(overlay.place("placement"), Code::ValidationFailed, message)
                .suggest("add `hosts: [NAME, …]`");
        }
        Some(Placement::Global) if overlay.replicas.is_some() => {
            // The wording is part of the interface: scripts look for it.
            let message = format!(
                "service \"{name}\" uses placement=global; remove replicas (global runs one \
                 replica per ready node)"
            );
            report.error(overlay.place("replicas"), Code::ValidationFailed, message);
        }
        Some(Placement::Hosts(hosts)) => {
            let (wanted, hosts) = (overlay.replicas.unwrap_or(1) as usize, hosts.len());
            if wanted > hosts {
                let message =
                    format!("service `{name}` has {wanted} replicas but only {hosts} pinned hosts");
                report
                    .error(overlay.place("replicas"), Code::ReplicasExceedPinnedHosts, message)
                    .suggest("add hosts, or lower `replicas`");
            }
        }
        Some(Placement::Spread | Placement::Pack | Placement::Global) | None => {
            if overlay.places.contains_key("hosts") {
                let message =
                    format!("`hosts` of service `{name}` has no effect without `placement: hosts`");
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

fn hosts(node: Option<&Node>, report: &mut Report) -> BTreeSet<Hostname> {
    let items = node.and_then(Node::as_seq).unwrap_or_default();
    let mut hosts = BTreeSet::new();
    for item in items {
        match item.as_str().map(Hostname::new) {
            Some(Ok(host)) => _ = hosts.insert(host),
            Some(Err(invalid)) => {
                let message = format!("`{}` is not a host name", invalid.text);
                report.error(item.pos, Code::InvalidName, message).expected(invalid.rule);
            }
            // A value that is not a string was reported when the tree was checked.
            None => {}
        }
    }
    hosts
}

fn placement(node: Option<&Node>, hosts: BTreeSet<Hostname>) -> Option<Placement> {
    match node?.as_str()? {
        "spread" => Some(Placement::Spread),
        "pack" => Some(Placement::Pack),
        "hosts" => Some(Placement::Hosts(hosts)),
        "global" => Some(Placement::Global),
        _ => None,
    }
}
