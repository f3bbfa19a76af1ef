//! `jaco compose`

use super::{config, support};
use crate::session::{CommandResult, Session};

/// Inspect compose files and their support
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco compose config               print the resolved compose model
  jaco compose support              list the supported keys")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Config(Box<config::Args>),
    /// List all keys of the compose specification with their support
    #[command(after_long_help = "Examples:
  jaco compose support
  jaco compose support -o json")]
    Support,
}

pub(crate) fn run(session: &mut Session, args: &Args) -> CommandResult {
    match &args.action {
        Action::Config(args) => config::run(session, args),
        Action::Support => support::run(session),
    }
}
