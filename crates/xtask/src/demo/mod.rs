//! `cargo xtask demo`: a three-node cluster on this machine, doing its job, from nothing to nothing.
//!
//! Uses the product as a user would, by its command line only. Whatever happens, it takes down what it put up.

mod cli;
mod replica;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::engine::{self, Engine};
use crate::say::{self, Steps};
use crate::workspace::{Workspace, program_packages};
use crate::{image, process};
use cli::Cli;

/// Names the cluster, its folder and the labels of its containers.
const CLUSTER: &str = "demo";
const NODES: &str = "3";

/// Start a local cluster, deploy examples/hello, roll it to its second version, clean up
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave the cluster running and say how to talk to it
    #[arg(long)]
    keep: bool,
}

/// Runs the demo.
///
/// # Errors
/// If any step fails; the clean-up has run by then.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut steps = Steps::begin();
    steps.next("a Docker Engine that answers");
    let engine = engine::ensure(workspace)?;
    steps.next("release build of jacod and jaco");
    build(workspace)?;
    steps.next("demo images, built here, FROM scratch");
    image::build(workspace)?;

    // How long a build takes says nothing about the product.
    say::note("built; the clock starts again");
    steps.restart_clock();
    let cluster = Cluster::up(workspace, &mut steps)?;
    show(&cluster.cli, &mut steps)?;
    if args.keep {
        cluster.keep(engine);
        return Ok(());
    }
    steps.next("clean up");
    cluster.down()?;
    steps.next("done");
    Ok(())
}

fn build(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    process::run(command.args(["build", "--release"]).args(program_packages()))
}

/// The part that people come for.
fn show(cli: &Cli, steps: &mut Steps) -> Result<()> {
    steps.next("apply examples/hello/compose.yaml: three replicas of jaco-hello:v1");
    cli.run(&["apply", "examples/hello/compose.yaml"])?;
    cli.run(&["status"])?;
    steps.next("a request to each replica");
    request_each(cli, "v1")?;

    steps.next("apply examples/hello/compose.v2.yaml: the same with jaco-hello:v2");
    cli.run(&["apply", "examples/hello/compose.v2.yaml"])?;
    let nodes = request_each(cli, "v2")?;

    let leaving = nodes.last().context("no replica runs anywhere")?;
    steps.next(&format!("remove node {leaving}: its replicas move first"));
    cli.run(&["node", "remove", leaving])?;
    cli.run(&["status"])?;
    let nodes = request_each(cli, "v2")?;
    if nodes.contains(leaving) {
        bail!("node {leaving} was removed and still runs a replica");
    }

    steps.next("what happened, as the audit trail tells it");
    cli.run(&["audit"])
}

/// Asks every replica for its name and returns the nodes that they run on, in order.
fn request_each(cli: &Cli, version: &str) -> Result<Vec<String>> {
    let replicas = replica::parse(&cli.capture(&["get", "replicas", "-o", "json"])?)?;
    if replicas.is_empty() {
        bail!("no replica is running");
    }
    for replica in &replicas {
        let answer = replica.await_answer(version)?;
        say::result(&format!("{:<16} on {:<12} {answer}", replica.id, replica.node));
    }
    let mut nodes: Vec<String> = replicas.into_iter().map(|replica| replica.node).collect();
    nodes.sort();
    nodes.dedup();
    Ok(nodes)
}

/// A running cluster; taken down when dropped.
#[derive(Debug)]
struct Cluster {
    cli: Cli,
    /// Its id, which its containers carry; once it is known.
    id: Option<String>,
    up: bool,
}

impl Cluster {
    fn up(workspace: &Workspace, steps: &mut Steps) -> Result<Self> {
        steps.next("three nodes on this machine: jaco dev up");
        let mut cluster = Self { cli: Cli::new(workspace), id: None, up: true };
        // One that a killed run left behind would be in the way.
        cluster.cli.clean_up(&["dev", "down", "--name", CLUSTER])?;
        cluster
            .cli
            .run(&["dev", "up", "--nodes", NODES, "--engine", "docker", "--name", CLUSTER])?;
        let variables = cluster.cli.capture(&["dev", "env", "--name", CLUSTER])?;
        cluster.cli.set_variables(&variables)?;
        cluster.cli.run(&["cluster", "status"])?;
        let status = cluster.cli.capture(&["cluster", "status", "-o", "json"])?;
        cluster.id = Some(cluster_id(&status)?);
        Ok(cluster)
    }

    fn down(mut self) -> Result<()> {
        self.up = false;
        self.cli.clean_up(&["dev", "down", "--name", CLUSTER])?;
        let Some(id) = &self.id else { return Ok(()) };
        let left = engine::left_of(id)?;
        if !left.is_empty() {
            bail!("the cluster is down, and this is left of it on the engine: {left}");
        }
        Ok(())
    }

    fn keep(mut self, engine: Engine) {
        self.up = false;
        engine.leave_running();
        say::result("The cluster keeps running. To talk to it:");
        for line in self.cli.exports() {
            say::result(&format!("  {line}"));
        }
        let program = self.cli.program();
        say::result(&format!("  {program} status -w"));
        say::result(&format!("To end it:\n  {program} dev down --name {CLUSTER}"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.up {
            say::note("taking the cluster down");
            if let Err(error) = self.cli.clean_up(&["dev", "down", "--name", CLUSTER]) {
                say::error(&format!("the cluster is not down: {error:#}"));
            }
        }
    }
}

fn cluster_id(status: &str) -> Result<String> {
    let status: serde_json::Value = serde_json::from_str(status).context("cluster status")?;
    let id = status["cluster_id"].as_str().context("the status names no cluster")?;
    Ok(id.to_owned())
}

/// The longest that taking down three nodes and their containers may take: a grace period each, and some.
const DOWN_LIMIT: Duration = Duration::from_secs(90);
