//! `jaco plan`

use std::path::PathBuf;

use jaco_proto::v1::ApplyRequest;
use jaco_types::code::ExitCode;

use crate::deploy::plan_file;
use crate::deploy::request::{Loss, ManifestRequest, warn};
use crate::error::CliError;
use crate::manifest::ManifestArgs;
use crate::session::{CommandResult, Session};
use crate::upload::{self, UploadMode};
use crate::view::plan::Plan;

/// Show what an apply would change
///
/// The cluster computes the plan with the code that would carry it out: which replica would be created,
/// replaced, moved or stopped, on which node and why; which replicas could not be placed; and whether
/// any one node or zone could be lost afterwards. Nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Exit codes:
  0   the plan was printed; with --exit-code: nothing to do
  4   with --exit-code: changes are pending
  5   with --exit-code: not all replicas could be placed
  11  with --require-survive: the loss would not be survived

Examples:
  jaco plan                                     the compose file of this folder
  jaco plan --out plan.json && jaco apply plan.json
  jaco plan --exit-code --require-survive node  for a pipeline
  jaco plan shop -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Report by the exit code whether something would change
    #[arg(long)]
    exit_code: bool,
    /// Save the plan to this file, for `jaco apply FILE`; it holds the whole manifest
    ///
    /// Files beside the compose file are uploaded to the cluster, which keeps them for an hour.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit with 11 unless any one node, or all nodes of any one zone, could then be lost
    #[arg(long, value_name = "node|zone", value_enum, hide_possible_values = true)]
    require_survive: Option<Loss>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let manifest = ManifestRequest::read(&args.manifest)?;
    let told = warn(session, &args.manifest, &manifest).await?;
    let ManifestRequest { mut request, upload, .. } = manifest;
    // A saved plan refers to its uploaded files.
    let mode = if args.out.is_some() { UploadMode::Store } else { UploadMode::DryRun };
    upload::send(session, &upload, mode).await?.fill(&mut request);
    let dry_run = ApplyRequest { dry_run: true, ..request.clone() };
    let response = session.client()?.apply(dry_run).await;
    let response = response.map_err(CliError::of_dry_run)?;
    for warning in response.warnings.iter().filter(|warning| !told.contains(*warning)) {
        session.ui.note(&format!("warning: {warning}"));
    }
    if let Some(path) = &args.out {
        plan_file::write(path, &request, &response)?;
        let path = path.display();
        session.ui.note(&format!("saved the plan and the manifest: jaco apply {path}"));
    }
    let plan = Plan { response: &response, required: args.require_survive.map(Loss::as_str) };
    session.ui.result(&plan).map_err(CliError::Output)?;
    if let (Some(of), Some(false)) = (plan.required, plan.survives()) {
        session.ui.note(&format!(
            "error[would_not_survive]: the loss of any one {of} would not be survived\n  \
             help: jaco help error would_not_survive"
        ));
        return Ok(ExitCode::WouldNotSurvive);
    }
    Ok(if args.exit_code { exit_code(&plan) } else { ExitCode::Converged })
}

/// The exit code for `--exit-code`.
fn exit_code(plan: &Plan<'_>) -> ExitCode {
    match (plan.has_pending_replicas(), plan.has_changes()) {
        (true, _) => ExitCode::CannotPlace,
        (false, true) => ExitCode::ChangesPending,
        (false, false) => ExitCode::Converged,
    }
}
