//! What needs no test to be seen: format, tidy, clippy, the cheapest first. Each counts as one test.

use anyhow::{Result, bail};

use super::outcome::{Counts, Outcome};
use crate::workspace::Workspace;
use crate::{interrupt, process, say, tidy};

/// Runs all three, so that one failure does not hide another; `clippy` is [`alone`] where nothing is built.
///
/// # Errors
/// If it was interrupted.
pub(super) fn run(
    workspace: &Workspace,
    xtask: &clap::Command,
    clippy: impl FnOnce() -> Result<()>,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut add = |name: &str, result: Result<()>| {
        match result {
            Ok(()) => outcome.add(Outcome::of(Counts { passed: 1, failed: 0 })),
            Err(error) => {
                say::error(&format!("{name}: {error:#}"));
                outcome.fail(format!("{name} failed"));
            }
        }
        interrupt::check()
    };
    add("fmt", process::run(workspace.cargo().args(["fmt", "--all", "--check"])))?;
    add("tidy", tidy::run(workspace, &tidy::Args::default(), xtask))?;
    add("clippy", clippy())?;
    Ok(outcome)
}

/// Clippy on the whole tree, without a build.
///
/// # Errors
/// If it finds anything.
pub(super) fn alone(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    process::run(&mut command)
}

/// What clippy found in a build.
///
/// # Errors
/// If that is anything.
pub(super) fn found(warnings: usize) -> Result<()> {
    match warnings {
        0 => Ok(()),
        count => bail!("it has {count} warnings, shown above"),
    }
}
