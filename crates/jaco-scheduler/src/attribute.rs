//! What is known of a node by name, and whether a constraint holds of it.

use std::cmp::Ordering;

use jaco_types::Node;
use jaco_types::spec::{Affinity, Constraint, Operator, SchedulingPolicy};

/// The label that every node carries.
const WORKER: &str = "worker";

/// The value of an attribute on a node; see [`SchedulingPolicy`] for its names.
#[must_use]
pub fn value_of<'a>(node: &'a Node, attribute: &str) -> Option<&'a str> {
    let name = bare(attribute);
    match name {
        "node.hostname" => return Some(node.hostname.as_str()),
        "node.arch" => return Some(node.facts.arch.as_str()).filter(|arch| !arch.is_empty()),
        "node.os" => return Some(node.facts.os.as_str()).filter(|os| !os.is_empty()),
        _ => {}
    }
    let key = name.strip_prefix("node.").or_else(|| name.strip_prefix("meta.")).unwrap_or(name);
    node.facts.labels.get(key).map(String::as_str)
}

/// The attribute without the `${…}` that may be around it.
fn bare(attribute: &str) -> &str {
    let inner = attribute.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.unwrap_or(attribute).trim()
}

/// The first selector that the node does not carry.
pub(crate) fn missing_label<'p>(node: &Node, policy: &'p SchedulingPolicy) -> Option<&'p str> {
    let carries = |label: &str| label == WORKER || node.facts.labels.contains_key(label);
    policy.selectors.iter().map(String::as_str).find(|label| !carries(label))
}

/// Whether the node carries every selector and satisfies every constraint.
pub(crate) fn is_allowed(node: &Node, policy: &SchedulingPolicy) -> bool {
    missing_label(node, policy).is_none()
        && policy.constraints.iter().all(|constraint| holds(node, constraint))
}

/// How well the node suits: the weights of the affinities that hold.
pub(crate) fn affinity(node: &Node, affinities: &[Affinity]) -> i64 {
    let holding = affinities.iter().filter(|affinity| holds(node, &affinity.constraint));
    holding.map(|affinity| i64::from(affinity.weight)).sum()
}

/// Whether the constraint holds of the node.
#[must_use]
pub fn holds(node: &Node, constraint: &Constraint) -> bool {
    let wanted = constraint.value.as_str();
    let Some(value) = value_of(node, &constraint.attribute) else {
        return matches!(constraint.operator, Operator::NotEqual | Operator::IsNotSet);
    };
    match constraint.operator {
        Operator::Equal => value == wanted,
        Operator::NotEqual => value != wanted,
        Operator::Less => compare(value, wanted) == Ordering::Less,
        Operator::LessOrEqual => compare(value, wanted) != Ordering::Greater,
        Operator::Greater => compare(value, wanted) == Ordering::Greater,
        Operator::GreaterOrEqual => compare(value, wanted) != Ordering::Less,
        Operator::IsSet => true,
        Operator::IsNotSet => false,
        Operator::Version => is_in_range(value, wanted),
        Operator::SetContains => members(wanted).all(|m| members(value).any(|has| has == m)),
        Operator::SetContainsAny => members(wanted).any(|m| members(value).any(|has| has == m)),
    }
}

fn members(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|member| !member.is_empty())
}

/// As integers where both are, else as text.
fn compare(a: &str, b: &str) -> Ordering {
    match (a.parse::<i64>(), b.parse::<i64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_) | Err(_), Err(_)) | (Err(_), Ok(_)) => a.cmp(b),
    }
}

/// Whether a version lies in all of the ranges, for example `>= 1.2, < 2`. What is no version lies
/// in none.
fn is_in_range(version: &str, ranges: &str) -> bool {
    let Some(version) = Version::parse(version) else { return false };
    let is_in = |range: &str| {
        let digits = range.find(|c: char| c.is_ascii_digit() || c == 'v').unwrap_or(range.len());
        let (operator, bound) = range.split_at(digits);
        let Some(bound) = Version::parse(bound) else { return false };
        let order = version.cmp(&bound);
        match operator.trim() {
            "" | "=" => order == Ordering::Equal,
            "!=" => order != Ordering::Equal,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            ">" => order == Ordering::Greater,
            ">=" => order != Ordering::Less,
            _ => false,
        }
    };
    let mut ranges = members(ranges).peekable();
    ranges.peek().is_some() && ranges.all(is_in)
}

/// Numbers between dots; missing ones are zero, and a pre-release comes before its release.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 4],
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Pre(String),
    Release,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split('+').next().unwrap_or(text);
        let (core, pre) = match text.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (text, None),
        };
        let mut numbers = [0; 4];
        let mut parts = core.split('.');
        for (place, part) in numbers.iter_mut().zip(&mut parts) {
            *place = part.parse().ok()?;
        }
        let stage = pre.map_or(Stage::Release, |pre| Stage::Pre(pre.to_owned()));
        parts.next().is_none().then_some(Self { numbers, stage })
    }
}
