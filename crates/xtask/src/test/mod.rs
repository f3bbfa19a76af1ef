//! `cargo xtask test`: every layer of tests that there is, and a table of how they went.
//!
//! Everything is built once; each test program then runs in its layer, as `cargo test` would run it. A layer that
//! cannot run has failed: no result must not look like success.

mod build;
mod layer;
mod lint;
mod outcome;
mod packages;
mod program;
mod queue;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::workspace::Workspace;
use crate::{debian_engine, engine, image, interrupt, previous, process, say};
use build::Built;
use layer::Layer;
use outcome::{Counts, Outcome};
use program::{Effort, Program, Start};

/// Run the tests, all layers or the named ones
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Layers, in any order
    #[arg(value_enum)]
    layers: Vec<Layer>,
    /// Try each law of the pure crates on 10,000 cases, not on 256
    #[arg(long)]
    thorough: bool,
    /// Debian release of the Docker Engine on the machines that tests make, such as trixie or sid; by default, it is the
    /// installed one
    #[arg(long, value_name = "RELEASE")]
    engine: Option<String>,
    /// Arguments for the test programs, such as a part of a test's name
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs the layers and prints the table; `xtask` is this program's own command line, which `tidy` compares.
///
/// # Errors
/// [`say::Reported`] if any layer failed or could not run: the counts are the last line, for those who read only that.
pub(crate) fn run(workspace: &Workspace, args: &Args, xtask: &clap::Command) -> Result<()> {
    process::adopt_orphans()?;
    let layers: BTreeSet<Layer> = match args.layers.as_slice() {
        [] => Layer::ALL.into(),
        chosen => chosen.iter().copied().collect(),
    };
    let mut run = Run { workspace, args, xtask, previous: None, built: None, engine: None };
    let mut outcomes = Vec::new();
    for &layer in &layers {
        say::note(&format!("layer {layer}"));
        let outcome = run.layer(layer, &layers)?;
        if let Some(why) = outcome.trouble.as_ref() {
            say::loud(&format!("layer {layer}: {why}"));
        }
        outcomes.push((layer, outcome));
    }
    // The table is printed last, after the engine was stopped.
    drop(run);
    say::result(&outcome::table(&outcomes));
    let total: Counts = outcomes.iter().map(|(_, outcome)| outcome.counts()).sum();
    say::result(&total.to_string());
    match total.failed {
        0 => Ok(()),
        _ => Err(say::Reported.into()),
    }
}

/// Installs the browser and what drives it, where it is missing: the benchmark of the page needs it too.
///
/// # Errors
/// If it cannot be installed.
pub(crate) fn ensure_browser() -> Result<()> {
    packages::ensure(Layer::Browser)
}

/// Installs what makes sites and sends packets, where it is missing: the benchmark of the network needs it too.
///
/// # Errors
/// If it cannot be installed.
pub(crate) fn ensure_packet_tools() -> Result<()> {
    packages::ensure(Layer::Net)
}

/// Installs what wires machines, where it is missing: replacements under load need it too.
///
/// # Errors
/// If it cannot be installed.
pub(crate) fn ensure_wires() -> Result<()> {
    packages::ensure(Layer::Edge)
}

/// What the layers of one run share.
struct Run<'a> {
    workspace: &'a Workspace,
    args: &'a Args,
    xtask: &'a clap::Command,
    // Kept with their failures, so that each layer that needs one says why it could not run.
    /// The programs of the release before.
    previous: Option<Result<PathBuf, String>>,
    built: Option<Result<Built, String>>,
    engine: Option<Result<engine::Engine, String>>,
}

