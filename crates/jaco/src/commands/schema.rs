//! `jaco schema`

use jaco_types::code::ExitCode;

use super::{Context, Done};
use crate::error::CliError;

/// Print the JSON Schema of jaco.yaml, for editors
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco schema > jaco.schema.json
  # yaml-language-server: $schema=jaco.schema.json      as the first line of jaco.yaml")]
pub(crate) struct Args {}

pub(crate) fn run(context: &mut Context, Args {}: &Args) -> Done {
    let schema = format!("{}\n", jaco_compose::overlay::json_schema());
    context.ui.raw(&schema).map_err(CliError::Output)?;
    Ok(ExitCode::Converged)
}
