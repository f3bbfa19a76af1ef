//! What narrows and weighs the choice of nodes: Juju's pairs, Nomad's rules and criteria, maand's
//! selectors, in the planner's words.

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::facts::{self, Facts};
use jaco_types::spec::{
    Affinity, Constraint, Operator, SchedulingPolicy, SpreadCriterion, SpreadTarget,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{ErrorCode, Rejection, ServiceName};

/// Pairs that are compared with a node's attribute of the same name.
const ATTRIBUTES: [(&str, &str); 5] = [
    ("zone", "node.zone"),
    ("datacenter", "node.datacenter"),
    ("arch", "node.arch"),
    ("os", "node.os"),
    ("hostname", "node.hostname"),
];

/// The policy of one service, and what the user should know about it.
///
/// # Errors
/// `invalid_manifest` for an amount or an operator that is not understood.
pub(super) fn policy(
    service: &ServiceName,
    facts: &Facts,
    warnings: &mut Vec<String>,
) -> Result<SchedulingPolicy, Rejection> {
    let mut policy = SchedulingPolicy {
        selectors: selectors(service, &facts.selectors),
        spread: facts.spread.iter().map(criterion).collect(),
        ..SchedulingPolicy::default()
    };
    for (key, value) in pairs(&facts.deployment_constraints, &facts.constraints) {
        apply_pair(&mut policy, service, key, value, warnings)?;
    }
    let rules = facts.deployment_constraints.rules.iter().chain(&facts.constraints.rules);
    for rule in rules {
        policy.constraints.push(constraint(service, rule)?);
    }
    for affinity in &facts.affinities {
        let constraint = constraint(service, &affinity.rule)?;
        policy.affinities.push(Affinity { constraint, weight: affinity.weight });
    }
    Ok(policy)
}

/// The pairs of deployment and service: each key falls back by itself, and an empty value of the
/// service goes past the deployment's to the built-in default (R-CONS-1, R-CONS-2).
fn pairs<'a>(
    deployment: &'a facts::Constraints,
    service: &'a facts::Constraints,
) -> BTreeMap<&'a str, &'a str> {
    let mut pairs: BTreeMap<&str, &str> = BTreeMap::new();
    for given in [deployment, service] {
        pairs.extend(given.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    }
    // The built-in default of every key is not to ask for anything; so is `0`.
    pairs.retain(|_, value| !value.is_empty() && *value != "0");
    pairs
}

fn apply_pair(
    policy: &mut SchedulingPolicy,
    service: &ServiceName,
    key: &str,
    value: &str,
    warnings: &mut Vec<String>,
) -> Result<(), Rejection> {
    let Resources { cpu, memory } = &mut policy.minimum;
    let attribute = ATTRIBUTES.iter().find(|(pair, _)| *pair == key).map(|(_, name)| *name);
    match (key, attribute) {
        ("cpu", _) => *cpu = cores(value).ok_or_else(|| misread(service, key, value))?,
        ("ram" | "mem", _) => {
            *memory = amount(value).ok_or_else(|| misread(service, key, value))?;
        }
        (_, Some(attribute)) => policy.constraints.push(Constraint {
            attribute: attribute.to_owned(),
            operator: Operator::Equal,
            value: value.to_owned(),
        }),
        // Keys of providers of machines, such as `instance-type`: there are no machines to order.
        (_, None) => warnings.push(format!(
            "service {service}: constraint {key}={value} is ignored: JACO knows cpu, ram, zone, \
             datacenter, arch, os and hostname; labels are written as rules"
        )),
    }
    Ok(())
}

fn misread(service: &ServiceName, key: &str, value: &str) -> Rejection {
    let wanted = if key == "cpu" { "a number of cores, as 0.5 or 2" } else { "as 512M, 3G or 1T" };
    let message = format!("service {service}: constraint {key}={value}: write {wanted}");
    Rejection::new(ErrorCode::InvalidManifest, message)
}

/// A decimal number of cores, in thousandths, without going through floats.
fn cores(text: &str) -> Option<MilliCores> {
    decimal(text, 1000).map(MilliCores)
}

/// A decimal number with a suffix: `M` (also when bare), `G`, `T`.
fn amount(text: &str) -> Option<Bytes> {
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 'M' | 'm') => (&text[..at], 1 << 20),
        (at, 'G' | 'g') => (&text[..at], 1 << 30),
        (at, 'T' | 't') => (&text[..at], 1 << 40),
        _ => (text, 1 << 20),
    };
    decimal(number, unit).map(Bytes)
}

/// `text` times `unit`, rounded down; at most nine digits after the point count.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let part: u128 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let whole: u128 = whole.parse().ok()?;
    let scaled = whole.checked_mul(scale)?.checked_add(part)?.checked_mul(u128::from(unit))?;
    u64::try_from(scaled / scale).ok()
}

fn constraint(service: &ServiceName, rule: &facts::Rule) -> Result<Constraint, Rejection> {
    let known = Operator::ALL.iter().copied().find(|each| each.as_str() == rule.operator);
    let operator = known.ok_or_else(|| {
        let all: Vec<_> = Operator::ALL.iter().map(|each| each.as_str()).collect();
        let message = format!(
            "service {service}: operator {:?} is not one of {}",
            rule.operator,
            all.join(", ")
        );
        Rejection::new(ErrorCode::InvalidManifest, message)
    })?;
    Ok(Constraint { attribute: rule.attribute.clone(), operator, value: rule.value.clone() })
}

fn selectors(service: &ServiceName, selectors: &facts::Selectors) -> BTreeSet<String> {
    match selectors {
        facts::Selectors::Any => BTreeSet::new(),
        facts::Selectors::All(labels) => labels.clone(),
        facts::Selectors::Auto => BTreeSet::from([service.to_string()]),
    }
}

fn criterion(spread: &facts::Spread) -> SpreadCriterion {
    let target =
        |(value, percent): (&String, &u8)| SpreadTarget { value: value.clone(), percent: *percent };
    SpreadCriterion {
        attribute: spread.attribute.clone(),
        weight: spread.weight,
        targets: spread.targets.iter().map(target).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CONS-2: cpu is any real number of cores, ram has a suffix, and nothing else is guessed.
    #[test]
    fn amounts_are_read_exactly() {
        assert_eq!(cores("0.5"), Some(MilliCores(500)));
        assert_eq!(cores("2"), Some(MilliCores(2000)));
        assert_eq!(amount("3G"), Some(Bytes(3 << 30)));
        assert_eq!(amount("1.5T"), Some(Bytes(3 << 39)));
        assert_eq!(amount("512"), Some(Bytes(512 << 20)));
        for wrong in ["", "-1", "1e3", "x", ".5", "1.0000000001", "99999999999999999999T"] {
            assert_eq!((cores(wrong), amount(wrong)), (None, None), "{wrong}");
        }
    }

    /// R-CONS-1, R-CONS-2: each key falls back by itself; empty and `0` ask for nothing.
    #[test]
    fn keys_fall_back_one_by_one() {
        let pairs_of = |pairs: &[(&str, &str)]| facts::Constraints {
            pairs: pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            rules: Vec::new(),
        };
        let deployment = pairs_of(&[("cpu", "4"), ("ram", "8G"), ("zone", "a")]);
        let service = pairs_of(&[("cpu", "2"), ("ram", ""), ("zone", "0")]);
        let merged = pairs(&deployment, &service);
        assert_eq!(merged, BTreeMap::from([("cpu", "2")]));
    }
}
