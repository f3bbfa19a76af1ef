//! `cargo xtask edge`: as many replacements of replicas as one asks for, under as many requests a second.

use anyhow::Result;

use crate::long_test::{LongTest, Profile};
use crate::workspace::Workspace;

/// Replace replicas under load from outside; no request may fail
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many replicas to replace, in rounds of every way there is
    #[arg(long, default_value_t = 1000)]
    replacements: u64,
    /// For so many minutes instead, while daemons, routers, edges and engines end as well
    #[arg(long, conflicts_with = "replacements")]
    minutes: Option<u64>,
    /// Requests a second that are aimed at; a machine that is too slow gets fewer
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// With programs that are optimised, as they are released
    #[arg(long)]
    release: bool,
}

/// Runs a test of the layer `edge` for longer than it takes by itself; it prints what came of it.
///
/// # Errors
/// If a request failed, or there is no engine, or something does not build.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let (name, how_long) = match args.minutes {
        Some(minutes) => {
            ("a_soak_fails_no_request_and_memory_stays", ("JACO_EDGE_MINUTES", minutes))
        }
        None => ("replacements_fail_no_request", ("JACO_EDGE_REPLACEMENTS", args.replacements)),
    };
    let asked = vec![how_long, ("JACO_EDGE_RATE", args.rate)];
    LongTest { name, profile: Profile::of(args.release), asked }.run(workspace)
}
