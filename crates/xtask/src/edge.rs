//! `cargo xtask edge`: as many replacements of replicas as one asks for, under as many requests a second.

use anyhow::Result;

use crate::workspace::{Workspace, program_packages};
use crate::{engine, image, process, test};

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
    test::ensure_wires()?;
    let _engine = engine::ensure(workspace)?;
    image::build(workspace)?;
    // Together, as the layer builds them: apart, they would be built in other sets of features.
    let packages: Vec<&str> = program_packages().chain(["--package", "jaco-tests"]).collect();
    let (profile, folder) =
        if args.release { (&["--release"][..], "release") } else { (&[][..], "debug") };
    let mut build = workspace.cargo();
    build.args(["build", "--quiet"]).args(profile).args(&packages);
    process::run(build.args(["--bins", "--test", "edge"]))?;
    let mut asked = workspace.cargo();
    asked.args(["test", "--quiet"]).args(profile).args(&packages).args(["--test", "edge"]);
    match args.minutes {
        Some(minutes) => {
            asked.arg("a_soak_fails_no_request_and_memory_stays");
            asked.env("JACO_EDGE_MINUTES", minutes.to_string());
        }
        None => {
            asked.arg("replacements_fail_no_request");
            asked.env("JACO_EDGE_REPLACEMENTS", args.replacements.to_string());
        }
    }
    asked.args(["--", "--nocapture"]);
    asked.env("JACO_BIN_DIR", workspace.target.join(folder));
    process::run(asked.env("JACO_EDGE_RATE", args.rate.to_string()))
}
