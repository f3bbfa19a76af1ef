//! `jaco completion`

use clap_complete::Shell;
use jaco_types::code::ExitCode;

use crate::complete;
use crate::error::CliError;
use crate::session::{CommandResult, Session};

/// Print a completion script for a shell
///
/// The script asks this program for each word: commands and options, and the names of deployments, services, replicas,
/// nodes, tokens, secrets and so on from the cluster that the line is about, which is asked for half a second at most.
/// Debian's package installs the scripts for bash, zsh and fish.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  source <(jaco completion bash)
  jaco completion bash > /etc/bash_completion.d/jaco
  jaco completion zsh > \"${fpath[1]}/_jaco\"
  jaco completion fish > ~/.config/fish/completions/jaco.fish")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(session: &mut Session, args: &Args) -> CommandResult {
    let script = complete::script(&args.shell.to_string())
        .map_err(|error| CliError::local("the script cannot be made", error))?;
    session.ui.raw(&script).map_err(CliError::Output)?;
    Ok(ExitCode::Converged)
}
