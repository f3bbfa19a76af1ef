//! One build for all layers: test programs and the binaries that they start, in one set of features.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::layer::Layer;
use super::program::Program;
use crate::process;
use crate::workspace::{PROGRAMS, Target, Workspace};

/// What a build left behind.
#[derive(Debug)]
pub(super) struct Built {
    /// In the order of their names.
    pub(super) programs: Vec<Program>,
    /// The folder of `jaco` and `jacod`.
    pub(super) bin_dir: PathBuf,
}

/// A line of cargo's messages, as far as it matters.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// Builds what the layers need.
///
/// # Errors
/// If something does not build.
pub(super) fn build(workspace: &Workspace, layers: &BTreeSet<Layer>) -> Result<Built> {
    let mut command = workspace.cargo();
    command.args(["build", "--bins", "--tests", "--message-format", "json-render-diagnostics"]);
    command.args(packages(workspace, layers));
    let messages = process::capture(&mut command)?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Message =
            serde_json::from_str(line).context("a message of cargo has an unknown shape")?;
        programs.extend(program(workspace, message));
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Built { programs, bin_dir: workspace.target.join("debug") })
}

/// A few packages where the layers need no more, so that the rest of the tree may be in pieces; else all.
fn packages(workspace: &Workspace, layers: &BTreeSet<Layer>) -> Vec<String> {
    if layers.contains(&Layer::Unit) {
        return vec!["--workspace".to_owned()];
    }
    let programs = layers.iter().any(|layer| {
        matches!(
            layer,
            Layer::Cluster | Layer::Browser | Layer::Docker | Layer::Edge | Layer::Package
        )
    });
    let needed = workspace.packages.iter().filter(|package| {
        let started = programs && PROGRAMS.contains(&package.name.as_str())
            || layers.contains(&Layer::Package) && package.name == "xtask";
        started || layers.iter().any(|layer| layer.concerns(package))
    });
    needed.flat_map(|package| ["--package".to_owned(), package.name.clone()]).collect()
}

fn program(workspace: &Workspace, message: Message) -> Option<Program> {
    let is_test = message.reason == "compiler-artifact" && message.profile?.test;
    let executable = message.executable.filter(|_| is_test)?;
    let id = message.package_id?;
    let package = workspace.packages.iter().find(|package| package.id == id)?;
    let target = message.target?;
    Some(Program {
        name: format!("{} {}", package.name, target.name),
        layer: Layer::of(&package.name, &target),
        executable,
        package: package.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn workspace() -> Workspace {
        let package = |name: &str, targets: &[(&str, &str)]| Package {
            id: format!("path+file:///x#{name}"),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            manifest: format!("/x/{name}/Cargo.toml").into(),
            dependencies: Vec::new(),
            targets: targets
                .iter()
                .map(|(name, kind)| Target {
                    name: (*name).to_owned(),
                    kind: vec![(*kind).to_owned()],
                })
                .collect(),
        };
        Workspace {
            packages: vec![
                package("jaco", &[("jaco", "bin")]),
                package("jacod", &[("jacod", "bin")]),
                package("jacod-edge", &[("jacod-edge", "bin")]),
                package("jacod-net", &[("jacod-net", "bin")]),
                package("jaco-state", &[("jaco_state", "lib")]),
                package(
                    "jaco-tests",
                    &[("cluster", "test"), ("edge", "test"), ("package", "test")],
                ),
                package("xtask", &[("xtask", "bin")]),
            ],
            ..Workspace::default()
        }
    }

    #[test]
    fn only_what_the_layers_need_is_built() {
        let check = |layers: &[Layer], expected: &str| {
            let layers = layers.iter().copied().collect();
            assert_eq!(packages(&workspace(), &layers).join(" "), expected);
        };
        check(&[Layer::Pure], "--package jaco-state");
        let programs = "--package jaco --package jacod --package jacod-edge --package jacod-net";
        check(&[Layer::Cluster], &format!("{programs} --package jaco-tests"));
        check(&[Layer::Edge], &format!("{programs} --package jaco-tests"));
        check(&[Layer::Package], &format!("{programs} --package jaco-tests --package xtask"));
        check(&[Layer::Pure, Layer::Unit], "--workspace");
    }

    #[test]
    fn test_programs_are_told_from_other_artefacts() {
        let check = |line: &str, expected: Option<Layer>| {
            let message = serde_json::from_str(line).expect("valid");
            assert_eq!(program(&workspace(), message).map(|program| program.layer), expected);
        };
        let artefact = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///x#jaco-state",
                "target":{{"name":"jaco_state","kind":["lib"]}},"profile":{{"test":{test}}},
                "executable":"/x/target/a"}}"#
            )
        };
        check(&artefact(true), Some(Layer::Pure));
        check(&artefact(false), None);
        check(r#"{"reason":"build-finished","success":true}"#, None);
    }
}
