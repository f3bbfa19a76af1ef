//! `cargo xtask sim`: one simulated run, by its number; many of them; or days of random load.

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Run one simulated cluster; the same seed gives the same run
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What all random choices of the run follow from
    #[arg(long, required_unless_present_any = ["days", "seeds"])]
    seed: Option<u64>,
    /// Run so many clusters, of which each seed draws which faults and keys there are, and print what was covered; what
    /// breaks a law is shrunk to the lines that matter
    #[arg(long, conflicts_with_all = ["seed", "days"])]
    seeds: Option<u64>,
    /// Begin no further one of `--seeds` after so many minutes
    #[arg(long, requires = "seeds")]
    minutes: Option<u64>,
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
    command.args(["run", "--quiet", "--release", "--package", "jaco-sim", "--"]);
    process::run(command.args(run_of(args)).args(&args.rest))
}

/// What the simulator is asked for.
fn run_of(args: &Args) -> Vec<String> {
    let Some(seeds) = args.seeds else {
        return vec!["--seed".to_owned(), args.seed.unwrap_or_default().to_string()];
    };
    let many = format!("--seeds=0..{seeds} --style=swarm --coverage --shrink");
    let limit = args.minutes.map(|minutes| format!("--minutes={minutes}"));
    many.split(' ').map(str::to_owned).chain(limit).collect()
}

/// Lives the days of the rebalancer's own test, which prints what they came to.
fn live(workspace: &Workspace, days: u32) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["test", "--quiet", "--release", "--package", "jaco-scheduler", "--test", "it"]);
    command.args(["days_with_and_without_rebalancing", "--", "--nocapture"]);
    process::run(command.env("JACO_DAYS", days.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_many_are_asked_for() {
        let of = |seed, seeds, minutes| {
            run_of(&Args { seed, seeds, minutes, days: None, rest: Vec::new() }).join(" ")
        };
        assert_eq!(of(Some(7), None, None), "--seed 7");
        let many = "--seeds=0..9 --style=swarm --coverage --shrink";
        assert_eq!(of(None, Some(9), None), many);
        assert_eq!(of(None, Some(9), Some(2)), format!("{many} --minutes=2"));
    }
}
