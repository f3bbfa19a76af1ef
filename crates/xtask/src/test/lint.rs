//! What needs no test to be seen: format, clippy, tidy. Each counts as one test.

use anyhow::Result;

use super::outcome::{Counts, Outcome};
use crate::workspace::Workspace;
use crate::{interrupt, process, say, tidy};

/// Runs all three, so that one failure does not hide another.
///
/// # Errors
/// If it was interrupted.
pub(super) fn run(workspace: &Workspace, xtask: &clap::Command) -> Result<Outcome> {
    let fmt = process::run(workspace.cargo().args(["fmt", "--all", "--check"]));
    interrupt::check()?;
    let clippy = process::run(workspace.cargo().args([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]));
    interrupt::check()?;
    let tidy = tidy::run(workspace, &tidy::Args::default(), xtask);
    let mut outcome = Outcome::default();
    for (name, result) in [("fmt", fmt), ("clippy", clippy), ("tidy", tidy)] {
        match result {
            Ok(()) => outcome.add(Outcome::of(Counts { passed: 1, failed: 0 })),
            Err(error) => {
                say::error(&format!("{name}: {error:#}"));
                outcome.fail(format!("{name} failed"));
            }
        }
    }
    Ok(outcome)
}
