//! What cargo knows about this workspace: packages, their targets and what they depend on.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

/// What may be depended on, in cargo-deny's format.
pub(crate) const DEPENDENCY_RULES: &str = ".cargo/deny.toml";

/// The part of `cargo metadata` that is used here.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(rename = "manifest_path")]
    pub(crate) manifest: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` is an ordinary dependency; else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Dependency {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// A package that is built, ours or foreign, in one version.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Locked {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An expression of SPDX identifiers, as its manifest has it.
    pub(crate) license: Option<String>,
    /// Where it was downloaded from; `None` is a path.
    pub(crate) source: Option<String>,
    #[serde(rename = "manifest_path")]
    pub(crate) manifest: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

/// The programs of the product: packages with one program each, of the same name.
pub(crate) const PROGRAMS: [&str; 4] = ["jaco", "jacod", "jacod-net", "jacod-edge"];

/// What tells cargo to build the programs of the product.
pub(crate) fn program_packages() -> impl Iterator<Item = &'static str> {
    PROGRAMS.into_iter().flat_map(|name| ["--package", name])
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    /// If cargo refuses, which means a manifest is broken.
    pub(crate) fn load() -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let text = process::capture(&mut command)?;
        serde_json::from_str(&text).context("cargo metadata has an unknown shape")
    }

    /// The version of the product: that of its daemon, which all packages of the workspace have from one line.
    ///
    /// # Errors
    /// If there is no daemon.
    pub(crate) fn version(&self) -> Result<&str> {
        let daemon = self.packages.iter().find(|package| package.name == "jacod");
        daemon.map(|daemon| daemon.version.as_str()).context("the workspace has no package jacod")
    }

    /// All packages that are built on any of the `platforms`, those of tests and build scripts included.
    ///
    /// # Errors
    /// If cargo refuses, or cannot download a package that is not there yet.
    pub(crate) fn locked(&self, platforms: &[String]) -> Result<Vec<Locked>> {
        #[derive(Deserialize)]
        struct Resolved {
            packages: Vec<Locked>,
        }
        let mut command = self.cargo();
        command.args(["metadata", "--format-version", "1"]);
        for platform in platforms {
            command.args(["--filter-platform", platform]);
        }
        let text = process::capture(&mut command)?;
        let resolved: Resolved =
            serde_json::from_str(&text).context("cargo metadata has an unknown shape")?;
        Ok(resolved.packages)
    }

    /// A cargo command that works on this workspace.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root);
        command
    }

    /// Where this program keeps its own files: logs, build contexts.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn scratch(&self) -> Result<PathBuf> {
        let path = self.target.join("xtask");
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {path:?}"))?;
        Ok(path)
    }
}

/// The cargo that runs us, so that toolchain overrides stay in force.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
