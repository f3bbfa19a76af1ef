//! Applies the stored revision of a deployment again, with another compose model or other contents.

use std::time::Duration;

use jaco_client::{ClientError, fresh_request_id};
use jaco_proto::v1::{ApplyRequest, ApplyResponse, GetDeploymentRequest, GetDeploymentResponse};
use jaco_types::ErrorCode;

use super::submit::{After, Change, accept, follow};
use super::warnings;
use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::upload::Upload;

/// Attempts until a change that others keep overtaking is given up.
const ATTEMPTS_MAX: u32 = 10;

/// The pause between attempts: a follower may not have the newest revision yet.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Applies the stored revision of a deployment with the compose model that `change` makes of it.
pub(crate) async fn reapply(
    session: &mut Session,
    name: &str,
    change: impl Fn(&GetDeploymentResponse) -> Result<String, CliError>,
    after: After,
) -> CommandResult {
    let change = |stored: GetDeploymentResponse| {
        Ok(GetDeploymentResponse { compose_json: change(&stored)?, ..stored })
    };
    let applied = accept_changed(session, name, change).await?;
    follow(session, &applied, after).await
}

/// Submits the stored revision of a deployment as `change` leaves it. If another change is applied in between, `change`
/// is called again with the newer revision.
///
/// # Errors
/// If it was not accepted, or others keep overtaking it.
pub(crate) async fn accept_changed(
    session: &mut Session,
    name: &str,
    change: impl Fn(GetDeploymentResponse) -> Result<GetDeploymentResponse, CliError>,
) -> Result<ApplyResponse, CliError> {
    let mut attempts = 1;
    loop {
        let request = GetDeploymentRequest { name: name.to_owned(), revision: 0 };
        let stored = session.client()?.get_deployment(request).await?;
        // The stored revision has these warnings already.
        let told = warnings::of_stored(&stored);
        let request = stored_request(change(stored)?);
        match accept(session, Change { request, upload: &Upload::default(), told: &told }).await {
            Err(CliError::Client(ClientError::Refused(refusal)))
                if refusal.code == ErrorCode::StalePlan && attempts < ATTEMPTS_MAX =>
            {
                session.ui.note(&format!("{}; trying again", refusal.message));
                attempts += 1;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            done => return done,
        }
    }
}

fn stored_request(stored: GetDeploymentResponse) -> ApplyRequest {
    ApplyRequest {
        compose_json: stored.compose_json,
        overlay_yaml: stored.overlay_yaml,
        environment_toml: stored.environment_toml,
        deployment: stored.name,
        request_id: fresh_request_id(),
        binds: stored.binds,
        configs: stored.configs,
        secrets: stored.secrets,
        // Their size was checked when they were first applied.
        max_file_bytes: u64::MAX,
        based_on: stored.revision,
        ..ApplyRequest::default()
    }
}
