//! Any short port, mount, length of time and number of bytes against its long form. R-IN-2, R-IN-3.

use jaco_compose::units::{parse_bytes, parse_duration_nanos};
use jaco_compose::{Code, Problems};
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use crate::util::{load_text, problems_of};

/// The list at `key` of a service that has it, as the model holds it.
fn list(key: &str, items: &Json) -> Result<Json, Problems> {
    let file = json!({
        "services": {"web": {"image": "i", key: items}},
        "volumes": {"data": {}, "v": {}},
    });
    Ok(load_text(&file.to_string())?.project.canonical_json()["services"]["web"][key].clone())
}

/// Both lists are the same, whichever way they are written.
fn same(key: &str, short: &str, long: &Json) -> Result<(), TestCaseError> {
    let told = |problems: Problems| TestCaseError::fail(problems_of(&problems));
    let written = list(key, &json!([short])).map_err(told)?;
    prop_assert_eq!(&written, &list(key, long).map_err(told)?, "{}", short);
    prop_assert_eq!(written.as_array().map(Vec::len), long.as_array().map(Vec::len));
    Ok(())
}

/// One port or several: the first and how many follow.
type Range = (u16, u16);

fn range() -> impl Strategy<Value = Range> {
    (1..65_000u16, prop_oneof![2 => Just(0), 1 => 0..5u16])
}

fn write((first, more): Range) -> String {
    if more == 0 { first.to_string() } else { format!("{first}-{}", first + more) }
}

const ADDRESSES: [(&str, &str); 4] = [
    ("127.0.0.1:", "127.0.0.1"),
    ("0.0.0.0:", "0.0.0.0"),
    ("[::1]:", "::1"),
    ("[fe80::1]:", "fe80::1"),
];

const PROTOCOLS: [(&str, &str); 6] = [
    ("", "tcp"),
    ("/tcp", "tcp"),
    ("/udp", "udp"),
    ("/UDP", "udp"),
    ("/sctp", "sctp"),
    ("/Tcp", "tcp"),
];

/// The long ports that a short one means; none where the ranges do not fit.
fn long_ports(
    address: Option<&str>,
    published: Option<Range>,
    (first, more): Range,
    protocol: &str,
) -> Option<Json> {
    let one = |offset: u16| {
        let mut port = Map::new();
        port.insert("target".to_owned(), json!(first + offset));
        port.insert("protocol".to_owned(), json!(protocol));
        if let Some(address) = address {
            port.insert("host_ip".to_owned(), json!(address));
        }
        let text = match published {
            None => return Some(Json::Object(port)),
            Some((from, width)) if width == more => (from + offset).to_string(),
            Some(range) if more == 0 => write(range),
            Some(_) => return None,
        };
        port.insert("published".to_owned(), json!(text));
        Some(Json::Object(port))
    };
    (0..=more).map(one).collect()
}

/// A mount's source as it is written, and the type that it has.
const SOURCES: [(&str, &str); 7] = [
    ("data", "volume"),
    ("v", "volume"),
    ("./a", "bind"),
    ("../b c", "bind"),
    (".", "bind"),
    ("/srv/d", "bind"),
    ("/d.e/f", "bind"),
];

proptest! {
    /// R-IN-2: a short port is the long ports it stands for: each of a range has its own published one, a single
    /// port may have one of a range, and other ranges are refused where they are written.
    #[test]
    fn short_ports_are_long_ones(
        address in prop::option::of(prop::sample::select(ADDRESSES.to_vec())),
        published in prop::option::of(range()),
        target in range(),
        protocol in prop::sample::select(PROTOCOLS.to_vec()),
    ) {
        let colon = if published.is_some() || address.is_some() { ":" } else { "" };
        let text = format!(
            "{}{}{colon}{}{}",
            address.map_or("", |(text, _)| text),
            published.map(write).unwrap_or_default(),
            write(target),
            protocol.0
        );
        match long_ports(address.map(|(_, bare)| bare), published, target, protocol.1) {
            Some(long) => same("ports", &text, &long)?,
            None => {
                let problems = list("ports", &json!([text])).unwrap_err();
                let codes: Vec<_> = problems.errors().map(|one| one.code).collect();
                prop_assert_eq!(codes, [Code::InvalidValue]);
            }
        }
    }

    /// R-IN-2: a short mount is the long one: a path binds, a name is a volume, options are members.
    #[test]
    fn short_mounts_are_long_ones(
        source in prop::option::of(prop::sample::select(SOURCES.to_vec())),
        target in "/[a-z][a-z/.]{0,6}[a-z]",
        read_only in any::<bool>(),
        shared in prop::option::of(prop::sample::select(vec!["z", "Z"])),
        unknown in prop::option::of(Just("rw")),
    ) {
        let kind = source.map_or("volume", |(_, kind)| kind);
        let mut long = json!({"type": kind, "target": &target});
        let mut options: Vec<&str> = unknown.into_iter().collect();
        if let Some((path, _)) = source {
            long["source"] = json!(path);
            if read_only {
                long["read_only"] = json!(true);
                options.push("ro");
            }
            if kind == "bind" {
                long["bind"] = json!({"create_host_path": true});
                if let Some(label) = shared {
                    long["bind"]["selinux"] = json!(label);
                    options.push(label);
                }
            }
        }
        let text = match source {
            None => target,
            Some((path, _)) if options.is_empty() => format!("{path}:{target}"),
            Some((path, _)) => format!("{path}:{target}:{}", options.join(",")),
        };
        same("volumes", &text, &json!([long]))?;
    }

    /// R-IN-2: a length of time is the sum of its parts, in any order.
    #[test]
    fn lengths_of_time_add_up(parts in prop::collection::vec((0..5000u64, 0..8usize), 1..5)) {
        const UNITS: [(&str, u64); 8] = [
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
            ("d", 86_400_000_000_000),
        ];
        let text: String = parts.iter().map(|(number, unit)| format!("{number}{}", UNITS[*unit].0)).collect();
        let sum: u64 = parts.iter().map(|(number, unit)| number * UNITS[*unit].1).sum();
        let expected = i64::try_from(sum).is_ok().then_some(sum);
        prop_assert_eq!(parse_duration_nanos(&text), expected, "{}", text);
    }

    /// R-IN-2: decimals of a number of bytes are exact where the unit divides, in any case and with one space.
    #[test]
    fn decimals_of_bytes_are_exact(whole in 0..1024u64, eighths in 0..8u64, unit in 0..4usize, space in any::<bool>()) {
        const UNITS: [[&str; 4]; 4] = [
            ["k", "K", "kb", "KiB"],
            ["m", "M", "Mb", "mib"],
            ["g", "G", "GB", "Gi"],
            ["t", "T", "tB", "TiB"],
        ];
        let space = if space { " " } else { "" };
        let size = 1u64 << (10 * (unit + 1));
        for name in UNITS[unit] {
            let text = format!("{whole}.{:03}{space}{name}", eighths * 125);
            prop_assert_eq!(parse_bytes(&text), Some(whole * size + eighths * size / 8), "{}", text);
        }
    }
}
