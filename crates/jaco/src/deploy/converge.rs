//! Waits until a change has converged, and explains why it has not.

use std::time::Duration;

use jaco_proto::v1::{ApplyResponse, StatusRequest, StatusResponse};
use jaco_types::ErrorCode;

use super::verdict::{Failure, Verdict, verdict};
use crate::error::CliError;
use crate::format::time;
use crate::session::Session;
use crate::session::wait::{Ended, Step, Wait, wait};
use crate::view::progress;

/// How long "cannot place" must last before it is reported: it also appears while a plan is computed.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// How long a missing replica of a service that follows others must last before nothing more is expected.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Waits until a deployment runs the accepted revision.
pub(super) async fn converge(
    session: &mut Session,
    applied: &ApplyResponse,
    limit: Duration,
) -> Result<StatusResponse, CliError> {
    let name = applied.deployment.as_str();
    let request = StatusRequest {
        deployment: name.to_owned(),
        min_index: applied.raft_index,
        ..StatusRequest::default()
    };
    let waiting = Wait {
        request,
        limit: Some(limit),
        lines: &|status| progress::lines(status, name),
        summary: &|status| progress::summary(status, name),
    };
    let ended = wait(session, waiting, |status| match verdict(status, name, applied.revision) {
        Verdict::InProgress => Step::Wait,
        Verdict::Converged => Step::Done(Ok(status.clone())),
        Verdict::Settling => Step::DoneAfter(SETTLED_AFTER, Ok(status.clone())),
        Verdict::Failed(Failure::Stuck) => {
            Step::DoneAfter(STUCK_AFTER, Err((Failure::Stuck, status.clone())))
        }
        Verdict::Failed(
            failure @ (Failure::Exhausted
            | Failure::Paused
            | Failure::RolledBack
            | Failure::Deleted
            | Failure::Removed
            | Failure::Superseded(_)),
        ) => Step::Done(Err((failure, status.clone()))),
    });
    match ended.await {
        Ok(Ended::Reached(Ok(status))) => Ok(status),
        Ok(Ended::Reached(Err((failure, status)))) => {
            let because = causes(progress::lines(&status, name));
            Err(explain(failure, (name, applied.revision), because, &status))
        }
        Ok(Ended::TimedOut(last)) => Err(timed_out(name, limit, last.as_ref())),
        Ok(Ended::Interrupted) => Err(CliError::Interrupted {
            message: format!(
                "\nThe rollout goes on in the cluster. `jaco status {name} -w` shows it, \
                 `jaco delete {name}` deletes the deployment."
            ),
        }),
        Err(CliError::Client(source)) => Err(CliError::ClientDuring {
            source,
            help: format!("the change was accepted and the rollout goes on: jaco status {name} -w"),
        }),
        Err(error) => Err(error),
    }
}

/// Lines of progress as causes of an error.
pub(super) fn causes(lines: Vec<String>) -> Vec<String> {
    lines.iter().map(|line| line.trim_start().to_owned()).collect()
}

/// The error of a revision that failed, with the last status and the next command.
pub(super) fn explain(
    failure: Failure,
    (name, revision): (&str, u64),
    because: Vec<String>,
    status: &StatusResponse,
) -> CliError {
    let outcome = |code, message: String, help| CliError::Outcome { code, message, because, help };
    match failure {
        Failure::Stuck => outcome(
            ErrorCode::CannotPlace,
            format!("not all replicas of {name} can be placed"),
            vec![
                "they are placed as soon as a node is eligible".to_owned(),
                format!("jaco status {name} shows more; jaco node ls lists the nodes"),
            ],
        ),
        Failure::RolledBack => outcome(
            ErrorCode::RolledBack,
            rolled_back((name, revision), status),
            vec![logs_hint(status, name), "apply again after the cause is fixed".to_owned()],
        ),
        Failure::Paused => outcome(
            ErrorCode::RolloutPaused,
            format!("the rollout of revision {revision} of {name} is paused"),
            vec![
                logs_hint(status, name),
                format!(
                    "apply again to continue, or return to the previous revision with jaco rollback {name}"
                ),
            ],
        ),
        Failure::Exhausted => outcome(
            ErrorCode::RestartExhausted,
            format!("a replica of {name} has exhausted its restarts"),
            vec![logs_hint(status, name), "apply again after the cause is fixed".to_owned()],
        ),
        Failure::Superseded(by) => CliError::Outcome {
            code: ErrorCode::CalledOff,
            message: format!(
                "revision {revision} of {name} was superseded by revision {by} before it had converged"
            ),
            because: Vec::new(),
            help: vec![
                format!("jaco history {name} shows who applied it"),
                format!("jaco status {name} -w shows how it goes on"),
            ],
        },
        Failure::Deleted => outcome(
            ErrorCode::DeploymentNotFound,
            format!("{name} was deleted by another user"),
            vec!["jaco audit shows who did it".to_owned()],
        ),
        Failure::Removed => outcome(
            ErrorCode::ServiceNotFound,
            format!("another user has removed the service from {name}"),
            vec![format!("jaco history {name} shows who did it")],
        ),
    }
}

/// What became of a revision that was given up. A service that it added, or that is paused, runs on.
fn rolled_back((deployment, revision): (&str, u64), status: &StatusResponse) -> String {
    let is_left = status
        .replicas
        .iter()
        .any(|it| it.deployment == deployment && it.revision == revision && it.state == "running");
    match is_left {
        true => format!("revision {revision} of {deployment} was rolled back in part"),
        false => {
            format!(
                "revision {revision} of {deployment} was rolled back; the previous revision serves"
            )
        }
    }
}

fn logs_hint(status: &StatusResponse, name: &str) -> String {
    let failing = status.replicas.iter().find(|replica| {
        replica.deployment == name && ["failed", "degraded"].contains(&replica.state.as_str())
    });
    match failing {
        Some(replica) => format!("jaco logs {name}/{} --tail 20", replica.service),
        None => format!("jaco status {name}"),
    }
}

fn timed_out(name: &str, limit: Duration, last: Option<&StatusResponse>) -> CliError {
    let lines = last.map(|status| progress::lines(status, name)).unwrap_or_default();
    CliError::Outcome {
        code: ErrorCode::TimedOut,
        message: format!("{name} has not converged within {}", time::elapsed(limit)),
        because: causes(lines),
        help: vec![format!("the rollout goes on in the cluster: jaco status {name} -w")],
    }
}
