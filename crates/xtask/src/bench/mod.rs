//! `cargo xtask bench`: figures of ours beside those of others, measured in one run on one machine.

mod build;
mod hostile;
mod loader;
mod machine;
mod measurement;
mod net;
mod page;
mod planner;
mod program;
mod sampler;
mod table;

use anyhow::{Result, bail};

use crate::say;
use crate::workspace::Workspace;
use build::Build;
use measurement::MEASUREMENTS;
use page::Others;
use program::Program;

/// Measure, and print the figures beside those of others
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the measurements whose name contains one of these
    filters: Vec<String>,
    /// Write the figures to docs/performance.md as well; those of other measurements stay there as they were measured
    #[arg(long)]
    write: bool,
    /// Measure debug builds, which are there sooner and say where time goes; promises are of release builds
    #[arg(long, conflicts_with = "write")]
    debug: bool,
    /// How many seconds each stretch of load, idleness or attack lasts, in the place of what the promises are for
    #[arg(long, conflicts_with = "write", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Of the attacks of `hostile` only those whose name contains this, such as "half-open"
    #[arg(long, conflicts_with = "write", value_name = "NAME")]
    attack: Option<String>,
}

/// Measures and prints the table.
///
/// # Errors
/// If a measurement fails, or none is chosen.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let wanted = |name: &str| {
        args.filters.is_empty() || args.filters.iter().any(|filter| name.contains(filter))
    };
    let build = if args.debug { Build::Debug } else { Build::Release };
    let mut program = Program::new(workspace, build);
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for measurement in MEASUREMENTS.iter().filter(|measurement| wanted(measurement.name)) {
        say::note(&format!("measuring {}", measurement.name));
        match measurement.take(&mut program, args) {
            Ok(measured) => rows.extend(measured),
            // What the others say took minutes to learn.
            Err(error) => {
                say::note(&format!("{}: {error:#}", measurement.name));
                failed.push(measurement.name);
            }
        }
    }
    if rows.is_empty() && failed.is_empty() {
        let names: Vec<&str> = MEASUREMENTS.iter().map(|measurement| measurement.name).collect();
        bail!("no measurement has such a name; there are {}", names.join(", "));
    }
    say::result(&table::print(&rows));
    if !failed.is_empty() {
        bail!("could not be measured: {}", failed.join(", "));
    }
    if args.write {
        let others = if args.filters.is_empty() { Others::Drop } else { Others::Keep };
        page::write(workspace, &rows, others)?;
    }
    Ok(())
}
