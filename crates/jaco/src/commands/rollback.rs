//! `jaco rollback`

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ApplyResponse, RollbackRequest};

use super::apply::{Then, follow};
use super::{Context, Done};
use crate::when;

/// Go back to what an earlier revision said
///
/// The containers are made from exactly what they were made from then, and roll like after any
/// change; it is a new revision. Without --to: the newest revision before the wanted one that served
/// and that says something else.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco rollback shop
  jaco rollback shop --to 4
  jaco history shop                 what there is to go back to")]
pub(crate) struct Args {
    /// The deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// The revision
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Return as soon as the cluster has agreed
    #[arg(long)]
    detach: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = when::duration)]
    timeout: Duration,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let request = RollbackRequest {
        deployment: args.deployment,
        to: args.to.unwrap_or(0),
        request_id: fresh_request_id(),
    };
    let answer = context.client()?.rollback(request).await?;
    let (name, restores) = (&answer.deployment, answer.restores);
    context.ui.note(&format!("{name} goes back to what revision {restores} said"));
    let applied = ApplyResponse {
        deployment: answer.deployment,
        revision: answer.revision,
        change: answer.change,
        raft_index: answer.raft_index,
        ..ApplyResponse::default()
    };
    let then = if args.detach { Then::Return } else { Then::Wait(args.timeout) };
    follow(context, &applied, then).await
}
