//! `jaco apply`

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ApplyRequest, ApplyResponse, PlannedChange, StatusRequest, StatusResponse};
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::manifest::{Manifest, ManifestArgs};
use crate::progress::{self, Failure, Verdict};
use crate::table::Table;
use crate::ui::{Frame, Show};
use crate::view::{deployment, replica};
use crate::wait::{Ended, Step, Wait, wait};
use crate::when;

/// How long "cannot place" must stand still before it is taken for an answer: a plan in the making
/// passes through it.
const STUCK_FOR: Duration = Duration::from_secs(2);

/// Make the cluster run what a compose file says
///
/// Sends the compose file, and jaco.yaml where there is one, and waits until the cluster runs it. All
/// problems of the files are listed at once, and nothing is changed if there is one. Ctrl-C and
/// --timeout end the waiting, never the work.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco apply                                    the compose file of this folder
  jaco apply shop/compose.yaml                  that file, and nothing beside it
  jaco apply -f compose.yaml -f compose.prod.yaml
  jaco apply --dry-run -o json                  what would happen, for programs
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
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let manifest = Manifest::checked(&args.manifest)?;
    if !manifest.warnings.is_empty() {
        context.ui.note(&format!("{}\n", manifest.warnings));
    }
    let request = ApplyRequest {
        compose_json: manifest.project.model().to_string(),
        overlay_yaml: manifest.overlay_text,
        deployment: manifest.project.name().to_owned(),
        request_id: fresh_request_id(),
        dry_run: args.dry_run,
    };
    let known: Vec<&str> =
        manifest.warnings.list.iter().map(|problem| problem.message.as_str()).collect();
    let then = if args.detach { Then::Return } else { Then::Wait(args.timeout) };
    submit(context, request, &known, then).await
}

/// What follows once the cluster has agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Wait until it has converged, at most this long.
    Wait(Duration),
    /// Nothing.
    Return,
}

/// Sends a change and waits for what becomes of it. Warnings that are `known` are not repeated.
pub(super) async fn submit(
    context: &mut Context,
    request: ApplyRequest,
    known: &[&str],
    then: Then,
) -> Done {
    let dry_run = request.dry_run;
    let applied = context.client()?.apply(request).await?;
    // The cluster checks the same again; what it adds is worth saying.
    for warning in applied.warnings.iter().filter(|warning| !known.contains(&warning.as_str())) {
        context.ui.note(&format!("warning: {warning}"));
    }
    if dry_run {
        return context.done(&DryRun(&applied));
    }
    let name = &applied.deployment;
    context.ui.note(&format!("{name} revision {}: {}", applied.revision, applied.change));
    let Then::Wait(limit) = then else {
        return context.done(&Applied { applied: &applied, status: None });
    };
    let status = converge(context, &applied, limit).await?;
    context.done(&Applied { applied: &applied, status: Some(&status) })
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
                failure @ (Failure::Exhausted | Failure::RolledBack | Failure::Gone),
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
    let outcome = |label, exit, message: String, help| CliError::Outcome {
        label,
        exit,
        message,
        because,
        help,
    };
    match failure {
        Failure::Stuck => outcome(
            "cannot_place",
            ExitCode::CannotPlace,
            format!("not every replica of {name} can be placed as things stand"),
            vec![
                "they are placed as soon as a node can take them".to_owned(),
                look("; jaco node list shows the nodes"),
            ],
        ),
        Failure::RolledBack => outcome(
            "rolled_back",
            ExitCode::RolledBack,
            format!(
                "revision {} of {name} was rolled back; the one before it serves",
                applied.revision
            ),
            vec![logs_hint(status, name), "apply again once the cause is gone".to_owned()],
        ),
        Failure::Exhausted => outcome(
            "restart_exhausted",
            ExitCode::Unexpected,
            format!("a replica of {name} failed too often and is left alone"),
            vec![logs_hint(status, name), "apply again once the cause is gone".to_owned()],
        ),
        Failure::Gone => outcome(
            "deployment_not_found",
            ExitCode::Rejected,
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
        label: "timed_out",
        exit: ExitCode::TimedOut,
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

/// What an apply would lead to.
struct DryRun<'a>(&'a ApplyResponse);

impl Show for DryRun<'_> {
    fn json(&self) -> Value {
        let change = |change: &PlannedChange| {
            json!({
                "action": change.action,
                "replica": change.replica,
                "node": change.node,
                "reason": change.reason,
            })
        };
        json!({
            "deployment": self.0.deployment,
            "revision": self.0.revision,
            "change": self.0.change,
            "warnings": self.0.warnings,
            "planned": self.0.planned.iter().map(change).collect::<Value>(),
            "outcome": "dry_run",
        })
    }

    fn text(&self, _: &Frame) -> String {
        let ApplyResponse { deployment, revision, change, planned, .. } = self.0;
        let head =
            format!("{deployment} revision {revision} would be {change}; nothing was changed\n");
        if planned.is_empty() {
            return head;
        }
        let mut table = Table::new(&["ACTION", "REPLICA", "NODE", "REASON"]);
        for change in planned {
            let PlannedChange { action, replica, node, reason } = change.clone();
            table.row([action, replica, node, reason]);
        }
        format!("{head}\n{}", table.render())
    }
}
