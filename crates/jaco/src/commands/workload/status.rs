//! `jaco status`

use std::io::Read;
use std::time::Duration;

use jaco_proto::v1::{StatusRequest, StatusResponse};
use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;

use crate::error::CliError;
use crate::format::time;
use crate::output::terminal::TerminalMode;
use crate::output::{Format, Show, Stream};
use crate::session::wait::Watcher;
use crate::session::{CommandResult, Session};
use crate::view::status::Status;
use crate::view::{progress, reason};

/// Show deployments, replicas and nodes
///
/// Any node answers from its own copy of the state. With --watch a terminal is redrawn after each
/// change and every second, until q or Ctrl-C; a pipe gets one line per change, or with -o json one object
/// per change.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco status                  everything
  jaco status shop/web         one service
  jaco status shop -w          until Ctrl-C
  jaco status shop --at 1204   as it was at this index of the log; jaco audit shows indices
  jaco status -o json | jq -r '.replicas[] | select(.state != \"running\") | .id'")]
pub(crate) struct Args {
    /// Only this deployment, or this service of it
    #[arg(value_name = "DEPLOYMENT[/SERVICE]")]
    of: Option<String>,
    /// Follow changes
    #[arg(short, long)]
    watch: bool,
    /// The state as it was at this index of the log, for as long as the node has that in its log
    #[arg(
        long,
        value_name = "INDEX",
        conflicts_with = "watch",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    at: Option<u64>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    session.shows_age();
    let request = request(args.of.as_deref(), args.at)?;
    if args.watch {
        return watch(session, request).await;
    }
    let status = session.client()?.read_status(request.clone()).await?;
    check_at(&request, &status)?;
    check_found(&request, &status)?;
    session.done(&Status(&status))
}

/// The request for `dep` or `dep/svc`.
///
/// # Errors
/// If one of the names is empty: it would mean all.
fn request(of: Option<&str>, at: Option<u64>) -> Result<StatusRequest, CliError> {
    let (deployment, service) = match of.map(|of| (of, of.split_once('/'))) {
        None => ("", ""),
        Some((of, None)) => (of, ""),
        Some((of, Some((deployment, service)))) => {
            if deployment.is_empty() || service.is_empty() {
                let message = format!("{of} names no deployment and service");
                return Err(CliError::usage(message, "write DEPLOYMENT or DEPLOYMENT/SERVICE"));
            }
            (deployment, service)
        }
    };
    Ok(StatusRequest {
        deployment: deployment.to_owned(),
        service: service.to_owned(),
        at_index: at.unwrap_or_default(),
        ..StatusRequest::default()
    })
}

/// Refuses the state of now of a node that does not know what an index is.
fn check_at(request: &StatusRequest, status: &StatusResponse) -> Result<(), CliError> {
    if request.at_index == 0 || status.past.is_some() {
        return Ok(());
    }
    let message = format!(
        "{} runs a version that shows the state of now only: upgrade it, or ask another node with --server",
        status.answered_by
    );
    Err(CliError::Refused { code: ErrorCode::MembersOutdated, message, help: None })
}

