//! `jaco apply`

use std::time::Duration;

use jaco_client::{ClientError, fresh_request_id};
use jaco_proto::v1::{
    ApplyRequest, ApplyResponse, GetDeploymentRequest, GetDeploymentResponse, StatusRequest,
    StatusResponse,
};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::manifest::{Manifest, ManifestArgs};
use crate::plan_file::{self, SavedPlan};
use crate::progress::{self, Failure, Verdict};
use crate::ship::{self, Freight, Sending};
use crate::ui::{Frame, Show};
use crate::view::plan::Planned;
use crate::view::{deployment, replica};
use crate::wait::{Ended, Step, Wait, wait};
use crate::when;

/// How long "cannot place" must stand still before it is taken for an answer: a plan in the making
/// passes through it.
const STUCK_FOR: Duration = Duration::from_secs(2);

/// How often a change of what is stored is made from what others want by now, before that is an error.
const REAPPLIES_MAX: u32 = 10;

/// The pause before that.
const REAPPLY_PAUSE: Duration = Duration::from_millis(100);

/// Make the cluster run what a compose file says
///
/// Sends the compose file, and jaco.yaml where there is one, shows what the cluster will do, and waits
/// until it has done it. All problems of the files are listed at once, and nothing is changed if there
/// is one. Ctrl-C and --timeout end the waiting, never the work.
///
/// A file that `jaco plan --out` wrote is applied only if the cluster would still do exactly what it
/// says.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco apply                                    the compose file of this folder
  jaco apply shop/compose.yaml                  that file, and nothing beside it
  jaco apply -f compose.yaml -f compose.prod.yaml
  jaco apply --dry-run -o json                  what would happen, for programs: as jaco plan
  jaco apply plan.json                          what was planned, if it still holds
  jaco apply --require-survive node             only if any one node could then be lost
  docker compose config | jaco apply -f - --name shop")]
pub(crate) struct Args {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Check everything and show what would happen; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Return as soon as the cluster has agreed
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = when::duration)]
    timeout: Duration,
    /// Refuse it unless any one node, or all nodes of any one zone, can be lost afterwards
    #[arg(long, value_name = "node|zone", value_enum, hide_possible_values = true)]
    require_survive: Option<Loss>,
}

/// What is to be survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Loss {
    /// Any one node
    Node,
    /// All nodes of any one zone
    Zone,
}

impl Loss {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Zone => "zone",
        }
    }
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let then = if args.detach { Then::Return } else { Then::Wait(args.timeout) };
    let Asked { mut request, freight, known } = match saved_plan(&args.manifest)? {
        Some(saved) => {
            let request = saved.request();
            Asked { request, freight: Freight::default(), known: Vec::new() }
        }
        None => {
            let mut asked = request(context, &args.manifest)?;
            let sending = if args.dry_run { Sending::Nothing } else { Sending::Store };
            ship::send(context, &asked.freight, sending).await?.fill(&mut asked.request);
            asked
        }
    };
    request.require_survive = args.require_survive.map_or("", Loss::as_str).to_owned();
    request.dry_run = args.dry_run;
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    submit(context, Change { request, freight: &freight, known: &known }, then).await
}

/// A change that is asked of the cluster.
pub(super) struct Change<'a> {
    /// The request.
    pub(super) request: ApplyRequest,
    /// The files that were sent for it.
    pub(super) freight: &'a Freight,
    /// Warnings that were shown already.
    pub(super) known: &'a [&'a str],
}

/// Applies what is stored of a deployment again, with the compose model that `change` makes of it. Where
/// somebody else applies in between, it is made anew from what they want.
pub(super) async fn reapply(
    context: &mut Context,
    name: &str,
    change: impl Fn(&GetDeploymentResponse) -> Result<String, CliError>,
    then: Then,
) -> Done {
    let mut attempts = 1;
    loop {
        let request = GetDeploymentRequest { name: name.to_owned(), revision: 0 };
        let stored = context.client()?.get_deployment(request).await?;
        let compose_json = change(&stored)?;
        match submit_stored(context, stored, compose_json, then).await {
            Err(CliError::Client(ClientError::Refused(refusal)))
                if refusal.code == ErrorCode::StalePlan && attempts < REAPPLIES_MAX =>
            {
                context.ui.note(&format!("{}; once more", refusal.message));
                attempts += 1;
                // A node that follows may still be learning of it.
                tokio::time::sleep(REAPPLY_PAUSE).await;
            }
            done => return done,
        }
    }
}

async fn submit_stored(
    context: &mut Context,
    stored: GetDeploymentResponse,
    compose_json: String,
    then: Then,
) -> Done {
    let request = ApplyRequest {
        compose_json,
        overlay_yaml: stored.overlay_yaml,
        environment_toml: stored.environment_toml,
        deployment: stored.name,
        request_id: fresh_request_id(),
        binds: stored.binds,
        configs: stored.configs,
        secrets: stored.secrets,
        // They were let in once.
        max_file_bytes: u64::MAX,
        based_on: stored.revision,
        ..ApplyRequest::default()
    };
    submit(context, Change { request, freight: &Freight::default(), known: &[] }, then).await
}

