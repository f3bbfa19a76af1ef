//! `jaco status`

use jaco_proto::v1::{StatusRequest, StatusResponse};
use jaco_types::ErrorCode;

use super::{Context, Done};
use crate::error::CliError;
use crate::progress;
use crate::ui::{Format, Show, Stream};
use crate::view::status::Status;
use crate::wait::Watcher;
use crate::when;

/// Show deployments, replicas and nodes
///
/// Any node answers, from what it knows. With --watch a terminal is redrawn after each change; a pipe
/// gets one line per change, and one JSON object per change with -o json.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco status                  everything
  jaco status shop/web         one service
  jaco status shop -w          until Ctrl-C
  jaco status -o json | jq -r '.replicas[] | select(.state != \"running\") | .id'")]
pub(crate) struct Args {
    /// Only this deployment, or this service of it
    #[arg(value_name = "DEPLOYMENT[/SERVICE]")]
    of: Option<String>,
    /// Go on showing changes
    #[arg(short, long)]
    watch: bool,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let request = request(args.of.as_deref());
    if args.watch {
        return watch(context, request).await;
    }
    let status = context.client()?.overview(request.clone()).await?;
    check_found(&request, &status)?;
    context.done(&Status(&status))
}

/// What is asked about: `dep` or `dep/svc`.
fn request(of: Option<&str>) -> StatusRequest {
    let (deployment, service) =
        of.map(|of| of.split_once('/').unwrap_or((of, ""))).unwrap_or_default();
    StatusRequest {
        deployment: deployment.to_owned(),
        service: service.to_owned(),
        ..StatusRequest::default()
    }
}

/// Who names something wants to see it: nothing at all is an error, not an empty table.
fn check_found(request: &StatusRequest, status: &StatusResponse) -> Result<(), CliError> {
    let refused = |code, message| Err(CliError::Refused { code, message, help: None });
    let name = &request.deployment;
    if name.is_empty() {
        return Ok(());
    }
    let found = status.deployments.iter().find(|found| found.name == *name);
    let leaving = status.replicas.iter().any(|replica| replica.deployment == *name);
    let Some(found) = found else {
        if leaving {
            return Ok(());
        }
        let message = format!("there is no deployment {name}");
        return refused(ErrorCode::DeploymentNotFound, message);
    };
    let service = &request.service;
    if !service.is_empty() && found.services.iter().all(|known| known.name != *service) {
        let message = format!("{name} has no service {service}");
        return refused(ErrorCode::ServiceNotFound, message);
    }
    Ok(())
}

async fn watch(context: &mut Context, request: StatusRequest) -> Done {
    let client = context.client()?;
    let mut watcher = Watcher::new(&client, request);
    let mut before = Vec::new();
    loop {
        let status = watcher.next().await?;
        let shown = match context.ui.format() {
            Format::Json | Format::Yaml => context.ui.item(&Status(&status)),
            Format::Table | Format::Wide if context.ui.is_terminal(Stream::Out) => {
                let text = Status(&status).text(&context.ui.frame());
                let lines: Vec<String> = text.lines().map(str::to_owned).collect();
                context.ui.draw(Stream::Out, &lines)
            }
            Format::Table | Format::Wide => {
                let now = picture(&status);
                let changes = changes(&before, &now);
                before = now;
                let at = when::rfc3339(when::now_ms()).unwrap_or_default();
                let text: String = changes.iter().map(|line| format!("{at} {line}\n")).collect();
                context.ui.raw(&text)
            }
        };
        shown.map_err(CliError::Output)?;
    }
}

/// Everything that can change: what it is, and how it is.
type Picture = Vec<(String, String)>;

/// What differs between two pictures, one line per thing, in the order of the second; what is gone
/// comes last.
fn changes(before: &Picture, now: &Picture) -> Vec<String> {
    let changed = now.iter().filter(|thing| !before.contains(thing));
    let gone = before.iter().filter(|(what, _)| now.iter().all(|(still, _)| still != what));
    let changed = changed.map(|(what, how)| format!("{what}: {how}"));
    changed.chain(gone.map(|(what, _)| format!("{what}: gone"))).collect()
}

fn picture(status: &StatusResponse) -> Picture {
    let mut picture = Picture::new();
    for deployment in &status.deployments {
        let name = &deployment.name;
        let how = format!("revision {}, {}", deployment.revision, deployment.status);
        picture.push((format!("deployment {name}"), how));
        picture.extend(deployment.services.iter().map(|service| {
            let how = progress::service_text(status, deployment, service);
            (format!("service {name}/{}", service.name), how)
        }));
    }
    picture.extend(status.replicas.iter().map(|replica| {
        let reason = progress::reason(replica);
        let reason = if reason.is_empty() { reason } else { format!(", {reason}") };
        let how = format!("{} on {}{reason}", replica.state, replica.node);
        (format!("replica {}", replica.id), how)
    }));
    picture.extend(status.nodes.iter().map(|node| {
        let mut how = format!("{}, {}, {}", node.status, node.availability, node.suffrage);
        if !node.status_reason.is_empty() {
            how.push_str(", ");
            how.push_str(&node.status_reason);
        }
        (format!("node {}", node.hostname), how)
    }));
    picture
}
