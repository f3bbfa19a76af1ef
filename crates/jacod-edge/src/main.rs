//! The edge of a node, which `jacod edge` becomes: requests, connections and datagrams from outside to services.
//!
//! ```text
//! serve       the process
//! privileges  what it gives up before it listens
//! upgrade     how it is replaced by the program that is installed now
//! stop        the signals that stop it
//! ```

mod privileges;
mod serve;
mod stop;
mod upgrade;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use jaco_process::EdgeArgs;
use tracing::error;

/// The command line of the program that becomes this one.
#[derive(Debug, Parser)]
#[command(version, about = "The edge of a node; `jacod edge` becomes it")]
struct Line {
    /// The daemon's configuration file: not read, it says whose edge this is
    #[arg(long, global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Run the edge of this node
    Edge(EdgeArgs),
}

fn main() -> ExitCode {
    jaco_heap::keep_little();
    let Part::Edge(args) = Line::parse().part;
    match serve::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Logging may not be set up yet; the reason must reach whoever started the process.
            error!(error = format!("{error:#}"), "edge failed");
            print_chain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a process that cannot start has no log yet")]
fn print_chain(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
