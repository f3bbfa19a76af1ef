//! `jaco delete`

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{DeleteRequest, StatusRequest, StatusResponse};
use jaco_types::ErrorCode;
use serde_json::json;

use super::{Context, Done};
use crate::error::{CliError, count};
use crate::progress::replica_text;
use crate::ui::Answer;
use crate::view::Said;
use crate::wait::{Ended, Step, Wait, wait};
use crate::when;

/// Stop and remove a deployment
///
/// Its containers are stopped and removed on every node; named volumes stay. Waits until all are gone.
/// On a terminal it asks first.
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "rm",
    after_long_help = "Examples:
  jaco delete shop
  jaco rm shop --yes --detach"
)]
pub(crate) struct Args {
    /// The deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Return as soon as the cluster has agreed
    #[arg(long)]
    detach: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = when::duration)]
    timeout: Duration,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let name = args.deployment;
    if !args.yes {
        let question = format!("Stop and remove all containers of {name}?");
        let answer = context.ui.confirm(&question);
        let answer = answer.map_err(|error| CliError::local("no answer could be read", error))?;
        if answer == Answer::No {
            return Err(CliError::Interrupted { message: "Nothing was changed.".to_owned() });
        }
    }
    delete(context, &name, args.timeout, if args.detach { Then::Return } else { Then::Wait })
        .await?;
    let outcome = if args.detach { "accepted" } else { "deleted" };
    let text = match args.detach {
        true => format!("{name} is being deleted\n"),
        false => format!("{name} deleted\n"),
    };
    context.done(&Said { json: json!({ "deployment": name, "outcome": outcome }), text })
}

/// What follows once the cluster has agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Wait until the containers are gone.
    Wait,
    /// Nothing.
    Return,
}

/// Deletes a deployment.
pub(crate) async fn delete(
    context: &mut Context,
    name: &str,
    limit: Duration,
    then: Then,
) -> Result<(), CliError> {
    let request = DeleteRequest { deployment: name.to_owned(), request_id: fresh_request_id() };
    let deleted = context.client()?.delete(request).await?;
    if then == Then::Return {
        return Ok(());
    }
    let request = StatusRequest {
        deployment: name.to_owned(),
        min_index: deleted.raft_index,
        ..StatusRequest::default()
    };
    let waiting = Wait { request, limit: Some(limit), lines: &lines, summary: &summary };
    let ended = wait(context, waiting, |status| match is_gone(status, name) {
        true => Step::Done(()),
        false => Step::Wait,
    });
    match ended.await? {
        Ended::Reached(()) => Ok(()),
        Ended::TimedOut(last) => Err(CliError::Outcome {
            code: ErrorCode::TimedOut,
            message: format!("{name} is not gone after {}", when::elapsed(limit)),
            because: last.as_ref().map(lines).unwrap_or_default(),
            help: vec![format!("the work goes on in the cluster: jaco status {name} -w")],
        }),
        Ended::Interrupted => Err(CliError::Interrupted {
            message: format!(
                "\nThe work goes on in the cluster. `jaco status {name} -w` shows it."
            ),
        }),
    }
}

fn is_gone(status: &StatusResponse, name: &str) -> bool {
    status.deployments.iter().all(|found| found.name != name)
        && status.replicas.iter().all(|replica| replica.deployment != name)
}

fn lines(status: &StatusResponse) -> Vec<String> {
    status.replicas.iter().map(replica_text).collect()
}

fn summary(status: &StatusResponse) -> String {
    format!("{} left", count(status.replicas.len(), "replica"))
}
