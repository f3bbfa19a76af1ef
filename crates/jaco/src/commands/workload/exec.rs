//! `jaco exec`

use super::attached::{Abandoned, How, connect};
use crate::error::CliError;
use crate::session::Session;
use crate::session::replica::Named;

/// Run a command in a replica's container
///
/// The replica may be on any node; of a service, a running replica is chosen. Standard input and output
/// are connected, and the exit code is that of the command; if jaco itself fails it is one of `jaco help
/// exit-codes`, with an error on stderr. If stdin and stdout are a terminal, the command gets a terminal.
/// The audit log records who ran which program where, without its arguments. A connection over --server
/// is closed after an hour, which ends the command.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco exec shop/web -- sh
  jaco exec shop-db-0 -- pg_dump shop > shop.sql
  jaco exec -u root -e DEBUG=1 shop/web -- ls -l /srv
  tar c conf | jaco exec shop-web-1 -- tar x -C /srv")]
pub(crate) struct Args {
    /// A service, or one replica of it
    #[arg(value_name = "DEPLOYMENT/SERVICE[/N]|REPLICA")]
    of: String,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// Returns the exit code of the command.
pub(crate) async fn run(session: &mut Session, args: Args) -> Result<u8, CliError> {
    let client = session.client()?;
    let replica = Named::parse(&args.of).replica(&client).await?;
    let start = args.how.start(session, replica, args.command);
    let exec = client.exec(start.clone()).await?;
    connect(session, exec, &start, Abandoned::MayRun).await
}
