//! `jaco schema`

use jaco_types::code::ExitCode;

use crate::error::CliError;
use crate::session::{CommandResult, Session};

/// Print the JSON Schema of jaco.yaml, for editors
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco schema > jaco.schema.json
  # yaml-language-server: $schema=jaco.schema.json      as the first line of jaco.yaml")]
pub(crate) struct Args {}

pub(crate) fn run(session: &mut Session, Args {}: &Args) -> CommandResult {
    let schema = format!("{}\n", jaco_compose::overlay::json_schema());
    session.ui.raw(&schema).map_err(CliError::Output)?;
    Ok(ExitCode::Converged)
}
