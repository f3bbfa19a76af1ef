//! Builds and runs the program that drives clusters: it measures, we judge.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::build::Build;
use super::table::{Promise, Row};
use crate::engine::{self, Engine};
use crate::workspace::{Workspace, program_packages};
use crate::{image, process, say, test};

/// What has to be there besides our own programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// The distribution's etcd.
    Etcd,
    /// An engine, and our image on it.
    Docker,
    /// Network namespaces, and packet filters in them.
    Namespaces,
    /// The distribution's proxies, and what puts load on them.
    Proxies,
    /// Engines with routers, and what sends packets through them.
    Networks,
    /// A browser.
    Browser,
    /// An engine, and what else copies folders.
    Rsync,
}

/// The program, built at most once, and what it needs.
pub(super) struct Program<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) build: Build,
    built: bool,
    engine: Option<Engine>,
}

/// A figure as the program prints it.
#[derive(Deserialize)]
struct Figure {
    name: String,
    unit: String,
    ours: Vec<f64>,
    theirs: Option<Theirs>,
}

#[derive(Deserialize)]
struct Theirs {
    who: String,
    figures: Vec<f64>,
}

impl<'a> Program<'a> {
    pub(super) fn new(workspace: &'a Workspace, build: Build) -> Self {
        Self { workspace, build, built: false, engine: None }
    }

    /// Runs it to the end and reads its figures.
    ///
    /// # Errors
    /// If something cannot be built or installed, or the program fails.
    pub(super) fn run(
        &mut self,
        arguments: &[String],
        needs: Needs,
        limit: Duration,
    ) -> Result<Vec<Row>> {
        self.prepare(needs)?;
        let programs = self.workspace.target.join(self.build.folder());
        let mut command = Command::new(programs.join("jaco-bench"));
        command.args(arguments).env("JACO_BIN_DIR", &programs);
        if let Some(folder) = real_disk() {
            command.env("TMPDIR", folder);
        }
        let mut lines = Vec::new();
        let status = process::stream(&mut command, limit, |line| lines.push(line.to_owned()))?;
        if !status.success() {
            bail!("{} ended with {status}", process::shown(&command));
        }
        lines.iter().map(|line| row(line)).collect()
    }

    fn prepare(&mut self, needs: Needs) -> Result<()> {
        if !self.built {
            build(self.workspace, self.build)?;
            self.built = true;
        }
        match needs {
            Needs::Nothing => {}
            Needs::Etcd => install_etcd()?,
            Needs::Proxies => install_proxies()?,
            Needs::Namespaces => install_filter()?,
            Needs::Docker => self.prepare_engine()?,
            Needs::Rsync => {
                if engine::find("rsync").is_none() {
                    engine::install(&["rsync"]).context("rsync, to compare with")?;
                }
                self.prepare_engine()?;
            }
            Needs::Browser => test::ensure_browser()?,
            Needs::Networks => {
                test::ensure_packet_tools()?;
                self.prepare_engine()?;
            }
        }
        Ok(())
    }

    fn prepare_engine(&mut self) -> Result<()> {
        if self.engine.is_some() {
            return Ok(());
        }
        if engine::find("ip").is_none() {
            engine::install(&["iproute2"]).context("ip, to join engines by a bridge")?;
        }
        let engine = engine::ensure(self.workspace)?;
        image::build(self.workspace)?;
        self.engine = Some(engine);
        Ok(())
    }
}

fn build(workspace: &Workspace, build: Build) -> Result<()> {
    say::note("building the programs");
    let mut command = workspace.cargo();
    command.args(["build", "--quiet"]).args(build.arguments());
    process::run(command.args(program_packages()).args(["--package", "jaco-bench"]))
}

/// The package's own service, if it starts, listens on another port and is not touched.
fn install_etcd() -> Result<()> {
    if engine::find("etcd").is_none() {
        engine::install(&["etcd-server"]).context("etcd, to compare with")?;
    }
    Ok(())
}

/// Where there is a service manager, the packages start services of their own: Caddy's takes port 80 until it is
/// stopped. What is measured listens on other ports of loopback addresses.
fn install_proxies() -> Result<()> {
    for (program, package) in
        [("haproxy", "haproxy"), ("caddy", "caddy"), ("h2load", "nghttp2-client")]
    {
        if engine::find(program).is_none() {
            engine::install(&[package])
                .with_context(|| format!("{program}, to measure the edge beside others"))?;
        }
    }
    Ok(())
}

fn install_filter() -> Result<()> {
    for (program, package) in [("nft", "nftables"), ("ip", "iproute2")] {
        if engine::find(program).is_none() {
            engine::install(&[package])
                .with_context(|| format!("{program}, to cut members off"))?;
        }
    }
    Ok(())
}

/// Where a disk is, if temporary files are kept in memory: a write that never reaches a disk is no
/// write to measure.
fn real_disk() -> Option<&'static Path> {
    const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
    let kind = super::machine::file_system(&std::env::temp_dir())?;
    IN_MEMORY.contains(&kind.as_str()).then(|| Path::new("/var/tmp"))
}

fn row(line: &str) -> Result<Row> {
    let figure: Figure =
        serde_json::from_str(line).with_context(|| format!("not a figure: {line}"))?;
    let Figure { name, unit, ours, theirs } = figure;
    let theirs = theirs.map(|theirs| (theirs.who, theirs.figures));
    Ok(Row { name, unit, ours, theirs, promise: Promise::None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let line = r#"{"name":"n","unit":"s","ours":[1.5],"theirs":{"who":"x","figures":[2.0]}}"#;
        let row = row(line).expect("it is a figure");
        assert_eq!((row.name.as_str(), row.ours.as_slice()), ("n", [1.5].as_slice()));
        assert_eq!(row.theirs, Some(("x".to_owned(), vec![2.0])));
        assert!(super::row("thread panicked").is_err());
    }
}
