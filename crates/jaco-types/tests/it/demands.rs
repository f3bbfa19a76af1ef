//! Constraints as pairs: every key with what it takes and what it refuses (R-CONS-1, R-CONS-2).

use std::num::NonZeroU32;

use jaco_types::demand::{Demand, InvalidDemand, canonical_key, greatest_of, keys};
use jaco_types::spec::{Constraint, Operator};
use jaco_types::unit::{Bytes, MilliCores};
use proptest::prelude::*;

fn refusal(key: &str, value: &str) -> String {
    let error = Demand::parse(key, value).expect_err(&format!("{key}={value}"));
    error.to_string()
}

/// The rule of an attribute, as `attribute operator value`.
fn rule(key: &str, value: &str) -> String {
    match Demand::parse(key, value) {
        Ok(Demand::Rules(rules)) => {
            let rule =
                |it: &Constraint| format!("{} {} {}", it.attribute, it.operator.as_str(), it.value);
            rules.iter().map(rule).collect::<Vec<_>>().join(" and ")
        }
        other => panic!("{key}={value} is {other:?}"),
    }
}

/// R-CONS-2: cpu is any real number of cores that is not below zero.
#[test]
fn cores_are_decimal_numbers() {
    for (value, cpu) in [
        ("1", 1000),
        ("0.5", 500),
        ("2.25", 2250),
        ("0.001", 1),
        ("0.0019", 1),
        ("16.000000000", 16_000),
        ("00.5", 500),
        ("1.", 1000),
    ] {
        for key in ["cpu", "cores"] {
            assert_eq!(
                Demand::parse(key, value),
                Ok(Demand::Cpu(MilliCores(cpu))),
                "{key}={value}"
            );
        }
    }
    for value in ["-1", "+1", "1e3", "1,5", "1m", " 1", "1 ", "x", ".5", ".", "1.2.3", "٣"] {
        assert_eq!(
            refusal("cpu", value),
            "write a number of cores, as 0.5 or 2, or max",
            "{value}"
        );
    }
    assert_eq!(refusal("cpu", "18446744073709552"), "write a number of cores, as 0.5 or 2, or max");
}

/// R-CONS-2: ram is a real number that is not below zero, with a suffix.
#[test]
fn memory_has_a_suffix() {
    for (value, bytes) in [
        ("512", 512 << 20),
        ("512M", 512 << 20),
        ("512m", 512 << 20),
        ("3G", 3 << 30),
        ("1.5g", 3 << 29),
        ("1T", 1 << 40),
        ("0.5t", 1 << 39),
        ("0.000001M", 1),
    ] {
        for key in ["ram", "mem"] {
            assert_eq!(
                Demand::parse(key, value),
                Ok(Demand::Memory(Bytes(bytes))),
                "{key}={value}"
            );
        }
    }
    for value in ["-1G", "1K", "1Gi", "1GB", "G", "1 G", "1.0000000001G", "99999999999999999999T"] {
        assert_eq!(refusal("ram", value), "write 512M, 3G, 1T or max", "{value}");
    }
}

/// Storage is compared and never reserved, so a part of a MiB counts as a whole one.
#[test]
fn storage_is_rounded_up_to_mebibytes() {
    assert_eq!(rule("storage", "1.5G"), "node.storage_mib >= 1536");
    assert_eq!(rule("storage", "0.1M"), "node.storage_mib >= 1");
    assert_eq!(rule("storage", "2T"), "node.storage_mib >= 2097152");
    assert_eq!(refusal("storage", "much"), "write 512M, 3G, 1T or max");
}

#[test]
fn attributes_are_compared_for_equality() {
    for (key, attribute) in [
        ("zone", "node.zone"),
        ("datacenter", "node.datacenter"),
        ("arch", "node.arch"),
        ("os", "node.os"),
        ("hostname", "node.hostname"),
        ("place-in", "node.hostname"),
    ] {
        assert_eq!(rule(key, "a b"), format!("{attribute} = a b"), "any text is a value");
    }
}

