//! `cargo xtask reuse`: addresses that instances leave and others get, while clients go on with what they know.

use anyhow::Result;

use crate::long_test::{LongTest, Profile};
use crate::workspace::Workspace;

/// Restart replicas of two services in one network; no client may reach the other service at an address that it knows
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many replicas to restart
    #[arg(long, default_value_t = 10_000)]
    restarts: u64,
    /// With programs that are optimised, as they are released
    #[arg(long)]
    release: bool,
}

/// Runs the test of the layer `edge` for longer than it takes by itself; it prints what came of it.
///
/// # Errors
/// If a client reached another service, or there is no engine, or something does not build.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let test = LongTest {
        name: "no_client_reaches_another_service_at_an_address_that_it_knows",
        profile: Profile::of(args.release),
        asked: vec![("JACO_RESTARTS", args.restarts)],
    };
    test.run(workspace)
}
