//! `jaco dev start`

use std::path::PathBuf;

use jaco_client::{Client, Target};

use super::cluster::{Nodes, existing, folder};
use super::up::await_daemon;
use crate::dev::process::{self, is_running};
use crate::error::CliError;
use crate::session::{CommandResult, Session};

/// Start nodes of a development cluster that have stopped
///
/// Nodes that run are left alone.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco dev start n2
  jaco dev start --name blue   all of its nodes that have stopped")]
pub(super) struct Args {
    /// The nodes [default: all that have stopped]
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// The cluster's name
    #[arg(long, default_value = "dev")]
    name: String,
    /// The daemon's program [default: the one beside this program] [env: JACO_JACOD]
    #[arg(long, value_name = "FILE")]
    jacod: Option<PathBuf>,
}

pub(super) async fn run(session: &mut Session, args: &Args) -> CommandResult {
    let mut record = existing(&args.name)?;
    let is_known = |name: &&String| record.nodes.iter().any(|node| node.name == **name);
    if let Some(unknown) = args.nodes.iter().find(|name| !is_known(name)) {
        let message = format!("the development cluster {} has no node {unknown}", args.name);
        return Err(CliError::usage(message, format!("jaco dev ls --name {}", args.name)));
    }
    let named = args.jacod.clone().or_else(|| std::env::var_os("JACO_JACOD").map(PathBuf::from));
    let program = process::program(named.as_deref());
    let folder = folder(&args.name)?;
    let mut started = Vec::new();
    for at in 0..record.nodes.len() {
        let node = &mut record.nodes[at];
        let is_meant = args.nodes.is_empty() || args.nodes.contains(&node.name);
        if !is_meant || is_running(node) {
            continue;
        }
        process::start(&program, node).map_err(|error| {
            CliError::local(format!("cannot start {}", program.display()), error)
        })?;
        started.push(at);
        record.save(&folder).map_err(|error| {
            CliError::local(format!("cannot write to {}", folder.display()), error)
        })?;
    }
    for at in started {
        let node = &record.nodes[at];
        await_daemon(node, &Client::new(Target::socket(&node.socket))).await?;
        session.ui.note(&format!("{} started", node.name));
    }
    session.done(&Nodes(&record))
}
