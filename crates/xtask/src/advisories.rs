//! `cargo xtask advisories`: which locked packages RustSec's database warns of.
//!
//! Never part of a test run: the database changes without us, and a commit that was good has to stay so. It downloads
//! nothing; the copy of the database is the caller's.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::say;
use crate::workspace::{DEPENDENCY_RULES, Workspace};

/// Compare Cargo.lock with a copy of RustSec's database of advisories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The copy: a folder that has the folder `crates`
    database: PathBuf,
}

/// A package of `Cargo.lock`.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: Version,
    /// `None` is ours.
    source: Option<String>,
}

/// The head of an advisory.
#[derive(Debug, Deserialize)]
struct Advisory {
    #[serde(rename = "advisory")]
    about: About,
    #[serde(default)]
    versions: Versions,
}

#[derive(Debug, Deserialize)]
struct About {
    id: String,
    package: String,
    /// When it was published, as `YYYY-MM-DD`.
    date: String,
    /// Kind of a warning that is no vulnerability.
    informational: Option<String>,
    withdrawn: Option<String>,
}

/// Versions that an advisory is not about. Each list means any of its entries.
#[derive(Debug, Default, Deserialize)]
struct Versions {
    #[serde(default)]
    patched: Vec<VersionReq>,
    #[serde(default)]
    unaffected: Vec<VersionReq>,
}

/// An advisory that is accepted for a while.
#[derive(Debug, Deserialize)]
struct Accepted {
    id: String,
    reason: String,
}

impl Advisory {
    fn affects(&self, package: &Package) -> bool {
        let mut harmless = self.versions.patched.iter().chain(&self.versions.unaffected);
        self.about.withdrawn.is_none()
            && package.source.is_some()
            && self.about.package == package.name
            && !harmless.any(|range| range.matches(&package.version))
    }
}

/// Prints each advisory about a locked package.
///
/// # Errors
/// If one of them is not accepted, an accepted one is about nothing any more, or something cannot be read.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let packages = packages(&read(&workspace.root.join("Cargo.lock"))?)?;
    let accepted = accepted(&read(&workspace.root.join(DEPENDENCY_RULES))?)?;
    let advisories = database(&args.database)?;
    let newest = advisories.iter().map(|advisory| advisory.about.date.as_str()).max();
    let newest = newest.unwrap_or_default();
    say::note(&format!("{} advisories, the newest of {newest}", advisories.len()));
    let (lines, breaches) = compare(&advisories, &packages, &accepted);
    for line in &lines {
        say::result(line);
    }
    match breaches {
        0 => Ok(()),
        count => bail!(
            "{count} advisories need an answer: update the package, or list the advisory with a reason in {DEPENDENCY_RULES}"
        ),
    }
}

/// A line for each package and advisory, and how many of them are not as accepted.
fn compare(
    advisories: &[Advisory],
    packages: &[Package],
    accepted: &[Accepted],
) -> (Vec<String>, usize) {
    let (mut lines, mut breaches) = (Vec::new(), 0);
    for advisory in advisories {
        for package in packages.iter().filter(|package| advisory.affects(package)) {
            let About { id, informational, .. } = &advisory.about;
            let kind = informational.as_deref().unwrap_or("vulnerability");
            let reason = accepted.iter().find(|accepted| accepted.id == *id);
            breaches += usize::from(reason.is_none());
            let reason = reason.map(|accepted| format!(", accepted: {}", accepted.reason));
            let reason = reason.unwrap_or_default();
            lines.push(format!("{} {}: {id}, {kind}{reason}", package.name, package.version));
        }
    }
    for Accepted { id, .. } in accepted {
        let is_needed = |advisory: &Advisory| {
            advisory.about.id == *id && packages.iter().any(|package| advisory.affects(package))
        };
        if !advisories.iter().any(is_needed) {
            breaches += 1;
            lines.push(format!("{id}: is accepted, and about no locked package"));
        }
    }
    (lines, breaches)
}

fn packages(lock: &str) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    Ok(toml::from_str::<Lock>(lock).context("Cargo.lock has an unknown shape")?.package)
}

