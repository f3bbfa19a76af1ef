//! `jaco node`

mod drain;

use std::collections::{BTreeMap, HashMap};

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    NodeFactsInfo, NodeFactsRequest, RemoveNodeRequest, SetLabelsRequest, StatusRequest,
};
use jaco_types::{Availability, ErrorCode};
use serde_json::json;

use super::{Context, Done};
use crate::error::CliError;
use crate::view::{List, Said, machine, node};
use crate::wait::interrupted;
use drain::Limits;

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
    /// Move all replicas away from nodes and give them no new ones
    ///
    /// Each replica starts elsewhere before it stops here, and none moves to another of these nodes.
    /// What cannot move is named before anything does. `jaco node uncordon` takes it back.
    #[command(after_long_help = "Examples:
  jaco node drain n2
  jaco node drain n2 n3
  jaco node drain n2 --dry-run    what would move where, and what could not
  jaco node drain n2 --detach     jaco status -w shows it move
  jaco node drain n2 --cancel     what has not moved stays")]
    Drain {
        /// Their host names
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
        /// Call a drain off: what has not moved stays, what has moved stays where it is now
        #[arg(long, conflicts_with_all = ["detach", "dry_run", "timeout", "replica_timeout"])]
        cancel: bool,
        /// Return as soon as the cluster has agreed
        #[arg(long, conflicts_with = "dry_run")]
        detach: bool,
        /// Say what would happen and change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        limits: Limits,
    },
    /// Show what the nodes' machines are, and what of them replicas may take
    ///
    /// What a daemon found when it started, and what its jacod.yaml declares. With --generate, a
    /// `capacity:` block that can be put into a node's jacod.yaml as it is.
    #[command(after_long_help = "Examples:
  jaco node facts
  jaco node facts n1 -o json
  jaco node facts n1 --generate >> /etc/jaco/jacod.yaml")]
    Facts {
        /// Its host name; all nodes without one
        node: Option<String>,
        /// Print a `capacity:` block for jacod.yaml instead, one for each node
        #[arg(long)]
        generate: bool,
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
    ///
    /// It leaves once its replicas are elsewhere and its containers are gone.
    #[command(after_long_help = "Examples:
  jaco node remove n2
  jaco node remove n2 --dry-run   what would move where, and what could not
  jaco node remove n2 --force     it is lost: wait for nothing on it")]
    Remove {
        /// Its host name
        node: String,
        /// Do not wait for its replicas to be elsewhere: for a node that is lost
        #[arg(long, conflicts_with_all = ["dry_run", "timeout", "replica_timeout"])]
        force: bool,
        /// Say what would happen and change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        limits: Limits,
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
            drain::set(context, &node, Availability::Cordoned).await?;
            done(context, &[node], "cordoned")
        }
        What::Uncordon { node } => {
            drain::set(context, &node, Availability::Active).await?;
            done(context, &[node], "active")
        }
        What::Drain { nodes, cancel: true, .. } => drain::cancel(context, &nodes).await,
        What::Drain { nodes, dry_run: true, .. } => drain::preview(context, nodes).await,
        What::Drain { nodes, detach: true, limits, .. } => {
            drain::begin(context, &nodes, &limits).await?;
            done(context, &nodes, "draining")
        }
        What::Drain { nodes, limits, .. } => {
            drain::drain(context, &nodes, &limits).await?;
            done(context, &nodes, "drained")
        }
        What::Facts { node, generate: false } => {
            let nodes = facts_of(context, node).await?;
            context.done(&List { items: &nodes, json: machine::json, text: machine::table })
        }
        What::Facts { node, generate: true } => {
            let nodes = facts_of(context, node).await?;
            let said = generated(&nodes)?;
            context.done(&said)
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
        What::Remove { node, dry_run: true, .. } => drain::preview(context, vec![node]).await,
        What::Remove { node, force, limits, .. } => {
            let node = [node];
            if !force {
                drain::drain(context, &node, &limits).await?;
            }
            let [hostname] = node.clone();
            let request_id = fresh_request_id();
            let request = RemoveNodeRequest { hostname, force, request_id };
            context.client()?.remove_node(request).await?;
            done(context, &node, "removed")
        }
    }
}

async fn facts_of(
    context: &mut Context,
    node: Option<String>,
) -> Result<Vec<NodeFactsInfo>, CliError> {
    let request = NodeFactsRequest { hostname: node.unwrap_or_default() };
    Ok(context.client()?.node_facts(request).await?.nodes)
}

/// Blocks of several nodes are documents of one stream.
fn generated(nodes: &[NodeFactsInfo]) -> Result<Said, CliError> {
    let silent = nodes.iter().find(|node| node.cores == 0 || node.memory_bytes == 0);
    if let Some(silent) = silent {
        let name = &silent.hostname;
        return Err(CliError::Refused {
            code: ErrorCode::Unavailable,
            message: format!("{name} has not said what its machine is"),
            help: Some(format!(
                "it says so once its daemon runs this version and its engine answers: jaco node \
                 list shows both of {name}"
            )),
        });
    }
    let blocks: Vec<_> = nodes.iter().map(machine::capacity_block).collect();
    let json = nodes.iter().map(machine::capacity_json).collect();
    Ok(Said { json, text: blocks.join("---\n") })
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

fn done(context: &mut Context, nodes: &[String], outcome: &str) -> Done {
    let json = match nodes {
        [node] => json!({ "node": node, "outcome": outcome }),
        nodes => json!({ "nodes": nodes, "outcome": outcome }),
    };
    let text = nodes.iter().map(|node| format!("{node} {outcome}\n")).collect();
    context.done(&Said { json, text })
}
