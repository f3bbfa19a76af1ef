//! Numbers that no engine and no planner takes. They are refused where they stand, before replicas fail because of
//! them on every node.

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::notation::units;
use crate::yaml::node::{Map, Node, Value};

/// Where a whole number stands in a service, and its bounds. `[]` is each item of a list.
struct Range {
    path: &'static str,
    least: i64,
    most: i64,
}

const fn range(path: &'static str, least: i64, most: i64) -> Range {
    Range { path, least, most }
}

/// The largest number of replicas, retries and devices.
const MOST: i64 = u32::MAX as i64;

/// Zero leaves a weight to the engine, and is taken out of the tree; so no bound has to name it.
const RANGES: [Range; 9] = [
    range("blkio_config.weight", 10, 1_000),
    range("blkio_config.weight_device.[].weight", 10, 1_000),
    range("deploy.placement.max_replicas_per_node", 0, MOST),
    range("deploy.resources.reservations.devices.[].count", -1, MOST),
    range("deploy.restart_policy.max_attempts", 0, MOST),
    range("gpus.[].count", -1, MOST),
    range("healthcheck.retries", 0, MOST),
    range("oom_score_adj", -1_000, 1_000),
    range("volumes.[].tmpfs.mode", 0, 0o7777),
];

/// Numbers of cores, of which a thousandth is the least.
const CORES: [&str; 3] =
    ["cpus", "deploy.resources.limits.cpus", "deploy.resources.reservations.cpus"];

/// Checks the numbers of one service.
pub(super) fn check(service: &Map, report: &mut Report) {
    for Range { path, least, most } in &RANGES {
        visit(service, path, &mut |node| {
            let number = node.as_int();
            if let Some(number) = number.filter(|number| !(*least..=*most).contains(number)) {
                let expected = format!("a whole number from {least} to {most}");
                refuse(path, &number.to_string(), node, &expected, report);
            }
        });
    }
    for path in CORES {
        visit(service, path, &mut |node| {
            let Value::Float(cores) = node.value else { return };
            if cores != 0.0 && units::scale(&cores.to_string(), 1_000) == Some(0) {
                refuse(path, &cores.to_string(), node, "0, or a number from 0.001", report);
            }
        });
    }
}

fn refuse(path: &str, shown: &str, node: &Node, expected: &str, report: &mut Report) {
    let path = path.replace(".[]", "");
    report
        .error(node.pos, Code::InvalidValue, format!("`{path}` cannot be {shown}"))
        .expected(expected);
}

/// Calls `check` with each value at `path`.
fn visit(service: &Map, path: &str, check: &mut dyn FnMut(&Node)) {
    let (key, rest) = step(path);
    if let Some(node) = service.get(key) {
        visit_below(node, rest, check);
    }
}

fn visit_below(node: &Node, path: Option<&str>, check: &mut dyn FnMut(&Node)) {
    let Some((key, rest)) = path.map(step) else { return check(node) };
    if key == "[]" {
        let items = node.as_seq().unwrap_or_default();
        items.iter().for_each(|item| visit_below(item, rest, check));
    } else if let Some(node) = node.get(key) {
        visit_below(node, rest, check);
    }
}

fn step(path: &str) -> (&str, Option<&str>) {
    path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)))
}
