//! Host ports that two services want: refused exactly where both could be on one node. R-RES-4.

use std::collections::BTreeSet;

use jaco_compose::Code;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use crate::util::resolve_text;

/// One published port of a service.
#[derive(Debug, Clone)]
struct Port {
    target: u16,
    published: u16,
    udp: bool,
    address: Option<&'static str>,
}

impl Port {
    fn write(&self) -> String {
        let address = self.address.map(|address| format!("{address}:")).unwrap_or_default();
        let protocol = if self.udp { "/udp" } else { "" };
        format!("{address}{}:{}{protocol}", self.published, self.target)
    }

    /// Whether both take the same port of a node.
    fn meets(&self, other: &Self) -> bool {
        let any =
            |port: &Self| port.address.is_none_or(|address| matches!(address, "0.0.0.0" | "[::]"));
        let address = any(self) || any(other) || self.address == other.address;
        self.published == other.published && self.udp == other.udp && address
    }

    /// What tells one entry of a list from another: of two that are the same the later one stays.
    fn entry(&self) -> (String, u16, u16, bool) {
        let address = self.address.unwrap_or("0.0.0.0").to_owned();
        (address, self.published, self.target, self.udp)
    }
}

fn port() -> impl Strategy<Value = Port> {
    let address = prop::sample::select(vec!["127.0.0.1", "10.0.0.1", "0.0.0.0", "[::]", "[::1]"]);
    (80..82_u16, 8000..8003_u16, any::<bool>(), option::of(address))
        .prop_map(|(target, published, udp, address)| Port { target, published, udp, address })
}

/// The hosts that a service is pinned to, or none.
fn hosts() -> impl Strategy<Value = Option<BTreeSet<&'static str>>> {
    option::of(prop::collection::btree_set(prop::sample::select(vec!["n1", "n2", "n3"]), 1..3))
}

proptest! {
    /// Services that are pinned to different hosts never meet; a service always meets itself. The conflict is told
    /// at an entry that publishes the port.
    #[test]
    fn ports_conflict_where_services_meet(
        a in prop::collection::vec(port(), 0..3),
        b in prop::collection::vec(port(), 0..3),
        pinned in (hosts(), hosts()),
    ) {
        let lines = |ports: &[Port]| ports.iter().map(|port| format!("      - '{}'\n", port.write())).collect::<String>();
        let text = format!(
            "services:\n  a:\n    image: i\n    ports:\n{}  b:\n    image: i\n    ports:\n{}",
            lines(&a), lines(&b),
        );
        let text = text.replace("    ports:\n  b", "  b").trim_end_matches("    ports:\n").to_owned();
        let pins = [("a", &pinned.0), ("b", &pinned.1)];
        let services: Vec<_> = pins
            .into_iter()
            .filter_map(|(name, hosts)| Some(json!({"name": name, "placement": "hosts", "hosts": hosts.as_ref()?})))
            .collect();
        let overlay = json!({"services": services}).to_string();

        let distinct = |ports: &[Port]| {
            let mut seen = BTreeSet::new();
            ports.iter().filter(|port| seen.insert(port.entry())).cloned().collect::<Vec<_>>()
        };
        let (a, b) = (distinct(&a), distinct(&b));
        let within = |ports: &[Port]| {
            ports.iter().enumerate().any(|(at, port)| ports[..at].iter().any(|other| port.meets(other)))
        };
        let apart = matches!(&pinned, (Some(a), Some(b)) if a.is_disjoint(b));
        let between = !apart && a.iter().any(|port| b.iter().any(|other| port.meets(other)));
        let expected = within(&a) || within(&b) || between;

        match resolve_text(&text, Some(&overlay)) {
            Ok(_) => prop_assert!(!expected, "{text}"),
            Err(problems) => {
                prop_assert!(expected, "{problems}\n{text}");
                for problem in problems.errors() {
                    prop_assert_eq!(problem.code, Code::PortConflict);
                    let line = text.lines().nth(problem.line as usize - 1).unwrap_or_default();
                    let port = problem.message.rsplit(' ').find_map(|word| word.parse::<u16>().ok()).unwrap_or_default();
                    prop_assert!(line.contains(&format!("{port}:")), "{problem} at {line}");
                }
            }
        }
    }
}
