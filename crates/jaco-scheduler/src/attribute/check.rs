//! What is known of a node by name, and whether a constraint holds of it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use jaco_types::Node;
use jaco_types::demand::greatest_of;
use jaco_types::spec::{Affinity, Constraint, Operator, SchedulingPolicy};
use regex::{Regex, RegexBuilder};

use super::version::{self, Notation, members};

/// The label that every node carries.
const WORKER: &str = "worker";

/// The value of an attribute on a node; see [`SchedulingPolicy`] for its names.
#[must_use]
pub fn value_of<'a>(node: &'a Node, attribute: &str) -> Option<Cow<'a, str>> {
    let name = bare(attribute);
    if let Some(own) = OWN.iter().find(|own| own.name == name) {
        return (own.value)(node);
    }
    if let Some(label) = node.label(label_key(name)) {
        return Some(Cow::Borrowed(label));
    }
    FOUND.iter().find(|found| found.name == name).and_then(|found| (found.value)(node))
}

/// Something that every node has, without being given it as a label.
#[derive(Debug, Clone, Copy)]
pub struct Attribute {
    /// What it is called.
    pub name: &'static str,
    /// What it says, with its unit and an example.
    pub meaning: &'static str,
    value: for<'a> fn(&'a Node) -> Option<Cow<'a, str>>,
}

/// What a node is, whatever its labels say.
const OWN: &[Attribute] = &[
    Attribute {
        name: "node.hostname",
        meaning: "its name",
        value: |node| text(node.hostname.as_str()),
    },
    Attribute {
        name: "node.arch",
        meaning: "the architecture of its processors, as `amd64`",
        value: |node| text(&node.facts.arch),
    },
    Attribute {
        name: "node.os",
        meaning: "its operating system, as `linux`",
        value: |node| text(&node.facts.os),
    },
];

/// What the daemon detects of a machine. A label of the same key overrides it, so that operators can
/// correct it, and labels from before it was detected keep their meaning.
const FOUND: &[Attribute] = &[
    Attribute {
        name: "node.cores",
        meaning: "how many processors it has",
        value: |node| number(node.facts.machine.cores.into()),
    },
    Attribute {
        name: "node.cpu_mhz",
        meaning: "the highest clock rate of one of them, in MHz",
        value: |node| number(node.facts.machine.mhz.into()),
    },
    Attribute {
        name: "node.engine",
        meaning: "its container engine, as `docker`",
        value: |node| text(node.facts.engine.split(' ').next()?),
    },
    Attribute {
        name: "node.engine_version",
        meaning: "the version of the engine, as `28.0.1`",
        value: |node| text(node.facts.engine.split_once(' ')?.1),
    },
    Attribute {
        name: "node.gpu_drivers",
        meaning: "the drivers of its GPUs, as `nvidia,amdgpu`",
        value: |node| list(node.facts.gpus.iter().map(|gpu| gpu.driver.as_str())),
    },
    Attribute {
        name: "node.gpu_models",
        meaning: "the product names of its GPUs, as `Tesla T4`, comma-separated",
        value: |node| list(node.facts.gpus.iter().map(|gpu| gpu.model.as_str())),
    },
    Attribute {
        name: "node.gpus",
        meaning: "how many GPUs it has for replicas; `0` if none",
        value: |node| Some(Cow::Owned(node.facts.gpus.len().to_string())),
    },
    Attribute {
        name: "node.kernel",
        meaning: "the release of its kernel, as `6.1.0-18-amd64`",
        value: |node| text(&node.facts.machine.kernel),
    },
    Attribute {
        name: "node.memory_mib",
        meaning: "its memory, in MiB",
        value: |node| number(node.facts.machine.memory.0 >> 20),
    },
    Attribute {
        name: "node.reservable_cpu_millis",
        meaning: "what replicas may reserve of its processors, in thousandths of a core",
        value: |node| number(node.facts.capacity.cpu.0),
    },
    Attribute {
        name: "node.reservable_memory_mib",
        meaning: "what replicas may reserve of its memory, in MiB",
        value: |node| number(node.facts.capacity.memory.0 >> 20),
    },
    Attribute {
        name: "node.storage_mib",
        meaning: "what replicas may fill of its disk, in MiB",
        value: |node| number(node.facts.storage.0 >> 20),
    },
    Attribute {
        name: "node.version",
        meaning: "the version of its daemon, as `0.1.0`",
        value: |node| text(&node.facts.version),
    },
    Attribute {
        name: "node.volume_classes",
        meaning: "the classes of volumes that it offers, as `hdd,ssd`",
        value: |node| list(node.facts.volume_classes.keys().map(|class| class.as_str())),
    },
];

