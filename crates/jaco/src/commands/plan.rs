//! `jaco plan`

use std::path::PathBuf;

use jaco_proto::v1::{ApplyRequest, ApplyResponse};
use jaco_types::code::ExitCode;

use super::apply::{Asked, Loss, request};
use super::{Context, Done};
use crate::error::CliError;
use crate::manifest::ManifestArgs;
use crate::plan_file;
use crate::ship::{self, Sending};
use crate::view::plan::Planned;

/// Show what an apply would do, node by node; change nothing
///
/// The cluster works it out with the functions that would do it: which replica is created, replaced,
/// moved or stopped, on which node and why; what would have no place; and whether any one node or
/// zone could be lost afterwards.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Exit codes:
  0   shown; with --exit-code: nothing to do
  4   with --exit-code: changes are pending
  5   with --exit-code: not everything could be placed
  11  with --require-survive: the loss would not be survived

Examples:
  jaco plan                                     the compose file of this folder
  jaco plan --out plan.json && jaco apply plan.json
  jaco plan --exit-code --require-survive node  for a pipeline
  jaco plan shop -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Say by the exit code whether something would change
    #[arg(long)]
    exit_code: bool,
    /// Keep the plan in this file, for `jaco apply FILE`; it holds the whole manifest
    ///
    /// Files beside the compose file are sent to the cluster, where they wait for the apply for an hour.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit with 11 unless any one node, or all nodes of any one zone, could be lost afterwards
    #[arg(long, value_name = "node|zone", value_enum, hide_possible_values = true)]
    require_survive: Option<Loss>,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let Asked { mut request, freight, known } = request(context, &args.manifest)?;
    // A plan that is kept names its files, and they wait for it for an hour.
    let sending = if args.out.is_some() { Sending::Store } else { Sending::Nothing };
    ship::send(context, &freight, sending).await?.fill(&mut request);
    let question = ApplyRequest { dry_run: true, ..request.clone() };
    let told = context.client()?.apply(question).await?;
    for warning in told.warnings.iter().filter(|warning| !known.contains(warning)) {
        context.ui.note(&format!("warning: {warning}"));
    }
    if let Some(path) = &args.out {
        plan_file::write(path, &request, &told)?;
        let path = path.display();
        context.ui.note(&format!("{path} holds the plan and the manifest: jaco apply {path}"));
    }
    let planned = Planned { told: &told, required: args.require_survive.map(Loss::as_str) };
    context.ui.result(&planned).map_err(CliError::Output)?;
    if let (Some(of), Some(false)) = (planned.required, planned.survives()) {
        context.ui.note(&format!(
            "error[would_not_survive]: the loss of any one {of} is not known to be survived\n  \
             help: jaco help error would_not_survive"
        ));
        return Ok(ExitCode::WouldNotSurvive);
    }
    Ok(if args.exit_code { pending(&told) } else { ExitCode::Converged })
}

/// What `--exit-code` says.
fn pending(told: &ApplyResponse) -> ExitCode {
    let planned = Planned { told, required: None };
    match (planned.waits(), planned.is_pending()) {
        (true, _) => ExitCode::CannotPlace,
        (false, true) => ExitCode::ChangesPending,
        (false, false) => ExitCode::Converged,
    }
}
