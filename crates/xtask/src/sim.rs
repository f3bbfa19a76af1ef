//! `cargo xtask sim`: one simulated run, by its number.

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Run one simulated cluster; the same seed gives the same run
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What all random choices of the run follow from
    #[arg(long)]
    seed: u64,
    /// Further arguments for the simulator
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Hands over to the simulator.
///
/// # Errors
/// If it does not build or the run fails.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["run", "--quiet", "--release", "--package", "jaco-sim", "--", "--seed"]);
    process::run(command.arg(args.seed.to_string()).args(&args.rest))
}