/// Refuses a name that does not exist: an empty table would look like a result.
fn check_found(request: &StatusRequest, status: &StatusResponse) -> Result<(), CliError> {
    let refused = |code, message| Err(CliError::Refused { code, message, help: None });
    let name = &request.deployment;
    if name.is_empty() {
        return Ok(());
    }
    let found = status.deployments.iter().find(|found| found.name == *name);
    let has_replicas = status.replicas.iter().any(|replica| replica.deployment == *name);
    let Some(found) = found else {
        if has_replicas {
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

/// Everything, and what changes, until Ctrl-C.
pub(super) async fn follow(session: &mut Session) -> CommandResult {
    session.shows_age();
    watch(session, StatusRequest::default()).await
}

async fn watch(session: &mut Session, request: StatusRequest) -> CommandResult {
    let for_people = matches!(session.ui.format(), Format::Table | Format::Wide);
    if for_people && session.ui.is_terminal(Stream::Out) {
        return watch_on_terminal(session, request).await;
    }
    let client = session.client()?;
    let mut watcher = Watcher::new(&client, request);
    let mut before = Snapshot::default();
    loop {
        let status = watcher.next().await?;
        let shown = match session.ui.format() {
            Format::Json | Format::Yaml => session.ui.item(&Status(&status)),
            Format::Table | Format::Wide => {
                let now = Snapshot::of(&status);
                let changes = now.changes_since(&before);
                before = now;
                let at = time::rfc3339(time::now_ms()).unwrap_or_default();
                let text: String = changes.iter().map(|line| format!("{at} {line}\n")).collect();
                session.ui.raw(&text)
            }
        };
        shown.map_err(CliError::Output)?;
    }
}

/// Redraws the status after each change, and every second for the clock and the ages.
async fn watch_on_terminal(session: &mut Session, request: StatusRequest) -> CommandResult {
    let client = session.client()?;
    let mut watcher = Watcher::new(&client, request);
    let has_keys = session.ui.has_keys();
    // Restored when the command ends. Without it, keys work only after Enter.
    let _keys = has_keys.then(|| TerminalMode::keys(std::io::stdin()));
    let mut quit = std::pin::pin!(quit_key(has_keys));
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let mut last: Option<StatusResponse> = None;
    loop {
        // Not begun anew at each tick: it gives up by itself where no node answers any more.
        let mut next = std::pin::pin!(watcher.next());
        let status = loop {
            tokio::select! {
                biased;
                () = &mut quit => {
                    session.ui.keep_drawing();
                    return Ok(ExitCode::Converged);
                }
                status = &mut next => break status?,
                _ = tick.tick() => {}
            }
            if let Some(status) = &last {
                draw(session, status)?;
            }
        };
        draw(session, &status)?;
        last = Some(status);
    }
}

fn draw(session: &mut Session, status: &StatusResponse) -> Result<(), CliError> {
    let frame = session.ui.frame();
    let clock = time::rfc3339(frame.now_ms).unwrap_or_default();
    let mut lines = vec![format!("{clock}   q quits"), String::new()];
    lines.extend(Status(status).text(&frame).lines().map(str::to_owned));
    session.ui.draw(Stream::Out, &lines).map_err(CliError::Output)
}

/// Completes when the user presses `q`; never without a terminal.
async fn quit_key(has_keys: bool) {
    let (pressed, quit) = tokio::sync::oneshot::channel();
    if has_keys {
        // A thread of its own: it may wait for a key when the command ends.
        std::thread::spawn(move || {
            let mut keys = std::io::stdin().lock().bytes();
            if keys.any(|key| matches!(key, Ok(b'q' | b'Q'))) {
                pressed.send(()).ok();
            }
        });
    }
    if quit.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The state of each object, as one line each.
#[derive(Default)]
struct Snapshot(Vec<ObjectState>);

#[derive(PartialEq, Eq)]
struct ObjectState {
    /// `replica shop-web-0`
    object: String,
    /// `running on n1`
    state: String,
}

impl Snapshot {
    fn of(status: &StatusResponse) -> Self {
        let mut states = Vec::new();
        let mut add = |object: String, state: String| states.push(ObjectState { object, state });
        if let Some(staleness) = &status.staleness {
            add(format!("node {}", status.answered_by), staleness.reason.clone());
        }
        for deployment in &status.deployments {
            let name = &deployment.name;
            let state = format!("revision {}, {}", deployment.revision, deployment.status);
            add(format!("deployment {name}"), state);
            for service in &deployment.services {
                let state = progress::service_text(status, deployment, service);
                add(format!("service {name}/{}", service.name), state);
            }
        }
        for replica in &status.replicas {
            let reason = reason::of_replica(replica);
            let reason = if reason.is_empty() { reason } else { format!(", {reason}") };
            let state = format!("{} on {}{reason}", replica.state, replica.node);
            add(format!("replica {}", replica.id), state);
        }
        for node in &status.nodes {
            let mut state = format!("{}, {}, {}", node.status, node.availability, node.suffrage);
            if !node.status_reason.is_empty() {
                state.push_str(", ");
                state.push_str(&node.status_reason);
            }
            add(format!("node {}", node.hostname), state);
        }
        Self(states)
    }

    /// One line per object that has changed, in the order of this snapshot; removed objects come last.
    fn changes_since(&self, before: &Self) -> Vec<String> {
        let changed = self.0.iter().filter(|object| !before.0.contains(object));
        let is_removed =
            |old: &&ObjectState| self.0.iter().all(|object| object.object != old.object);
        let removed = before.0.iter().filter(is_removed);
        let changed = changed.map(|one| format!("{}: {}", one.object, one.state));
        changed.chain(removed.map(|one| format!("{}: removed", one.object))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-7: a name from a variable that is not set means neither all nor none.
    #[test]
    fn names_with_an_empty_part_are_refused() {
        let named = |of| request(of, None).map(|it| (it.deployment, it.service)).ok();
        let names =
            |deployment: &str, service: &str| Some((deployment.to_owned(), service.to_owned()));
        assert_eq!(named(None), names("", ""));
        assert_eq!(named(Some("shop")), names("shop", ""));
        assert_eq!(named(Some("shop/web")), names("shop", "web"));
        for empty in ["/web", "shop/", "/"] {
            assert_eq!(named(Some(empty)), None, "{empty}");
        }
    }
}
