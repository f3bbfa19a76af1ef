//! Amounts of jaco.yaml: bounds of reservations, update policies.

use jaco_types::Millis;
use jaco_types::spec::{FailureAction, UpdateOrder};
use jaco_types::unit::{Bytes, MilliCores};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::facts::Bounds;
use crate::notation::units;
use crate::overlay::types::UpdateOverlay;
use crate::overlay::value::{count, plain};
use crate::yaml::node::Node;

/// R-RES-1: a lone minimum is the maximum too; nothing is no bound.
pub(crate) fn bounds(node: Option<&Node>, report: &mut Report) -> Bounds {
    let mut bounds = Bounds::default();
    let Some(node) = node else {
        return bounds;
    };
    let memory = range(node.get("memory"), "memory", parse_memory, report);
    let cpu = range(node.get("cpu"), "cpu", parse_cpu, report);
    (bounds.memory_min, bounds.memory_max) = (Bytes(memory.0), Bytes(memory.1));
    (bounds.cpu_min, bounds.cpu_max) = (MilliCores(cpu.0), MilliCores(cpu.1));
    bounds
}

fn range(
    node: Option<&Node>,
    what: &str,
    parse: fn(&str) -> Option<u64>,
    report: &mut Report,
) -> (u64, u64) {
    let Some(node) = node else {
        return (0, 0);
    };
    let mut read = |key: &str| {
        let value = node.get(key)?;
        let text = value.as_str()?;
        let number = parse(text);
        if number.is_none() {
            report
                .error(
                    value.pos,
                    Code::InvalidManifest,
                    format!("`{what}.{key}` cannot be `{text}`"),
                )
                .expected(if what == "cpu" { "`500 MHz`, `2 GHz`" } else { "`512 MB`, `2 GB`" });
        }
        number
    };
    let min = read("min").unwrap_or(0);
    let max = read("max").unwrap_or(0);
    if max == 0 {
        return (min, min);
    }
    if min > max {
        report.error(
            node.pos,
            Code::InvalidManifest,
            format!("`{what}.min` is more than `{what}.max`"),
        );
    }
    (min, max)
}

/// Megabytes without a unit.
pub(crate) fn parse_memory(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text);
    let shift = match unit.as_str() {
        "" | "mb" | "m" => 20,
        "gb" | "g" => 30,
        "tb" | "t" => 40,
        _ => return None,
    };
    units::scale(number, 1 << shift)
}

/// Megahertz without a unit; a thousand are one core, so one is a thousandth of a core.
pub(crate) fn parse_cpu(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text);
    let millis = match unit.as_str() {
        "" | "mhz" => 1,
        "ghz" => 1_000,
        "thz" => 1_000_000,
        _ => return None,
    };
    units::scale(number, millis)
}

fn number_and_unit(text: &str) -> (&str, String) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim().to_ascii_lowercase())
}

/// An update section of jaco.yaml or of compose's `deploy`; both have the same keys.
pub(crate) fn update(node: Option<&Node>, report: &mut Report) -> UpdateOverlay {
    let Some(node) = node else {
        return UpdateOverlay::default();
    };
    let millis = |key: &str| {
        let nanos = node.get_str(key).and_then(units::parse_duration_nanos)?;
        Some(Millis(nanos / 1_000_000))
    };
    let ratio = node.get("max_failure_ratio");
    let permille = ratio.and_then(|ratio| {
        let permille = permille(ratio);
        if permille.is_none() {
            report
                .error(ratio.pos, Code::InvalidValue, "`max_failure_ratio` is not a valid ratio")
                .expected("a number from 0 to 1");
        }
        permille
    });
    let action = node.get("failure_action").and_then(|action| {
        let known = match action.as_str()? {
            "pause" => Some(FailureAction::Pause),
            "continue" => Some(FailureAction::Continue),
            "rollback" => Some(FailureAction::Rollback),
            _ => None,
        };
        if known.is_none() {
            report
                .error(action.pos, Code::InvalidValue, "unknown `failure_action`")
                .expected("`pause`, `continue` or `rollback`");
        }
        known
    });
    let order = match node.get_str("order") {
        Some("start-first") => Some(UpdateOrder::StartFirst),
        Some("stop-first") => Some(UpdateOrder::StopFirst),
        Some(_) | None => None,
    };
    UpdateOverlay {
        parallelism: count(node.get("parallelism"), "parallelism", report),
        delay: millis("delay"),
        monitor: millis("monitor"),
        step_timeout: millis("step_timeout"),
        max_failure_permille: permille,
        failure_action: action,
        order,
    }
}

fn permille(node: &Node) -> Option<u32> {
    let text = plain(node)?;
    let permille = units::scale(&text, 1_000)?;
    u32::try_from(permille).ok().filter(|permille| *permille <= 1_000)
}
