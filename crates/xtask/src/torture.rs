//! `cargo xtask torture`: crash images of log, node, snapshots, recovery and archive, as many as one asks for.

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Cut the power at every step of what a node writes, and open what is left
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many images to open, all kinds together; some kinds have only a few hundred different ones
    #[arg(long, default_value_t = 10_000)]
    images: u64,
    /// Draw what is lost from another seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let each of the first calls of a kind fail, in a run of its own, instead
    #[arg(long, value_name = "CALLS", conflicts_with = "images")]
    failing: Option<u64>,
}

/// Package, test, and percent of the images.
const KINDS: [(&str, &str, u64); 5] = [
    ("jaco-raft", "no_power_cut_loses_what_the_log_acknowledged", 44),
    ("jaco-raft", "no_power_cut_loses_what_a_node_acknowledged", 44),
    ("jaco-raft", "no_power_cut_loses_a_snapshot", 8),
    ("jaco-raft", "no_power_cut_spoils_a_recovery", 2),
    ("jaco-server", "no_power_cut_loses_what_is_archived", 2),
];

/// Runs the tests of the crates with more images than they take by themselves; they print what came of them.
///
/// # Errors
/// If a promise is broken, or something does not build.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let test = |package: &str, name: &str| {
        let mut command = workspace.cargo();
        command.args(["test", "--quiet", "--package", package, "--test", "it", name]);
        command.args(["--", "--nocapture"]).env("JACO_TORTURE_SEED", args.seed.to_string());
        command
    };
    if let Some(calls) = args.failing {
        let mut command = test("jaco-raft", "torture::faults");
        return process::run(command.env("JACO_TORTURE_CALLS", calls.to_string()));
    }
    for (package, name, percent) in KINDS {
        let images = (args.images * percent).div_ceil(100);
        let mut command = test(package, name);
        process::run(command.env("JACO_TORTURE_IMAGES", images.to_string()))?;
    }
    Ok(())
}