fn accepted(rules: &str) -> Result<Vec<Accepted>> {
    #[derive(Deserialize)]
    struct Rules {
        advisories: Ignored,
    }
    #[derive(Deserialize)]
    struct Ignored {
        ignore: Vec<Accepted>,
    }
    let context = || format!("{DEPENDENCY_RULES} cannot be read");
    Ok(toml::from_str::<Rules>(rules).with_context(context)?.advisories.ignore)
}

/// All advisories about packages, `crates/PACKAGE/ID.md`.
fn database(folder: &Path) -> Result<Vec<Advisory>> {
    let mut advisories = Vec::new();
    for package in list(&folder.join("crates"))? {
        for file in list(&package)? {
            let context = || format!("{file:?} is no advisory");
            advisories.push(head(&read(&file)?).with_context(context)?);
        }
    }
    if advisories.is_empty() {
        bail!("{folder:?} holds no advisory: give a copy of RustSec's database");
    }
    Ok(advisories)
}

/// Reads the TOML at the beginning of an advisory, which is fenced as code.
fn head(text: &str) -> Result<Advisory> {
    let toml = text.strip_prefix("```toml\n").and_then(|rest| rest.split("\n```").next());
    Ok(toml::from_str(toml.context("it does not begin with its head")?)?)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {folder:?}"))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {path:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
        version = 4
        [[package]]
        name = "ours"
        version = "0.1.0"
        [[package]]
        name = "old"
        version = "0.2.1"
        source = "registry"
        [[package]]
        name = "twice"
        version = "0.9.2"
        source = "registry"
        [[package]]
        name = "twice"
        version = "0.10.1"
        source = "registry"
    "#;

    fn advisory(id: &str, package: &str, more: &str, versions: &str) -> Advisory {
        let text = format!(
            "```toml\n[advisory]\nid = \"{id}\"\npackage = \"{package}\"\ndate = \"2026-01-02\"\n{more}\n\n[versions]\n{versions}\n```\n\n# Title\n"
        );
        head(&text).unwrap()
    }

    fn compared(advisory: Advisory, accepted: &[(&str, &str)]) -> (Vec<String>, usize) {
        let accepted: Vec<Accepted> = accepted
            .iter()
            .map(|(id, reason)| Accepted { id: (*id).into(), reason: (*reason).into() })
            .collect();
        compare(&[advisory], &packages(LOCK).unwrap(), &accepted)
    }

    #[test]
    fn a_version_in_none_of_the_patched_ranges_is_found() {
        let patched = r#"patched = [">= 0.10.1", "< 0.10.0, >= 0.9.3"]"#;
        let found = compared(advisory("R-1", "twice", "", patched), &[]);
        assert_eq!(found, (vec!["twice 0.9.2: R-1, vulnerability".to_owned()], 1));
    }

    #[test]
    fn unaffected_versions_withdrawn_advisories_and_our_own_packages_are_passed_over() {
        let unaffected = "patched = []\nunaffected = [\"< 0.3\"]";
        let withdrawn = "withdrawn = \"2026-02-03\"";
        for harmless in [
            advisory("R-1", "old", "", unaffected),
            advisory("R-1", "old", withdrawn, "patched = []"),
            advisory("R-1", "ours", "", "patched = []"),
            advisory("R-1", "other", "", "patched = []"),
        ] {
            assert_eq!(compared(harmless, &[]), (vec![], 0));
        }
    }

    #[test]
    fn an_accepted_advisory_is_shown_with_its_reason() {
        let unmaintained = "informational = \"unmaintained\"";
        let advisory = advisory("R-1", "old", unmaintained, "patched = []");
        let line = "old 0.2.1: R-1, unmaintained, accepted: until then";
        assert_eq!(compared(advisory, &[("R-1", "until then")]), (vec![line.to_owned()], 0));
    }

    #[test]
    fn an_accepted_advisory_that_is_about_nothing_is_found() {
        let patched = advisory("R-1", "old", "", "patched = [\">= 0.2\"]");
        let line = "R-1: is accepted, and about no locked package".to_owned();
        assert_eq!(compared(patched, &[("R-1", "until then")]), (vec![line], 1));
    }

    #[test]
    fn what_is_no_advisory_is_refused() {
        assert!(head("# Title\n").is_err());
        assert!(head("```toml\n[advisory]\n```\n").is_err());
    }
}
