//! `jaco diff`

use jaco_compose::restart;
use jaco_json::difference::{self, changes};
use jaco_proto::v1::{GetDeploymentRequest, GetDeploymentResponse, HistoryRequest};
use serde_json::Value;

use crate::error::CliError;
use crate::manifest::{Manifest, ManifestArgs};
use crate::session::{CommandResult, Session};
use crate::view::difference::Difference;

/// Compare two revisions, or files with the current revision
///
/// Compares the resolved compose models key by key, and jaco.yaml line by line. Without --of, the files
/// of this folder are compared with the current revision.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco diff                         the files of this folder against the cluster
  jaco diff -f compose.yaml         this file
  jaco diff --of shop               the current revision against the previous one
  jaco diff --of shop --from 2 --to 4")]
pub(crate) struct Args {
    /// Compare revisions of this deployment instead of files
    #[arg(long, value_name = "DEPLOYMENT", conflicts_with_all = ["file", "files"])]
    of: Option<String>,
    /// The earlier revision [default: the one before --to]
    #[arg(long, value_name = "NUMBER", requires = "of")]
    from: Option<u64>,
    /// The later revision [default: the current one]
    #[arg(long, value_name = "NUMBER", requires = "of")]
    to: Option<u64>,
    #[command(flatten)]
    manifest: ManifestArgs,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let difference = match &args.of {
        Some(name) => between_revisions(session, name, args.from, args.to).await?,
        None => with_files(session, &args.manifest).await?,
    };
    session.done(&difference)
}

/// Compares two revisions of one deployment.
async fn between_revisions(
    session: &mut Session,
    name: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<Difference, CliError> {
    let client = session.client()?;
    let later = get(session, name, to.unwrap_or(0)).await?;
    let earlier = match from {
        Some(from) => from,
        None => {
            let request = HistoryRequest { deployment: name.to_owned() };
            let kept = client.history(request).await?.revisions;
            let before = kept.iter().rev().find(|info| info.revision < later.revision);
            let missing = || {
                let message = format!("{name} has no revision before {}", later.revision);
                CliError::usage(message, "name one with --from")
            };
            before.ok_or_else(missing)?.revision
        }
    };
    let earlier = get(session, name, earlier).await?;
    Ok(Difference {
        deployment: name.to_owned(),
        from: format!("revision {}", earlier.revision),
        to: format!("revision {}", later.revision),
        changes: changes(&model(&earlier)?, &model(&later)?),
    })
}

/// Compares the user's files with the current revision of the same deployment.
async fn with_files(session: &mut Session, args: &ManifestArgs) -> Result<Difference, CliError> {
    let manifest = Manifest::checked(args)?;
    let name = manifest.project.name().to_owned();
    let current = get(session, &name, 0).await?;
    // The restart counters exist in the cluster only, and are no difference.
    let mut stored = model(&current)?;
    restart::forget(&mut stored);
    let files = GetDeploymentResponse {
        // As it would be sent: the paths of the stored model are relative to the project's folder.
        compose_json: manifest.project.sent_model().to_string(),
        overlay_yaml: manifest.overlay_text,
        ..GetDeploymentResponse::default()
    };
    let changes = changes(&stored, &model(&files)?);
    if changes.is_empty() && !manifest.project.upload_items().is_empty() {
        session.ui.note(
            "the contents of files, configs and secrets are not compared: jaco plan does that",
        );
    }
    Ok(Difference {
        from: format!("revision {}", current.revision),
        to: "files".to_owned(),
        changes,
        deployment: name,
    })
}

async fn get(
    session: &mut Session,
    name: &str,
    revision: u64,
) -> Result<GetDeploymentResponse, CliError> {
    let request = GetDeploymentRequest { name: name.to_owned(), revision, ..Default::default() };
    Ok(session.client()?.get_deployment(request).await?)
}

/// The compose model and jaco.yaml as one value.
fn model(stored: &GetDeploymentResponse) -> Result<Value, CliError> {
    difference::model(stored)
        .map_err(|error| CliError::local("cannot parse the stored compose model", error))
}
