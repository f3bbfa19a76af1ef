//! Constraints as pairs, `cpu=2 ram=3G zone=a`: the one vocabulary of cluster, deployment and service
//! (R-CONS-1, R-CONS-2).

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use crate::id::ServiceName;
use crate::spec::{Constraint, Operator};
use crate::unit::{Bytes, MilliCores};

/// Keys that are compared with an attribute of a node.
const ATTRIBUTES: [(&str, &str); 6] = [
    ("zone", "node.zone"),
    ("datacenter", "node.datacenter"),
    ("arch", "node.arch"),
    ("os", "node.os"),
    ("hostname", "node.hostname"),
    // The node of this name, and no other (R-CONS-6).
    ("place-in", "node.hostname"),
];

/// The keys that take an amount, each with the attribute that has all that replicas may have of it.
const AMOUNTS: [(&str, &str); 3] = [
    ("cpu", "node.reservable_cpu_millis"),
    ("ram", "node.reservable_memory_mib"),
    ("storage", STORAGE),
];

const STORAGE: &str = "node.storage_mib";

/// In place of an amount: the greatest that any node has (R-CONS-6).
const GREATEST: &str = "max";

/// The former name of `max-per-node`, which stored revisions have.
const FORMER_MAX_PER_NODE: &str = "max";

/// Every key that is known, in every spelling.
pub fn keys() -> impl Iterator<Item = &'static str> {
    let own =
        ["cpu", "cores", "ram", "mem", "storage", "max-per-node", FORMER_MAX_PER_NODE, "tags"];
    let own = own.into_iter().chain(["place-with", "scale-with"]);
    own.chain(ATTRIBUTES.iter().map(|(key, _)| *key))
}

/// The requirement that a pair makes of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// None: the value is empty, which is the built-in default of every key, or an amount of `0`.
    Nothing,
    /// This much of its processor is free.
    Cpu(MilliCores),
    /// This much of its memory is free.
    Memory(Bytes),
    /// These rules hold for it, all of them.
    Rules(Vec<Constraint>),
    /// It has fewer replicas of the service than this (R-CONS-6).
    MaxPerNode(NonZeroU32),
    /// It has a replica of this service.
    PlaceWith(ServiceName),
    /// It has a replica of this service, and every node with a replica of one has one of both.
    ScaleWith(ServiceName),
}

/// Why a pair is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDemand {
    /// The key is not among those that are known: perhaps one of a provider of machines, such as
    /// `instance-type`. There are no machines to order here.
    #[error(
        "JACO knows cpu, ram, storage, zone, datacenter, arch, os, hostname, tags, max-per-node, \
         place-in, place-with and scale-with; values of labels are written as rules"
    )]
    UnknownKey,
    /// The value is not what the key takes.
    #[error("write {wanted}")]
    InvalidValue {
        /// What the key takes.
        wanted: &'static str,
    },
}

/// The one spelling of a key, where it has several.
#[must_use]
pub fn canonical_key(key: &str) -> &str {
    match key {
        "mem" => "ram",
        "cores" => "cpu",
        FORMER_MAX_PER_NODE => "max-per-node",
        _ => key,
    }
}

/// The attribute of which a constraint asks for the greatest amount that any node has.
#[must_use]
pub fn greatest_of(constraint: &Constraint) -> Option<&'static str> {
    let Constraint { attribute, operator, value } = constraint;
    let is_greatest = *operator == Operator::GreaterOrEqual && value == GREATEST;
    let mut attributes = AMOUNTS.iter().map(|(_, attribute)| *attribute);
    attributes.find(|known| is_greatest && known == attribute)
}

impl Demand {
    /// Reads a pair.
    ///
    /// # Errors
    /// If the key is not known, or does not take the value.
    pub fn parse(key: &str, value: &str) -> Result<Self, InvalidDemand> {
        if value.is_empty() && keys().any(|known| known == key) {
            return Ok(Self::Nothing);
        }
        let misread = |wanted| InvalidDemand::InvalidValue { wanted };
        let service = || {
            ServiceName::new(value).map_err(|_| misread("the name of a service of the deployment"))
        };
        let key = canonical_key(key);
        if let Some((_, amount)) = AMOUNTS.iter().find(|(known, _)| *known == key) {
            return Self::amount(key, amount, value);
        }
        match key {
            "max-per-node" => {
                let wanted = "how many replicas one node may have, as 2";
                value.parse().map(Self::MaxPerNode).map_err(|_| misread(wanted))
            }
            "place-with" => service().map(Self::PlaceWith),
            "scale-with" => service().map(Self::ScaleWith),
            "tags" => labels(value).map(Self::Rules).ok_or_else(|| misread("labels, as ssd,gpu")),
            key => match ATTRIBUTES.iter().find(|(known, _)| *known == key) {
                Some((_, attribute)) => {
                    Ok(Self::Rules(vec![rule(attribute, Operator::Equal, value)]))
                }
                None => Err(InvalidDemand::UnknownKey),
            },
        }
    }

    /// Reads the value of a key that takes an amount, of which `attribute` has all.
    fn amount(key: &str, attribute: &str, value: &str) -> Result<Self, InvalidDemand> {
        if value == GREATEST {
            return Ok(Self::Rules(vec![rule(attribute, Operator::GreaterOrEqual, GREATEST)]));
        }
        let wanted = match key {
            "cpu" => "a number of cores, as 0.5 or 2, or max",
            _ => "512M, 3G, 1T or max",
        };
        let misread = InvalidDemand::InvalidValue { wanted };
        let asked = if key == "cpu" { cores(value) } else { bytes(value) };
        Ok(match (key, asked.ok_or(misread)?) {
            (_, 0) => Self::Nothing,
            ("cpu", cores) => Self::Cpu(MilliCores(cores)),
            ("ram", bytes) => Self::Memory(Bytes(bytes)),
            // Nothing of a disk is reserved, so what a node has is what a replica finds.
            (_, bytes) => {
                let mebibytes = bytes.div_ceil(1 << 20).to_string();
                Self::Rules(vec![rule(attribute, Operator::GreaterOrEqual, &mebibytes)])
            }
        })
    }
}

fn rule(attribute: &str, operator: Operator, value: &str) -> Constraint {
    let (attribute, value) = (attribute.to_owned(), value.to_owned());
    Constraint { attribute, operator, value }
}

/// That a node carries the labels of a list with commas, none of which is empty. Each node carries
/// `worker`.
fn labels(text: &str) -> Option<Vec<Constraint>> {
    let labels: BTreeSet<&str> = text.split(',').map(str::trim).collect();
    let rules = labels.iter().filter(|label| **label != "worker");
    let rules = rules.map(|label| rule(&format!("meta.{label}"), Operator::IsSet, ""));
    (!labels.contains("")).then(|| rules.collect())
}

/// A decimal number of cores, in thousandths, without going through floats.
fn cores(text: &str) -> Option<u64> {
    decimal(text, 1000)
}

/// A decimal number of bytes with a suffix: `M` (also when bare), `G`, `T`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 'M' | 'm') => (&text[..at], 1 << 20),
        (at, 'G' | 'g') => (&text[..at], 1 << 30),
        (at, 'T' | 't') => (&text[..at], 1 << 40),
        _ => (text, 1 << 20),
    };
    decimal(number, unit)
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
