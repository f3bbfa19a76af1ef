//! The bill of materials: every package that is compiled into the programs, as CycloneDX describes it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arch::Architecture;
use super::{Release, date};
use crate::process;
use crate::workspace::{Locked, PROGRAMS, Workspace};

/// What cargo says of packages and of who uses whom.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Identified>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Identified {
    id: String,
    #[serde(flatten)]
    package: Locked,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Used>,
}

#[derive(Debug, Deserialize)]
struct Used {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `None` is an ordinary dependency; else `dev` or `build`.
    kind: Option<String>,
}

impl Used {
    /// Whether it is in the programs, or makes them. What only tests use is neither.
    fn is_shipped(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
    }
}

/// A package of `Cargo.lock`.
#[derive(Debug, Deserialize)]
struct Checked {
    name: String,
    version: String,
    checksum: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Checked>,
}

/// The document.
///
/// # Errors
/// If cargo refuses, or its lock cannot be read.
pub(super) fn make(
    workspace: &Workspace,
    arch: Architecture,
    release: &Release,
) -> Result<Vec<u8>> {
    let mut command = workspace.cargo();
    command.args(["metadata", "--locked", "--format-version", "1"]);
    command.args(["--filter-platform", arch.triple()]);
    let metadata: Metadata = serde_json::from_str(&process::capture(&mut command)?)
        .context("cargo metadata has an unknown shape")?;
    let lock = workspace.root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).with_context(|| format!("cannot read {lock:?}"))?;
    let lock: Lock = toml::from_str(&lock).context("Cargo.lock has an unknown shape")?;
    let document = document(&metadata, &lock, &release.version, &date(release.epoch, "+%FT%TZ")?);
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    Ok(text.into_bytes())
}

fn document(metadata: &Metadata, lock: &Lock, version: &str, at: &str) -> Value {
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let packages: BTreeMap<&str, &Locked> =
        metadata.packages.iter().map(|each| (each.id.as_str(), &each.package)).collect();
    let sums: BTreeMap<(&str, &str), &str> = lock
        .package
        .iter()
        .filter_map(|each| {
            Some(((each.name.as_str(), each.version.as_str()), each.checksum.as_deref()?))
        })
        .collect();
    let shipped = |id: &str| -> BTreeSet<&str> {
        let used = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        used.filter(|used| used.is_shipped()).map(|used| used.pkg.as_str()).collect()
    };
    let is_program =
        |package: &Locked| package.source.is_none() && PROGRAMS.contains(&package.name.as_str());
    let programs: Vec<&str> =
        packages.iter().filter(|(_, package)| is_program(package)).map(|(id, _)| *id).collect();
    let mut all: BTreeSet<&str> = BTreeSet::new();
    let mut next = programs.clone();
    while let Some(id) = next.pop() {
        if all.insert(id) {
            next.extend(shipped(id));
        }
    }
    let component = |id: &&str| {
        let package = packages[id];
        let kind = if is_program(package) { "application" } else { "library" };
        let mut component = json!({
            "type": kind,
            "bom-ref": reference(package),
            "name": package.name,
            "version": package.version,
            "purl": reference(package),
        });
        if let Some(license) = &package.license {
            // The old way to write "or" is no expression.
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        if let Some(sum) = sums.get(&(package.name.as_str(), package.version.as_str())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        (reference(package), component)
    };
    let components: BTreeMap<String, Value> = all.iter().map(component).collect();
    let dependencies: BTreeMap<String, Value> = all
        .iter()
        .map(|id| {
            let used: BTreeSet<String> =
                shipped(id).into_iter().map(|used| reference(packages[used])).collect();
            let name = reference(packages[id]);
            (name.clone(), json!({ "ref": name, "dependsOn": used }))
        })
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": at,
            "component": { "type": "application", "bom-ref": "jaco", "name": "jaco", "version": version },
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    })
}

fn reference(package: &Locked) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What only tests use is not listed; what builds the programs is.
    #[test]
    fn what_is_shipped_is_listed() {
        let package = |name: &str, source: Option<&str>| {
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                "source": source, "manifest_path": "/x" })
        };
        let uses = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("jaco", None), package("lib", Some("r")), package("cc", Some("r")),
                package("proptest", Some("r")), package("xtask", None)],
            "resolve": { "nodes": [
                { "id": "jaco", "deps": [uses("lib", None), uses("proptest", Some("dev"))] },
                { "id": "lib", "deps": [uses("cc", Some("build"))] },
                { "id": "cc", "deps": [] },
                { "id": "proptest", "deps": [] },
                { "id": "xtask", "deps": [uses("proptest", None)] },
            ] },
        });
        let metadata = serde_json::from_value(metadata).expect("the shape of cargo's");
        let sum = Some("ab".to_owned());
        let lock = Lock {
            package: vec![Checked {
                name: "lib".to_owned(),
                version: "1.0.0".to_owned(),
                checksum: sum,
            }],
        };
        let document = document(&metadata, &lock, "0.2.0", "1970-01-01T00:00:00Z");
        let names: Vec<&Value> =
            document["components"].as_array().unwrap().iter().map(|each| &each["purl"]).collect();
        assert_eq!(names, ["pkg:cargo/cc@1.0.0", "pkg:cargo/jaco@1.0.0", "pkg:cargo/lib@1.0.0"]);
        let lib = &document["components"][2];
        assert_eq!(lib["hashes"][0]["content"], "ab");
        assert_eq!(lib["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["dependencies"][1]["dependsOn"], json!(["pkg:cargo/lib@1.0.0"]));
    }
}