/// R-CONS-2: `0` asks for no amount. R-CONS-2: nothing else is an amount, so there a `0` is a value.
#[test]
fn zero_is_no_filter_for_amounts_only() {
    for key in ["cpu", "cores", "ram", "mem", "storage"] {
        for value in ["0", "0.0", "00", "0.0000001"] {
            assert_eq!(Demand::parse(key, value), Ok(Demand::Nothing), "{key}={value}");
        }
    }
    for value in ["0G", "0.0T", "0m"] {
        assert_eq!(Demand::parse("ram", value), Ok(Demand::Nothing), "ram={value}");
        assert_eq!(Demand::parse("storage", value), Ok(Demand::Nothing), "storage={value}");
    }
    assert_eq!(rule("zone", "0"), "node.zone = 0");
    assert_eq!(rule("datacenter", "0"), "node.datacenter = 0");
    assert_eq!(rule("place-in", "0"), "node.hostname = 0");
    let zero = jaco_types::ServiceName::new("0").unwrap();
    assert_eq!(Demand::parse("place-with", "0"), Ok(Demand::PlaceWith(zero.clone())));
    assert_eq!(Demand::parse("scale-with", "0"), Ok(Demand::ScaleWith(zero)));
    assert_eq!(refusal("max-per-node", "0"), "write how many replicas one node may have, as 2");
}

/// R-CONS-6: `max` in place of an amount is a rule about all that a node has of it, and about nothing
/// else.
#[test]
fn greatest_amounts_are_rules() {
    for (key, attribute) in [
        ("cpu", "node.reservable_cpu_millis"),
        ("cores", "node.reservable_cpu_millis"),
        ("ram", "node.reservable_memory_mib"),
        ("mem", "node.reservable_memory_mib"),
        ("storage", "node.storage_mib"),
    ] {
        assert_eq!(rule(key, "max"), format!("{attribute} >= max"));
        let Ok(Demand::Rules(rules)) = Demand::parse(key, "max") else { panic!("{key}") };
        let [greatest] = &rules[..] else { panic!("{rules:?}") };
        assert_eq!(greatest_of(greatest), Some(attribute));
        for operator in Operator::ALL.iter().filter(|it| **it != Operator::GreaterOrEqual) {
            let other = Constraint { operator: *operator, ..greatest.clone() };
            assert_eq!(greatest_of(&other), None, "{operator:?}");
        }
        assert_eq!(greatest_of(&Constraint { value: "2".to_owned(), ..greatest.clone() }), None);
        let label = Constraint { attribute: "tier".to_owned(), ..greatest.clone() };
        assert_eq!(greatest_of(&label), None);
        for value in ["MAX", "max ", "maximum"] {
            assert!(Demand::parse(key, value).is_err(), "{key}={value}");
        }
    }
    assert_eq!(rule("zone", "max"), "node.zone = max");
}

/// R-CONS-6: `tags` are labels that must all be there.
#[test]
fn tags_are_labels() {
    assert_eq!(rule("tags", "ssd"), "meta.ssd is_set ");
    assert_eq!(rule("tags", "ssd,gpu,ssd"), "meta.gpu is_set  and meta.ssd is_set ");
    assert_eq!(rule("tags", " ssd , gpu "), "meta.gpu is_set  and meta.ssd is_set ");
    assert_eq!(rule("tags", "0"), "meta.0 is_set ");
    assert_eq!(rule("tags", "worker"), "", "every node carries it");
    for value in [",", "ssd,", ",ssd", "a,,b", " "] {
        assert_eq!(refusal("tags", value), "write labels, as ssd,gpu", "{value:?}");
    }
}

/// R-CONS-6: replicas per node are a count; the key's former name still is one.
#[test]
fn replicas_per_node_are_counted() {
    for key in ["max-per-node", "max"] {
        for (value, max) in [("1", 1), ("12", 12), ("4294967295", u32::MAX)] {
            let max = NonZeroU32::new(max).unwrap();
            assert_eq!(Demand::parse(key, value), Ok(Demand::MaxPerNode(max)), "{key}={value}");
        }
        for value in ["0", "-1", "1.0", "many", "max", "4294967296"] {
            let wanted = "write how many replicas one node may have, as 2";
            assert_eq!(refusal(key, value), wanted, "{key}={value}");
        }
    }
}

