//! Which crate may use which: the arrows of ARCHITECTURE.md as data, and the fences around heavy dependencies.

use crate::finding::Finding;
use crate::workspace::{Dependency, Package};

const PURE: [&str; 5] = super::purity::CRATES;

/// Foreign crates that decide nothing by themselves: no clock, no randomness, no files, no network.
const PURE_FOREIGN: [&str; 11] = [
    "serde",
    "serde_json",
    "thiserror",
    "regex",
    "sha2",
    "hex",
    "bytes",
    "saphyr-parser",
    "compact_str",
    "toml",
    // Without its feature `std`, which has a clock.
    "jiff",
];

/// Every crate and what it may use of ours, top to bottom. Tests of a crate may use more; see [`DEV`].
const ARROWS: [(&str, &[&str]); 40] = [
    // in the place of a foreign crate
    ("base2histogram", &[]),
    // calls of C
    ("jaco-heap", &[]),
    // pure
    ("jaco-types", &[]),
    ("jaco-compose", &["jaco-types"]),
    ("jaco-state", &["jaco-types"]),
    ("jaco-scheduler", &["jaco-types", "jaco-state"]),
    ("jaco-dataplane", &["jaco-types", "jaco-state"]),
    // wire, seen by the edges only
    ("jaco-proto", &["jaco-types", "jaco-state"]),
    ("jaco-json", &["jaco-proto"]),
    ("jaco-sentences", &["jaco-types", "jaco-proto", "jaco-json"]),
    ("jaco-ui", &["jaco-types", "jaco-proto", "jaco-json", "jaco-sentences"]),
    // seam
    ("jaco-store", &["jaco-types", "jaco-state"]),
    // loops
    ("jaco-controller", &["jaco-types", "jaco-state", "jaco-scheduler", "jaco-store"]),
    ("jaco-agent", &["jaco-types", "jaco-compose", "jaco-state", "jaco-store"]),
    // edges
    ("jaco-pki", &["jaco-types"]),
    // Moves bytes: of ours it needs the voter policy alone.
    ("jaco-raft", &["jaco-types"]),
    ("jaco-docker", &["jaco-types", "jaco-compose", "jaco-state", "jaco-store", "jaco-agent"]),
    // The network's kernel edge.
    ("jaco-net", &["jaco-types", "jaco-dataplane"]),
    // Files of backups, for the programs.
    ("jaco-backup", &["jaco-types", "jaco-compose", "jaco-proto"]),
    // What comes in from outside, to the services.
    ("jaco-edge", &["jaco-types", "jaco-dataplane", "jaco-proto"]),
    // Clients of servers that are not the cluster's.
    ("jaco-https", &[]),
    // What authorities of certificates are asked for.
    ("jaco-acme", &["jaco-types", "jaco-state", "jaco-store", "jaco-pki", "jaco-https"]),
    // Sends what it is handed to whom it is told.
    ("jaco-notify", &["jaco-https"]),
    ("jaco-s3", &["jaco-https"]),
    // Sends spans to the collector that it is told.
    ("jaco-trace", &["jaco-types", "jaco-https"]),
    ("jaco-client", &["jaco-types", "jaco-state", "jaco-proto", "jaco-pki"]),
    (
        "jaco-server",
        &[
            "jaco-types",
            "jaco-compose",
            "jaco-state",
            "jaco-scheduler",
            "jaco-proto",
            "jaco-json",
            "jaco-ui",
            "jaco-store",
            "jaco-controller",
            "jaco-agent",
            "jaco-pki",
            "jaco-raft",
            "jaco-notify",
            // Whom backups are encrypted for.
            "jaco-backup",
            "jaco-s3",
            "jaco-trace",
            "jaco-heap",
        ],
    ),
    ("jaco-process", &[]),
    // programs
    ("jacod-net", &["jaco-net", "jaco-heap", "jaco-process"]),
    ("jacod-edge", &["jaco-dataplane", "jaco-net", "jaco-edge", "jaco-heap", "jaco-process"]),
    (
        "jaco",
        &[
            "jaco-types",
            "jaco-compose",
            "jaco-proto",
            "jaco-json",
            "jaco-backup",
            "jaco-sentences",
            "jaco-client",
            "jaco-trace",
            "jaco-pki",
        ],
    ),
    (
        "jacod",
        &[
            "jaco-types",
            "jaco-compose",
            "jaco-state",
            "jaco-scheduler",
            "jaco-proto",
            "jaco-store",
            "jaco-controller",
            "jaco-agent",
            "jaco-pki",
            "jaco-raft",
            "jaco-docker",
            "jaco-edge",
            "jaco-dataplane",
            "jaco-net",
            "jaco-acme",
            "jaco-notify",
            "jaco-backup",
            "jaco-s3",
            "jaco-trace",
            "jaco-client",
            "jaco-server",
            "jaco-heap",
            "jaco-process",
        ],
    ),
    // development
    ("jaco-hello", &[]),
    ("jaco-torture", &[]),
    ("jaco-mutate", &[]),
    (
        "jaco-sim",
        &[
            "jaco-types",
            "jaco-compose",
            "jaco-state",
            "jaco-scheduler",
            "jaco-dataplane",
            "jaco-store",
            "jaco-controller",
            "jaco-agent",
        ],
    ),
    ("jaco-testkit", &["jaco-types", "jaco-proto", "jaco-client", "jaco-pki"]),
    (
        "jaco-bench",
        &[
            "jaco-types",
            "jaco-state",
            "jaco-dataplane",
            "jaco-edge",
            "jaco-net",
            "jaco-proto",
            "jaco-client",
            "jaco-pki",
            "jaco-testkit",
        ],
    ),
    (
        "jaco-tests",
        &[
            "jaco-types",
            "jaco-compose",
            "jaco-state",
            "jaco-scheduler",
            "jaco-proto",
            "jaco-store",
            "jaco-controller",
            "jaco-agent",
            "jaco-pki",
            "jaco-raft",
            "jaco-docker",
            "jaco-client",
            "jaco-server",
            "jaco-sim",
            "jaco-testkit",
        ],
    ),
    ("xtask", &["jaco-types"]),
];

