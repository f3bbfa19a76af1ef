//! Deletes a deployment and waits until its containers are removed.

use jaco_client::fresh_request_id;
use jaco_proto::v1::{DeleteRequest, StatusRequest, StatusResponse};
use jaco_types::ErrorCode;

use super::submit::After;
use crate::error::CliError;
use crate::format::quantity::count;
use crate::format::time;
use crate::session::Session;
use crate::session::wait::{Ended, Step, Wait, wait};
use crate::view::progress::replica_text;

/// Deletes a deployment.
pub(crate) async fn delete(
    session: &mut Session,
    name: &str,
    after: After,
) -> Result<(), CliError> {
    let request = DeleteRequest { deployment: name.to_owned(), request_id: fresh_request_id() };
    let deleted = session.client()?.delete(request).await?;
    let After::Wait(limit) = after else { return Ok(()) };
    let request = StatusRequest {
        deployment: name.to_owned(),
        min_index: deleted.raft_index,
        ..StatusRequest::default()
    };
    let waiting = Wait { request, limit: Some(limit), lines: &lines, summary: &summary };
    let ended = wait(session, waiting, |status| match is_removed(status, name) {
        true => Step::Done(()),
        false => Step::Wait,
    });
    match ended.await? {
        Ended::Reached(()) => Ok(()),
        Ended::TimedOut(last) => Err(CliError::Outcome {
            code: ErrorCode::TimedOut,
            message: format!("{name} is not removed after {}", time::elapsed(limit)),
            because: last.as_ref().map(lines).unwrap_or_default(),
            help: vec![format!("the removal goes on in the cluster: jaco status {name} -w")],
        }),
        Ended::Interrupted => Err(CliError::Interrupted {
            message: format!(
                "\nThe removal goes on in the cluster. `jaco status {name} -w` shows it."
            ),
        }),
    }
}

fn is_removed(status: &StatusResponse, name: &str) -> bool {
    status.deployments.iter().all(|found| found.name != name)
        && status.replicas.iter().all(|replica| replica.deployment != name)
}

fn lines(status: &StatusResponse) -> Vec<String> {
    status.replicas.iter().map(replica_text).collect()
}

fn summary(status: &StatusResponse) -> String {
    format!("{} left", count(status.replicas.len(), "replica"))
}
