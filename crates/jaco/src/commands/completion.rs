//! `jaco completion`

use clap::CommandFactory;
use clap_complete::Shell;
use jaco_types::code::ExitCode;

use super::{Context, Done};
use crate::cli::Cli;
use crate::error::CliError;

/// Print a script that lets a shell complete commands and flags
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco completion bash > /etc/bash_completion.d/jaco
  jaco completion zsh > \"${fpath[1]}/_jaco\"")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jaco", &mut script);
    context.ui.raw(&String::from_utf8_lossy(&script)).map_err(CliError::Output)?;
    Ok(ExitCode::Converged)
}
