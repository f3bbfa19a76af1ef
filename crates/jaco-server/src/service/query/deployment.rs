//! One deployment at one revision.

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::deployment::Deployment;
use jaco_state::view::serving_revision;
use jaco_types::{DeploymentName, ErrorCode, Rejection, Revision, Rights};

use super::uploads;
use crate::status::invalid;
use crate::view;

/// The spec of one deployment at one revision. Who may not change the deployment does not learn which contents its
/// secrets have: whoever knows that can have them mounted into a container.
///
/// # Errors
/// `deployment_not_found`, also for a revision that is not kept.
pub(super) fn get(
    state: &ClusterState,
    rights: &Rights,
    request: &v1::GetDeploymentRequest,
) -> Result<v1::GetDeploymentResponse, Rejection> {
    let name = DeploymentName::new(&request.name).map_err(invalid)?;
    let not_found = |message: String| Rejection::new(ErrorCode::DeploymentNotFound, message);
    let deployment = state.deployments.get(&name);
    let deployment =
        deployment.ok_or_else(|| not_found(format!("there is no deployment {name}")))?;
    let asked = match request.revision {
        0 => deployment.revision,
        given => Revision(given),
    };
    let revision =
        if request.serving { serving_instead_of(state, deployment, asked)? } else { asked };
    let record = deployment.revisions.get(&revision);
    let record = record.ok_or_else(|| {
        let message = format!(
            "deployment {name} has no revision {revision}, or not any more: `jaco history {name}` lists those that are kept"
        );
        Rejection::new(ErrorCode::RevisionNotFound, message)
    })?;
    let files = uploads::of_spec(&record.spec);
    Ok(v1::GetDeploymentResponse {
        name: name.to_string(),
        revision: revision.0,
        revisions: deployment.revisions.keys().map(|revision| revision.0).collect(),
        compose_json: record.spec.compose.to_string(),
        overlay_yaml: record.spec.overlay.to_string(),
        environment_toml: record.spec.environment.to_string(),
        applied_at_ms: view::millis(record.applied_at),
        applied_by: record.applied_by.to_string(),
        binds: files.binds,
        configs: files.configs,
        secrets: if rights.may_change(&name) {
            files.secrets
        } else {
            without_trees(files.secrets)
        },
        instead_of: if request.serving { asked.0 } else { 0 },
    })
}

/// The revision that a change of what runs is made from, where `asked` is what its asker knows as the desired one. If it
/// is not that any more, the change is refused as stale, or was done already.
fn serving_instead_of(
    state: &ClusterState,
    deployment: &Deployment,
    asked: Revision,
) -> Result<Revision, Rejection> {
    if asked != deployment.revision {
        return Ok(asked);
    }
    serving_revision(state, deployment).map_err(|part| part.refusal(&deployment.name))
}

fn without_trees(mut secrets: Vec<v1::FileUpload>) -> Vec<v1::FileUpload> {
    secrets.iter_mut().for_each(|secret| secret.tree.clear());
    secrets
}