/// Every attribute that nodes have without being given it, in the order of their names.
#[must_use]
pub fn attributes() -> Vec<&'static Attribute> {
    let mut all: Vec<_> = OWN.iter().chain(FOUND).collect();
    all.sort_by_key(|attribute| attribute.name);
    all
}

/// Whether the attribute is one that nodes have without being given it.
#[must_use]
pub fn is_built_in(attribute: &str) -> bool {
    let name = bare(attribute);
    OWN.iter().chain(FOUND).any(|known| known.name == name)
}

fn text(text: &str) -> Option<Cow<'_, str>> {
    Some(text).filter(|text| !text.is_empty()).map(Cow::Borrowed)
}

/// Zero means unknown.
fn number(number: u64) -> Option<Cow<'static, str>> {
    (number > 0).then(|| Cow::Owned(number.to_string()))
}

/// Each once, in order.
fn list<'a>(members: impl Iterator<Item = &'a str>) -> Option<Cow<'a, str>> {
    let members: BTreeSet<&str> = members.filter(|member| !member.is_empty()).collect();
    let members: Vec<&str> = members.into_iter().collect();
    (!members.is_empty()).then(|| Cow::Owned(members.join(",")))
}

/// The key of the label that an attribute names, unless it is what the node itself is.
#[must_use]
pub fn label_key(attribute: &str) -> &str {
    let name = bare(attribute);
    name.strip_prefix("node.").or_else(|| name.strip_prefix("meta.")).unwrap_or(name)
}

/// The attribute without the `${…}` that may be around it.
pub(crate) fn bare(attribute: &str) -> &str {
    let inner = attribute.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.unwrap_or(attribute).trim()
}

/// Whether the constraints on labels of a policy of its own hold of the node. What the node itself is does not count: a
/// change of that moves no replica.
pub(crate) fn labels_satisfy(node: &Node, policy: &SchedulingPolicy) -> bool {
    let on_labels = |constraint: &&Constraint| !is_built_in(&constraint.attribute);
    policy.constraints.iter().filter(on_labels).all(|constraint| holds(node, constraint))
}

/// The first selector that the node does not carry.
pub(crate) fn missing_label<'p>(node: &Node, policy: &'p SchedulingPolicy) -> Option<&'p str> {
    missing_labels(node, policy).next()
}

/// The selectors that the node does not carry, in order.
pub(crate) fn missing_labels<'p>(
    node: &Node,
    policy: &'p SchedulingPolicy,
) -> impl Iterator<Item = &'p str> {
    let carries = |label: &str| label == WORKER || node.label(label).is_some();
    policy.selectors.iter().map(String::as_str).filter(move |label| !carries(label))
}

/// How well the node suits: the weights of the affinities that hold.
pub(crate) fn affinity(node: &Node, affinities: &[Affinity]) -> i64 {
    let holding = affinities.iter().filter(|affinity| holds(node, &affinity.constraint));
    holding.map(|affinity| i64::from(affinity.weight)).sum()
}

/// Whether the constraint holds of the node.
#[must_use]
pub fn holds(node: &Node, constraint: &Constraint) -> bool {
    Check::new(constraint).holds(node)
}

/// The longest pattern that is taken, in bytes.
const PATTERN_MAX: usize = 256;

/// How large a pattern may become when it is prepared, in bytes: `(a{99}){99}` is short.
const PREPARED_MAX: usize = 64 << 10;

/// Why a constraint can never hold of any node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable(String);

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a constraint can be asked at all.
///
/// # Errors
/// If its value is not what its operator takes: a regular expression that is wrong, too long or too
/// large, or no list of versions.
pub fn check(constraint: &Constraint) -> Result<(), Unusable> {
    let value = &constraint.value;
    match constraint.operator {
        Operator::Regexp => pattern(value).map(|_| ()),
        Operator::Version => version::are_ranges(value, Notation::Loose)
            .then_some(())
            .ok_or_else(|| Unusable(format!("{value:?} is no list of versions, as >= 1.2, < 2"))),
        Operator::Semver => {
            version::are_ranges(value, Notation::Strict).then_some(()).ok_or_else(|| {
                Unusable(format!("{value:?} is no list of versions, as >= 1.2.0, < 2.0.0"))
            })
        }
        Operator::Equal
        | Operator::NotEqual
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Greater
        | Operator::GreaterOrEqual
        | Operator::IsSet
        | Operator::IsNotSet
        | Operator::SetContains
        | Operator::SetContainsAny => Ok(()),
    }
}

