//! Foreign packages: their licences, their sources, and which of them are there in several versions.
//!
//! The rules are in the file that cargo-deny reads, so that there is one list. That program is not needed here: what is
//! checked is what cargo itself knows. Advisories are not: see `crate::advisories`.

mod licence;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::finding::Finding;
use crate::tree::Tree;
use crate::workspace::{DEPENDENCY_RULES as RULES, Locked, Workspace};

/// Cargo's own name for its default registry.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The part of cargo-deny's file that is used here.
#[derive(Debug, Default, Deserialize)]
struct Rules {
    #[serde(default)]
    graph: Graph,
    licenses: Licences,
    bans: Bans,
}

#[derive(Debug, Default, Deserialize)]
struct Graph {
    #[serde(default)]
    targets: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Bans {
    #[serde(default)]
    skip: Vec<Skip>,
}

/// A version that may be there beside others, `name@version`.
#[derive(Debug, Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    version: String,
    #[serde(default)]
    reason: String,
}

/// Compares what is built with the rules.
///
/// # Errors
/// If the rules cannot be read, or cargo refuses.
pub(super) fn run(workspace: &Workspace, tree: &Tree) -> Result<Vec<Finding>> {
    let text = tree.get(RULES).with_context(|| format!("there is no {RULES}"))?;
    let rules: Rules = toml::from_str(text).with_context(|| format!("{RULES} cannot be read"))?;
    let packages = workspace.locked(&rules.graph.targets)?;
    let inside = |package: &&Locked| package.manifest.starts_with(&workspace.root);
    let (_ours, foreign): (Vec<_>, Vec<_>) = packages.iter().partition(inside);
    Ok(check(&rules, &foreign))
}

/// Checks packages that are not of this repository.
fn check(rules: &Rules, foreign: &[&Locked]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        foreign.iter().flat_map(|package| check_package(rules, package)).collect();
    findings.extend(unneeded_exceptions(&rules.licenses, foreign));
    findings.extend(several_versions(&rules.bans, foreign));
    findings
}

fn check_package(rules: &Rules, package: &Locked) -> Vec<Finding> {
    let place = format!("package {}@{}", package.name, package.version);
    let licence = refused_licence(&rules.licenses, package);
    let source = (package.source.as_deref() != Some(REGISTRY)).then(|| match &package.source {
        Some(source) => format!("comes from {source}: take it from the default registry"),
        None => "comes from a path outside this repository".to_owned(),
    });
    licence.into_iter().chain(source).map(|what| Finding::new(place.clone(), what)).collect()
}

fn refused_licence(licences: &Licences, package: &Locked) -> Option<String> {
    let Some(text) = &package.license else {
        return Some("does not say in its manifest what its licence is".to_owned());
    };
    let excepted = licences.exceptions.iter().filter(|exception| exception.name == package.name);
    let mut allowed = licences.allow.clone();
    allowed.extend(excepted.flat_map(|exception| exception.allow.iter().cloned()));
    match licence::is_met(text, &allowed) {
        Some(true) => None,
        Some(false) => Some(format!("has the licence {text}, which {RULES} does not allow")),
        None => Some(format!("has the licence {text}, which is no expression of SPDX")),
    }
}

fn unneeded_exceptions(licences: &Licences, foreign: &[&Locked]) -> Vec<Finding> {
    let unneeded = licences
        .exceptions
        .iter()
        .filter(|exception| foreign.iter().all(|package| package.name != exception.name));
    unneeded
        .map(|exception| {
            let name = &exception.name;
            Finding::new(RULES, format!("has an exception for {name}, which is not used"))
        })
        .collect()
}

