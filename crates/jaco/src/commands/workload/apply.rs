//! `jaco apply`

use std::collections::BTreeSet;
use std::time::Duration;

use crate::deploy::build::built;
use crate::deploy::plan_file::{self, SavedPlan};
use crate::deploy::request::{Loss, ManifestRequest, warn};
use crate::deploy::trace::{Asked, Trace};
use crate::deploy::{After, Change, submit};
use crate::error::CliError;
use crate::format::time;
use crate::manifest::ManifestArgs;
use crate::session::{CommandResult, Session};
use crate::upload::{self, Upload, UploadMode};

/// Apply compose files to the cluster
///
/// Sends the compose file, and jaco.yaml if there is one, prints the plan, and waits until the deployment
/// has converged. All problems of the files are listed at once, and any problem changes nothing. Ctrl-C
/// and --timeout end the waiting, not the rollout.
///
/// A file written by `jaco plan --out` is applied only if the cluster would still do exactly what it
/// holds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco apply                                    the compose file of this folder
  jaco apply shop/compose.yaml                  this file alone
  jaco apply -f compose.yaml -f compose.prod.yaml
  jaco apply --dry-run -o json                  the plan, for programs: as jaco plan
  jaco apply plan.json                          a saved plan, if it still holds
  jaco apply --require-survive node             only if any one node could then be lost
  jaco apply --build                            services with `build` are built and pushed first
  docker compose config | jaco apply -f - --name shop")]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Check everything and print the plan; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Build the services that have `build`, and push their images into the cluster
    ///
    /// The container engine of this machine builds them, with context, dockerfile, args, labels, network,
    /// no_cache, pull and target of the file. What comes out runs by its id, so a changed image is a changed
    /// service. It is pushed under the service's `image`, or DEPLOYMENT/SERVICE:ID; the engine keeps it under
    /// that `image`, or DEPLOYMENT-SERVICE, as `docker compose build` does. Needs role operator.
    #[arg(long, conflicts_with = "dry_run")]
    build: bool,
    /// Return as soon as the cluster has accepted the change
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    /// Maximum time to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    timeout: Duration,
    /// Trace the change through the cluster, and print the id of the trace
    ///
    /// The nodes whose `jacod.yaml` names a collector send it their spans. Without this option there is a trace where the
    /// environment has TRACEPARENT, which goes on, or OTEL_EXPORTER_OTLP_ENDPOINT, which gets the span of this command.
    #[arg(long, conflicts_with = "dry_run")]
    trace: bool,
    /// Refuse the change unless any one node, or all nodes of any one zone, could then be lost
    #[arg(long, value_name = "node|zone", value_enum, hide_possible_values = true)]
    require_survive: Option<Loss>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    session.limit(args.timeout);
    let after = if args.detach { After::Return } else { After::Wait(args.timeout) };
    let (mut request, upload, told) = match saved_plan(&args.manifest)? {
        Some(_) if args.build => {
            let message = "a saved plan names the images that it runs, and --build makes others";
            return Err(CliError::usage(
                message,
                "apply the compose file, or the plan without --build",
            ));
        }
        Some(saved) => (saved.request(), Upload::default(), BTreeSet::new()),
        None => {
            let mut manifest = match args.build {
                true => ManifestRequest::of(Box::pin(built(session, &args.manifest)).await?)?,
                false => ManifestRequest::read(&args.manifest)?,
            };
            let told = warn(session, &args.manifest, &manifest).await?;
            let mode = if args.dry_run { UploadMode::DryRun } else { UploadMode::Store };
            upload::send(session, &manifest.upload, mode).await?.fill(&mut manifest.request);
            (manifest.request, manifest.upload, told)
        }
    };
    request.require_survive = args.require_survive.map_or("", Loss::as_str).to_owned();
    request.dry_run = args.dry_run;
    let asked = if args.trace { Asked::Yes } else { Asked::No };
    let trace = Trace::begin(asked, |name| std::env::var(name).ok())?.filter(|_| !args.dry_run);
    let Some(trace) = trace else {
        return submit(session, Change { request, upload: &upload, told: &told }, after).await;
    };
    session.ui.note(&format!("trace {}", trace.id()));
    request.traceparent = trace.traceparent();
    let deployment = request.deployment.clone();
    let done = submit(session, Change { request, upload: &upload, told: &told }, after).await;
    trace.end(session, deployment, &done).await;
    done
}

/// The saved plan, if FILE is one.
fn saved_plan(args: &ManifestArgs) -> Result<Option<SavedPlan>, CliError> {
    match &args.file {
        Some(path) if args.files.is_empty() => plan_file::read(path),
        Some(_) | None => Ok(None),
    }
}