#[test]
fn services_and_counts_are_checked() {
    let web = jaco_types::ServiceName::new("web").unwrap();
    assert_eq!(Demand::parse("place-with", "web"), Ok(Demand::PlaceWith(web.clone())));
    assert_eq!(Demand::parse("scale-with", "web"), Ok(Demand::ScaleWith(web)));
    for key in ["place-with", "scale-with"] {
        assert_eq!(refusal(key, "a b"), "write the name of a service of the deployment");
    }
}

/// R-CONS-2: an empty value is the built-in default of every key.
#[test]
fn empty_values_ask_for_nothing() {
    for key in keys() {
        assert_eq!(Demand::parse(key, ""), Ok(Demand::Nothing), "{key}");
    }
}

/// R-CONS-5: keys of machine providers are not known, and the answer lists those that are.
#[test]
fn unknown_keys_are_refused() {
    for key in ["", "CPU", "cpu ", "instance-type", "region", "tier"] {
        assert_eq!(Demand::parse(key, "1"), Err(InvalidDemand::UnknownKey), "{key:?}");
        assert_eq!(Demand::parse(key, ""), Err(InvalidDemand::UnknownKey), "{key:?}");
    }
    let listed = InvalidDemand::UnknownKey.to_string();
    let missing = |key: &&str| !matches!(*key, "cores" | "mem" | "max") && !listed.contains(*key);
    assert_eq!(keys().find(missing), None, "{listed}");
}

#[test]
fn keys_have_one_canonical_spelling() {
    let known: Vec<_> = keys().collect();
    assert_eq!(
        known,
        [
            "cpu",
            "cores",
            "ram",
            "mem",
            "storage",
            "max-per-node",
            "max",
            "tags",
            "place-with",
            "scale-with",
            "zone",
            "datacenter",
            "arch",
            "os",
            "hostname",
            "place-in",
        ]
    );
    let renamed = ["mem", "cores", "max"].map(canonical_key);
    assert_eq!(renamed, ["ram", "cpu", "max-per-node"]);
    for key in keys() {
        let canonical = canonical_key(key);
        assert_eq!(canonical_key(canonical), canonical);
        assert!(keys().any(|known| known == canonical));
        assert_eq!(Demand::parse(key, "2"), Demand::parse(canonical, "2"), "{key}");
    }
}

#[test]
fn operators_read_back() {
    for operator in Operator::ALL {
        assert_eq!(Operator::parse(operator.as_str()), Some(*operator));
    }
    for text in ["", "===", "equals", "< ", "like"] {
        assert_eq!(Operator::parse(text), None, "{text:?}");
    }
}

proptest! {
    /// Whatever is typed, the answer is a demand or a refusal.
    #[test]
    fn any_text_is_answered(key in "\\PC{0,12}", value in "\\PC{0,24}") {
        drop(Demand::parse(&key, &value));
        for key in keys() {
            drop(Demand::parse(key, &value));
        }
    }

    /// A decimal number means what it says, cut to thousandths.
    #[test]
    fn cores_are_exact(whole in 0..1_000_000_u64, thousandths in 0..1000_u64) {
        let value = format!("{whole}.{thousandths:03}");
        let read = Demand::parse("cpu", &value);
        let asked = MilliCores(whole * 1000 + thousandths);
        let nothing = asked == MilliCores(0);
        prop_assert_eq!(read, Ok(if nothing { Demand::Nothing } else { Demand::Cpu(asked) }));
    }

    /// More digits never ask for less.
    #[test]
    fn memory_is_monotonic(one in 0..1_u64 << 40, other in 0..1_u64 << 40, part in 0..1000_u32) {
        let read = |mib: u64| match Demand::parse("ram", &format!("{mib}.{part:03}M")) {
            Ok(Demand::Memory(bytes)) => bytes,
            Ok(Demand::Nothing) => Bytes(0),
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(one.cmp(&other), read(one).cmp(&read(other)));
    }
}
