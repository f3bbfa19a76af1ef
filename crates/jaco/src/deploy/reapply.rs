//! Applies the revision of a deployment that serves again, with another compose model or other contents. Where the desired
//! one was given up, that is the one which its replicas went back to.

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ApplyRequest, ApplyResponse, GetDeploymentRequest, GetDeploymentResponse};

use super::submit::{After, Change, accept, follow};
use super::warnings;
use crate::error::CliError;
use crate::session::{CommandResult, Session, unless_overtaken};
use crate::upload::Upload;

/// Applies the revision of a deployment that serves with the compose model that `change` makes of it.
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

/// Submits the revision of a deployment that serves as `change` leaves it. If another change is applied in between,
/// `change` is called again with the newer revision.
///
/// # Errors
/// If it was not accepted, or others keep overtaking it.
pub(crate) async fn accept_changed(
    session: &mut Session,
    name: &str,
    change: impl Fn(GetDeploymentResponse) -> Result<GetDeploymentResponse, CliError>,
) -> Result<ApplyResponse, CliError> {
    unless_overtaken(session, async |session| {
        let request = GetDeploymentRequest { name: name.to_owned(), revision: 0, serving: true };
        let stored = session.client()?.get_deployment(request).await?;
        // The stored revision has these warnings already.
        let told = warnings::of_stored(&stored);
        let request = stored_request(change(stored)?);
        accept(session, Change { request, upload: &Upload::default(), told: &told }).await
    })
    .await
}

fn stored_request(stored: GetDeploymentResponse) -> ApplyRequest {
    // Earlier versions answer with the desired revision.
    let desired = if stored.instead_of == 0 { stored.revision } else { stored.instead_of };
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
        based_on: desired,
        made_from: stored.revision,
        ..ApplyRequest::default()
    }
}
