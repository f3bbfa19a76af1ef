//! `jaco node`

mod drain;
mod facts;
mod labels;
mod leave;

use jaco_client::fresh_request_id;
use jaco_proto::v1::RemoveNodeRequest;
use jaco_types::{Availability, ErrorCode};
use serde_json::json;

use self::drain::Limits;
pub(super) use self::leave::{Leave, leave};
use crate::commands::workload::get::{show_node, show_nodes};
use crate::deploy::whatif::whatif;
use crate::error::CliError;
use crate::session::wait::interrupted;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// Manage nodes
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco node ls
  jaco node drain n2
  jaco node label n1 zone=a")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the nodes
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco node ls
  jaco node ls -o wide"
    )]
    Ls,
    /// Show one node
    #[command(
        aliases = ["inspect", "show"],
        after_long_help = "Examples:
  jaco node get n1
  jaco node get n1 -o json"
    )]
    Get {
        /// The node's host name
        node: String,
    },
    /// Exclude a node from new placements
    ///
    /// Replicas on the node stay there. `jaco node uncordon` reverts it.
    #[command(after_long_help = "Examples:
  jaco node cordon n2")]
    Cordon {
        /// The node's host name
        node: String,
    },
    /// Include a node in new placements again
    ///
    /// Ends a cordon or a drain. Replicas that were moved are not moved back.
    #[command(after_long_help = "Examples:
  jaco node uncordon n2")]
    Uncordon {
        /// The node's host name
        node: String,
    },
    /// Drain nodes: move their replicas to other nodes
    ///
    /// Each replica starts on another node before it stops here, and none moves to another of these nodes.
    /// Replicas that cannot move are listed first. Drained nodes get no new replicas until `jaco node
    /// uncordon`.
    #[command(after_long_help = "Examples:
  jaco node drain n2
  jaco node drain n2 n3
  jaco node drain n2 --dry-run    what would move where, and what could not move
  jaco node drain n2 --detach     follow it with jaco status -w
  jaco node drain n2 --cancel     replicas that have not moved stay")]
    Drain {
        /// The nodes' host names
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
        /// Cancel the drain: replicas stay where they are now
        #[arg(long, conflicts_with_all = ["detach", "dry_run", "timeout", "replica_timeout"])]
        cancel: bool,
        /// Return as soon as the cluster has accepted the change
        #[arg(long, conflicts_with = "dry_run")]
        detach: bool,
        /// Print the plan; change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        limits: Limits,
    },
    /// Show the hardware of nodes and the capacity they declare
    ///
    /// Hardware is detected when the daemon starts; capacity is declared in its jacod.yaml. With
    /// --generate, the output is a `capacity:` block for jacod.yaml.
    #[command(after_long_help = "Examples:
  jaco node facts
  jaco node facts n1 -o json
  jaco node facts n1 --generate >> /etc/jaco/jacod.yaml")]
    Facts {
        /// The node's host name [default: all nodes]
        node: Option<String>,
        /// Print a `capacity:` block for jacod.yaml, one per node
        #[arg(long)]
        generate: bool,
    },
    /// Set or remove labels of a node
    ///
    /// Placement selects nodes by labels: selectors, constraints, affinities, spread. Labels set here
    /// override those in the node's jacod.yaml; removing one restores the node's own. Replicas that are
    /// placed are not moved.
    #[command(
        alias = "set",
        after_long_help = "Examples:
  jaco node label n1 zone=a disk=ssd
  jaco node label n1 disk-               remove the label"
    )]
    Label {
        /// The node's host name
        node: String,
        /// A label with its value, or a label followed by `-` to remove it
        #[arg(required = true, value_name = "KEY=VALUE|KEY-")]
        labels: Vec<String>,
    },
    /// Drain a node and remove it from the cluster
    ///
    /// The node is removed when its replicas have moved and its containers are removed.
    #[command(
        visible_alias = "remove",
        alias = "delete",
        after_long_help = "Examples:
  jaco node rm n2
  jaco node rm n2 --dry-run   what would move where, and what could not move
  jaco node rm n2 --force     the node is lost: do not drain it"
    )]
    Rm {
        /// The node's host name
        node: String,
        /// Remove the node without draining it, for a node that is lost
        #[arg(long, conflicts_with_all = ["dry_run", "timeout", "replica_timeout"])]
        force: bool,
        /// Print the plan; change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        limits: Limits,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    tokio::select! {
        biased;
        done = dispatch(session, args.action) => done,
        () = interrupted() => Err(CliError::Interrupted { message: String::new() }),
    }
}