/// Packages in more versions than the rules give a reason for, and reasons for versions that are gone.
fn several_versions(bans: &Bans, foreign: &[&Locked]) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in foreign {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut findings = Vec::new();
    for skip in &bans.skip {
        let known = skip.version.split_once('@').is_some_and(|(name, version)| {
            versions.get_mut(name).is_some_and(|versions| versions.remove(version))
        });
        if !known {
            let what = "is not there beside another version: take it off the list";
            findings.push(Finding::new(RULES, format!("{} {what}", skip.version)));
        }
        if skip.reason.trim().is_empty() {
            findings.push(Finding::new(RULES, format!("{} has no reason", skip.version)));
        }
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let list: Vec<&str> = versions.iter().copied().collect();
        let what = format!(
            "is there in the versions {}: see `cargo tree -i {name}@VERSION`, agree on one, or list the others with a reason in {RULES}",
            list.join(" and ")
        );
        findings.push(Finding::new(format!("package {name}"), what));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        exceptions = [{ crate = "tunnel", allow = ["MPL-2.0"] }]
        [bans]
        skip = [{ crate = "rand@0.8.1", reason = "of tests" }]
    "#;

    fn package(name: &str, version: &str, license: Option<&str>) -> Locked {
        Locked {
            name: name.to_owned(),
            version: version.to_owned(),
            license: license.map(str::to_owned),
            source: Some(REGISTRY.to_owned()),
            manifest: "Cargo.toml".into(),
        }
    }

    /// What is wrong if `packages` are used beside what the rules name.
    fn found(packages: &[Locked]) -> Vec<String> {
        let rules: Rules = toml::from_str(TEXT).unwrap();
        let named = [
            package("tunnel", "1.0.0", Some("MPL-2.0")),
            package("rand", "0.8.1", Some("MIT")),
            package("rand", "0.9.0", Some("MIT")),
        ];
        let all: Vec<&Locked> = named.iter().chain(packages).collect();
        let findings = check(&rules, &all);
        findings.into_iter().map(|found| format!("{}: {}", found.place, found.what)).collect()
    }

    #[test]
    fn packages_within_the_rules_are_accepted() {
        assert_eq!(found(&[package("a", "1.0.0", Some("MIT OR GPL-3.0"))]), [""; 0]);
    }

    #[test]
    fn a_licence_that_is_not_listed_is_found() {
        let [refused] = &found(&[package("a", "1.0.0", Some("MPL-2.0"))])[..] else { panic!() };
        assert!(refused.starts_with("package a@1.0.0: has the licence MPL-2.0,"), "{refused}");
        let [missing] = &found(&[package("a", "1.0.0", None)])[..] else { panic!() };
        assert!(missing.contains("does not say"), "{missing}");
    }

    #[test]
    fn a_source_that_is_not_the_registry_is_found() {
        for source in [None, Some("git+https://example.org/a"), Some("registry+https://other")] {
            let mut package = package("a", "1.0.0", Some("MIT"));
            package.source = source.map(str::to_owned);
            let [refused] = &found(&[package])[..] else { panic!() };
            assert!(refused.starts_with("package a@1.0.0: comes from"), "{refused}");
        }
    }

    #[test]
    fn a_version_without_a_reason_is_found() {
        let versions = ["1.0.0", "2.0.0"].map(|version| package("a", version, Some("MIT")));
        let [several] = &found(&versions)[..] else { panic!() };
        assert!(several.starts_with("package a: is there in the versions 1.0.0 and 2.0.0"));
        let [third] = &found(&[package("rand", "0.10.0", Some("MIT"))])[..] else { panic!() };
        assert!(third.starts_with("package rand: is there in the versions 0.10.0 and 0.9.0"));
    }

    #[test]
    fn rules_for_what_is_gone_are_found() {
        let rules: Rules = toml::from_str(TEXT).unwrap();
        let what: Vec<String> = check(&rules, &[&package("rand", "0.9.0", Some("MIT"))])
            .into_iter()
            .map(|found| found.what)
            .collect();
        let gone = "rand@0.8.1 is not there beside another version: take it off the list";
        assert_eq!(what, ["has an exception for tunnel, which is not used", gone]);
    }
}
