//! Reservations, bounds and limits.

use jaco_types::unit::{Bytes, MilliCores, Resources};

use super::scene::text;
use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::facts::Bounds;
use crate::notation::units;
use crate::overlay::{read_cpu, read_memory};
use crate::resolve::scene::{Scene, below};
use crate::yaml::node::{Map, Node, Value};

/// R-RES-2: the environment's override, the compose reservation, the manifest's maximum, nothing.
///
/// One outside of the bounds is told where it is written: in the compose file, or with the bounds.
pub(crate) fn reservation(
    scene: &Scene<'_>,
    bounds: Bounds,
    compose: &mut Report,
    report: &mut Report,
) -> Resources {
    let reservations = below(scene.service.get("deploy"), &["resources", "reservations"]);
    let memory_node = reservations.and_then(|node| node.get("memory"));
    let memory_node = memory_node.or_else(|| scene.service.get("mem_reservation"));
    let written_memory = memory_node.and_then(Node::as_str).and_then(|text| text.parse().ok());
    let cpu_node = reservations.and_then(|node| node.get("cpus"));
    let written_cpu = cpu_node.and_then(millis);
    let given = scene.given.cloned().unwrap_or_default();
    let given_memory = given_amount(scene, "memory", given.memory.as_deref(), read_memory, report);
    let given_cpu = given_amount(scene, "cpu", given.cpu.as_deref(), read_cpu, report);
    let memory = given_memory.or(written_memory).unwrap_or(bounds.memory_max.0);
    let cpu = given_cpu.or(written_cpu).unwrap_or(bounds.cpu_max.0);
    let of_compose = |given: Option<u64>, node: Option<&Node>| {
        node.filter(|_| given.is_none()).map(|node| node.pos)
    };
    let checks = [
        Reserved {
            what: "memory",
            amount: memory,
            min: bounds.memory_min.0,
            max: bounds.memory_max.0,
            show: |amount| Bytes(amount).to_string(),
            pos: of_compose(given_memory, memory_node),
        },
        Reserved {
            what: "cpu",
            amount: cpu,
            min: bounds.cpu_min.0,
            max: bounds.cpu_max.0,
            show: |amount| MilliCores(amount).to_string(),
            pos: of_compose(given_cpu, cpu_node),
        },
    ];
    for check in checks {
        let Some(message) = check.problem(scene.name) else { continue };
        let code = Code::UnsupportedResourceConfiguration;
        match check.pos {
            Some(pos) => compose.error(pos, code, message),
            None => {
                let pos = scene.own.map(|own| own.place("resources")).unwrap_or_default();
                report.error(pos, code, message)
            }
        };
    }
    Resources { cpu: MilliCores(cpu), memory: Bytes(memory) }
}

/// A reserved amount with its bounds.
struct Reserved {
    what: &'static str,
    amount: u64,
    min: u64,
    /// Zero for no bound.
    max: u64,
    show: fn(u64) -> String,
    /// Where the compose file has it, if it comes from there.
    pos: Option<Pos>,
}

impl Reserved {
    fn problem(&self, service: &str) -> Option<String> {
        let Self { what, amount, min, max, show, .. } = self;
        let is_outside = (*max > 0 && amount > max) || amount < min;
        let (amount, min, max) = (show(*amount), show(*min), show(*max));
        is_outside.then(|| {
            format!("service `{service}` reserves {amount} of {what}, outside of {min} to {max}")
        })
    }
}

fn given_amount(
    scene: &Scene<'_>,
    what: &str,
    text: Option<&str>,
    read: fn(&str) -> Option<u64>,
    report: &mut Report,
) -> Option<u64> {
    let text = text?;
    let amount = read(text);
    if amount.is_none() {
        let message =
            format!("the override `{what}` of service `{}` cannot be `{text}`", scene.name);
        report.error_nowhere(Code::UnsupportedResourceConfiguration, message);
    }
    amount
}

/// Without bounds in the manifest, an override is both bounds.
pub(crate) fn effective_bounds(scene: &Scene<'_>, mut bounds: Bounds) -> Bounds {
    let Some(given) = scene.given else {
        return bounds;
    };
    if let Some(memory) = given.memory.as_deref().and_then(read_memory)
        && bounds.memory_max == Bytes(0)
    {
        (bounds.memory_min, bounds.memory_max) = (Bytes(memory), Bytes(memory));
    }
    if let Some(cpu) = given.cpu.as_deref().and_then(read_cpu)
        && bounds.cpu_max == MilliCores(0)
    {
        (bounds.cpu_min, bounds.cpu_max) = (MilliCores(cpu), MilliCores(cpu));
    }
    bounds
}

pub(crate) fn limit(service: &Map) -> Resources {
    let limits = below(service.get("deploy"), &["resources", "limits"]);
    let cpus = limits.and_then(|node| node.get("cpus")).or_else(|| service.get("cpus"));
    let memory = limits.and_then(|node| node.get_str("memory"));
    let memory = memory.or_else(|| text(service, "mem_limit"));
    Resources {
        cpu: MilliCores(cpus.and_then(millis).unwrap_or(0)),
        memory: Bytes(memory.and_then(|text| text.parse().ok()).unwrap_or(0)),
    }
}

/// Cores as thousandths, exactly: the number is read from its decimal form.
fn millis(node: &Node) -> Option<u64> {
    let text = match &node.value {
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Str(_) | Value::Seq(_) | Value::Map(_) => {
            return None;
        }
    };
    units::scale(&text, 1_000)
}
