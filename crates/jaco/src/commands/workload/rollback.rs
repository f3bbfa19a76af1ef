//! `jaco rollback`

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ApplyResponse, RollbackRequest};

use crate::deploy::{After, follow};
use crate::format::time;
use crate::session::{CommandResult, Session};

/// Roll back to an earlier revision
///
/// Applies the spec of the earlier revision, with the image digests that it had, as a new revision.
/// Without --to, that is the newest earlier revision that has served and differs from the current one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco rollback shop
  jaco rollback shop --to 4
  jaco history shop                 the revisions to choose from")]
pub(crate) struct Args {
    /// The deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// The revision to roll back to
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Return as soon as the cluster has accepted the change
    #[arg(long)]
    detach: bool,
    /// Maximum time to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    timeout: Duration,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    session.limit(args.timeout);
    let request = RollbackRequest {
        deployment: args.deployment,
        to: args.to.unwrap_or(0),
        request_id: fresh_request_id(),
    };
    let answer = session.client()?.rollback(request).await?;
    let (name, restores) = (&answer.deployment, answer.restores);
    session.ui.note(&format!("{name} rolls back to revision {restores}"));
    let applied = ApplyResponse {
        deployment: answer.deployment,
        revision: answer.revision,
        change: answer.change,
        raft_index: answer.raft_index,
        ..ApplyResponse::default()
    };
    let after = if args.detach { After::Return } else { After::Wait(args.timeout) };
    follow(session, &applied, after).await
}
