//! `jaco cluster leave`

use std::time::Duration;

use jaco_proto::v1::ClusterStatusRequest;
use jaco_types::ErrorCode;
use serde_json::json;
use tokio::time::Instant;

use super::drain::{self, Limits};
use super::{has_data, preview, remove};
use crate::error::CliError;
use crate::session::wait::interrupted;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// How long the daemon may take to remove what is left of the node, and to end.
const END_LIMIT: Duration = Duration::from_secs(90);

/// How often it is looked whether it has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Drain this machine's node and take it out of its cluster
///
/// As `jaco node rm` of this node, and waits until its daemon has ended, which by then has removed the node's containers, its identity and
/// its log. Volumes stay on the machine. To use it again, start the daemon, and create or join a cluster.
///
/// The last node cannot leave: `jacod reset` ends its cluster.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco cluster leave
  jaco cluster leave --dry-run   what would move where, and what could not move")]
pub(crate) struct Leave {
    /// Print the plan; change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    limits: Limits,
}

pub(crate) async fn leave(session: &mut Session, args: Leave) -> CommandResult {
    session.require_own_node()?;
    tokio::select! {
        biased;
        left = run(session, args) => left,
        () = interrupted() => Err(CliError::Interrupted { message: String::new() }),
    }
}

async fn run(session: &mut Session, args: Leave) -> CommandResult {
    let status = session.client()?.status(ClusterStatusRequest {}).await?;
    let (node, cluster) = (status.answered_by, status.name);
    if args.dry_run {
        return preview(session, vec![node]).await;
    }
    if let [only] = status.nodes.as_slice() {
        return Err(CliError::Refused {
            code: ErrorCode::NodeNotRemovable,
            message: format!("{} is the last node of cluster {cluster}", only.hostname),
            help: Some(
                "stop its daemon; `jacod reset` ends the cluster with all that it has".to_owned(),
            ),
        });
    }
    let left = drain::drain(session, std::slice::from_ref(&node), &args.limits).await?;
    if !left.is_empty() {
        return Err(has_data(&node, &left));
    }
    remove(session, &node, false).await?;
    ended(session, &node).await?;
    let json = json!({ "node": node, "cluster": cluster, "outcome": "left" });
    let text = format!(
        "{node} has left cluster {cluster}; its daemon has ended. To use this machine again:\n  systemctl start jacod\n  jaco cluster \
         join HOST:PORT\n"
    );
    session.done(&Summary { json, text })
}

/// Waits until nobody answers at the daemon's socket any more.
async fn ended(session: &mut Session, node: &str) -> Result<(), CliError> {
    let client = session.client()?;
    let deadline = Instant::now() + END_LIMIT;
    loop {
        match client.status(ClusterStatusRequest {}).await {
            Ok(_) => {}
            // It answers, and refuses: it is about to end.
            Err(error) if error.rejection().is_some_and(|it| it.code != ErrorCode::Unavailable) => {
            }
            Err(_) => return Ok(()),
        }
        if Instant::now() >= deadline {
            return Err(CliError::Outcome {
                code: ErrorCode::TimedOut,
                message: format!(
                    "{node} is removed from the cluster, but its daemon has not ended"
                ),
                because: Vec::new(),
                help: vec!["its log says what it waits for: journalctl -u jacod".to_owned()],
            });
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
