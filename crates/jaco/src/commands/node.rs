//! `jaco node`

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    NodeInfo, RemoveNodeRequest, SetAvailabilityRequest, StatusRequest, StatusResponse,
};
use jaco_types::code::ExitCode;
use jaco_types::{Availability, ErrorCode};
use serde_json::json;

use super::{Context, Done};
use crate::error::{CliError, count};
use crate::view::{List, Said, node};
use crate::wait::{Ended, Step, Wait, interrupted, wait};
use crate::when;

/// List nodes, take them out of service and back
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the nodes
    List,
    /// Give a node no new replicas; it keeps those it has
    Cordon {
        /// Its host name
        node: String,
    },
    /// Give a node replicas again
    Uncordon {
        /// Its host name
        node: String,
    },
    /// Move all replicas away from a node and give it no new ones
    ///
    /// Each replica starts elsewhere before it stops here. `jaco node uncordon` takes it back.
    Drain {
        /// Its host name
        node: String,
        /// Return as soon as the cluster has agreed
        #[arg(long)]
        detach: bool,
        /// How long to wait
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = when::duration)]
        timeout: Duration,
    },
    /// Drain a node and take it out of the cluster
    Remove {
        /// Its host name
        node: String,
        /// Do not wait for its replicas to be elsewhere: for a node that is lost
        #[arg(long)]
        force: bool,
        /// How long to wait for its replicas to be elsewhere
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = when::duration)]
        timeout: Duration,
    },
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    tokio::select! {
        biased;
        done = dispatch(context, args.what) => done,
        () = interrupted() => Err(CliError::Interrupted { message: String::new() }),
    }
}

async fn dispatch(context: &mut Context, what: What) -> Done {
    match what {
        What::List => {
            let status = context.client()?.overview(StatusRequest::default()).await?;
            context.done(&List { items: &status.nodes, json: node::json, text: node::table })
        }
        What::Cordon { node } => {
            set(context, &node, Availability::Cordoned).await?;
            done(context, &node, "cordoned")
        }
        What::Uncordon { node } => {
            set(context, &node, Availability::Active).await?;
            done(context, &node, "active")
        }
        What::Drain { node, detach, timeout } => {
            set(context, &node, Availability::Draining).await?;
            if detach {
                return done(context, &node, "draining");
            }
            wait_until_empty(context, &node, timeout).await?;
            done(context, &node, "drained")
        }
        What::Remove { node, force, timeout } => {
            if !force {
                set(context, &node, Availability::Draining).await?;
                wait_until_empty(context, &node, timeout).await?;
            }
            let request_id = fresh_request_id();
            let request = RemoveNodeRequest { hostname: node.clone(), force, request_id };
            context.client()?.remove_node(request).await?;
            done(context, &node, "removed")
        }
    }
}

fn done(context: &mut Context, node: &str, outcome: &str) -> Done {
    let json = json!({ "node": node, "outcome": outcome });
    context.done(&Said { json, text: format!("{node} {outcome}\n") })
}

async fn set(
    context: &mut Context,
    node: &str,
    availability: Availability,
) -> Result<(), CliError> {
    let request = SetAvailabilityRequest {
        hostname: node.to_owned(),
        availability: availability.as_str().to_owned(),
        request_id: fresh_request_id(),
    };
    context.client()?.set_availability(request).await?;
    Ok(())
}

/// How a drained node ends its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Empty,
    Gone,
    /// Somebody called the drain off.
    CalledOff,
}

async fn wait_until_empty(
    context: &mut Context,
    name: &str,
    limit: Duration,
) -> Result<(), CliError> {
    // What was just agreed on must be in what is read, whichever node answers.
    let request = StatusRequest { linearizable: true, ..StatusRequest::default() };
    let agreed = context.client()?.overview(request).await?;
    let request = StatusRequest { min_index: agreed.raft_index, ..StatusRequest::default() };
    let lines = |status: &StatusResponse| lines(status, name);
    let summary = |status: &StatusResponse| {
        let left = find(status, name).map_or(0, |node| node.replicas);
        format!("{} left on {name}", count(left as usize, "replica"))
    };
    let waiting = Wait { request, limit: Some(limit), lines: &lines, summary: &summary };
    let ended = wait(context, waiting, |status| match find(status, name) {
        None => Step::Done(End::Gone),
        Some(node) if node.availability != Availability::Draining.as_str() => {
            Step::Done(End::CalledOff)
        }
        Some(node) if node.replicas == 0 => Step::Done(End::Empty),
        Some(_) => Step::Wait,
    });
    let help = format!("jaco node uncordon {name} calls it off");
    match ended.await? {
        Ended::Reached(End::Empty) => Ok(()),
        Ended::Reached(End::Gone) => Err(CliError::Refused {
            code: ErrorCode::NodeNotFound,
            message: format!("{name} was removed by somebody else"),
            help: None,
        }),
        Ended::Reached(End::CalledOff) => Err(CliError::Outcome {
            label: "called_off",
            exit: ExitCode::Unexpected,
            message: format!("the drain of {name} was called off by somebody else"),
            because: Vec::new(),
            help: vec!["jaco audit shows by whom".to_owned()],
        }),
        Ended::TimedOut(last) => Err(CliError::Outcome {
            label: "timed_out",
            exit: ExitCode::TimedOut,
            message: format!("{name} is not empty after {}", when::elapsed(limit)),
            because: last.as_ref().map(lines).unwrap_or_default(),
            help: vec!["the drain goes on in the cluster".to_owned(), help],
        }),
        Ended::Interrupted => Err(CliError::Interrupted {
            message: format!("\nThe drain goes on in the cluster; {help}."),
        }),
    }
}

fn find<'s>(status: &'s StatusResponse, name: &str) -> Option<&'s NodeInfo> {
    status.nodes.iter().find(|node| node.hostname == name)
}

/// How many are left, and who is on the way.
fn lines(status: &StatusResponse, name: &str) -> Vec<String> {
    let Some(node) = find(status, name) else { return Vec::new() };
    let mut lines = vec![format!("{name}: {} left", count(node.replicas as usize, "replica"))];
    for replica in &status.replicas {
        let leaving = replica.retiring.as_ref().is_some_and(|retiring| retiring.node == name);
        if leaving {
            lines.push(format!("  {} moves to {}: {}", replica.id, replica.node, replica.state));
        } else if replica.node == name {
            lines.push(format!("  {} waits", replica.id));
        }
    }
    lines
}
