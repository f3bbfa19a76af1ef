//! `jaco node`

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    NodeInfo, RemoveNodeRequest, SetAvailabilityRequest, SetLabelsRequest, StatusRequest,
    StatusResponse,
};
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
    #[command(after_long_help = "Examples:
  jaco node drain n2
  jaco node drain n2 --detach     jaco status -w shows it move
  jaco node drain n2 --cancel     what has not moved stays")]
    Drain {
        /// Its host name
        node: String,
        /// Call a drain off: what has not moved stays, what has moved stays where it is now
        #[arg(long, conflicts_with_all = ["detach", "timeout"])]
        cancel: bool,
        /// Return as soon as the cluster has agreed
        #[arg(long)]
        detach: bool,
        /// How long it may take; after that it is called off, and what is still there stays
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = when::duration)]
        timeout: Duration,
    },
    /// Give a node labels, or take some back
    ///
    /// Services choose nodes by labels: selectors, constraints, affinities, spread. What is given here
    /// wins over the labels in the node's jacod.yaml; taken back, the node's own shows again. No
    /// replica is moved by it.
    #[command(after_long_help = "Examples:
  jaco node label n1 zone=a disk=ssd
  jaco node label n1 disk-               take it back")]
    Label {
        /// Its host name
        node: String,
        /// A label with its value, or a label and `-` to take it back
        #[arg(required = true, value_name = "KEY=VALUE|KEY-")]
        labels: Vec<String>,
    },
    /// Drain a node and take it out of the cluster
    Remove {
        /// Its host name
        node: String,
        /// Do not wait for its replicas to be elsewhere: for a node that is lost
        #[arg(long)]
        force: bool,
        /// How long its replicas may take to be elsewhere; after that the node stays, with what is on it
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
        What::Drain { node, cancel: true, .. } => cancel(context, &node).await,
        What::Drain { node, detach: true, .. } => {
            set(context, &node, Availability::Draining).await?;
            done(context, &node, "draining")
        }
        What::Drain { node, timeout, .. } => {
            drain(context, &node, timeout).await?;
            done(context, &node, "drained")
        }
        What::Label { node, labels } => {
            let (set, unset) = labels_of(&labels)?;
            let request_id = fresh_request_id();
            let request = SetLabelsRequest { hostname: node.clone(), set, unset, request_id };
            let labels = context.client()?.set_labels(request).await?.labels;
            let labels: BTreeMap<_, _> = labels.into_iter().collect();
            let words: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let json = json!({ "node": node, "labels": labels, "outcome": "labelled" });
            let text = format!("{node}: {}\n", words.join(" "));
            context.done(&Said { json, text })
        }
        What::Remove { node, force, timeout } => {
            if !force {
                drain(context, &node, timeout).await?;
            }
            let request_id = fresh_request_id();
            let request = RemoveNodeRequest { hostname: node.clone(), force, request_id };
            context.client()?.remove_node(request).await?;
            done(context, &node, "removed")
        }
    }
}

/// Reads `zone=a` and `disk-`.
fn labels_of(words: &[String]) -> Result<(HashMap<String, String>, Vec<String>), CliError> {
    let (mut set, mut unset) = (HashMap::new(), Vec::new());
    for word in words {
        match (word.split_once('='), word.strip_suffix('-')) {
            (Some((key, value)), _) => {
                if set.insert(key.to_owned(), value.to_owned()).is_some() {
                    let message = format!("label {key} is given twice");
                    return Err(CliError::usage(message, "leave out one of them"));
                }
            }
            (None, Some(key)) if !key.is_empty() => unset.push(key.to_owned()),
            (None, _) => {
                let message = format!("{word:?} is no label");
                return Err(CliError::usage(message, "write KEY=VALUE, or KEY- to take it back"));
            }
        }
    }
    Ok((set, unset))
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

/// Calls a drain off. A node that is not draining stays as it is: one that was cordoned for a reason of
/// its own does not get replicas by it.
async fn cancel(context: &mut Context, name: &str) -> Done {
    let request = StatusRequest { linearizable: true, ..StatusRequest::default() };
    let status = context.client()?.overview(request).await?;
    let idle = find(&status, name).filter(|it| it.availability != Availability::Draining.as_str());
    if let Some(node) = idle {
        let json = json!({ "node": name, "outcome": node.availability });
        let text = format!("{name} is not being drained: {}\n", node.availability);
        return context.done(&Said { json, text });
    }
    // A name that no node has is refused by the cluster, with the names there are.
    set(context, name, Availability::Active).await?;
    done(context, name, "active")
}

/// How a drained node ends its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Empty,
    Gone,
    /// Somebody called the drain off.
    CalledOff,
}

