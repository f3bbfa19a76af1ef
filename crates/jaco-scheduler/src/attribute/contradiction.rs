//! Constraints that no node can satisfy together, whatever nodes there are.

use std::collections::BTreeSet;

use jaco_types::Hostname;
use jaco_types::demand::greatest_of;
use jaco_types::spec::{Constraint, Operator, Placement};

use super::check::{Check, bare, is_built_in, label_key};

/// How many constraints of one service are compared with each other: the comparison is of each with
/// each, and real services have a dozen.
const COMPARED_MAX: usize = 128;

/// The constraints that cannot hold of one node together, each pair as a sentence (R-CONS-5).
///
/// What is reported is certain; not every contradiction is reported: two patterns may exclude each
/// other, and the reasons of every node then say so once something waits.
#[must_use]
pub fn contradictions(constraints: &[Constraint], placement: &Placement) -> Vec<String> {
    let constraints = &constraints[..constraints.len().min(COMPARED_MAX)];
    let checks: Vec<_> = constraints.iter().map(Check::new).collect();
    let mut found = Vec::new();
    for (at, (a, check_a)) in constraints.iter().zip(&checks).enumerate() {
        for (b, check_b) in constraints.iter().zip(&checks).skip(at + 1) {
            if is_same_attribute(a, b) && exclude((a, check_a), (b, check_b)) {
                let (a, b) = (describe(a), describe(b));
                found.push(format!("no node can satisfy both {a} and {b}"));
            }
        }
        if let Placement::Hosts(hosts) = placement
            && excludes_all(check_a, a, hosts)
        {
            found.push(format!("none of the hosts of the service satisfies {}", describe(a)));
        }
    }
    found
}

/// A constraint as users write it.
#[must_use]
pub fn describe(constraint: &Constraint) -> String {
    let Constraint { attribute, operator, value } = constraint;
    format!("{attribute} {} {value}", operator.as_str()).trim_end().to_owned()
}

fn is_same_attribute(a: &Constraint, b: &Constraint) -> bool {
    label_key(&a.attribute) == label_key(&b.attribute) && is_own(a) == is_own(b)
}

/// Whether it is about what the node is, and not only about a label.
fn is_own(constraint: &Constraint) -> bool {
    is_built_in(&constraint.attribute)
}

fn excludes_all(check: &Check<'_>, constraint: &Constraint, hosts: &BTreeSet<Hostname>) -> bool {
    bare(&constraint.attribute) == "node.hostname"
        && !hosts.iter().any(|host| check.holds_of(Some(host.as_str())))
}

/// Whether two constraints on one attribute leave it no value.
fn exclude(a: (&Constraint, &Check<'_>), b: (&Constraint, &Check<'_>)) -> bool {
    let ((a, check_a), (b, check_b)) = (a, b);
    // How much that is depends on the nodes there are.
    if greatest_of(a).is_some() || greatest_of(b).is_some() {
        return false;
    }
    if a.operator == Operator::Equal {
        return !check_b.holds_of(Some(&a.value));
    }
    if b.operator == Operator::Equal {
        return !check_a.holds_of(Some(&b.value));
    }
    if a.operator == Operator::IsNotSet {
        return !check_b.holds_of(None);
    }
    if b.operator == Operator::IsNotSet {
        return !check_a.holds_of(None);
    }
    match (Bound::of(a), Bound::of(b)) {
        (Some(Bound::Above(least)), Some(Bound::Below(most)))
        | (Some(Bound::Below(most)), Some(Bound::Above(least))) => is_empty(least, most),
        _ => false,
    }
}

/// One side of a range.
enum Bound<'c> {
    Above(End<'c>),
    Below(End<'c>),
}

/// Where a range ends.
struct End<'c> {
    value: &'c str,
    edge: Edge,
}

/// Whether the end itself belongs to the range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    In,
    Out,
}

impl<'c> Bound<'c> {
    fn of(constraint: &'c Constraint) -> Option<Self> {
        let end = |edge| End { value: &constraint.value, edge };
        match constraint.operator {
            Operator::Greater => Some(Self::Above(end(Edge::Out))),
            Operator::GreaterOrEqual => Some(Self::Above(end(Edge::In))),
            Operator::Less => Some(Self::Below(end(Edge::Out))),
            Operator::LessOrEqual => Some(Self::Below(end(Edge::In))),
            Operator::Equal
            | Operator::NotEqual
            | Operator::IsSet
            | Operator::IsNotSet
            | Operator::Version
            | Operator::Semver
            | Operator::Regexp
            | Operator::SetContains
            | Operator::SetContainsAny => None,
        }
    }
}

/// Whether nothing lies between two ends. An attribute that is a number is compared as one with ends
/// that are, and any other as text: so both readings have to be empty.
fn is_empty(least: End<'_>, most: End<'_>) -> bool {
    let both_in = least.edge == Edge::In && most.edge == Edge::In;
    let as_text = least.value > most.value || (least.value == most.value && !both_in);
    match (least.value.parse::<i64>(), most.value.parse::<i64>()) {
        (Ok(from), Ok(to)) => {
            let first = if least.edge == Edge::In { Some(from) } else { from.checked_add(1) };
            let last = if most.edge == Edge::In { Some(to) } else { to.checked_sub(1) };
            let as_number = first.zip(last).is_none_or(|(first, last)| first > last);
            as_text && as_number
        }
        (Err(_), Err(_)) => as_text,
        // A number is compared with one end as a number and with the other as text.
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}
