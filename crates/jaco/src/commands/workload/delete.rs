//! `jaco delete`

use std::time::Duration;

use serde_json::json;

use crate::deploy::After;
use crate::deploy::delete::delete;
use crate::format::time;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// Delete a deployment
///
/// Stops and removes its containers on every node and waits until all are removed. Named volumes stay.
/// It asks for confirmation on a terminal; elsewhere it needs --yes.
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "rm",
    alias = "remove",
    after_long_help = "Examples:
  jaco delete shop
  jaco rm shop --yes --detach"
)]
pub(crate) struct Args {
    /// The deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Return as soon as the cluster has accepted the change
    #[arg(long)]
    detach: bool,
    /// Maximum time to wait
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time::duration)]
    timeout: Duration,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let name = args.deployment;
    if !args.yes {
        session.confirm(&format!("Stop and remove all containers of {name}?"))?;
    }
    session.limit(args.timeout);
    let after = if args.detach { After::Return } else { After::Wait(args.timeout) };
    delete(session, &name, after).await?;
    let (outcome, text) = match args.detach {
        true => ("accepted", format!("{name} is being deleted\n")),
        false => ("deleted", format!("{name} deleted\n")),
    };
    session.done(&Summary { json: json!({ "deployment": name, "outcome": outcome }), text })
}
