//! `jaco man-pages`: for packages, which are to have the pages of the very program that they install.

use std::io;
use std::path::{Path, PathBuf};

use clap_mangen::Man;
use jaco_types::code::ExitCode;

use crate::error::CliError;
use crate::session::CommandResult;

/// Write a man page for each command into a folder
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder, which must be there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args, grammar: clap::Command) -> CommandResult {
    let mut grammar = grammar.display_name("jaco");
    grammar.build();
    write(&grammar, &args.folder)
        .map_err(|error| CliError::local("the man pages cannot be written", error))?;
    Ok(ExitCode::Converged)
}

fn write(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, folder)?;
    }
    let source = format!("jaco {}", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual("JACO").generate_to(folder)?;
    Ok(())
}