/// Drains a node and waits for it. One that is not empty in time is what it was before: what is still
/// on it stays and serves, and what has moved is not moved back.
async fn drain(context: &mut Context, name: &str, limit: Duration) -> Result<(), CliError> {
    let request = StatusRequest { linearizable: true, ..StatusRequest::default() };
    let status = context.client()?.overview(request).await?;
    let was = find(&status, name).map(|node| node.availability.clone());
    set(context, name, Availability::Draining).await?;
    let before = [Availability::Active, Availability::Cordoned]
        .into_iter()
        .find(|each| was.as_deref() == Some(each.as_str()));
    wait_until_empty(context, name, limit, before).await
}

async fn wait_until_empty(
    context: &mut Context,
    name: &str,
    limit: Duration,
    before: Option<Availability>,
) -> Result<(), CliError> {
    // What was just agreed on must be in what is read, whichever node answers.
    let request = StatusRequest { linearizable: true, ..StatusRequest::default() };
    let agreed = context.client()?.overview(request).await?;
    let request = StatusRequest { min_index: agreed.raft_index, ..StatusRequest::default() };
    let lines = |status: &StatusResponse| lines(status, name);
    let summary =
        |status: &StatusResponse| find(status, name).map_or_else(String::new, what_is_left);
    let waiting = Wait { request, limit: Some(limit), lines: &lines, summary: &summary };
    let ended = wait(context, waiting, |status| match find(status, name) {
        None => Step::Done(End::Gone),
        Some(node) if node.availability != Availability::Draining.as_str() => {
            Step::Done(End::CalledOff)
        }
        Some(node) if node.replicas == 0 && node.ending == 0 => Step::Done(End::Empty),
        Some(_) => Step::Wait,
    });
    let help = format!("jaco node drain {name} --cancel calls it off");
    match ended.await? {
        Ended::Reached(End::Empty) => Ok(()),
        Ended::Reached(End::Gone) => Err(CliError::Refused {
            code: ErrorCode::NodeNotFound,
            message: format!("{name} was removed by somebody else"),
            help: None,
        }),
        Ended::Reached(End::CalledOff) => Err(CliError::Outcome {
            code: ErrorCode::CalledOff,
            message: format!("the drain of {name} was called off by somebody else"),
            because: Vec::new(),
            help: vec!["jaco audit shows by whom".to_owned()],
        }),
        Ended::TimedOut(last) => {
            let because = last.as_ref().map(lines).unwrap_or_default();
            let help = match before {
                Some(before) => {
                    set(context, name, before).await?;
                    let now = before.as_str();
                    vec![format!("the drain was called off: {name} is {now}, what is on it stays")]
                }
                // Somebody else was draining it before.
                None => vec!["the drain goes on in the cluster".to_owned(), help],
            };
            Err(CliError::Outcome {
                code: ErrorCode::TimedOut,
                message: format!("{name} is not empty after {}", when::elapsed(limit)),
                because,
                help,
            })
        }
        Ended::Interrupted => Err(CliError::Interrupted {
            message: format!("\nThe drain goes on in the cluster; {help}."),
        }),
    }
}

fn find<'s>(status: &'s StatusResponse, name: &str) -> Option<&'s NodeInfo> {
    status.nodes.iter().find(|node| node.hostname == name)
}

fn what_is_left(node: &NodeInfo) -> String {
    let replicas = count(node.replicas as usize, "replica");
    let ending = match node.ending {
        0 => String::new(),
        ending => format!(", {} to stop and remove", count(ending as usize, "container")),
    };
    format!("{}: {replicas} left{ending}", node.hostname)
}

/// How many are left, and who is on the way.
fn lines(status: &StatusResponse, name: &str) -> Vec<String> {
    let Some(node) = find(status, name) else { return Vec::new() };
    let mut lines = vec![what_is_left(node)];
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