fn pattern(text: &str) -> Result<Regex, Unusable> {
    if text.len() > PATTERN_MAX {
        return Err(Unusable(format!("the pattern is longer than {PATTERN_MAX} bytes")));
    }
    let built = RegexBuilder::new(text).unicode(false).size_limit(PREPARED_MAX).build();
    let is_too_large = |error: &regex::Error| matches!(error, regex::Error::CompiledTooBig(_));
    built.map_err(|error| {
        Unusable(match is_too_large(&error) {
            true => format!("the pattern {text:?} takes more than {PREPARED_MAX} bytes"),
            false => format!("{text:?} is no regular expression, or one for more than ASCII"),
        })
    })
}

/// A constraint that is ready to be asked of many nodes.
pub(crate) struct Check<'c> {
    pub(crate) constraint: &'c Constraint,
    prepared: Prepared,
}

enum Prepared {
    /// Nothing has to be.
    AsWritten,
    /// Absent for what is no pattern: that matches nothing.
    Pattern(Option<Regex>),
    /// As much as any node has; absent where that is not known, and then nothing is enough.
    AtLeast(Option<u64>),
}

impl<'c> Check<'c> {
    pub(crate) fn new(constraint: &'c Constraint) -> Self {
        let prepared = match constraint.operator == Operator::Regexp {
            true => Prepared::Pattern(pattern(&constraint.value).ok()),
            false => Prepared::AsWritten,
        };
        Self { constraint, prepared }
    }

    /// Also where it asks for as much as any node has: `greatest` gives that for an attribute.
    pub(crate) fn among(
        constraint: &'c Constraint,
        greatest: impl Fn(&'static str) -> Option<u64>,
    ) -> Self {
        match greatest_of(constraint) {
            Some(attribute) => {
                Self { constraint, prepared: Prepared::AtLeast(greatest(attribute)) }
            }
            None => Self::new(constraint),
        }
    }

    pub(crate) fn holds(&self, node: &Node) -> bool {
        self.holds_of(value_of(node, &self.constraint.attribute).as_deref())
    }

    /// Whether it holds of a node whose attribute has this value, or none.
    pub(crate) fn holds_of(&self, value: Option<&str>) -> bool {
        let Constraint { attribute: _, operator, value: wanted } = self.constraint;
        let Some(value) = value else {
            return matches!(operator, Operator::NotEqual | Operator::IsNotSet);
        };
        let pattern = match &self.prepared {
            Prepared::AsWritten => None,
            Prepared::Pattern(pattern) => pattern.as_ref(),
            Prepared::AtLeast(least) => {
                return value.parse().is_ok_and(|has: u64| least.is_some_and(|least| has >= least));
            }
        };
        match operator {
            Operator::Equal => value == wanted,
            Operator::NotEqual => value != wanted,
            Operator::Less => compare(value, wanted) == Ordering::Less,
            Operator::LessOrEqual => compare(value, wanted) != Ordering::Greater,
            Operator::Greater => compare(value, wanted) == Ordering::Greater,
            Operator::GreaterOrEqual => compare(value, wanted) != Ordering::Less,
            Operator::IsSet => true,
            Operator::IsNotSet => false,
            Operator::Version => version::is_in_ranges(value, wanted, Notation::Loose),
            Operator::Semver => version::is_in_ranges(value, wanted, Notation::Strict),
            Operator::Regexp => pattern.is_some_and(|p| p.is_match(value)),
            Operator::SetContains => members(wanted).all(|m| members(value).any(|has| has == m)),
            Operator::SetContainsAny => members(wanted).any(|m| members(value).any(|has| has == m)),
        }
    }
}

/// As integers where both are, else as text.
fn compare(a: &str, b: &str) -> Ordering {
    match (a.parse::<i64>(), b.parse::<i64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_) | Err(_), Err(_)) | (Err(_), Ok(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regexp(value: &str) -> Constraint {
        let value = value.to_owned();
        Constraint { attribute: "a".to_owned(), operator: Operator::Regexp, value }
    }

    /// R-CONS-7: a pattern that is wrong, long or large is refused before it is kept, in little time.
    #[test]
    fn patterns_are_bounded() {
        assert_eq!(check(&regexp("^web-[0-9]+$")), Ok(()));
        for wrong in ["(", "a{99999}", "((a{99}){99}){99}", &"a".repeat(257), "\\p{Greek}"] {
            assert!(check(&regexp(wrong)).is_err(), "{wrong}");
        }
    }
}
