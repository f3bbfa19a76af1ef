//! Constraints as pairs, `cpu=2 ram=3G zone=a`: the one vocabulary of cluster, deployment and service
//! (R-CONS-1, R-CONS-2).

use std::num::NonZeroU32;

use crate::id::ServiceName;
use crate::spec::{Constraint, Operator};
use crate::unit::{Bytes, MilliCores};

/// Keys that are compared with a node's attribute.
const ATTRIBUTES: [(&str, &str); 6] = [
    ("zone", "node.zone"),
    ("datacenter", "node.datacenter"),
    ("arch", "node.arch"),
    ("os", "node.os"),
    ("hostname", "node.hostname"),
    // The node of this name, and no other (R-CONS-6).
    ("place-in", "node.hostname"),
];

/// Every key that is known, in every spelling.
pub fn keys() -> impl Iterator<Item = &'static str> {
    let own = ["cpu", "cores", "ram", "mem", "storage", "max", "place-with", "scale-with"];
    own.into_iter().chain(ATTRIBUTES.iter().map(|(key, _)| *key))
}

/// What a pair asks of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: the value is empty, which is the built-in default of every key, or `0`.
    Nothing,
    /// That this much of its processor is left.
    Cpu(MilliCores),
    /// That this much of its memory is left.
    Memory(Bytes),
    /// That this holds of it.
    Attribute(Constraint),
    /// That it has fewer replicas of the service than this (R-CONS-6).
    MaxPerNode(NonZeroU32),
    /// That it has a replica of this service.
    PlaceWith(ServiceName),
    /// That it has a replica of this service, and that every node that has one has one of both.
    ScaleWith(ServiceName),
}

/// Why a pair asks for nothing that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDemand {
    /// The key is not among those that are known: perhaps one of a provider of machines, such as
    /// `instance-type`. There are no machines to order here.
    #[error(
        "JACO knows cpu, ram, storage, zone, datacenter, arch, os, hostname, max, place-in, place-with \
         and scale-with; labels are written as rules"
    )]
    UnknownKey,
    /// The value is not what the key takes.
    #[error("write {wanted}")]
    Misread {
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
        _ => key,
    }
}

impl Demand {
    /// Reads a pair.
    ///
    /// # Errors
    /// If the key is not known, or does not take the value.
    pub fn parse(key: &str, value: &str) -> Result<Self, InvalidDemand> {
        let attribute = ATTRIBUTES.iter().find(|(pair, _)| *pair == key).map(|(_, name)| *name);
        let misread = |wanted| InvalidDemand::Misread { wanted };
        let service = |value| {
            ServiceName::new(value).map_err(|_| misread("the name of a service of the deployment"))
        };
        match (canonical_key(key), attribute) {
            ("cpu" | "ram" | "storage" | "max" | "place-with" | "scale-with", _) | (_, Some(_))
                if value.is_empty() || value == "0" =>
            {
                Ok(Self::Nothing)
            }
            ("max", _) => {
                let wanted = "how many replicas one node may have, as 2";
                value.parse().map(Self::MaxPerNode).map_err(|_| misread(wanted))
            }
            ("place-with", _) => service(value).map(Self::PlaceWith),
            ("scale-with", _) => service(value).map(Self::ScaleWith),
            ("cpu", _) => {
                let wanted = "a number of cores, as 0.5 or 2";
                cores(value).map(Self::Cpu).ok_or_else(|| misread(wanted))
            }
            ("ram", _) => {
                let wanted = "as 512M, 3G or 1T";
                amount(value).map(Self::Memory).ok_or_else(|| misread(wanted))
            }
            // Nothing of a disk is reserved, so what a node has is what a replica finds.
            ("storage", _) => {
                let wanted = "as 512M, 3G or 1T";
                let storage = amount(value).ok_or_else(|| misread(wanted))?;
                Ok(Self::Attribute(Constraint {
                    attribute: "node.storage_mib".to_owned(),
                    operator: Operator::GreaterOrEqual,
                    value: storage.0.div_ceil(1 << 20).to_string(),
                }))
            }
            (_, Some(attribute)) => Ok(Self::Attribute(Constraint {
                attribute: attribute.to_owned(),
                operator: Operator::Equal,
                value: value.to_owned(),
            })),
            (_, None) => Err(InvalidDemand::UnknownKey),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CONS-2: cpu is any real number of cores, ram has a suffix, and nothing else is guessed.
    #[test]
    fn amounts_are_read_exactly() {
        assert_eq!(Demand::parse("cpu", "0.5"), Ok(Demand::Cpu(MilliCores(500))));
        assert_eq!(Demand::parse("cores", "2"), Ok(Demand::Cpu(MilliCores(2000))));
        assert_eq!(Demand::parse("ram", "3G"), Ok(Demand::Memory(Bytes(3 << 30))));
        assert_eq!(Demand::parse("mem", "1.5T"), Ok(Demand::Memory(Bytes(3 << 39))));
        assert_eq!(Demand::parse("ram", "512"), Ok(Demand::Memory(Bytes(512 << 20))));
        for wrong in ["-1", "1e3", "x", ".5", "1.0000000001", "99999999999999999999T"] {
            for key in ["cpu", "ram"] {
                let read = Demand::parse(key, wrong);
                assert!(matches!(read, Err(InvalidDemand::Misread { .. })), "{key}={wrong}");
            }
        }
    }

    /// R-CONS-2: storage is written like ram, and is what a node has at least.
    #[test]
    fn storage_is_read_like_memory() {
        let Ok(Demand::Attribute(storage)) = Demand::parse("storage", "1.5G") else { panic!() };
        let Constraint { attribute, operator, value } = storage;
        assert_eq!(
            (attribute.as_str(), operator.as_str(), value.as_str()),
            ("node.storage_mib", ">=", "1536")
        );
        assert_eq!(Demand::parse("storage", "0"), Ok(Demand::Nothing));
        assert!(matches!(Demand::parse("storage", "much"), Err(InvalidDemand::Misread { .. })));
    }

    /// R-CONS-2: empty and `0` ask for nothing; R-CONS-5: keys of machine providers are not known.
    #[test]
    fn nothing_is_asked_and_foreign_keys_are_told() {
        for (key, value) in [("cpu", ""), ("ram", "0"), ("zone", ""), ("zone", "0")] {
            assert_eq!(Demand::parse(key, value), Ok(Demand::Nothing));
        }
        assert_eq!(Demand::parse("instance-type", "m5"), Err(InvalidDemand::UnknownKey));
        let zone = Demand::parse("zone", "a");
        let Ok(Demand::Attribute(zone)) = zone else { panic!("{zone:?}") };
        assert_eq!((zone.attribute.as_str(), zone.value.as_str()), ("node.zone", "a"));
    }
}