/// What tests may use besides: helpers that look into nothing private.
const DEV: [&str; 4] = ["jaco-testkit", "jaco-sim", "jaco-torture", "jaco-mutate"];

/// Foreign crates and who alone may use them; in tests, `jaco-tests` may as well.
const FENCES: [(&[&str], &[&str]); 13] = [
    (&["openraft", "openraft-macros", "openraft-rt", "openraft-rt-tokio", "sled"], &["jaco-raft"]),
    (&["bollard"], &["jaco-docker", "jaco-tests"]),
    (&["jiff"], &["jaco-compose", "jaco-scheduler"]),
    (
        &["tonic", "tonic-prost", "tonic-prost-build"],
        // jaco-bench speaks to etcd, in etcd's own words.
        &["jaco-proto", "jaco-server", "jaco-client", "jacod", "jaco-bench"],
    ),
    (&["rustls"], &["jaco-pki", "jaco-edge", "jaco-https", "jaco-acme", "jaco-notify"]),
    (&["instant-acme"], &["jaco-acme"]),
    (&["lettre"], &["jaco-notify"]),
    (&["rusty-s3"], &["jaco-s3"]),
    (&["hyper-rustls", "rustls-native-certs"], &["jaco-https"]),
    // The collector of the tests reads what is sent.
    (
        &[
            "opentelemetry",
            "opentelemetry_sdk",
            "opentelemetry-otlp",
            "opentelemetry-http",
            "opentelemetry-proto",
        ],
        &["jaco-trace", "jaco-testkit"],
    ),
    // The edge makes certificates in its tests only.
    (&["rcgen"], &["jaco-pki", "jaco-edge", "jaco-acme", "jaco-notify", "jaco-bench"]),
    (
        &[
            "netlink-packet-core",
            "netlink-packet-generic",
            "netlink-packet-route",
            "netlink-packet-wireguard",
            "rtnetlink",
            "gotatun",
            "tun-rs",
            "hickory-proto",
        ],
        &["jaco-net"],
    ),
    // Namespaces and interfaces; the addresses that datagrams were sent to; users and limits of a process.
    (&["nix"], &["jaco-net", "jaco-edge", "jacod", "jacod-edge"]),
];

/// Compares every manifest with the tables above.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let place = format!("package {}", package.name);
    let Some((_, may_use)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
        return vec![Finding::new(place, "has no layer: add it to tidy's table of arrows")];
    };
    let refused = |dependency: &Dependency| refusal(&package.name, may_use, dependency);
    let finding = |what| Finding::new(place.clone(), what);
    package.dependencies.iter().filter_map(refused).map(finding).collect()
}

