//! One build for all layers: test programs and the binaries that they start, in one set of features. Where the whole tree
//! is linted too, that is the same build: clippy is a compiler.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::layer::Layer;
use super::program::Program;
use crate::workspace::{PROGRAMS, Target, Workspace};
use crate::{process, say};

/// No build takes that long on a machine that tests can run on.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// What a build left behind.
#[derive(Debug)]
pub(super) struct Built {
    /// In the order of their names.
    pub(super) programs: Vec<Program>,
    /// The folder of `jaco` and `jacod`.
    pub(super) bin_dir: PathBuf,
    /// How many warnings there were, those of clippy included if it was asked. They were shown.
    pub(super) warnings: usize,
}

/// A line of cargo's messages, as far as it matters.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
    message: Option<Diagnostic>,
}

/// What a compiler has to say.
#[derive(Debug, Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// Builds what the layers need; with clippy, all targets, if the layers lint the whole tree and need it whole.
///
/// # Errors
/// If something does not build.
pub(super) fn build(workspace: &Workspace, layers: &BTreeSet<Layer>) -> Result<Built> {
    let mut command = workspace.cargo();
    command.args(["build", "--message-format", "json"]).args(packages(workspace, layers));
    if lints(layers) {
        command.arg("--all-targets");
        // As `cargo clippy` does for what it only checks. No flags: levels are in the manifests.
        command.env("RUSTC_WORKSPACE_WRAPPER", clippy()).env("CLIPPY_ARGS", "");
    } else {
        command.args(["--bins", "--tests"]);
    }
    let mut built =
        Built { programs: Vec::new(), bin_dir: workspace.target.join("debug"), warnings: 0 };
    let mut unknown = None;
    let status = process::stream(&mut command, LIMIT, |line| {
        match serde_json::from_str(line).context("a message of cargo has an unknown shape") {
            Ok(message) => built.take(workspace, message),
            Err(error) => unknown = Some(error),
        }
    })?;
    if !status.success() {
        bail!("{} ended with {status}", process::shown(&command));
    }
    unknown.map_or(Ok(()), Err)?;
    built.programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(built)
}

/// Whether the build of these layers is the one that is linted.
pub(super) fn lints(layers: &BTreeSet<Layer>) -> bool {
    layers.contains(&Layer::Lint) && layers.contains(&Layer::Unit)
}

/// The compiler with lints, beside the cargo that runs us.
fn clippy() -> PathBuf {
    let cargo = std::env::var_os("CARGO").map(PathBuf::from);
    let beside = cargo.as_deref().and_then(Path::parent).map(|folder| folder.join("clippy-driver"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| "clippy-driver".into())
}

impl Built {
    fn take(&mut self, workspace: &Workspace, message: Message) {
        if let Some(Diagnostic { level, rendered: Some(text) }) = &message.message {
            self.warnings += usize::from(level == "warning" && !text.contains(" emitted"));
            say::note(text.trim_end());
        }
        self.programs.extend(program(workspace, message));
    }
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
