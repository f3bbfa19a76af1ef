//! From the user's files to the request that applies them.

use jaco_client::{ClientError, fresh_request_id};
use jaco_proto::v1::{ApplyRequest, GetDeploymentRequest};

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
    /// The warnings that were printed.
    pub(crate) warnings: Vec<String>,
}

impl ManifestRequest {
    /// Reads the user's files and prints the warnings.
    pub(crate) fn read(session: &mut Session, args: &ManifestArgs) -> Result<Self, CliError> {
        let mut manifest = Manifest::checked(args)?;
        let upload = manifest.upload()?;
        if !manifest.warnings.is_empty() {
            session.ui.note(&format!("{}\n", manifest.warnings));
        }
        let request = ApplyRequest {
            compose_json: manifest.project.sent_model().to_string(),
            overlay_yaml: manifest.overlay_text,
            environment_toml: manifest.environment_text,
            deployment: manifest.project.name().to_owned(),
            request_id: fresh_request_id(),
            max_file_bytes: manifest.max_file_bytes,
            ..ApplyRequest::default()
        };
        let warnings = manifest.warnings.list.into_iter().map(|problem| problem.message).collect();
        Ok(Self { request, upload, warnings })
    }
}

/// Warns if the applied revision has a jaco.yaml and these files have none.
///
/// # Errors
/// If the cluster does not answer.
pub(crate) async fn warn_of_missing_overlay(
    session: &mut Session,
    args: &ManifestArgs,
    request: &ApplyRequest,
) -> Result<(), CliError> {
    if args.no_overlay || !request.overlay_yaml.is_empty() {
        return Ok(());
    }
    let stored = GetDeploymentRequest { name: request.deployment.clone(), revision: 0 };
    match session.client()?.get_deployment(stored).await {
        Ok(stored) if !stored.overlay_yaml.is_empty() => {
            session.ui.note(&format!(
                "warning: revision {} of {} has a jaco.yaml, and these files have none: its placement, \
                 constraints and policies would return to their defaults\n  help: a compose file given by \
                 name is read alone; give its folder, or jaco.yaml with -f for the compose file; \
                 --no-overlay leaves jaco.yaml out on purpose\n",
                stored.revision, stored.name
            ));
            Ok(())
        }
        // What is refused now is refused again, and then reported.
        Ok(_) | Err(ClientError::Refused(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
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
