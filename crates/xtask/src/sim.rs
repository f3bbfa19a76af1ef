//! `cargo xtask sim`: one simulated run, by its number; or days of random load.

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Run one simulated cluster; the same seed gives the same run
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What all random choices of the run follow from
    #[arg(long, required_unless_present = "days")]
    seed: Option<u64>,
    /// Live so many days of as many random clusters with and without rebalancing, instead
    #[arg(long, conflicts_with_all = ["seed", "rest"])]
    days: Option<u32>,
    /// Further arguments for the simulator
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Hands over to the simulator.
///
/// # Errors
/// If it does not build or the run fails.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if let Some(days) = args.days {
        return live(workspace, days);
    }
    let mut command = workspace.cargo();
    command.args(["run", "--quiet", "--release", "--package", "jaco-sim", "--", "--seed"]);
    process::run(command.arg(args.seed.unwrap_or_default().to_string()).args(&args.rest))
}

/// Lives the days of the rebalancer's own test, which prints what they came to.
fn live(workspace: &Workspace, days: u32) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["test", "--quiet", "--release", "--package", "jaco-scheduler", "--test", "it"]);
    command.args(["days_with_and_without_rebalancing", "--", "--nocapture"]);
    process::run(command.env("JACO_DAYS", days.to_string()))
}