impl Run<'_> {
    /// Runs one layer; only an interrupt is an error here.
    fn layer(&mut self, layer: Layer, layers: &BTreeSet<Layer>) -> Result<Outcome> {
        let begun = Instant::now();
        let ran = match layer {
            Layer::Lint => {
                let (workspace, xtask) = (self.workspace, self.xtask);
                lint::run(workspace, xtask, || {
                    if !build::lints(layers) {
                        return lint::alone(workspace);
                    }
                    lint::found(self.need_built(layers)?.warnings)
                })
            }
            Layer::Pure
            | Layer::Unit
            | Layer::RaftSim
            | Layer::Sim
            | Layer::Cluster
            | Layer::Net
            | Layer::Vm
            | Layer::Docker
            | Layer::Browser
            | Layer::Edge
            | Layer::Package => self.programs(layer, layers),
        };
        interrupt::check()?;
        let mut outcome = ran.unwrap_or_else(|error| Outcome::cannot_run(format!("{error:#}")));
        let left = process::end_orphans()?;
        if !left.is_empty() {
            outcome.fail(format!("left processes behind: {}", left.join("; ")));
        }
        outcome.took = begun.elapsed();
        Ok(outcome)
    }

    fn programs(&mut self, layer: Layer, layers: &BTreeSet<Layer>) -> Result<Outcome> {
        let (programs, start) = self.ready(layer, layers)?;
        queue::run(&programs, &start, &mut say::result)
    }

    /// The test programs of a layer, and how they are started, once all that they need is there.
    fn ready(&mut self, layer: Layer, layers: &BTreeSet<Layer>) -> Result<(Vec<Program>, Start)> {
        packages::ensure(layer)?;
        if matches!(layer, Layer::Docker | Layer::Edge) {
            self.need_engine()?;
        }
        let mut folders = Vec::new();
        if layer == Layer::Edge {
            folders.push(("JACO_PREVIOUS_BIN_DIR", self.need_previous()?));
        }
        if let Some(release) = self.args.engine.as_deref() {
            folders.push(("JACO_ENGINE_DIR", debian_engine::unpacked(self.workspace, release)?));
        }
        let arguments = layer.arguments().iter().map(|argument| (*argument).to_owned());
        let arguments = arguments.chain(self.args.rest.iter().cloned()).collect();
        let effort = if self.args.thorough { Effort::Thorough } else { Effort::Usual };
        let built = self.need_built(layers)?;
        folders.push(("JACO_BIN_DIR", built.bin_dir.clone()));
        let programs = built.programs.iter().filter(|program| program.layer == layer.programs());
        let programs: Vec<Program> = programs.cloned().collect();
        if programs.is_empty() {
            bail!("there is no test program for it");
        }
        Ok((programs, Start { layer, folders, arguments, effort }))
    }

    fn need_engine(&mut self) -> Result<()> {
        let workspace = self.workspace;
        let prepare = || {
            let engine = engine::ensure(workspace)?;
            image::build(workspace)?;
            anyhow::Ok(engine)
        };
        let prepared =
            self.engine.get_or_insert_with(|| prepare().map_err(|error| format!("{error:#}")));
        prepared.as_ref().map(|_| ()).map_err(|why| anyhow::anyhow!("no engine to test on: {why}"))
    }

    fn need_previous(&mut self) -> Result<PathBuf> {
        let workspace = self.workspace;
        let build = || previous::build(workspace).map_err(|error| format!("{error:#}"));
        let built = self.previous.get_or_insert_with(build);
        built.clone().map_err(|why| anyhow::anyhow!("no release to upgrade from: {why}"))
    }

    fn need_built(&mut self, layers: &BTreeSet<Layer>) -> Result<&Built> {
        let workspace = self.workspace;
        if layers.contains(&Layer::Edge) && self.built.is_none() {
            // Before this tree, which leaves programs of the same names. The layer that needs it says if it failed.
            let _known = self.need_previous().is_ok();
        }
        let build = || build::build(workspace, layers).map_err(|error| format!("{error:#}"));
        let built = self.built.get_or_insert_with(build);
        built.as_ref().map_err(|why| anyhow::anyhow!("it does not build: {why}"))
    }
}

/// The longest that one test program may take, where its layer says nothing else.
const PROGRAM_LIMIT: Duration = Duration::from_secs(15 * 60);
