//! `jaco completion`

use clap_complete::Shell;
use jaco_types::code::ExitCode;

use crate::error::CliError;
use crate::session::{CommandResult, Session};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco completion bash > /etc/bash_completion.d/jaco
  jaco completion zsh > \"${fpath[1]}/_jaco\"")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(session: &mut Session, args: &Args, mut command: clap::Command) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "jaco", &mut script);
    session.ui.raw(&String::from_utf8_lossy(&script)).map_err(CliError::Output)?;
    Ok(ExitCode::Converged)
}
