//! Single values that several keys take.

use jaco_types::Millis;
use jaco_types::route::DrainTime;
use jaco_types::spec::{MAX_REPLICAS, Scoring};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::notation::units;
use crate::yaml::node::{Node, Value};
use crate::yaml::scalar;

pub(crate) fn count(node: Option<&Node>, key: &str, report: &mut Report) -> Option<u32> {
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

/// A number of replicas, of which a deployment has only so many.
pub(crate) fn replicas(node: Option<&Node>, report: &mut Report) -> Option<u32> {
    let node = node?;
    let number = node.as_int()?;
    let replicas = u32::try_from(number).ok().filter(|replicas| *replicas <= MAX_REPLICAS);
    if replicas.is_none() {
        report
            .error(node.pos, Code::ValidationFailed, format!("`replicas` cannot be {number}"))
            .expected(format!("a whole number from 0 to {MAX_REPLICAS}"));
    }
    replicas
}

pub(crate) fn scoring(node: Option<&Node>) -> Option<Scoring> {
    match node?.as_str()? {
        "nomad" => Some(Scoring::Nomad),
        "jaco" => Some(Scoring::Jaco),
        _ => None,
    }
}

/// A time that was written in one of the ways of compose.
pub(crate) fn millis(node: &Node) -> Option<Millis> {
    Some(Millis(units::parse_duration_nanos(node.as_str()?)? / 1_000_000))
}

/// How long requests go on at a replica that leaves.
pub(crate) fn drain(node: Option<&Node>, report: &mut Report) -> Option<DrainTime> {
    let node = node?;
    match DrainTime::new(millis(node)?) {
        Ok(drain) => Some(drain),
        Err(invalid) => {
            report
                .error(node.pos, Code::InvalidValue, format!("`drain` cannot be {}", invalid.text))
                .suggest(invalid.rule);
            None
        }
    }
}

pub(crate) fn plain(node: &Node) -> Option<String> {
    match &node.value {
        Value::Null => Some(String::new()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Int(value) => Some(value.to_string()),
        Value::Float(value) => Some(scalar::format_float(*value)),
        Value::Str(text) => Some(text.to_string()),
        Value::Seq(_) | Value::Map(_) => None,
    }
}
