//! `cargo xtask bench`: figures of ours beside those of others, measured in one run on one machine.

mod table;

use anyhow::{Result, bail};

use crate::say;
use table::Row;

/// Measure, and print the figures beside those of others
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the measurements whose name contains one of these
    filters: Vec<String>,
}

/// One thing that can be measured.
struct Measurement {
    name: &'static str,
    measure: fn() -> Result<Vec<Row>>,
}

/// All measurements, in the order in which they run.
const MEASUREMENTS: &[Measurement] = &[];

/// Measures and prints the table.
///
/// # Errors
/// If a measurement fails, or none is chosen.
pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |name: &str| {
        args.filters.is_empty() || args.filters.iter().any(|filter| name.contains(filter))
    };
    let mut rows = Vec::new();
    for measurement in MEASUREMENTS.iter().filter(|measurement| wanted(measurement.name)) {
        say::note(&format!("measuring {}", measurement.name));
        rows.extend((measurement.measure)()?);
    }
    if rows.is_empty() {
        bail!("nothing was measured: no measurement has such a name");
    }
    say::result(&table::print(&rows));
    Ok(())
}
