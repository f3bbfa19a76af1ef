//! How a process of the edge is replaced without a lost request: the program that is installed now is started beside
//! it, gets copies of all listeners, and takes what comes; this one finishes what it has, and says until then with whom.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::Context;
use jaco_dataplane::edge::ListenerKey;
use jaco_edge::service::{EdgeClient, EdgeReport};
use jaco_edge::{Edge, Succession};
use jaco_process::EdgeArgs;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{error, info, warn};

use crate::stop::Stop;

/// How long the successor may take until it serves.
const START_LIMIT: Duration = Duration::from_secs(15);

/// How long requests in flight, downloads and WebSockets may go on in the process that was replaced.
const DRAIN_LIMIT: Duration = Duration::from_secs(3600);

/// Pause between looks at the successor.
const POLL: Duration = Duration::from_millis(20);

/// What came of starting a successor.
pub(crate) enum Outcome {
    /// It serves, and this process has finished what it had.
    Replaced,
    /// There is none that serves: this process goes on.
    NotReplaced,
    /// This process was told to stop meanwhile, and may still have requests in flight.
    Stopped,
}

/// Has another process take the place of this one, and ends what this one still does.
pub(crate) async fn replace(edge: &Edge, args: &EdgeArgs, stop: &mut Stop) -> Outcome {
    let held = edge.status().borrow().listeners.clone();
    let mut successor = match start(args) {
        Ok(successor) => successor,
        Err(error) => {
            error!(error = format!("{error:#}"), "the edge cannot be replaced");
            return Outcome::NotReplaced;
        }
    };
    let served = tokio::select! {
        served = serves(&mut successor, &held) => served,
        () = stop.wanted() => {
            end(&mut successor);
            return Outcome::Stopped;
        }
    };
    if let Err(error) = served {
        error!(
            error = format!("{error:#}"),
            "the edge is not replaced: its successor does not serve"
        );
        end(&mut successor);
        return Outcome::NotReplaced;
    }
    info!(pid = successor.id(), "replaced; finishing what is in flight");
    // From here on the daemon starts another one, should the successor end.
    edge.note_succession(Succession::Done);
    let drained = tokio::select! {
        drained = edge.drain(DRAIN_LIMIT) => drained,
        () = stop.wanted() => return Outcome::Stopped,
    };
    if drained.cut > 0 {
        warn!(connections = drained.cut, "connections were cut");
    }
    Outcome::Replaced
}

/// Ends a successor that does not serve. It may have ended by itself.
fn end(successor: &mut Child) {
    let _ended = successor.kill().is_err();
    let _ended = successor.wait().is_err();
}

/// In this folder, this namespace and as this user: rights are not needed for it.
fn start(args: &EdgeArgs) -> anyhow::Result<Child> {
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let installed = program.filter(|path| path.is_absolute());
    let program = installed.map_or_else(std::env::current_exe, Ok).context("where am I?")?;
    let mut command = Command::new(&program);
    command.args(["edge", "--runtime-dir", "."]);
    command.args(["--log-level", &args.log_level, "--log-format", args.log_format.as_str()]);
    if let Some(one_in) = args.access_log {
        command.args(["--access-log", &one_in.to_string()]);
    }
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

/// Until the successor has a plan and the listeners that this process has.
async fn serves(successor: &mut Child, held: &BTreeSet<ListenerKey>) -> anyhow::Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    let is_ready =
        |report: &EdgeReport| report.applied.is_some() && held.is_subset(&report.listeners);
    loop {
        if let Some(status) = successor.try_wait()? {
            anyhow::bail!("it ended with {status}");
        }
        if let Ok(client) = EdgeClient::connect(Path::new(".")).await {
            let mut status = client.status();
            let ready = timeout_at(deadline, status.wait_for(is_ready)).await;
            if ready.is_ok_and(|ready| ready.is_ok()) {
                return Ok(());
            }
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "it has no plan or not all listeners after {} s",
            START_LIMIT.as_secs()
        );
        sleep(POLL).await;
    }
}