async fn dispatch(session: &mut Session, action: Action) -> CommandResult {
    match action {
        Action::Ls => show_nodes(session).await,
        Action::Get { node } => show_node(session, &node).await,
        Action::Cordon { node } => {
            drain::set(session, &node, Availability::Cordoned).await?;
            done(session, &[node], "cordoned")
        }
        Action::Uncordon { node } => {
            drain::set(session, &node, Availability::Active).await?;
            done(session, &[node], "active")
        }
        Action::Drain { nodes, cancel: true, .. } => drain::cancel(session, &nodes).await,
        Action::Drain { nodes, dry_run: true, .. } => preview(session, nodes).await,
        Action::Drain { nodes, detach: true, limits, .. } => {
            drain::begin(session, &nodes, &limits).await?;
            done(session, &nodes, "draining")
        }
        Action::Drain { nodes, limits, .. } => {
            let left = drain::drain(session, &nodes, &limits).await?;
            drained(session, &nodes, &left)
        }
        Action::Facts { node, generate } => facts::run(session, node, generate).await,
        Action::Label { node, labels } => labels::run(session, node, &labels).await,
        Action::Rm { node, dry_run: true, .. } => preview(session, vec![node]).await,
        Action::Rm { node, force, limits, .. } => {
            if !force {
                require_another(session, &node).await?;
                let left = drain::drain(session, std::slice::from_ref(&node), &limits).await?;
                if !left.is_empty() {
                    return Err(has_data(&node, &left));
                }
            }
            remove(session, &node, force).await?;
            done(session, &[node], "removed")
        }
    }
}

/// Removes a node from the cluster.
async fn remove(session: &mut Session, node: &str, force: bool) -> Result<(), CliError> {
    let request_id = fresh_request_id();
    let request = RemoveNodeRequest { hostname: node.to_owned(), force, request_id, node_id: 0 };
    session.client()?.remove_node(request).await?;
    Ok(())
}

/// Refuses to empty the only node, which cannot be removed afterwards.
async fn require_another(session: &mut Session, node: &str) -> Result<(), CliError> {
    let status = session.client()?.read_status(drain::nodes_now()).await?;
    let is_last = matches!(status.nodes.as_slice(), [only] if only.hostname == node);
    if !is_last {
        return Ok(());
    }
    Err(CliError::Refused {
        code: ErrorCode::NodeNotRemovable,
        message: format!("{node} is the last node of the cluster and cannot be removed"),
        help: Some(
            "stop its daemon; `jacod reset` ends the cluster with all that it has".to_owned(),
        ),
    })
}

/// A node that was emptied but for its data is not removed.
fn has_data(node: &str, left: &[String]) -> CliError {
    CliError::Outcome {
        code: ErrorCode::NodeNotRemovable,
        message: format!(
            "{node} is draining and was not removed: it has the data of {}",
            left.join(", ")
        ),
        because: Vec::new(),
        help: vec![
            format!("jaco node rm {node} --force removes it; its data is not used any more then"),
            format!("jaco node drain {node} --cancel keeps it"),
        ],
    }
}

/// Says which nodes were drained, and what stays there.
fn drained(session: &mut Session, nodes: &[String], left: &[String]) -> CommandResult {
    if left.is_empty() {
        return done(session, nodes, "drained");
    }
    let json = match nodes {
        [node] => json!({ "node": node, "outcome": "drained", "left": left }),
        nodes => json!({ "nodes": nodes, "outcome": "drained", "left": left }),
    };
    let names = nodes.join(", ");
    let text = format!("{names} drained but for {}, whose data is there\n", left.join(", "));
    session.done(&Summary { json, text })
}

/// Prints what a drain would move and what could not move.
async fn preview(session: &mut Session, nodes: Vec<String>) -> CommandResult {
    let plan = whatif(session, drain::request(nodes)).await?;
    session.done(&plan)
}

fn done(session: &mut Session, nodes: &[String], outcome: &str) -> CommandResult {
    let json = match nodes {
        [node] => json!({ "node": node, "outcome": outcome }),
        nodes => json!({ "nodes": nodes, "outcome": outcome }),
    };
    let text = nodes.iter().map(|node| format!("{node} {outcome}\n")).collect();
    session.done(&Summary { json, text })
}