/// Why `package` may not use a dependency, or `None` if it may.
fn refusal(package: &str, may_use: &[&str], dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    let dev = dependency.is_dev();
    if ARROWS.iter().any(|(ours, _)| *ours == name) {
        // A crate may use itself in its tests: that is how it turns on a feature for them; and what lies below what it
        // uses, to make that from the beginning.
        let below =
            || ARROWS.iter().any(|(one, uses)| may_use.contains(one) && uses.contains(&name));
        let in_tests = dev && (name == package || DEV.contains(&name) || below());
        let allowed = may_use.contains(&name) || in_tests;
        return (!allowed).then(|| format!("may not use {name}: no arrow leads there"));
    }
    if !dev && PURE.contains(&package) && !PURE_FOREIGN.contains(&name) {
        return Some(format!("is pure and may not use {name}"));
    }
    let (_, owners) = FENCES.iter().find(|(fenced, _)| fenced.contains(&name))?;
    let allowed = owners.contains(&package) || (dev && package == "jaco-tests");
    (!allowed).then(|| format!("may not use {name}: it belongs to {}", owners.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency {
            name: (*name).to_owned(),
            kind: kind.map(str::to_owned),
        });
        Package {
            id: String::new(),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            manifest: "Cargo.toml".into(),
            dependencies: dependencies.collect(),
            targets: Vec::new(),
        }
    }

    fn check_one(name: &str, dependency: &str, kind: Option<&str>, expected: &[&str]) {
        let found = check(&[package(name, &[(dependency, kind)])]);
        let what: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(what, expected, "{name} -> {dependency}");
    }

    #[test]
    fn arrows_point_down() {
        check_one("jaco-scheduler", "jaco-state", None, &[]);
        check_one(
            "jaco-types",
            "jaco-state",
            None,
            &["may not use jaco-state: no arrow leads there"],
        );
        check_one(
            "jaco-agent",
            "jaco-proto",
            None,
            &["may not use jaco-proto: no arrow leads there"],
        );
        check_one("jaco-tests", "jacod", Some("dev"), &["may not use jacod: no arrow leads there"]);
        check_one("jaco-docker", "jaco-testkit", Some("dev"), &[]);
        check_one("jaco-store", "jaco-store", Some("dev"), &[]);
        check_one("jaco-net", "jaco-state", Some("dev"), &[]);
        let refused = ["may not use jaco-state: no arrow leads there"];
        check_one("jaco-net", "jaco-state", None, &refused);
        check_one(
            "jaco-docker",
            "jaco-testkit",
            None,
            &["may not use jaco-testkit: no arrow leads there"],
        );
        check_one("jaco-new", "anyhow", None, &["has no layer: add it to tidy's table of arrows"]);
    }

    #[test]
    fn pure_crates_stay_pure() {
        check_one("jaco-state", "thiserror", None, &[]);
        check_one("jaco-state", "tokio", None, &["is pure and may not use tokio"]);
        check_one("jaco-state", "rand", Some("build"), &["is pure and may not use rand"]);
        check_one("jaco-state", "proptest", Some("dev"), &[]);
    }

    #[test]
    fn fences_hold() {
        check_one("jaco-raft", "sled", None, &[]);
        check_one("jaco-agent", "sled", None, &["may not use sled: it belongs to jaco-raft"]);
        check_one(
            "jaco-agent",
            "bollard",
            Some("dev"),
            &["may not use bollard: it belongs to jaco-docker, jaco-tests"],
        );
        check_one("jaco-tests", "sled", Some("dev"), &[]);
        check_one(
            "jaco-server",
            "rustls",
            None,
            &[
                "may not use rustls: it belongs to jaco-pki, jaco-edge, jaco-https, jaco-acme, jaco-notify",
            ],
        );
    }

    /// The table cannot contradict itself: a crate comes after all that it may use, but for the one arrow inside a layer.
    #[test]
    fn the_table_has_no_circle() {
        for (at, (name, may_use)) in ARROWS.iter().enumerate() {
            for used in *may_use {
                let found = ARROWS[..at].iter().any(|(earlier, _)| earlier == used);
                assert!(found, "{name} uses {used}, which stands below it");
            }
        }
    }
}
