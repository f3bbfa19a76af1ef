//! `cargo xtask chaos`: faults of machines, drawn by a seed, for as long as one asks for.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::long_test::{LongTest, Profile};
use crate::workspace::Workspace;

/// Break one machine after the other, while users and clients go on; no law may be broken
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// For how long; each fault that there is comes at least once
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Names all choices of the run [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// With programs that are optimised, as they are released
    #[arg(long)]
    release: bool,
}

/// Runs the test of the layer `edge` for longer than it takes by itself; it prints the seed, each fault, and what came of it.
///
/// # Errors
/// If a law was broken, or there is no engine, or something does not build.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let test = LongTest {
        name: "no_fault_of_a_machine_breaks_a_law",
        profile: Profile::of(args.release),
        asked: vec![
            ("JACO_CHAOS_MINUTES", args.minutes),
            ("JACO_CHAOS_SEED", args.seed.unwrap_or(now)),
        ],
    };
    test.run(workspace)
}