/// What the user's files ask for.
pub(super) struct Asked {
    /// The request, without what its files are called in the cluster: that is known once they are sent.
    pub(super) request: ApplyRequest,
    /// The files that go with it.
    pub(super) freight: Freight,
    /// The warnings that were shown.
    pub(super) known: Vec<String>,
}

/// Reads the user's files, and shows what is worth a warning.
pub(super) fn request(context: &mut Context, args: &ManifestArgs) -> Result<Asked, CliError> {
    let mut manifest = Manifest::checked(args)?;
    let freight = manifest.freight()?;
    if !manifest.warnings.is_empty() {
        context.ui.note(&format!("{}\n", manifest.warnings));
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
    let known = manifest.warnings.list.into_iter().map(|problem| problem.message).collect();
    Ok(Asked { request, freight, known })
}

/// The plan that is named instead of a manifest, if it is one.
fn saved_plan(args: &ManifestArgs) -> Result<Option<SavedPlan>, CliError> {
    match &args.file {
        Some(path) if args.files.is_empty() => plan_file::read(path),
        Some(_) | None => Ok(None),
    }
}

/// What follows once the cluster has agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Wait until it has converged, at most this long.
    Wait(Duration),
    /// Nothing.
    Return,
}

/// Sends a change and waits for what becomes of it.
pub(super) async fn submit(context: &mut Context, change: Change<'_>, then: Then) -> Done {
    let Change { request, freight, known } = change;
    let dry_run = request.dry_run;
    if !dry_run && context.ui.is_talkative() {
        show_plan(context, &request).await?;
    }
    let applied = match context.client()?.apply(request.clone()).await {
        Err(ClientError::Refused(refusal))
            if refusal.code == ErrorCode::ContentMissing && !freight.is_empty() && !dry_run =>
        {
            apply_again(context, request, freight).await?
        }
        answer => answer?,
    };
    // The cluster checks the same again; what it adds is worth saying.
    for warning in applied.warnings.iter().filter(|warning| !known.contains(&warning.as_str())) {
        context.ui.note(&format!("warning: {warning}"));
    }
    if dry_run {
        return context.done(&Planned { told: &applied, required: None });
    }
    follow(context, &applied, then).await
}

/// What was sent can be gone before the change comes: it waits for an hour at most, and less while
/// others send a lot. Once more is enough where that was the cause; where it was not, the refusal is
/// the user's to read.
async fn apply_again(
    context: &mut Context,
    request: ApplyRequest,
    freight: &Freight,
) -> Result<ApplyResponse, CliError> {
    context.ui.note("the cluster let go of files that were sent; they are sent again");
    // The refusal belongs to the request's id: under the same one it would be told again.
    let mut request = ApplyRequest { request_id: fresh_request_id(), ..request };
    ship::send(context, freight, Sending::Store).await?.fill(&mut request);
    Ok(context.client()?.apply(request).await?)
}

/// Waits for what becomes of a change that the cluster has agreed to.
pub(super) async fn follow(context: &mut Context, applied: &ApplyResponse, then: Then) -> Done {
    let name = &applied.deployment;
    context.ui.note(&format!("{name} revision {}: {}", applied.revision, applied.change));
    let Then::Wait(limit) = then else {
        return context.done(&Applied { applied, status: None });
    };
    let status = converge(context, applied, limit).await?;
    context.done(&Applied { applied, status: Some(&status) })
}

