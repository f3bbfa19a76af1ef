//! `jaco edit`

mod changed;
mod texts;

use std::path::PathBuf;
use std::time::Duration;

use jaco_proto::v1::{ApplyRequest, GetDeploymentRequest, GetDeploymentResponse};
use serde_json::json;

use self::changed::{Changed, changed};
use self::texts::{Folder, Texts};
use crate::deploy::{After, Change, accept, follow, warnings};
use crate::editor;
use crate::error::CliError;
use crate::format::time;
use crate::output::{Detail, Frame, Show};
use crate::session::{CommandResult, Session};
use crate::upload::Upload;
use crate::view::Summary;

/// Edit the files of a deployment and apply them
///
/// Opens the current revision in $VISUAL, else $EDITOR, else vi: the resolved compose file, and jaco.yaml
/// and jaco.services.toml if it has them. Afterwards the difference is shown, and on a yes applied as by
/// `jaco apply`; elsewhere than on a terminal that needs --yes. Uploaded files, configs and secrets stay as
/// they are, and new ones are for `jaco apply`. As in every compose file, `$$` stands for a dollar sign.
///
/// It is refused (`stale_plan`) if another user has changed the deployment meanwhile. What is refused or
/// declined is kept in a folder, and --from goes on with it. Where people apply files from a repository,
/// change the repository, too: their next apply replaces what was edited here.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco edit shop
  VISUAL='code --wait' jaco edit shop
  EDITOR=\"sed -i s/web:1/web:2/\" jaco edit shop --yes
  jaco edit shop --from /tmp/jaco-edit-shop-x2a       go on with what was refused")]
pub(crate) struct Args {
    /// The deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// Go on with the files in this folder, which an earlier edit has kept
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Apply the changes without a question
    #[arg(short, long)]
    yes: bool,
    /// Return as soon as the cluster has accepted the change
    #[arg(long)]
    detach: bool,
    /// Maximum time to wait, from the end of the editor
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    timeout: Duration,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let name = args.deployment.as_str();
    let request = GetDeploymentRequest { name: name.to_owned(), revision: 0, ..Default::default() };
    let stored = session.client()?.get_deployment(request).await?;
    let original = Texts::of(&stored)?;
    let folder = match &args.from {
        Some(path) => Folder::kept(path)?,
        None => Folder::with(name, &original)?,
    };
    if let Err(error) = editor::open(&folder.files()).await {
        return Err(folder.keep(error, name));
    }
    // What the editor took is not the cluster's.
    session.limit(args.timeout);
    let edited = match folder.texts() {
        Ok(edited) => edited,
        Err(error) => return Err(folder.keep(error, name)),
    };
    if edited == original {
        return unchanged(session, &stored, folder);
    }
    let changed = match changed(&stored, &original, &edited, folder.path()) {
        Ok(changed) => changed,
        Err(error) => return Err(folder.keep(error, name)),
    };
    if changed.difference.changes.is_empty() {
        return unchanged(session, &stored, folder);
    }
    let applied = match apply(session, &stored, changed, args.yes).await {
        Ok(applied) => applied,
        Err(error) => return Err(folder.keep(error, name)),
    };
    folder.remove()?;
    let after = if args.detach { After::Return } else { After::Wait(args.timeout) };
    follow(session, &applied, after).await
}

/// Shows the difference, asks, and applies it if nobody has changed the deployment meanwhile.
async fn apply(
    session: &mut Session,
    stored: &GetDeploymentResponse,
    changed: Changed,
    yes: bool,
) -> Result<jaco_proto::v1::ApplyResponse, CliError> {
    let Changed { request, difference, warnings } = changed;
    let frame = Frame { now_ms: time::now_ms(), detail: Detail::Short };
    session.ui.note(&difference.text(&frame));
    let told = warnings::of_stored(stored);
    for warning in warnings.list.iter().filter(|warning| !told.contains(&warning.message)) {
        session.ui.note(&format!("{warning}\n"));
    }
    if !yes {
        session.confirm(&format!("Apply this to {}?", stored.name))?;
    }
    let told = told.into_iter().chain(warnings.list.into_iter().map(|it| it.message)).collect();
    let request = ApplyRequest { request_id: jaco_client::fresh_request_id(), ..request };
    accept(session, Change { request, upload: &Upload::default(), told: &told }).await
}

fn unchanged(
    session: &mut Session,
    stored: &GetDeploymentResponse,
    folder: Folder,
) -> CommandResult {
    folder.remove()?;
    let (name, revision) = (&stored.name, stored.revision);
    session.done(&Summary {
        json: json!({ "deployment": name, "revision": revision, "outcome": "unchanged" }),
        text: format!("{name} revision {revision} unchanged\n"),
    })
}
