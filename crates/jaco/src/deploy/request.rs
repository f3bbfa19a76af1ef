//! From the user's files to the request that applies them.

use std::collections::BTreeSet;

use jaco_client::{ClientError, fresh_request_id};
use jaco_compose::Problems;
use jaco_proto::v1::{ApplyRequest, GetDeploymentRequest};

use super::warnings;
use crate::error::CliError;
use crate::manifest::{Manifest, ManifestArgs};
use crate::session::Session;
use crate::upload::Upload;

/// The user's files as a request.
pub(crate) struct ManifestRequest {
    /// The request. The ids of the uploaded files are filled in when they are sent.
    pub(crate) request: ApplyRequest,
    /// The files to be uploaded.
    pub(crate) upload: Upload,
    /// The warnings of the files.
    pub(crate) warnings: Problems,
}

impl ManifestRequest {
    /// Reads the user's files.
    pub(crate) fn read(args: &ManifestArgs) -> Result<Self, CliError> {
        Self::of(Manifest::checked(args)?)
    }

    /// The request of a manifest that was checked.
    pub(crate) fn of(mut manifest: Manifest) -> Result<Self, CliError> {
        let upload = manifest.upload()?;
        let request = ApplyRequest {
            compose_json: manifest.project.sent_model().to_string(),
            overlay_yaml: manifest.overlay_text,
            environment_toml: manifest.environment_text,
            deployment: manifest.project.name().to_owned(),
            request_id: fresh_request_id(),
            max_file_bytes: manifest.max_file_bytes,
            ..ApplyRequest::default()
        };
        Ok(Self { request, upload, warnings: manifest.warnings })
    }
}

/// Prints the warnings that the applied revision does not have as well, and warns if it has a jaco.yaml and these
/// files have none. Returns the messages that need not be printed again.
///
/// # Errors
/// If the cluster does not answer.
pub(crate) async fn warn(
    session: &mut Session,
    args: &ManifestArgs,
    manifest: &ManifestRequest,
) -> Result<BTreeSet<String>, CliError> {
    let request = &manifest.request;
    let stored = GetDeploymentRequest {
        name: request.deployment.clone(),
        revision: 0,
        ..Default::default()
    };
    let stored = match session.client()?.get_deployment(stored).await {
        Ok(stored) => Some(stored),
        // What is refused now is refused again, and then reported.
        Err(ClientError::Refused(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let mut told = stored.as_ref().map(warnings::of_stored).unwrap_or_default();
    let mut new = manifest.warnings.clone();
    new.list.retain(|problem| !told.contains(&problem.message));
    if !new.is_empty() {
        session.ui.note(&format!("{new}\n"));
    }
    told.extend(new.list.into_iter().map(|problem| problem.message));
    if let Some(stored) = stored.filter(|_| !args.no_overlay && request.overlay_yaml.is_empty())
        && !stored.overlay_yaml.is_empty()
    {
        session.ui.note(&format!(
            "warning: revision {} of {} has a jaco.yaml, and these files have none: its placement, \
             constraints and policies would return to their defaults\n  help: a compose file given by \
             name is read alone; give its folder, or jaco.yaml with -f for the compose file; \
             --no-overlay leaves jaco.yaml out on purpose\n",
            stored.revision, stored.name
        ));
    }
    Ok(told)
}

/// The loss that a plan is required to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Loss {
    /// Any one node
    Node,
    /// All nodes of any one zone
    Zone,
}

impl Loss {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Zone => "zone",
        }
    }
}
