//! Numbers that no engine and no planner takes. They are refused where they stand, before replicas fail because of
//! them on every node.

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::yaml::node::{Map, Node, Value};

/// Where a whole number stands below a key of a service, and its bounds. `[]` is each item of a list.
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

/// By the key of the service, the whole numbers below it. Zero leaves a weight to the engine, and is taken out of the
/// tree; so no bound has to name it.
const RANGES: [(&str, &[Range]); 6] = [
    ("blkio_config", &[range("weight", 10, 1_000), range("weight_device.[].weight", 10, 1_000)]),
    (
        "deploy",
        &[
            range("placement.max_replicas_per_node", 0, MOST),
            range("resources.reservations.devices.[].count", -1, MOST),
            range("restart_policy.max_attempts", 0, MOST),
        ],
    ),
    ("gpus", &[range("[].count", -1, MOST)]),
    ("healthcheck", &[range("retries", 0, MOST)]),
    ("oom_score_adj", &[range("", -1_000, 1_000)]),
    ("volumes", &[range("[].tmpfs.mode", 0, 0o7777)]),
];

/// Numbers of cores below a key, of which a thousandth is the least.
const CORES: [(&str, &[&str]); 2] =
    [("cpus", &[""]), ("deploy", &["resources.limits.cpus", "resources.reservations.cpus"])];

/// Checks the numbers of one service.
pub(super) fn check(service: &Map, report: &mut Report) {
    for (key, ranges) in RANGES {
        let Some(node) = service.get(key) else { continue };
        for Range { path, least, most } in ranges {
            visit(node, path, &mut |node| {
                let number = node.as_int();
                if let Some(number) = number.filter(|number| !(*least..=*most).contains(number)) {
                    let expected = format!("a whole number from {least} to {most}");
                    refuse((key, path), &number.to_string(), node, &expected, report);
                }
            });
        }
    }
    for (key, paths) in CORES {
        let Some(node) = service.get(key) else { continue };
        for path in paths {
            visit(node, path, &mut |node| {
                let Value::Float(cores) = node.value else { return };
                if cores < 0.001 {
                    refuse(
                        (key, path),
                        &cores.to_string(),
                        node,
                        "0, or a number from 0.001",
                        report,
                    );
                }
            });
        }
    }
}

fn refuse(
    (key, path): (&str, &str),
    shown: &str,
    node: &Node,
    expected: &str,
    report: &mut Report,
) {
    let steps = path.split('.').filter(|step| !matches!(*step, "" | "[]"));
    let path: String = [key].into_iter().chain(steps).collect::<Vec<_>>().join(".");
    report
        .error(node.pos, Code::InvalidValue, format!("`{path}` cannot be {shown}"))
        .expected(expected);
}

/// Calls `check` with each value at `path` below `node`.
fn visit(node: &Node, path: &str, check: &mut dyn FnMut(&Node)) {
    if path.is_empty() {
        return check(node);
    }
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    if step == "[]" {
        let items = node.as_seq().unwrap_or_default();
        items.iter().for_each(|item| visit(item, rest, check));
    } else if let Some(node) = node.get(step) {
        visit(node, rest, check);
    }
}
