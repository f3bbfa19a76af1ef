//! Submits a change and follows it until it has converged.

use std::collections::BTreeSet;
use std::time::Duration;

use jaco_client::{ClientError, fresh_request_id};
use jaco_proto::v1::{ApplyRequest, ApplyResponse, StatusResponse};
use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::converge::converge;
use crate::error::CliError;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::upload::{self, Upload, UploadMode};
use crate::view::plan::Plan;
use crate::view::{deployment, progress, replica};

/// A change to submit.
pub(crate) struct Change<'a> {
    /// The request.
    pub(crate) request: ApplyRequest,
    /// The files that were uploaded for it.
    pub(crate) upload: &'a Upload,
    /// The warnings that need not be printed any more.
    pub(crate) told: &'a BTreeSet<String>,
}

/// What to do after the cluster has accepted a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Wait until it has converged, at most this long.
    Wait(Duration),
    /// Return at once.
    Return,
}

/// Submits a change and waits until it has converged.
pub(crate) async fn submit(
    session: &mut Session,
    change: Change<'_>,
    after: After,
) -> CommandResult {
    let dry_run = change.request.dry_run;
    let applied = accept(session, change).await?;
    if dry_run {
        return session.done(&Plan { response: &applied, required: None });
    }
    follow(session, &applied, after).await
}

/// Submits a change: prints its plan before and its warnings afterwards.
///
/// # Errors
/// If it was not accepted, or nobody knows whether it was.
pub(crate) async fn accept(
    session: &mut Session,
    change: Change<'_>,
) -> Result<ApplyResponse, CliError> {
    let Change { request, upload, told } = change;
    let dry_run = request.dry_run;
    if !dry_run && session.ui.prints_notes() {
        show_plan(session, &request).await?;
    }
    let applied = match session.client()?.apply(request.clone()).await {
        Err(ClientError::Refused(refusal))
            if refusal.code == ErrorCode::ContentMissing && !upload.is_empty() && !dry_run =>
        {
            apply_again(session, request, upload).await?
        }
        Err(error) if dry_run => return Err(CliError::of_dry_run(error)),
        answer => answer?,
    };
    // The cluster repeats the checks of the manifest: only new warnings are printed.
    for warning in applied.warnings.iter().filter(|warning| !told.contains(*warning)) {
        session.ui.note(&format!("warning: {warning}"));
    }
    Ok(applied)
}

/// Uploads the files once more and repeats the request. The cluster keeps uploaded files for an hour at
/// most, and for less while it is short of room, so they can be evicted before the request arrives. A
/// second refusal has another cause and is left to the user.
async fn apply_again(
    session: &mut Session,
    request: ApplyRequest,
    upload: &Upload,
) -> Result<ApplyResponse, CliError> {
    session.ui.note("the cluster has evicted uploaded files; they are uploaded again");
    // The refusal is stored under the request id: the same id would get it again.
    let mut request = ApplyRequest { request_id: fresh_request_id(), ..request };
    upload::send(session, upload, UploadMode::Store).await?.fill(&mut request);
    Ok(session.client()?.apply(request).await?)
}

/// Waits for the end of a change that the cluster has accepted.
pub(crate) async fn follow(
    session: &mut Session,
    applied: &ApplyResponse,
    after: After,
) -> CommandResult {
    let status = settle(session, applied, after).await?;
    session.done(&Applied { applied, status: status.as_ref() })
}

/// As [`follow`], without a result: the last status, if it was waited for.
///
/// # Errors
/// If it does not converge.
pub(crate) async fn settle(
    session: &mut Session,
    applied: &ApplyResponse,
    after: After,
) -> Result<Option<StatusResponse>, CliError> {
    let name = &applied.deployment;
    session.ui.note(&format!("{name} revision {}: {}", applied.revision, applied.change));
    match after {
        After::Return => Ok(None),
        After::Wait(limit) => converge(session, applied, limit).await.map(Some),
    }
}

/// Prints the plan of a change (R-CLI-1). A refusal is left to the request itself, which is audited;
/// a cluster without a leader refuses both.
async fn show_plan(session: &mut Session, request: &ApplyRequest) -> Result<(), CliError> {
    let dry_run = ApplyRequest { dry_run: true, ..request.clone() };
    match session.client()?.apply(dry_run).await {
        Ok(response) => {
            session.ui.note(&Plan { response: &response, required: None }.changes());
        }
        Err(ClientError::Refused(refusal)) if refusal.code.exit_code() != ExitCode::Unreachable => {
        }
        Err(error) => return Err(CliError::of_dry_run(error)),
    }
    Ok(())
}

/// The result of an accepted change.
struct Applied<'a> {
    applied: &'a ApplyResponse,
    /// The last status, if the command waited.
    status: Option<&'a StatusResponse>,
}

impl Show for Applied<'_> {
    fn json(&self) -> Value {
        let applied = self.applied;
        let mut json = json!({
            "deployment": applied.deployment,
            "revision": applied.revision,
            "change": applied.change,
            "raft_index": applied.raft_index,
            "warnings": applied.warnings,
            "outcome": if self.status.is_some() { "converged" } else { "accepted" },
        });
        if let Some(status) = self.status {
            let found = status.deployments.iter().find(|found| found.name == applied.deployment);
            json["status"] = found.map(deployment::json).unwrap_or_default();
            json["replicas"] = status.replicas.iter().map(replica::json).collect();
        }
        json
    }

    fn text(&self, _: &Frame) -> String {
        let ApplyResponse { deployment, revision, change, .. } = self.applied;
        let Some(status) = self.status else {
            return format!("{deployment} revision {revision} {change}; the rollout goes on\n");
        };
        let replicas = progress::running_text(status, deployment);
        format!("{deployment} revision {revision} {change}: {replicas}\n")
    }
}
