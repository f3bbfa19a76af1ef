//! Values of a service that contradict each other or mean nothing: those that no table can tell.

use std::net::IpAddr;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::yaml::access::items;
use crate::yaml::node::{Map, Node, Value};

/// Most cores that a service can ask for: more than any machine has, few enough that sums do not
/// overflow.
const MAX_CORES: i64 = 1 << 20;

/// Checks the values of one service.
pub(super) fn check(service: &Map, report: &mut Report) {
    healthcheck(service, report);
    amounts(service, report);
    cores(service, report);
    variables(service, report);
    ports(service, report);
    devices(service, report);
    pull_policy(service, report);
}

fn healthcheck(service: &Map, report: &mut Report) {
    let Some(test) = service.get("healthcheck").and_then(|node| node.get("test")) else {
        return;
    };
    let first = test.as_seq().and_then(|items| items.first()).and_then(Node::as_str);
    if let Some(first) = first
        && !["CMD", "CMD-SHELL", "NONE"].contains(&first)
    {
        report
            .error(
                test.pos,
                Code::InvalidValue,
                "`healthcheck.test` does not say how the test is run",
            )
            .expected("`CMD`, `CMD-SHELL` or `NONE` as its first item");
    }
}

/// Old keys and their replacements must have the same value.
fn amounts(service: &Map, report: &mut Report) {
    const PAIRS: [(&str, &[&str]); 5] = [
        ("scale", &["replicas"]),
        ("cpus", &["resources", "limits", "cpus"]),
        ("mem_limit", &["resources", "limits", "memory"]),
        ("mem_reservation", &["resources", "reservations", "memory"]),
        ("pids_limit", &["resources", "limits", "pids"]),
    ];
    for (old, new) in PAIRS {
        let Some(old_node) = service.get(old) else { continue };
        let newer =
            new.iter().try_fold(service.get("deploy"), |node, key| node.map(|node| node.get(key)));
        if let Some(Some(newer)) = newer
            && !same_amount(old_node, newer)
        {
            let message = format!("`{old}` and `deploy.{}` differ", new.join("."));
            report.error(old_node.pos, Code::Conflict, message).suggest("keep one of them");
        }
    }
}

fn ports(service: &Map, report: &mut Report) {
    for port in items(service, "ports") {
        if let Some(address) = port.get("host_ip")
            && let Some(text) = address.as_str()
            && text.parse::<IpAddr>().is_err()
        {
            report
                .error(address.pos, Code::InvalidValue, format!("`{text}` is not an IP address"))
                .expected("an IPv4 or IPv6 address");
        }
    }
}

fn devices(service: &Map, report: &mut Report) {
    let reserved = ["resources", "reservations", "devices"]
        .iter()
        .try_fold(service.get("deploy"), |node, key| node.map(|node| node.get(key)))
        .flatten()
        .and_then(Node::as_seq)
        .unwrap_or_default();
    for request in items(service, "gpus").iter().chain(reserved) {
        if request.get("count").is_some() && request.get("device_ids").is_some() {
            let message = "`count` and `device_ids` are mutually exclusive";
            report.error(request.pos, Code::Conflict, message).suggest("keep one of them");
        }
    }
}

fn pull_policy(service: &Map, report: &mut Report) {
    const KNOWN: [&str; 8] =
        ["always", "never", "build", "if_not_present", "missing", "refresh", "daily", "weekly"];
    let Some(node) = service.get("pull_policy") else {
        return;
    };
    let text = node.as_str().unwrap_or_default();
    if !KNOWN.contains(&text) && !text.starts_with("every_") {
        let message = format!("`{text}` is not a pull policy");
        report
            .error(node.pos, Code::InvalidValue, message)
            .nearest(text, KNOWN.into_iter())
            .expected(KNOWN.map(|name| format!("`{name}`")).join(", ") + " or `every_…`");
    }
}

/// Numbers of cores are not negative and not beyond every machine.
fn cores(service: &Map, report: &mut Report) {
    let deploy = service.get("deploy");
    let resource = |section: &str| deploy?.get("resources")?.get(section)?.get("cpus");
    let written = [
        ("cpus", service.get("cpus")),
        ("deploy.resources.limits.cpus", resource("limits")),
        ("deploy.resources.reservations.cpus", resource("reservations")),
    ];
    for (key, node) in written {
        let Some(node) = node else { continue };
        let fits = match node.value {
            Value::Int(cores) => (0..=MAX_CORES).contains(&cores),
            Value::Float(cores) => (0.0..=MAX_CORES as f64).contains(&cores),
            // What is no number was reported when the tree was checked.
            Value::Null | Value::Bool(_) | Value::Str(_) | Value::Seq(_) | Value::Map(_) => true,
        };
        if !fits {
            let shown: String = number(node).unwrap_or_default().chars().take(24).collect();
            report
                .error(node.pos, Code::InvalidValue, format!("`{key}` cannot be `{shown}`"))
                .expected(format!("a number of cores from 0 to {MAX_CORES}"));
        }
    }
}

fn same_amount(one: &Node, other: &Node) -> bool {
    one.same(other) || number(one).is_some_and(|amount| Some(amount) == number(other))
}

/// A number in its decimal form, the same for `2` and `2.0`.
fn number(node: &Node) -> Option<String> {
    match &node.value {
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Str(_) | Value::Seq(_) | Value::Map(_) => None,
    }
}

/// Names of variables, as the kernel takes them.
fn variables(service: &Map, report: &mut Report) {
    let environment = service.get("environment").and_then(Node::as_map);
    for entry in environment.into_iter().flat_map(Map::iter) {
        if entry.key.is_empty() || entry.key.contains('=') {
            let message = format!("`{}` is not the name of a variable", entry.key);
            report
                .error(entry.key_pos, Code::InvalidKey, message)
                .expected("a name that is not empty and has no `=`");
        }
    }
}