/// Shows what is about to happen (R-CLI-1). A refusal is left to the request itself, which is audited.
async fn show_plan(context: &mut Context, request: &ApplyRequest) -> Result<(), CliError> {
    let question = ApplyRequest { dry_run: true, ..request.clone() };
    match context.client()?.apply(question).await {
        Ok(told) => context.ui.note(&Planned { told: &told, required: None }.changes()),
        Err(ClientError::Refused(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Waits until the cluster runs what it agreed to.
async fn converge(
    context: &mut Context,
    applied: &ApplyResponse,
    limit: Duration,
) -> Result<StatusResponse, CliError> {
    let name = applied.deployment.as_str();
    let request = StatusRequest {
        deployment: name.to_owned(),
        min_index: applied.raft_index,
        ..StatusRequest::default()
    };
    let waiting = Wait {
        request,
        limit: Some(limit),
        lines: &|status| progress::lines(status, name),
        summary: &|status| progress::summary(status, name),
    };
    let ended =
        wait(context, waiting, |status| match progress::verdict(status, name, applied.revision) {
            Verdict::Going => Step::Wait,
            Verdict::Converged => Step::Done(Ok(status.clone())),
            Verdict::Failing(Failure::Stuck) => {
                Step::Linger(STUCK_FOR, Err((Failure::Stuck, status.clone())))
            }
            Verdict::Failing(
                failure @ (Failure::Exhausted
                | Failure::Paused
                | Failure::RolledBack
                | Failure::Gone),
            ) => Step::Done(Err((failure, status.clone()))),
        });
    match ended.await {
        Ok(Ended::Reached(Ok(status))) => Ok(status),
        Ok(Ended::Reached(Err((failure, status)))) => Err(explain(failure, applied, &status)),
        Ok(Ended::TimedOut(last)) => Err(timed_out(name, limit, last.as_ref())),
        Ok(Ended::Interrupted) => Err(CliError::Interrupted {
            message: format!(
                "\nThe work goes on in the cluster. `jaco status {name} -w` shows it, \
                 `jaco delete {name}` ends it."
            ),
        }),
        Err(CliError::Client(source)) => Err(CliError::ClientDuring {
            source,
            help: format!("the change was agreed on and goes on: jaco status {name} -w"),
        }),
        Err(error) => Err(error),
    }
}

/// Why it did not end well, with the last facts and the next command.
fn explain(failure: Failure, applied: &ApplyResponse, status: &StatusResponse) -> CliError {
    let name = &applied.deployment;
    let because: Vec<String> =
        progress::lines(status, name).iter().map(|line| line.trim_start().to_owned()).collect();
    let look = |more: &str| format!("jaco status {name} shows more{more}");
    let outcome = |code, message: String, help| CliError::Outcome { code, message, because, help };
    match failure {
        Failure::Stuck => outcome(
            ErrorCode::CannotPlace,
            format!("not every replica of {name} can be placed as things stand"),
            vec![
                "they are placed as soon as a node can take them".to_owned(),
                look("; jaco node list shows the nodes"),
            ],
        ),
        Failure::RolledBack => outcome(
            ErrorCode::RolledBack,
            format!(
                "revision {} of {name} was rolled back; the one before it serves",
                applied.revision
            ),
            vec![logs_hint(status, name), "apply again once the cause is gone".to_owned()],
        ),
        Failure::Paused => outcome(
            ErrorCode::RolloutPaused,
            format!("the rollout of revision {} of {name} is paused", applied.revision),
            vec![
                logs_hint(status, name),
                format!("apply again to go on, or go back with jaco rollback {name}"),
            ],
        ),
        Failure::Exhausted => outcome(
            ErrorCode::RestartExhausted,
            format!("a replica of {name} failed too often and is left alone"),
            vec![logs_hint(status, name), "apply again once the cause is gone".to_owned()],
        ),
        Failure::Gone => outcome(
            ErrorCode::DeploymentNotFound,
            format!("{name} was deleted by somebody else"),
            vec!["jaco audit shows by whom".to_owned()],
        ),
    }
}

fn logs_hint(status: &StatusResponse, name: &str) -> String {
    let troubled = status.replicas.iter().find(|replica| {
        replica.deployment == name && ["failed", "degraded"].contains(&replica.state.as_str())
    });
    match troubled {
        Some(replica) => format!("jaco logs {name}/{} --tail 20", replica.service),
        None => format!("jaco status {name}"),
    }
}

fn timed_out(name: &str, limit: Duration, last: Option<&StatusResponse>) -> CliError {
    let lines = last.map(|status| progress::lines(status, name)).unwrap_or_default();
    CliError::Outcome {
        code: ErrorCode::TimedOut,
        message: format!("{name} did not get there within {}", when::elapsed(limit)),
        because: lines.iter().map(|line| line.trim_start().to_owned()).collect(),
        help: vec![format!("the work goes on in the cluster: jaco status {name} -w")],
    }
}

/// What an apply led to.
struct Applied<'a> {
    applied: &'a ApplyResponse,
    /// How it ended, if that was waited for.
    status: Option<&'a StatusResponse>,
}

impl Show for Applied<'_> {
    fn json(&self) -> Value {
        let applied = self.applied;
        let mut json = json!({
            "deployment": applied.deployment,
            "revision": applied.revision,
            "change": applied.change,
            "raft_index": applied.raft_index,
            "warnings": applied.warnings,
            "outcome": if self.status.is_some() { "converged" } else { "accepted" },
        });
        if let Some(status) = self.status {
            let found = status.deployments.iter().find(|found| found.name == applied.deployment);
            json["status"] = found.map(deployment::json).unwrap_or_default();
            json["replicas"] = status.replicas.iter().map(replica::json).collect();
        }
        json
    }

    fn text(&self, _: &Frame) -> String {
        let ApplyResponse { deployment, revision, change, .. } = self.applied;
        let Some(status) = self.status else {
            return format!("{deployment} revision {revision} {change}; the cluster works on it\n");
        };
        let replicas = crate::error::count(status.replicas.len(), "replica");
        format!("{deployment} revision {revision} {change}: {replicas} running\n")
    }
}
