//! `jacod man-pages`: for packages, which are to have the pages of the very program that they install.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_mangen::Man;

/// Write the man pages into a folder
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The folder, which must be there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes a page for the daemon and for each of its parts, in the section of daemons.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn run(args: &Args, grammar: clap::Command) -> anyhow::Result<()> {
    let mut grammar = grammar.disable_help_subcommand(true);
    grammar.build();
    write(&grammar, &args.folder).context("the man pages cannot be written")
}

fn write(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, folder)?;
    }
    let source = format!("jacod {}", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).section("8").source(source).manual("JACO").generate_to(folder)?;
    Ok(())
}
